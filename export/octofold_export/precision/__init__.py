"""Networks in 8 bits: how weights and activations become integers."""
