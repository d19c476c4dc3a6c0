"""The models of this repository, in the version that ships."""

from pathlib import Path

from direct import newest_version

MODELS = Path(__file__).parents[2] / "models"


def newest(name: str) -> Path:
    """The folder of the newest version of a model, such as `models/swift/3`."""
    return newest_version(MODELS, name)
