"""Remembers which models were unloaded by request; only another request loads them again.

Several processes of one service share this in a folder, because a restarted process must not serve models
that the others have unloaded.
"""

from __future__ import annotations

from pathlib import Path


class Unloaded:
    """The names of the unloaded models.

    Args:
        folder: folder with a file for each name; None to keep them in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._names: set[str] = set()
        if folder is not None:
            folder.mkdir(exist_ok=True)

    def add(self, name: str) -> None:
        """Add a model, which must be known."""
        if self._folder is None:
            self._names.add(name)
        else:
            (self._folder / name).touch()

    def discard(self, name: str) -> None:
        """Remove a model, if it was unloaded."""
        if self._folder is None:
            self._names.discard(name)
        elif name in self.names():  # other texts may be unsuitable for a path
            (self._folder / name).unlink(missing_ok=True)

    def names(self) -> frozenset[str]:
        """All names."""
        if self._folder is None:
            return frozenset(self._names)
        return frozenset(file.name for file in self._folder.iterdir())
