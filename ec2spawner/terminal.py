"""What our commands print. Whatever others wrote is made visible here, and nowhere else.

Tags, names, AWS's messages and an admin's own profile names all end up in the same tables, so
everything goes through: nobody has to know which of it is foreign.
"""

from __future__ import annotations

import sys

from rich.text import Text

from .core.text.untrusted import visible


def text(words: str, style: str = "") -> Text:
    """One line of text, never markup; what a terminal would obey is written out."""
    return Text(visible(words), style=style)


def lines(*each: str) -> Text:
    """Several lines of text, one below the other."""
    return Text("\n").join(map(text, each))


def styled_lines(*each: tuple[str, str]) -> Text:
    """Several lines of text, each with its style, one below the other."""
    return Text("\n").join(text(words, style) for words, style in each)


def complain(command: str, words: str) -> None:
    """Say on standard error why a command did not do what was asked."""
    sys.stderr.write(f"ec2spawner {command}: {visible(words)}\n")
