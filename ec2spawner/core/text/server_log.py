"""Why a notebook server ended, by its log, in one line that is safe to show. Pure.

The log comes from the user, and so is hostile.
"""

from __future__ import annotations

import re
from typing import Final

from .untrusted import without_escapes

MAX_WORDS: Final = 300
"""Characters: two lines on the progress page."""

_SERIOUS: Final = re.compile(
    r"\[[CE] |(?:CRITICAL|ERROR|FATAL)\b|(?:\w+\.)*\w*(?:Error|Exception|Exit)\b(?::|$)"
)
"""The beginning of a line with the reason: levels of traitlets and logging, and the end of a Python
traceback. After it, a server logs its clean-up."""


def last_words(text: str, length: int = MAX_WORDS) -> str:
    """The log from the last critical or error line on; without one, its last lines."""
    lines = [line for each in text.splitlines() if (line := without_escapes(each))]
    serious = [place for place, line in enumerate(lines) if _SERIOUS.match(line)]
    if not serious:
        return " | ".join(lines)[-length:]
    said = " | ".join(lines[serious[-1] :])
    return said if len(said) <= length else f"{said[: length - 1]}…"
