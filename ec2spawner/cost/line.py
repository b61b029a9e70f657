"""One line of output: updated in place in a notebook, appended in a terminal."""

from __future__ import annotations

import contextlib
import html
import sys
import uuid
from contextvars import ContextVar
from typing import Any, Final, TextIO

STYLE: Final = (
    "color: var(--jp-ui-font-color2, inherit); font-size: var(--jp-ui-font-size1, inherit); "
    "font-variant-numeric: tabular-nums"
)

NO_MATH: Final = "mathjax_ignore tex2jax_ignore"
"""Classes whose text MathJax 3 and 2 leave as it is: what is between two prices is no formula."""

depth: ContextVar[int] = ContextVar("ec2spawner_cost_depth", default=0)
"""How many blocks are around this one, in this thread or task."""


class Line:
    """Its destination is chosen at each `show`, because output may be redirected meanwhile."""

    def __init__(self, file: TextIO | None = None, indent: int = 0) -> None:
        self._file = file
        self._indent = indent
        self._display_id = ""

    def show(self, text: str) -> None:
        """Show or update the line. Errors are dropped: they must not end the measured code."""
        with contextlib.suppress(Exception):
            shell = None if self._file else notebook()
            if shell is None:
                stream = self._file or sys.stdout
                stream.write(f"{'  ' * self._indent}{text}\n")
                stream.flush()
            else:
                self._display(shell, text)

    def is_in_place(self) -> bool:
        """Whether the next `show` replaces the text of this one."""
        return self._file is None and notebook() is not None

    def _display(self, shell: Any, text: str) -> None:
        again = bool(self._display_id)
        self._display_id = self._display_id or uuid.uuid4().hex
        style = f"{STYLE}; margin-left: {self._indent}em" if self._indent else STYLE
        shell.display_pub.publish(
            {
                "text/plain": "  " * self._indent + text,
                "text/html": f'<div class="{NO_MATH}" style="{style}">{html.escape(text)}</div>',
            },
            transient={"display_id": self._display_id},
            update=again,
        )


def notebook() -> Any:
    """The kernel's shell if output goes to a notebook; None in a terminal or a script, and while
    standard output is redirected."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:
        return None
    return shell if type(sys.stdout).__module__.startswith("ipykernel.") else None
