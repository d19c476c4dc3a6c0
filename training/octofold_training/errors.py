"""The error of all trainers."""


class TrainingError(RuntimeError):
    """Training cannot continue; the message gives the reason."""
