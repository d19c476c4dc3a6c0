"""Which models were unloaded by request, and so are not loaded again until a request says so.

Several processes of one service share this in a folder: one that is started again must not serve what the
others no longer do. Knows nothing about how models are loaded.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["Unloaded"]


class Unloaded:
    """Names of models.

    Args:
        folder: where there is a file for each; None to keep them in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._names: set[str] = set()
        if folder is not None:
            folder.mkdir(exist_ok=True)

    def add(self, name: str) -> None:
        """The model, which must be a known one, was unloaded."""
        if self._folder is None:
            self._names.add(name)
        else:
            (self._folder / name).touch()

    def discard(self, name: str) -> None:
        """The model is to be loaded again; no effect on one that was not unloaded."""
        if self._folder is None:
            self._names.discard(name)
        elif name in self.names():  # else it may be any text, and not be fit for a path
            (self._folder / name).unlink(missing_ok=True)

    def names(self) -> frozenset[str]:
        """All of them."""
        if self._folder is None:
            return frozenset(self._names)
        return frozenset(file.name for file in self._folder.iterdir())
