"""The base class of every error that Octofold raises on purpose, and what those of others say."""


class OctofoldError(Exception):
    """What was asked for cannot be done; the message says what is wrong and where, for people."""


def first_line(error: Exception) -> str:
    """The first line of the message of an exception, such as onnxruntime's."""
    return str(error).strip().partition("\n")[0]
