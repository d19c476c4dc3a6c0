"""The progress of an evaluation in a Jupyter notebook: a bar in the output of its cell, redrawn in place.

It needs nothing but IPython, which every notebook has, and is imported where there is none too.
"""

from html import escape
from types import TracebackType
from typing import Any, Self

from octofold_client.terminal.progress import REDRAW_SECONDS, Progress

__all__ = ["NotebookProgress"]


class NotebookProgress(Progress):
    """A bar and the counts below it; they stay when the evaluation ends."""

    interval_seconds = REDRAW_SECONDS

    def __init__(self, games: int, title: str) -> None:
        super().__init__(games)
        self._title = title
        self._shown: Any = None

    def __enter__(self) -> Self:
        self.show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.show()

    def show(self) -> None:
        from IPython.display import HTML, display

        drawn = HTML(  # type: ignore[no-untyped-call]  # IPython's have no types
            f"<b>{escape(self._title)}</b><br>"
            f'<progress value="{self.done}" max="{self.games}" style="width: 24em"></progress><br>'
            f"{escape(self.counts)}"
        )
        if self._shown is None:
            self._shown = display(drawn, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._shown.update(drawn)

    def remark(self, text: str) -> None:
        print(text)
