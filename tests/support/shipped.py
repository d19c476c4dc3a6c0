"""The models of this repository, in the version that ships."""

from pathlib import Path

MODELS = Path(__file__).parents[2] / "models"


def newest(name: str) -> Path:
    """The folder of the newest version of a model, such as `models/swift/3`."""
    return max((MODELS / name).glob("[0-9]*"), key=lambda version: int(version.name))
