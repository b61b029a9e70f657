"""Words that were retired stay out of code, documentation, pages and the lab extension.

docs/reference/glossary.md has the terms to use. Run as a program, this file lists every use of a
retired word at or below the paths that are its arguments, or everywhere.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[3]
SUFFIXES = {".css", ".html", ".js", ".md", ".mjs", ".py", ".toml", ".ts", ".tsx", ".yaml", ".yml"}
NOT_OURS = {
    "_build",
    "__pycache__",
    "build",
    "dist",
    "fake_nvml",
    "lib",
    "node_modules",
    "output",
    "static",
    "versions",
}
"""Folders of what is generated, of others, or never changed again, such as migrations."""
GENERATED = {
    ROOT / each
    for each in (
        "docs/reference/commands.md",
        "docs/reference/configuration.md",
        "ec2spawner/labextension",
    )
}


class Retired(NamedTuple):
    """A word that is not to be used, what to use instead, and why."""

    pattern: str
    """Matched against words: names are split first, `MostUsed` is `Most Used`. Ignores case unless
    it has an upper-case letter."""
    instead: str
    reason: str
    names_only: bool = False
    """Prose may use the word: only names in code and of files are checked."""


_GAP = r"[\s#*/|>]+"
"""Between two words of a phrase, which may be on two lines of a comment."""


def phrase(words: str) -> str:
    return words.replace(" ", _GAP)


RETIRED = (
    Retired(r"mend(s|ed|ing)?", "fix, hint", "not a term of the field"),
    Retired(r"told|tells?(?!\(|\s+(your|an|the)\s+admin)", "report, notify, say", "ambiguous"),
    Retired(phrase("for ever"), "indefinitely, without a limit", "not idiomatic"),
    Retired(phrase("(go|goes|went|going) on"), "continue", "reads as though something was wrong"),
    Retired(phrase("nobody is"), "no user is, none is", "a riddle where a subject is needed"),
    Retired(phrase("all the same"), "still, regardless", "ambiguous"),
    Retired(r"befell|befalls?", "happened to", "archaic"),
    Retired(
        r"(aws|ec2) (has )?(took|takes?|taken) ([\w'-]+ ){0,5}back".replace(" ", r"\s+"),
        "reclaims",
        "AWS's term",
    ),
    Retired(r"patience", "timeout", "the field's term", names_only=True),
    Retired(r"keeping", "retention", "the field's term", names_only=True),
    Retired(r"awake", "uptime clock", "what the clock measures", names_only=True),
    Retired(r"surviving", "supervise", "the field's term", names_only=True),
    Retired(r"unwritten", "write-behind", "the field's term", names_only=True),
    Retired(r"losses", "instance loss", "says what is lost", names_only=True),
    Retired(r"beats?", "heartbeat", "the field's term", names_only=True),
    Retired(r"adopt(s|ed|ing|ion)?", "recovery, recover", "the field's term", names_only=True),
    Retired(r"books?", "registry, index, cache", "says what it is for", names_only=True),
    Retired(r"MOST|LEAST", "MAX_, MIN_", "the field's prefixes", names_only=True),
    Retired(r"look(s|ed)?", "scan, check", "says what is done", names_only=True),
    Retired(r"alone", "standalone", "the field's term", names_only=True),
    Retired(r"so far", "current", "the field's term", names_only=True),
    Retired(r"stretch(es)?", "interval", "the field's term", names_only=True),
    Retired(r"(?<!KILL )(?<!MAX )rounds", "epochs", "the field's term", names_only=True),
    # In capitals it is a state of a lease, stored under this name.
    Retired(r"(?-i:[Ee]nding)", "termination", "the field's term", names_only=True),
)


def files(below: Path = ROOT) -> Iterator[Path]:
    """Every file with text of our own at or below this path, but this one."""
    if below.is_dir():
        for path in sorted(below.iterdir()):
            if not (path.name in NOT_OURS or path in GENERATED or path.name.startswith(".")):
                yield from files(path)
    elif below.suffix in SUFFIXES and below != Path(__file__):
        yield below


def as_words(text: str) -> str:
    """Names split into words; line breaks stay where they are."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    return text.replace("_", " ")


def prose(path: Path, text: str) -> str:
    """The text; of a page without the names in its code, which are those of the code."""
    if path.suffix != ".md":
        return text
    code = re.compile(r"^ *```.*?^ *```|`[^`]+`", flags=re.MULTILINE | re.DOTALL)
    return code.sub(lambda found: "\n" * found.group().count("\n"), text)


def names(path: Path, text: str) -> str:
    """The names in code: of Python without comments and strings, else what is in camel case."""
    if path.suffix == ".md":
        return ""
    if path.suffix == ".py":
        lines: list[str] = []
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                lines += [""] * (token.start[0] - len(lines))
                lines[-1] += f" {token.string}"
        return "\n".join(lines)
    compound = re.compile(r"\b[a-z]+(?:[A-Z]\w*)+|\b\w+_\w+|\b(?:[A-Z][a-z]+){2,}\b")
    return "\n".join(" ".join(compound.findall(line)) for line in text.splitlines())


class Hit(NamedTuple):
    path: Path
    line: int
    found: str
    retired: Retired

    def __str__(self) -> str:
        where = f"{self.path.relative_to(ROOT)}:{self.line}"
        return f"{where}: {self.found!r}: use {self.retired.instead} ({self.retired.reason})"


def hits(path: Path) -> Iterator[Hit]:
    text = path.read_text(encoding="utf-8")
    everything, words = as_words(text), as_words(prose(path, text))
    code: str | None = None
    for retired in RETIRED:
        flags = 0 if retired.pattern.isupper() else re.IGNORECASE
        pattern = re.compile(rf"\b(?:{retired.pattern})\b", flags)
        if pattern.search(as_words(path.stem)):
            yield Hit(path, 0, path.name, retired)
        searched = words
        if retired.names_only:
            if not pattern.search(everything):
                continue  # to find the names takes longer than all else
            code = as_words(names(path, text)) if code is None else code
            searched = code
        for match in pattern.finditer(searched):
            line = searched.count("\n", 0, match.start()) + 1
            yield Hit(path, line, " ".join(match.group().split()), retired)


def test_no_retired_word_is_used() -> None:
    found = [hit for path in files() for hit in hits(path)]
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", "MOST_AT_ONCE = 3", ["MOST"]),
        ("a.py", "# most of them", []),
        ("a.py", "class OfferBook: ...", ["Book"]),
        ("a.py", "notebook = lookup(rounded, 'kept')", []),
        ("a.py", "# it goes\n    # on", ["goes # on"]),
        ("a.md", "Here is the mend.", ["mend"]),
        ("a.md", "I recommend `mend`.\n```\nmend\n```\n", []),
        ("keeping_start.py", "", ["keeping_start.py"]),
        ("a.py", "ending = State.ENDING", ["ending"]),
        ("a.ts", "const costSoFar = 1; // the book", ["So Far"]),
    ],
)
def test_what_is_found(name: str, text: str, expected: list[str], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert [hit.found for hit in hits(path)] == expected


if __name__ == "__main__":
    everything = [
        hit for below in sys.argv[1:] or [""] for path in files(ROOT / below) for hit in hits(path)
    ]
    print("\n".join(map(str, everything)))
    print(len(everything))
