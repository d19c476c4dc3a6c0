"""The error of all training, and what counts as a lack of memory."""

from octofold_game.errors import OctofoldError


class TrainingError(OctofoldError):
    """What was given cannot be trained with, or training cannot go on; the message gives the reason."""


class EndedElsewhere(Exception):
    """Another process of the same run has failed and says why; this one ends without a word."""


def lacks_memory(error: Exception) -> bool:
    """Whether memory was refused, of the machine or of a GPU; torch has no class of its own for a CPU's."""
    if isinstance(error, RuntimeError):
        return type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in str(error)
    return isinstance(error, MemoryError)
