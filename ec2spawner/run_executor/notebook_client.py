"""nbclient, with outputs that are joined and bounded as they come."""

from __future__ import annotations

from typing import Any, Final

from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_output

MAX_CELL_CHARACTERS: Final = 64 * 1024 * 1024
"""Of the outputs of one cell. A result has room for no more, and memory must not be filled by a
loop that prints."""

MAX_JOINED_CHARACTERS: Final = 256 * 1024
"""Of a stream's output to which more is added: each addition copies it."""

LEFT_OUT: Final = "\n[More output of this cell is left out: it is too much.]\n"

START_SECONDS: Final = 300
"""For the kernel: on a new disk its files are read slowly."""

LAST_OUTPUT_SECONDS: Final = 60
"""For the outputs of a cell that has ended, on an instance that is busy."""


class RunClient(NotebookClient):
    """Executes the cells of one notebook, in the notebook itself."""

    def __init__(self, notebook: NotebookNode, manager: Any, folder: str) -> None:
        super().__init__(
            notebook,
            manager,
            timeout=None,
            startup_timeout=START_SECONDS,
            iopub_timeout=LAST_OUTPUT_SECONDS,
            resources={"metadata": {"path": folder}},
        )
        self.changes = 0
        """Messages of the kernel so far."""
        self._characters = 0
        """Of the outputs of the cell that runs."""

    def process_message(
        self, msg: dict[str, Any], cell: NotebookNode, cell_index: int
    ) -> NotebookNode | None:
        """As nbclient does."""
        self.changes += 1
        return super().process_message(msg, cell, cell_index)

    def output(
        self, outs: list[NotebookNode], msg: dict[str, Any], display_id: str | None, cell_index: int
    ) -> NotebookNode | None:
        """As nbclient does; then text is joined to that before it, and what is too much is left
        out."""
        out = super().output(outs, msg, display_id, cell_index)
        if out is None or not outs or outs[-1] is not out:
            return out
        before = 0 if len(outs) == 1 else self._characters
        self._characters = before + _characters(out)
        # An error ends its cell. What has an id is updated by its place.
        may_be_left_out = out.output_type in {"stream", "display_data"} and not display_id
        if self._characters > MAX_CELL_CHARACTERS and may_be_left_out:
            outs.pop()
            if before <= MAX_CELL_CHARACTERS:
                outs.append(new_output("stream", name="stderr", text=LEFT_OUT))
        elif len(outs) > 1 and _can_be_joined(outs[-2], out):
            outs[-2]["text"] += out["text"]
            outs.pop()
        return out


def _characters(out: NotebookNode) -> int:
    values = [out.get("text", ""), *out.get("data", {}).values()]
    return sum(len(each) if isinstance(each, str) else 100 for each in values)


def _can_be_joined(before: NotebookNode, out: NotebookNode) -> bool:
    if not before.output_type == out.output_type == "stream" or before.name != out.name:
        return False
    return len(before["text"]) < MAX_JOINED_CHARACTERS
