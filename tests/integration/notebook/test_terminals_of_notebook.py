"""The foreground job of real shells in real pseudo-terminals."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from ptyprocess import PtyProcessUnicode

from ec2spawner.core.idle import has_job
from ec2spawner.notebook.terminals import Terminals
from ec2spawner.wire import TerminalState


class Terminal:
    def __init__(self) -> None:
        self.ptyproc = PtyProcessUnicode.spawn(["/bin/bash", "--norc", "--noprofile"])
        manager = SimpleNamespace(terminals={"1": self})
        self._terminals = Terminals({"terminal_manager": manager})
        self.until(lambda state: state.foreground == "")

    def type(self, line: str) -> None:
        self.ptyproc.write(f"{line}\n")

    def state(self) -> TerminalState:
        (state,) = self._terminals.states()
        return state

    def until(self, condition: Callable[[TerminalState], bool]) -> TerminalState:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if condition(state := self.state()):
                return state
            time.sleep(0.02)
        raise AssertionError(self.state())


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.ptyproc.close(force=True)


def test_a_foreground_job_and_its_end(terminal: Terminal) -> None:
    terminal.type("sleep 0.5")
    assert has_job(terminal.until(lambda state: bool(state.foreground)))
    terminal.until(lambda state: state.foreground == "")


def test_a_background_job_is_told_by_its_cpu_not_by_the_terminal(terminal: Terminal) -> None:
    terminal.type("sleep 30 & echo started")
    while "started\r" not in terminal.ptyproc.read():
        pass
    terminal.until(lambda state: state.foreground == "")


def test_a_shell_in_a_shell_waits_for_a_person_too(terminal: Terminal) -> None:
    terminal.type("bash --norc -i")
    terminal.type("echo inner-$((1 + 1))")
    while "inner-2" not in terminal.ptyproc.read():
        pass
    terminal.until(lambda state: state.foreground == "")
    terminal.type("sleep 30")
    terminal.until(lambda state: state.foreground == "sleep 30")


def test_a_script_is_a_job_though_it_is_a_shell(terminal: Terminal) -> None:
    terminal.type("bash -c 'sleep 30; true'")
    terminal.until(lambda state: "-c" in state.foreground or "sleep" in state.foreground)


def test_a_shell_that_became_the_job(terminal: Terminal) -> None:
    terminal.type("exec sleep 30")
    terminal.until(lambda state: state.foreground == "sleep 30")


def test_no_terminals_and_dead_ones(terminal: Terminal) -> None:
    assert Terminals({}).states() == []
    terminal.ptyproc.close(force=True)
    assert terminal.state().foreground == ""
