"""Untrusted text made safe for a terminal, a log or a page. Pure.

Tags, names and messages come from anybody in the AWS account, from users and from instances. A
terminal obeys escape sequences in them, and marks that reverse the direction of writing make them
look like other words.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-9;?]{0,20}[ -/]?[@-~]"
    r"|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)"
    r"|\x1b[@-Z\\-_]"
)
"""Colours and the like, as programs write them: control sequences, titles, two-character ones."""

_ACTIVE: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that are obeyed instead of shown, or have no meaning."""


def visible(text: str) -> str:
    """The text with every active character as Python writes it: `\\x1b`, `\\u202e`, `\\n`.

    For names and messages, in which the reader should see that something is wrong.
    """
    if text.isprintable():
        return text
    return "".join(_escaped(each) if _is_active(each) else each for each in text)


def without_escapes(line: str) -> str:
    """A line of a program's output without its colours and active characters.

    For logs, in which colours are common and carry no information.
    """
    if line.isprintable():
        return line.strip()
    plain = _ESCAPES.sub("", line).replace("\t", " ")
    return "".join(each for each in plain if not _is_active(each)).strip()


def _is_active(char: str) -> bool:
    return unicodedata.category(char) in _ACTIVE


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
