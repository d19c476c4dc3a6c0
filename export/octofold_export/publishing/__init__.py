"""The files of a published version, which are written completely or not at all."""
