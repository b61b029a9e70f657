"""What people call a program that runs: its script, its module, or its own name."""

from __future__ import annotations

from collections.abc import Sequence

from .processes import Process
from .terminals import command_line

INTERPRETERS = ("python", "pypy", "perl", "ruby", "Rscript", "bash", "sh", "node", "julia")

NOTEBOOK_SERVER = "The notebook server"

MOST_KEPT = 500


class ProgramNames:
    """Names of programs by their process, each read once."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int, str], str] = {}

    def name(self, process: Process) -> str:
        """For people; empty where it cannot be read."""
        # What executes another program keeps its number, but hardly its name.
        key = (process.pid, process.started, process.name)
        if key not in self._names:
            if len(self._names) >= MOST_KEPT:
                self._names.clear()
            self._names[key] = program(command_line(process.pid))
        return self._names[key]


def program(line: Sequence[str]) -> str:
    """A command line in a word or two. Its other arguments are nobody's business."""
    if not line or not line[0]:
        return ""
    name, script = _base(line[0]), ""
    if name.startswith(INTERPRETERS):
        script = _script(line[1:])
    return f"{name} {_base(script)}" if script else name


def _script(words: Sequence[str]) -> str:
    """The script or module that an interpreter runs; empty where it has none."""
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "-m":
            return words[0] if words else ""
        if word == "-c":
            return ""
        if word in ("-W", "-X"):
            del words[:1]
        elif not word.startswith("-"):
            return word
    return ""


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]
