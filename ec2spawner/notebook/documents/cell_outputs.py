"""The outputs of one execution, put together from the kernel's messages. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_TEXT = 4 * 1024 * 1024
"""Characters of one stream: of a longer one the beginning and the end are kept."""

HEAD = 64 * 1024
"""Characters kept of the beginning of a stream that is too long."""

COMPACT_AFTER = 256 * 1024
"""Characters of a stream after which what was overwritten in it is dropped."""

MAX_DISPLAY_BYTES = 32 * 1024 * 1024
"""Of all displays of an execution, as text; more are replaced by a line."""

DISPLAYS = ("display_data", "execute_result")

KINDS = ("stream", "error", "clear_output", "update_display_data", *DISPLAYS)
"""The message types that make outputs."""


class CellOutputs:
    """What the cell shows, as nbformat has it."""

    def __init__(self) -> None:
        self._outputs: list[dict[str, Any]]
        self._display_ids: list[str]
        """Of each output; empty for none."""
        self._stream: _Stream | None
        """The last output, while it may grow."""
        self._is_clear_pending: bool
        self._display_bytes: int
        self._clear()

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        texts = sum(len(each["text"]) for each in self._outputs if each["output_type"] == "stream")
        return texts + self._display_bytes + (self._stream.size if self._stream else 0)

    def as_nbformat(self) -> list[dict[str, Any]]:
        """The outputs now. Their values are shared: do not change them."""
        self._end_stream(keep=True)
        return [dict(each) for each in self._outputs]

    def add(self, kind: str, content: Mapping[str, Any]) -> None:
        """Apply one message. Raises `KeyError` or `TypeError` for one that is no output."""
        if kind == "clear_output":
            if content.get("wait"):
                self._is_clear_pending = True
            else:
                self._clear()
        elif kind == "update_display_data":
            self.update(content)
        else:
            if self._is_clear_pending:
                self._clear()
            self._append(kind, content)

    def update(self, content: Mapping[str, Any]) -> None:
        """Change the displays of this id, which an earlier execution may have shown."""
        display_id = _display_id(content)
        for number, each in enumerate(self._display_ids):
            if display_id and each == display_id:
                changed = {"data": content["data"], "metadata": content["metadata"]}
                self._outputs[number] = self._outputs[number] | changed

    def _append(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "stream":
            if self._stream is None or self._stream.name != content["name"]:
                self._end_stream()
                self._stream = _Stream(content["name"])
                self._put({"output_type": kind, "name": content["name"], "text": ""})
            self._stream.write(content["text"])
            return
        self._end_stream()
        if kind == "error":
            fields = {name: content[name] for name in ("ename", "evalue", "traceback")}
            self._put({"output_type": kind, **fields})
            return
        output = {"output_type": kind, "data": content["data"], "metadata": content["metadata"]}
        size = sum(len(str(value)) for value in content["data"].values())
        if self._display_bytes + size > MAX_DISPLAY_BYTES:
            output["data"] = {"text/plain": f"({size} bytes left out while no page was open)"}
            size = 0
        self._display_bytes += size
        if kind == "execute_result":
            output["execution_count"] = content["execution_count"]
        self._put(output, _display_id(content))

    def _put(self, output: dict[str, Any], display_id: str = "") -> None:
        self._outputs.append(output)
        self._display_ids.append(display_id)

    def _end_stream(self, *, keep: bool = False) -> None:
        if self._stream is not None:
            self._outputs[-1]["text"] = self._stream.text()
            if not keep:
                self._stream = None

    def _clear(self) -> None:
        self._outputs, self._display_ids, self._stream = [], [], None
        self._is_clear_pending, self._display_bytes = False, 0


class _Stream:
    """A text that grows, without copying it for each message."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.size = 0
        self._parts: list[str] = []
        self._since_compact = 0

    def write(self, text: str) -> None:
        self._parts.append(text)
        self.size += len(text)
        self._since_compact += len(text)
        if self._since_compact > COMPACT_AFTER:
            self.text()

    def text(self) -> str:
        text = overwritten("".join(self._parts))
        if len(text) > MAX_TEXT:
            left_out = len(text) - MAX_TEXT // 2
            tail = text[-(MAX_TEXT // 2 - HEAD) :]
            text = f"{text[:HEAD]}\n… {left_out} characters left out …\n{tail}"
        self._parts, self.size, self._since_compact = [text], len(text), 0
        return text


def overwritten(text: str) -> str:
    """As a terminal shows it: what follows a carriage return overwrites its line.

    A return at the end stays, for what is printed next.
    """
    if "\r" not in text:
        return text
    return "\n".join(_line(each) if "\r" in each else each for each in text.split("\n"))


def _line(line: str) -> str:
    shown = ""
    for part in line.removesuffix("\r").split("\r"):
        shown = part + shown[len(part) :]
    return shown + ("\r" if line.endswith("\r") else "")


def _display_id(content: Mapping[str, Any]) -> str:
    return str((content.get("transient") or {}).get("display_id") or "")
