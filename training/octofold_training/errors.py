"""The base class of training errors, and the detection of failed allocations."""

from octofold_game.errors import OctofoldError


class TrainingError(OctofoldError):
    """An error that keeps training from starting or continuing. The message gives the reason."""


def is_out_of_memory(error: Exception) -> bool:
    """Return whether memory ran out on the CPU or a GPU. torch has an exception class only for GPUs."""
    if isinstance(error, RuntimeError):
        return type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in str(error)
    return isinstance(error, MemoryError)
