"""What runs in the foreground of each terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import psutil

from ..wire import TerminalState

SHELLS = frozenset(
    {"bash", "sh", "dash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "ash", "nu", "elvish"}
)

MOST = 100
"""More terminals than this are not told of."""


class Terminals:
    """The terminals of the server, by their pseudo-terminals' foreground process groups."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings`: the web application's; the terminals' own extension puts its manager there,
        perhaps after us, or never where terminals are switched off."""
        self._settings = settings
        self._shells: dict[int, list[str]] = {}
        """Command line of each terminal's shell when first seen: a later one was `exec`ed."""

    def states(self) -> list[TerminalState]:
        manager = self._settings.get("terminal_manager")
        terminals: Mapping[str, Any] = getattr(manager, "terminals", None) or {}
        found = []
        for name, terminal in list(terminals.items())[:MOST]:
            pid = getattr(terminal.ptyproc, "pid", None)
            found.append(
                TerminalState(name=name, pid=pid, foreground=self._foreground(terminal)[:200])
            )
        alive = {state.pid for state in found}
        self._shells = {pid: line for pid, line in self._shells.items() if pid in alive}
        return found

    def _foreground(self, terminal: Any) -> str:
        """Command of the foreground job; empty while a shell waits at its prompt."""
        try:
            shell = int(terminal.ptyproc.pid)
            leader = os.tcgetpgrp(terminal.ptyproc.fd)
            line = psutil.Process(leader).cmdline()
        except (OSError, AttributeError, TypeError, ValueError, psutil.Error):
            return ""
        if leader == shell:
            known = self._shells.setdefault(shell, line)
            return "" if line == known or _is_prompt(line) else _command(line)
        return "" if _is_prompt(line) else _command(line)


def _is_prompt(line: list[str]) -> bool:
    """A shell without a script waits for a person: `bash` in a `bash`, `sudo -i`.

    Its own jobs have process groups of their own, so they would be in the foreground instead.
    """
    if not line or _base(line[0]).lstrip("-") not in SHELLS:
        return False
    return all(
        argument.startswith("--") or (argument.startswith("-") and "c" not in argument)
        for argument in line[1:]
    )


def _command(line: list[str]) -> str:
    return " ".join([_base(line[0]), *line[1:3]]) if line else "a program"


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]
