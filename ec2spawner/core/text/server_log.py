"""What a notebook server's log says of its end, in one line that is fit to be shown. Pure.

The log is the user's own, and so hostile.
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
"""What a line that says why begins with: traitlets' and logging's levels, and the end of a Python
traceback. After it, a server that ends writes what it tidies up."""


def last_words(text: str, length: int = MAX_WORDS) -> str:
    """From the last critical or error line on, else the last lines."""
    lines = [line for each in text.splitlines() if (line := without_escapes(each))]
    serious = [place for place, line in enumerate(lines) if _SERIOUS.match(line)]
    if not serious:
        return " | ".join(lines)[-length:]
    said = " | ".join(lines[serious[-1] :])
    return said if len(said) <= length else f"{said[: length - 1]}…"
