"""Networks in 8 bits and in float16: how weights and activations are converted."""
