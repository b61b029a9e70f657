"""`checkpoint.resumable` in this process: what a user of it sees."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ec2spawner import checkpoint
from ec2spawner.agent_socket import SOCKET
from ec2spawner.checkpoint import loop as loop_module
from ec2spawner.checkpoint.place import NOTEBOOK, RUN, key, notebook_path
from ec2spawner.core.text.full_disk import HOME_IS_FULL
from ec2spawner.cost import agent as agent_line
from ec2spawner.cost.agent import FRESH_AT_NOTICE
from ec2spawner.sleep import plan
from ec2spawner.sleep.restart import BY_WAKE
from ec2spawner.wire import SleepOrder
from tests.stub_agent_socket import StubAgentSocket, stub_agent_socket


class Work:
    """Steps whose result is in `state`."""

    def __init__(self) -> None:
        self.state: list[int] = []
        self.saves = 0
        self.done: list[int] = []

    def save(self, path: Path) -> None:
        self.saves += 1
        path.write_text(json.dumps(self.state))

    def load(self, path: Path) -> None:
        self.state = json.loads(path.read_text())

    def run(self, steps: Any, until: int | None = None, **options: Any) -> None:
        """Ends with `KeyboardInterrupt` in the step `until`."""
        options.setdefault("every", 0)
        for step in checkpoint.resumable(steps, save=self.save, load=self.load, **options):
            if step == until:
                raise KeyboardInterrupt
            self.state.append(step)
            self.done.append(step)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(SOCKET, raising=False)
    monkeypatch.delenv(NOTEBOOK, raising=False)
    monkeypatch.setattr(agent_line, "_last", ("", 0.0, agent_line.Reading()))
    return tmp_path


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubAgentSocket]:
    monkeypatch.setattr(agent_line, "FRESH", 0.0)
    monkeypatch.setattr(agent_line, "TIMEOUT", 20.0)
    with stub_agent_socket(None) as running:
        monkeypatch.setenv(SOCKET, running.path)
        yield running


def interrupted(until: int, steps: Any = range(6), **options: Any) -> Work:
    """What a loop had done until a step that did not end."""
    work = Work()
    with pytest.raises(KeyboardInterrupt):
        work.run(steps, until, **options)
    return work


def test_continues_after_the_last_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(3)
    work = Work()
    work.run(range(6))
    assert work.done == [3, 4, 5]
    assert work.state == list(range(6))
    assert "resumed after step 3 of 6" in capsys.readouterr().out


def test_a_finished_loop_does_nothing_until_it_is_cleared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Work().run(range(3))
    again = Work()
    again.run(range(3))
    assert (again.done, again.state) == ([], [0, 1, 2])
    assert "all steps were done" in capsys.readouterr().out
    checkpoint.clear()
    again.run(range(3))
    assert again.done == [0, 1, 2]


def test_saves_on_schedule_and_at_the_end_only() -> None:
    work = Work()
    work.run(range(50), every="1h")
    assert work.saves == 1


def test_an_iterable_without_length_or_index() -> None:
    interrupted(2, iter(range(4)))
    work = Work()
    work.run(iter(range(4)))
    assert work.done == [2, 3]


def test_a_sequence_is_not_read_from_its_beginning() -> None:
    class Slow(list[int]):
        def __getitem__(self, place: Any) -> Any:
            assert place >= 3
            return super().__getitem__(place)

    interrupted(3, list(range(6)))
    work = Work()
    work.run(Slow(range(6)))
    assert work.done == [3, 4, 5]


def test_only_a_position_needs_no_functions() -> None:
    for step in checkpoint.resumable(range(4), every=0, quiet=True):
        if step == 2:
            break
    assert list(checkpoint.resumable(range(4), every=0, quiet=True)) == [2, 3]


# --- a changed loop ---


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (range(8), "it has 6 steps, this one 8 steps"),
        (range(10, 16), r"it is over range\(0, 6\), this one over range\(10, 16\)"),
        (iter(range(6)), "this one an unknown number of steps"),
    ],
)
def test_another_loop_is_refused(steps: Any, why: str) -> None:
    interrupted(3)
    work = Work()
    with pytest.raises(checkpoint.LoopChanged, match=why):
        work.run(steps)
    assert (work.done, work.state) == ([], [])


def test_another_function_is_another_loop_unless_it_has_a_name() -> None:
    def other(path: Path) -> None:
        path.write_text("0")

    interrupted(3)
    with pytest.raises(checkpoint.LoopChanged, match="`save` is another function"):
        next(checkpoint.resumable(range(6), save=other, load=lambda path: None))
    interrupted(3, name="mine")
    assert next(checkpoint.resumable(range(6), save=other, load=lambda path: None, name="mine"))


def test_a_longer_loop_continues_if_asked_to() -> None:
    interrupted(3)
    work = Work()
    work.run(range(8), changed="continue")
    assert work.state == list(range(8))


def test_a_finished_loop_that_is_made_longer_continues() -> None:
    Work().run(range(3))
    work = Work()
    work.run(range(5), changed="continue")
    assert work.done == [3, 4]


def test_a_loop_shorter_than_what_is_done_cannot_continue() -> None:
    interrupted(3)
    with pytest.raises(checkpoint.LoopChanged):
        Work().run(range(2), changed="continue")


def test_a_changed_loop_begins_again_if_asked_to() -> None:
    interrupted(3)
    work = Work()
    work.run(range(8), changed="restart")
    assert work.done == list(range(8))


def test_loops_with_names_do_not_disturb_each_other() -> None:
    interrupted(3, name="a")
    interrupted(2, name="b")
    work = Work()
    work.run(range(6), name="a")
    assert work.done == [3, 4, 5]


def test_the_place_is_of_the_notebook_or_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/home/me/train.py", raising=False)
    script = key("a")
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    keys = {script, key("a")}
    for path in ("a.ipynb", "b/a.ipynb", "ü.ipynb", "../a.ipynb"):
        monkeypatch.setenv(NOTEBOOK, path)
        keys.add(key("a"))
        assert ".." not in key("a")
        assert notebook_path() == path
    assert len(keys) == 6
    assert key("a b") != key("a-b") != key("")


def test_each_run_of_a_notebook_has_its_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [key("a")]
    for number in ("3", "4"):
        monkeypatch.setenv(RUN, number)
        keys += [key("a")]
        assert key("a") == keys[-1], "the same at each attempt"
    assert len(set(keys)) == 3
    monkeypatch.setenv(RUN, "../4")
    assert key("a") == keys[0]


# --- what goes wrong ---


def test_one_run_at_a_time(home: Path) -> None:
    """A second process is refused, and one that was killed holds nothing."""
    program = (
        "import sys; from ec2spawner import checkpoint\n"
        "for step in checkpoint.resumable(range(9), every=0, name='one', to=sys.argv[1]):\n"
        "    print(step, flush=True); sys.stdin.readline()\n"
    )
    (home / "train.py").write_text(program)
    command = [sys.executable, str(home / "train.py"), str(home / "there")]
    first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert first.stdout is not None
    assert first.stdout.readline() == b"0\n"
    second = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert f"process {first.pid} already runs this loop".encode() in second.stderr
    first.kill()
    first.communicate()
    third = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert third.returncode == 0, third.stderr


def test_a_cell_that_is_run_again_takes_the_loop_over() -> None:
    left = checkpoint.resumable(range(5), every=0, quiet=True)
    assert next(left) == 0
    assert next(left) == 1
    assert list(checkpoint.resumable(range(5), every=0, quiet=True)) == [1, 2, 3, 4]
    with pytest.raises(checkpoint.CheckpointError, match="another loop with this name"):
        next(left)


def test_the_first_save_that_fails_raises_and_a_later_one_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fails = {0}

    def save(path: Path) -> None:
        if counted.pop(0) in fails:
            raise OSError("no space")
        path.write_text("x")

    def loop() -> list[int]:
        return list(checkpoint.resumable(range(4), save=save, load=lambda path: None, every=0))

    counted = list(range(9))
    with pytest.raises(OSError, match="no space"):
        loop()
    counted, fails = list(range(9)), {1, 2}
    assert loop() == [0, 1, 2, 3]
    assert "no checkpoint after step 2 of 4: OSError: no space" in capsys.readouterr().out


def test_a_loop_in_a_full_home_says_so_and_continues_with_the_checkpoint_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    saves = iter(range(9))

    def save(path: Path) -> None:
        if next(saves) == 1:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        path.write_text("x")

    list(checkpoint.resumable(range(4), save=save, load=lambda path: None, every=0))
    said = capsys.readouterr().out
    assert f"no checkpoint after step 2 of 4: {HOME_IS_FULL}" in said


def test_the_last_save_that_fails_raises(home: Path) -> None:
    def save(path: Path) -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        list(checkpoint.resumable(range(2), save=save, load=lambda path: None))


def test_a_save_that_adds_a_suffix_is_explained() -> None:
    def save(path: Path) -> None:
        path.with_suffix(".npy").write_text("x")

    with pytest.raises(checkpoint.CheckpointError, match=r"wrote state\.npy instead"):
        list(checkpoint.resumable(range(2), save=save, load=lambda path: None))


def generations(home: Path) -> list[Path]:
    return sorted(home.glob(".ec2spawner/checkpoints/*/*/0*"))


def partial(home: Path) -> list[Path]:
    return list(home.glob(".ec2spawner/checkpoints/*/*/.new"))


@pytest.mark.parametrize("fails_in", ["save", "sync", "rename"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space"), KeyboardInterrupt()])
def test_a_failed_checkpoint_leaves_nothing(
    home: Path, fails_in: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    def save(path: Path) -> None:
        path.write_bytes(bytes(1000))
        if fails_in == "save":
            fail()

    if fails_in == "sync":
        monkeypatch.setattr("os.fsync", fail)
    elif fails_in == "rename":
        monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(type(error)):
        list(checkpoint.resumable(range(2), save=save, load=print, every=0, quiet=True))
    assert generations(home) == partial(home) == []


def test_a_checkpoint_that_would_fill_the_disk_is_not_begun(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    size, free, saves = 3 * 2**20, 10**12, 0

    def statvfs(path: object) -> SimpleNamespace:
        return SimpleNamespace(f_frsize=1, f_blocks=10**12, f_bavail=free)

    def save(path: Path) -> None:
        nonlocal saves
        saves += 1
        path.write_bytes(os.urandom(size))

    monkeypatch.setattr("os.statvfs", statvfs)
    for step in checkpoint.resumable(range(4), save=save, load=print, every=0):
        free = size + plan.RESERVE_BYTES - 1 if step == 1 else 10**12
    assert saves == 3
    assert (
        "no checkpoint after step 2 of 4: CheckpointError: 272 MB are left on the disk: too little"
        " for a state of 3 MB and for notebooks" in capsys.readouterr().out
    )


def test_a_small_state_is_saved_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    full = SimpleNamespace(f_frsize=1, f_blocks=10**12, f_bavail=0)
    monkeypatch.setattr("os.statvfs", lambda path: full)
    work = Work()
    work.run(range(3))
    assert work.saves == 3


def test_what_a_killed_process_has_left_is_cleared(home: Path) -> None:
    interrupted(2)
    [newest] = generations(home)
    newest.with_name(".new").mkdir()
    checkpoint.clear()
    assert generations(home) == partial(home) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda newest: (newest / "checkpoint.json").unlink(),
        lambda newest: (newest / "checkpoint.json").write_text("{"),
        lambda newest: (newest / "checkpoint.json").write_text('{"version": 1}'),
        lambda newest: (newest / "state").write_text("[0"),
        lambda newest: (newest / "state").unlink(),
    ],
)
def test_a_damaged_checkpoint_is_not_loaded(
    home: Path, damage: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(3)
    [newest] = generations(home)
    older = newest.with_name("00000001")
    older.mkdir()
    record = json.loads((newest / "checkpoint.json").read_text())
    (older / "checkpoint.json").write_text(json.dumps({**record, "done": 1, "files": {"state": 3}}))
    (older / "state").write_text("[0]")
    damage(newest)
    work = Work()
    work.run(range(6))
    assert work.done == [1, 2, 3, 4, 5]
    assert "is incomplete" in capsys.readouterr().out
    assert len(generations(home)) == 1


def test_a_newer_version_is_refused(home: Path) -> None:
    interrupted(3)
    [newest] = generations(home)
    (newest / "checkpoint.json").write_text('{"version": 2}')
    with pytest.raises(checkpoint.CheckpointError, match="newer version"):
        Work().run(range(6))


def test_a_load_that_fails_destroys_nothing(home: Path) -> None:
    interrupted(3)
    before = generations(home)

    def load(path: Path) -> None:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        next(checkpoint.resumable(range(6), save=Work().save, load=load, changed="continue"))
    assert generations(home) == before
    work = Work()
    work.run(range(6))
    assert work.done == [3, 4, 5]


@pytest.mark.parametrize("options", [{"save": print}, {"load": print}, {"every": "soon"}])
def test_wrong_arguments_are_refused_before_the_loop(options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        checkpoint.resumable(range(3), **options)


# --- notices ---


def at(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_a_notice_saves_at_the_next_step_and_the_loop_continues(
    agent: StubAgentSocket, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Work()
    saves = []
    for step in checkpoint.resumable(range(6), save=work.save, load=work.load, every="1h"):
        saves.append(work.saves)
        if step == 2:
            agent.announce(interruption_at=at(120))
    assert saves == [0, 0, 0, 1, 1, 1]
    assert "AWS is reclaiming this machine" in capsys.readouterr().out


def test_a_notice_that_is_withdrawn_and_comes_again_saves_again(agent: StubAgentSocket) -> None:
    work = Work()
    notices = {1: at(120), 2: None, 3: at(120)}
    for step in checkpoint.resumable(range(6), save=work.save, load=work.load, every="1h"):
        if step in notices:
            agent.announce(interruption_at=notices[step])
    assert work.saves == 3, "for each notice, and at the end"


def order() -> SleepOrder:
    return SleepOrder(
        id="s1", trigger="interruption", until=at(90), interrupt_busy=True, max_bytes=1
    )


def test_a_loop_of_a_kernel_makes_room_when_its_session_is_saved(
    cell: str, agent: StubAgentSocket
) -> None:
    work = Work()

    def run(**options: Any) -> None:
        for step in checkpoint.resumable(range(9), save=work.save, load=work.load, **options):
            work.done.append(step)
            if step == 2:
                agent.announce(interruption_at=at(120))
            if step == 4:
                agent.announce(interruption_at=at(120), sleep=order())

    with pytest.raises(checkpoint.LoopLeft):
        run(every="1h")
    agent.announce(interruption_at=None)
    run(every="1h")
    assert work.done == list(range(9)), "nothing is done twice"


def test_a_script_continues_until_its_machine_ends(agent: StubAgentSocket) -> None:
    agent.announce(interruption_at=at(120), sleep=order())
    assert list(checkpoint.resumable(range(3))) == [0, 1, 2]


def test_a_silent_agent_costs_a_loop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOCKET, "/nowhere")
    work = Work()
    work.run(range(5), every="1h")
    assert work.done == [0, 1, 2, 3, 4]


# --- a cell that runs again ---


class Shell:
    kernel = None

    def __init__(self, code: str, metadata: dict[str, Any] | None = None) -> None:
        metadata = {"cellId": "c1"} | (metadata or {})
        self._request = {"content": {"code": code}, "metadata": metadata}

    def get_parent(self) -> dict[str, Any]:
        return self._request


class Application:
    abs_connection_file = "/run/kernel-k1.json"

    @classmethod
    def instance(cls) -> Application:
        return cls()


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> str:
    ipython = type(sys)("IPython")
    ipython.get_ipython = lambda: Shell("for step in …")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    application = type(sys)("ipykernel.kernelapp")
    application.IPKernelApp = Application  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ipykernel.kernelapp", application)
    monkeypatch.setenv(NOTEBOOK, "work/train.ipynb")
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    return "for step in …"


def asked(home: Path) -> list[dict[str, Any]]:
    file = home / ".ec2spawner/sleep/restart.json"
    return list(json.loads(file.read_text())["cells"].values()) if file.exists() else []


def test_a_cell_runs_again_only_if_its_user_asked_for_that(home: Path, cell: str) -> None:
    for _ in checkpoint.resumable(range(2), every=0):
        assert asked(home) == []
    seen = [asked(home) for _ in checkpoint.resumable(range(2), name="a", restart=True)]
    [[record], _] = seen
    assert record["code"] == cell
    assert (record["notebook"], record["kernel_id"]) == ("work/train.ipynb", "k1")
    assert record["cell_id"] == "c1"
    assert asked(home) == [], "the loop has ended"


def test_a_loop_that_its_user_interrupts_is_not_run_again(home: Path, cell: str) -> None:
    interrupted(2, restart=True)
    assert asked(home) == []


def test_a_loop_that_a_notice_ends_is_run_again(
    home: Path, cell: str, agent: StubAgentSocket
) -> None:
    def work() -> None:
        for step in checkpoint.resumable(range(5), every=0, restart=True):
            if step == 2:
                agent.announce(interruption_at=at(100))
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(asked(home)) == 1


def test_a_loop_that_is_interrupted_while_the_agent_is_silent_is_run_again(
    home: Path, cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent may be too busy to announce what the interruption is for."""
    monkeypatch.setattr(loop_module, "ANSWER_TIMEOUT", 0.1)
    monkeypatch.setenv(SOCKET, "/nowhere")
    interrupted(2, every=0, restart=True)
    assert len(asked(home)) == 1


def test_a_loop_that_ended_is_not_run_again_however_silent_the_agent(
    home: Path, cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "ANSWER_TIMEOUT", 600.0)  # it asks nothing
    monkeypatch.setenv(SOCKET, "/nowhere")
    Work().run(range(3), every=0, restart=True)
    assert asked(home) == []


@pytest.mark.parametrize("ends", [True, False])
def test_a_loop_asks_an_agent_that_was_silent_again(
    home: Path, cell: str, agent: StubAgentSocket, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    def work() -> None:
        for step in checkpoint.resumable(range(5), every="1h", restart=True):
            if step == 1:
                agent.announce(interruption_at=at(100) if ends else None)
                silent = agent_line.Reading(why=agent_line.NO_RESPONSE)
                monkeypatch.setattr(agent_line, "_last", (agent.path, math.inf, silent))
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(asked(home)) == ends, "without a notice it was the user"


def test_a_cell_that_made_room_is_run_again_whatever_the_agent_says_then(
    cell: str, home: Path, agent: StubAgentSocket
) -> None:
    """It ends the notebook, and may not answer in time."""

    def save(file: Path) -> None:
        file.touch()
        agent.announce(interruption_at=None)
        time.sleep(2 * FRESH_AT_NOTICE)

    def load(file: Path) -> None:
        raise AssertionError(file)

    agent.announce(interruption_at=at(120), sleep=order())
    with pytest.raises(checkpoint.LoopLeft):
        for _ in checkpoint.resumable(range(5), save=save, load=load, every="1h", restart=True):
            pass
    assert len(asked(home)) == 1


def test_a_loop_that_ends_after_a_notice_is_not_run_again(
    home: Path, cell: str, agent: StubAgentSocket
) -> None:
    for _ in checkpoint.resumable(range(2), every=0, restart=True):
        assert len(asked(home)) == 1
        agent.announce(interruption_at=at(100))
    assert asked(home) == []


def test_what_a_killed_kernel_has_left_ends_with_the_next_run(home: Path, cell: str) -> None:
    loop = checkpoint.resumable(range(5), every=0, restart=True)
    next(loop)
    file = home / ".ec2spawner/sleep/restart.json"
    left = file.read_text()
    loop.close()  # type: ignore[attr-defined]
    file.write_text(left)
    interrupted(1)
    assert asked(home) == []


def test_a_loop_that_the_wake_runs_asks_again_with_its_first_checkpoint(
    home: Path, cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(cell, {BY_WAKE: True})
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    seen = [len(asked(home)) for _ in checkpoint.resumable(range(3), every=0, restart=True)]
    assert seen == [0, 1, 1]
    assert asked(home) == []


def test_outside_of_a_notebook_nothing_is_recorded(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    list(checkpoint.resumable(range(2), restart=True))
    assert asked(home) == []
    assert "in a notebook's cell only" in capsys.readouterr().out


def test_a_forked_child_gives_nothing_free() -> None:
    """A data loader's worker ends with a copy of the loop."""
    loop = checkpoint.resumable(range(4), every=0, quiet=True)
    next(loop)
    child = os.fork()
    if child == 0:
        loop.close()  # type: ignore[attr-defined]
        os._exit(0 if loop_module._current else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert next(loop) == 1


def test_in_a_thread() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(checkpoint.resumable(range(3))))
    thread.start()
    thread.join(10)
    assert found == [0, 1, 2]
