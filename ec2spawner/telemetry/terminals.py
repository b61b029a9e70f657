"""The foreground jobs of the user's terminals: Jupyter's, tmux's, ssh's.

A pseudo-terminal has a foreground process group. The job is named after the group's leader, or
after another member if the leader has ended (`echo 1 | sleep 30`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from ..core.idle.activity import has_job
from ..wire import TerminalState
from .processes import Process
from .programs import command_line, program

SHELLS = frozenset(
    {"bash", "sh", "dash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "ash", "nu", "elvish"}
    | {"xonsh", "pwsh"}
)

INTERPRETERS = {
    "python": "cm",
    "pypy": "cm",
    "ipython": "cm",
    "R": "ef",
    "julia": "eEL",
    "node": "ep",
    "bc": "",
}
"""Programs that are interactive without a script, and the letters of options that give them work
in another way."""

DATABASES = {"psql": "cf", "sqlite": "", "mysql": "e", "mariadb": "e"}
"""The same for programs whose argument names a database instead of a script."""

WORK = ("--command", "--eval", "--execute", "--file", "--print")
"""The same as long options."""

SUDO_WITH_WORD = re.compile("-[a-zA-Z]*?[CDghpRrTtUu](?P<word>.*)")
"""Options of sudo that take an argument, attached or as the next word: `-u ada`, `-uada`,
`-Hu ada`."""

MAX = 100
"""More terminals than this are not reported."""


def terminals(processes: Sequence[Process]) -> list[TerminalState]:
    """Every terminal of these processes, except the one that this process was started in."""
    own = next((each.terminal for each in processes if each.pid == os.getpid()), 0)
    groups = {each.terminal: each.foreground for each in processes if each.terminal}
    return [
        TerminalState(name=f"{terminal}", pid=group, foreground=_foreground(group, processes)[:200])
        for terminal, group in sorted(groups.items())[:MAX]
        if terminal != own
    ]


def _foreground(group: int, processes: Sequence[Process]) -> str:
    """Name of the foreground job; empty at a prompt."""
    if line := command_line(group):
        return command(line, _asks_a_terminal(group))
    for each in processes:
        if each.group == group and (line := command_line(each.pid)):
            found = command(line, _asks_a_terminal(each.pid))
            if has_job(found):
                return found
    return ""


def command(line: Sequence[str], asks_a_terminal: bool) -> str:
    """The name of the program that a command line runs; empty for an interactive prompt.

    Jobs of a shell have their own process groups, so they would be in the foreground instead of
    it. A program that reads its input from a file or a pipe is not interactive.
    """
    line = _without_sudo(line)
    if not line or (asks_a_terminal and _is_prompt(line)):
        return ""
    return program(line)


def _without_sudo(line: Sequence[str]) -> Sequence[str]:
    """The command line that sudo or su runs; empty if that is a shell."""
    if _base(line[0]) == "su":
        return line if any(_gives_work(word, "c") for word in line[1:]) else []
    if _base(line[0]) != "sudo":
        return line
    words = list(line[1:])
    while words and (words[0].startswith("-") or "=" in words[0]):
        option = words.pop(0)
        taking = SUDO_WITH_WORD.match(option)
        if taking is not None and not taking["word"]:
            del words[:1]
    return _without_sudo(words) if words else []


def _is_prompt(line: Sequence[str]) -> bool:
    name, words = _program(line[0]), line[1:]
    if name == "python" and words and _program(words[0]) == "ipython":
        name, words = "ipython", words[1:]
    if name in DATABASES:
        return not any(
            _gives_work(word if word.startswith("--") else word[:2], DATABASES[name])
            for word in words
        )
    letters = "c" if name in SHELLS else INTERPRETERS.get(name)
    if letters is None:
        return False
    return all(word.startswith("-") and not _gives_work(word, letters) for word in words)


def _gives_work(word: str, letters: str) -> bool:
    if word.startswith("--"):
        return word.split("=", 1)[0] in WORK
    return word.startswith("-") and any(letter in word[1:] for letter in letters)


def _program(path: str) -> str:
    """`python` of `/usr/bin/python3.12`, `bash` of a login shell's `-bash`."""
    return _base(path).lstrip("-").rstrip("0123456789.")


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _asks_a_terminal(pid: int) -> bool:
    try:
        source = str(Path(f"/proc/{pid}/fd/0").readlink())
    except PermissionError:
        # A process of another user, such as one run by sudo: a person started it.
        return True
    except OSError:
        return False
    return source.startswith(("/dev/pts/", "/dev/tty", "/dev/console"))
