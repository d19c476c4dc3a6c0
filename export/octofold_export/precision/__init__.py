"""Converts weights and activations of networks to 8 bits and to float16."""
