"""A notebook while it is executed, as a document: as Jupyter writes it to a file.

A snapshot is taken on the event loop, where the notebook changes, and encoded in a thread, a cell
at a time. If that is longer than a message may be, cells lose their outputs, the largest first.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import nbformat
from nbformat import NotebookNode
from nbformat.v4.nbjson import BytesEncoder

from ..core.runs.documents import MAX_PACKED_BYTES, DocumentError, pack
from ..core.text import sizes
from ..wire.runs import MAX_PLAIN_BYTES
from .execution import CannotExecute

MAX_ERROR_CHARACTERS: Final = 64 * 1024
"""Of a traceback that stays when the other outputs of its cell are left out."""

ESTIMATE: Final = 0.95
"""Of the limit: parts are measured alone and with less effort, so their sum is not exact."""

_SPLIT: Final = frozenset({"application/javascript", "image/svg+xml"})
"""Besides text: what Jupyter writes line by line."""

Json = dict[str, Any]


def read(document: bytes) -> NotebookNode:
    """A notebook of the present format, without its outputs. Raises `CannotExecute`."""
    try:
        notebook: NotebookNode = nbformat.reads(document.decode(), as_version=4)
        for cell in notebook.cells:
            _clear(cell)
    except Exception as error:  # of nbformat's many readers
        raise CannotExecute(f"This is not a notebook: {type(error).__name__}: {error}") from error
    notebook.metadata.pop("widgets", None)
    return notebook


def _clear(cell: NotebookNode) -> None:
    """Remove what an earlier execution has left, except of cells that are not executed."""
    if cell.cell_type == "code" and "skip-execution" not in cell.metadata.get("tags", []):
        cell.outputs, cell.execution_count = [], None
        cell.metadata.pop("execution", None)


def snapshot(notebook: NotebookNode) -> Json:
    """The notebook as it is now: what is added to it later is not in it. Copies no text."""
    return {**notebook, "cells": [_snapshot(cell) for cell in notebook.cells]}


def _snapshot(cell: NotebookNode) -> Json:
    copy = {**cell, "metadata": {**cell.metadata}}
    if "execution" in cell.metadata:
        copy["metadata"]["execution"] = {**cell.metadata["execution"]}
    if "outputs" in cell:
        copy["outputs"] = [{**output} for output in cell.outputs]
    return copy


def encode(notebook: Json) -> str:
    """The document of a snapshot; empty if not even its sources fit. Never raises on account of
    what is in it."""
    parts = [_Part(_cell(cell), cell) for cell in notebook["cells"]]
    metadata = _Part(_metadata(notebook), notebook)
    while True:
        try:
            return pack(_joined(parts, metadata, notebook))
        except DocumentError:
            if not _shrink([*parts, metadata]):
                return ""


@dataclass(slots=True)
class _Part:
    """A cell, or the metadata of the notebook."""

    text: bytes
    source: Json
    packed: int = 0
    """About; 0 is not measured yet."""
    is_small: bool = False
    """Nothing can be left out any more."""

    def gain(self) -> tuple[int, int]:
        """What it takes of the limits of a document: packed and plain."""
        self.packed = self.packed or len(zlib.compress(self.text, 1))
        return self.packed, len(self.text)

    def shrink(self) -> None:
        """Leave out its outputs, or the state of widgets."""
        if "cells" in self.source:
            metadata = {**self.source["metadata"]}
            metadata.pop("widgets", None)
            self.text = _metadata({**self.source, "metadata": metadata})
        elif self.source.get("outputs"):
            self.text = _cell({**self.source, "outputs": _without(self.source["outputs"], self)})
        self.packed, self.is_small = 0, True


def _shrink(parts: list[_Part]) -> bool:
    """Leave out of the largest parts what should be enough, and of one at least; False if there is
    nothing."""
    has_shrunk = False
    while True:
        gains = [each.gain() for each in parts]
        packed, plain = (sum(each) for each in zip(*gains, strict=True))
        is_too_long = packed > ESTIMATE * MAX_PACKED_BYTES or plain > MAX_PLAIN_BYTES
        if has_shrunk and not is_too_long:
            return True
        by = 1 if plain > MAX_PLAIN_BYTES else 0
        left = [(gain[by], place) for place, gain in enumerate(gains) if not parts[place].is_small]
        if not left:
            return has_shrunk
        parts[max(left)[1]].shrink()
        has_shrunk = True


def _without(outputs: list[Json], part: _Part) -> list[Json]:
    """One line instead of the outputs, and the error with which the cell ended."""
    text = (
        f"[The outputs of this cell, {sizes.in_words(len(part.text))}, were left out: with them "
        "the result of the run would be too large.]\n"
    )
    errors = [each for each in outputs if each.get("output_type") == "error"]
    small = [each for each in errors if len(str(each.get("traceback"))) <= MAX_ERROR_CHARACTERS]
    return [{"name": "stderr", "output_type": "stream", "text": text}, *small]


def _joined(parts: list[_Part], metadata: _Part, notebook: Json) -> Iterator[bytes]:
    """The file, as `nbformat.writes` writes it."""
    yield b'{\n "cells": ['
    for place, part in enumerate(parts):
        yield b",\n  " if place else b"\n  "
        yield part.text
    yield b"\n ],\n" if parts else b"],\n"
    yield metadata.text
    yield f' "nbformat": {notebook["nbformat"]},\n'.encode()
    yield f' "nbformat_minor": {notebook["nbformat_minor"]}\n}}'.encode()


def _cell(cell: Json) -> bytes:
    lines = {**cell, "metadata": {k: v for k, v in cell["metadata"].items() if k != "trusted"}}
    if isinstance(cell.get("source"), str):
        lines["source"] = cell["source"].splitlines(keepends=True)
    if "attachments" in cell:
        lines["attachments"] = {k: _lines_of_data(v) for k, v in cell["attachments"].items()}
    if "outputs" in cell:
        lines["outputs"] = [_lines_of_output(each) for each in cell["outputs"]]
    return _json(lines, "\n  ")


def _lines_of_output(output: Json) -> Json:
    if isinstance(output.get("text"), str):
        return {**output, "text": output["text"].splitlines(keepends=True)}
    if isinstance(output.get("data"), dict):
        return {**output, "data": _lines_of_data(output["data"])}
    return output


def _lines_of_data(data: Json) -> Json:
    return {
        kind: value.splitlines(keepends=True)
        if isinstance(value, str) and (kind.startswith("text/") or kind in _SPLIT)
        else value
        for kind, value in data.items()
    }


def _metadata(notebook: Json) -> bytes:
    passing = {"orig_nbformat", "orig_nbformat_minor", "signature"}
    kept = {key: value for key, value in notebook["metadata"].items() if key not in passing}
    return b' "metadata": ' + _json(kept, "\n ") + b",\n"


def _json(value: Json, line_end: str) -> bytes:
    text = json.dumps(
        value,
        cls=BytesEncoder,
        ensure_ascii=False,
        indent=1,
        sort_keys=True,
        separators=(",", ": "),
    )
    return text.replace("\n", line_end).encode("utf-8", "replace")
