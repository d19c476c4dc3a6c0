"""The learning algorithms, one file each, and the parts that only they use."""
