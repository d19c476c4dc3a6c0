"""The players, judges and advisers: served models and local players."""
