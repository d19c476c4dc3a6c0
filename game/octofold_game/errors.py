"""The base class of every error that Octofold raises on purpose."""


class OctofoldError(Exception):
    """What was asked for cannot be done; the message says what is wrong and where, for people."""
