"""The last lines of an instance's boot log, fit to be shown. Pure.

The text is the instance's own, and so hostile: it may hold terminal escapes, control characters
and lines of any length. Whoever puts the result on a page escapes it like anything else.
"""

from __future__ import annotations

import re
from typing import Final

from .untrusted import without_escapes

MAX_LINES: Final = 3
MAX_LINE: Final = 130
"""Characters. All of them have room in a `Stop.message`, beside the sentence that says why."""

READ_CHARACTERS: Final = 8192
READ_LINES: Final = 200
"""So much of the end is searched, in a few milliseconds whatever it holds: EC2 returns 64 KiB."""

_PREFIX: Final = re.compile(r"^\[ *\d+\.\d+\] (?:cloud-init\[\d+\]: )?")
"""The kernel's time stamp, and who wrote it."""


def last_lines(text: str, lines: int = MAX_LINES, width: int = MAX_LINE) -> tuple[str, ...]:
    """The last lines that say something, oldest first."""
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
    """As the end of a message for people; empty where the log says nothing."""
    lines = last_lines(text)
    return f"The end of its boot log: {' / '.join(lines)}" if lines else ""
