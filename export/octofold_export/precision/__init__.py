"""Converts networks to 8 bits and to float16."""
