"""The last lines of an instance's boot log, safe to show. Pure.

The text comes from the instance, and so is hostile: it may hold terminal escapes, control
characters and lines of any length. A page must escape the result like any other text.
"""

from __future__ import annotations

import re
from typing import Final

from .untrusted import without_escapes

MAX_LINES: Final = 3
MAX_LINE: Final = 130
"""Characters. `MAX_LINES` lines fit into a `Stop.message`, beside the sentence with the reason."""

READ_CHARACTERS: Final = 8192
READ_LINES: Final = 200
"""How much of the end is searched, in a few milliseconds at most: EC2 returns 64 KiB."""

_PREFIX: Final = re.compile(r"^\[ *\d+\.\d+\] (?:cloud-init\[\d+\]: )?")
"""The kernel's time stamp and the name of the writer."""


def last_lines(text: str, lines: int = MAX_LINES, width: int = MAX_LINE) -> tuple[str, ...]:
    """The last lines with any letter or digit, oldest first."""
    found: list[str] = []
    end = re.split(r"[\r\n]+", text[-READ_CHARACTERS:])
    for line in reversed(end[-READ_LINES:]):
        clean = _PREFIX.sub("", without_escapes(line))
        if not any(map(str.isalnum, clean)):
            continue
        found.append(clean if len(clean) <= width else f"{clean[: width - 1]}…")
        if len(found) == lines:
            break
    return tuple(reversed(found))


def quoted(text: str) -> str:
    """A sentence for the end of a message; empty if the log has no such line."""
    lines = last_lines(text)
    return f"The end of its boot log: {' / '.join(lines)}" if lines else ""
