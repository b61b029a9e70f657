"""What runs in real pseudo-terminals, seen from outside as the agent sees it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ptyprocess import PtyProcessUnicode

from ec2spawner.telemetry import Processes
from ec2spawner.telemetry.terminals import command, terminals
from tests import polling


class Terminal:
    def __init__(self) -> None:
        self.pty = PtyProcessUnicode.spawn(["/bin/bash", "--norc", "--noprofile"])
        self.until(lambda foreground: foreground == "")

    def type(self, line: str) -> None:
        self.pty.write(f"{line}\n")

    def until_said(self, text: str) -> None:
        said = ""
        while text not in said:
            said += self.pty.read()

    def foreground(self) -> str | None:
        """None while the terminal is not there."""
        session = Path(f"/proc/{self.pty.pid}/fd/0").stat().st_rdev
        scan = Processes(os.getpid()).scan()
        found = {int(each.name): each.foreground for each in terminals(scan.processes)}
        return found.get(session)

    def until(self, condition: Callable[[str | None], bool]) -> None:
        begun = time.monotonic()
        while not condition(found := self.foreground()):
            waited = time.monotonic() - begun
            assert waited < 60, found
            time.sleep(polling.pause(waited))


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.pty.close(force=True)


def test_a_foreground_job_and_its_end(terminal: Terminal) -> None:
    terminal.type("sleep 600")
    terminal.until(lambda foreground: foreground == "sleep")
    terminal.pty.sendintr()
    terminal.until(lambda foreground: foreground == "")


def test_a_pipeline_stays_busy_after_its_leader_has_ended(terminal: Terminal) -> None:
    terminal.type("echo 1 | sleep 30")
    terminal.until(lambda foreground: foreground == "sleep")
    time.sleep(0.2)
    assert terminal.foreground() == "sleep"


def test_a_background_job_is_detected_by_cpu_use_not_by_the_terminal(terminal: Terminal) -> None:
    terminal.type("sleep 30 & echo start$((1))ed")
    terminal.until_said("start1ed")
    terminal.until(lambda foreground: foreground == "")


def test_a_nested_shell_waits_for_input_too(terminal: Terminal) -> None:
    terminal.type("bash --norc -i")
    terminal.type("echo inner-$((1 + 1))")
    terminal.until_said("inner-2")
    terminal.until(lambda foreground: foreground == "")
    terminal.type("sleep 30")
    terminal.until(lambda foreground: foreground == "sleep")


def test_an_interpreter_at_its_prompt_is_idle_and_one_fed_by_a_pipe_works(
    terminal: Terminal,
) -> None:
    terminal.type(f"{sys.executable} -q")
    terminal.type("print('inner', 1 + 1)")
    terminal.until_said("inner 2")
    terminal.until(lambda foreground: foreground == "")
    terminal.type("exit()")
    terminal.type(f"(echo 'import time; time.sleep(30)') | {sys.executable}")
    terminal.until(lambda foreground: foreground == Path(sys.executable).name)


def test_a_script_is_a_job_though_it_is_a_shell(terminal: Terminal) -> None:
    terminal.type("bash -c 'sleep 30; true'")
    terminal.until(lambda foreground: foreground == "bash")


def test_a_shell_that_became_the_job(terminal: Terminal) -> None:
    terminal.type("exec sleep 30")
    terminal.until(lambda foreground: foreground == "sleep")


def test_a_nested_terminal_is_seen_too(terminal: Terminal) -> None:
    """As tmux has them."""
    inner = "import pty; pty.spawn(['/bin/sleep', '30'])"
    terminal.type(f'{sys.executable} -c "{inner}"')

    def jobs() -> list[str]:
        return [each.foreground for each in terminals(Processes(os.getpid()).scan().processes)]

    terminal.until(lambda _: "sleep" in jobs())


PYTHON = "/opt/notebook/bin/python3.12"


@pytest.mark.parametrize(
    "line",
    [
        "-bash",
        "bash --login",
        "/usr/bin/zsh -l",
        f"{PYTHON}",
        f"{PYTHON} -i -q",
        f"{PYTHON} /opt/notebook/bin/ipython --no-banner",
        "/usr/lib/R/bin/exec/R --no-save",
        "julia --project",
        "node",
        "bc -l",
        "psql -h db.example.org -U ada sales",
        "sqlite3 results.db",
        "mysql -u root -p",
        "sudo -i",
        "sudo -u ada -s",
        "sudo -Hu ada bash",
        "sudo -uroot ipython",
        "sudo LANG=C su - ada",
        "su",
        "sudo -nE python3",
    ],
)
def test_prompts(line: str) -> None:
    assert command(line.split(), True) == ""


@pytest.mark.parametrize(
    ("line", "job"),
    [
        ("python train.py", "python train.py"),
        ("/usr/bin/python3 -u train.py --epochs 9", "python3 train.py"),
        ("python -m torch.distributed.run", "python torch.distributed.run"),
        ("python -c pass", "python"),
        ("ipython train.ipy", "ipython"),
        ("/usr/lib/R/bin/exec/R --no-echo --file=fit.R", "R"),
        ("julia fit.jl", "julia fit.jl"),
        ("psql sales -c vacuum", "psql"),
        ("mysql -psecret --execute=vacuum", "mysql"),
        ("bash ./train.sh secret", "bash train.sh"),
        ("sudo -u ada python train.py", "python train.py"),
        ("sudo tail -f log", "tail"),
        ("su ada -c ./train.sh", "su"),
        ("make all", "make"),
    ],
)
def test_jobs(line: str, job: str) -> None:
    assert command(line.split(), True) == job


def test_input_from_a_file_is_no_prompt() -> None:
    assert command(["psql", "sales"], False) == "psql"
    assert command(["bash"], False) == "bash"
