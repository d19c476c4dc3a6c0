"""Shows progress in a Jupyter notebook: a bar in the output of the cell, redrawn in place.

It uses IPython, which every notebook has; the module can be imported without it.
"""

from collections.abc import Callable
from html import escape
from typing import Any

from octofold_client.terminal.display import Display, Status


class NotebookDisplay(Display):
    """Redraws a bar and the facts in place, and leaves them when the work ends."""

    _shown: Any = None
    _latest: Callable[[], Status] | None = None

    def offer(self, status: Callable[[], Status]) -> None:
        """Show the status if it is time, and keep it to show at the end."""
        self._latest = status
        super().offer(status)

    def __exit__(self, *_: object) -> None:
        if self._latest is not None:
            self.show(self._latest())

    def show(self, status: Status) -> None:
        """Redraw the bar and the facts."""
        from IPython.display import HTML, display

        bar = f'<progress value="{status.done}" max="{status.total}" style="width: 24em"></progress><br>'
        drawn = HTML(  # type: ignore[no-untyped-call]  # IPython has no types
            f"<b>{escape(status.title)}</b><br>{bar}{escape(', '.join([status.counted, *status.facts]))}"
        )
        if self._shown is None:
            self._shown = display(drawn, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._shown.update(drawn)

    def remark(self, text: str) -> None:
        """Print a line."""
        print(text)
