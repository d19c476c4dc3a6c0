"""The players and judges of an evaluation: served models and local players."""
