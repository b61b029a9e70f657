"""Names of programs for people: the script, the module, or the program itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .processes import Process


class Options(NamedTuple):
    """Letters of an interpreter's options that take an argument."""

    code: str
    """Followed by code, or reading it from a pipe."""
    word: str = ""
    """Followed by another argument."""
    module: str = ""
    """Followed by the name of the module to run."""


INTERPRETERS = {
    "python": Options("c", "WX", "m"),
    "pypy": Options("c", "WX", "m"),
    "perl": Options("eE", "IM"),
    "ruby": Options("e", "Ir"),
    "Rscript": Options("e"),
    "bash": Options("cs", "oO"),
    "sh": Options("cs", "o"),
    "node": Options("ep", "r"),
    "julia": Options("eE", "CJLpt"),
}

CODE = ("--command", "--eval", "--print")
"""The long options that are followed by code."""

NOTEBOOK_SERVER = "The notebook server"


def program_name(process: Process) -> str:
    """The name for people of what a process runs; empty if it cannot be read."""
    # A process that executes another program keeps its id, but rarely its name.
    return _program_name(process.pid, process.started, process.name)


@lru_cache(maxsize=500)
def _program_name(pid: int, _started: int, _name: str) -> str:
    return program(command_line(pid))


def command_line(pid: int) -> list[str]:
    """The arguments of a process; empty if it has ended."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return text.decode(errors="replace").rstrip("\0").split("\0") if text else []


def program(line: Sequence[str]) -> str:
    """A command line in one or two words. Other arguments are omitted: the name is sent to the
    hub, and an argument may be a password."""
    if not line or not line[0].strip():
        return ""
    # A program that sets its title has a single word, which includes its arguments.
    name = _base(line[0] if len(line) > 1 else line[0].split()[0].rstrip(":"))
    options = INTERPRETERS.get(name.rstrip("0123456789."))
    script = _script(line[1:], options) if options is not None else ""
    return f"{name} {_base(script)}" if script else name


def _script(line: Sequence[str], options: Options) -> str:
    """The script or module that an interpreter runs; empty if it runs code from its arguments."""
    words = list(line)
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            return word
        if word == "-" or word.split("=", 1)[0] in CODE:
            return ""
        letters = "" if word.startswith("--") else word[1:]
        for place, letter in enumerate(letters, 1):
            rest = letters[place:]
            if letter in options.code:
                return ""
            if letter in options.module:
                return rest or (words[0] if words else "")
            if letter in options.word:
                if not rest:
                    del words[:1]
                break
    return ""


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]
