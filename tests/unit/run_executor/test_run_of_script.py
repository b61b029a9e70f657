"""A script is run to completion by a real Python, and the hub has its log."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from ec2spawner.core.text.full_disk import HOME_IS_FULL
from ec2spawner.run_executor.script_run import ScriptRun
from ec2spawner.run_executor.working_folder import write_script
from tests import polling
from tests.small_disk import mounted, use_up_bytes
from tests.unit.run_executor.executor_process import (
    SECONDS,
    Hub,
    executor,
    runs,
    script_work,
    unpacked,
)

pytestmark = pytest.mark.slow(seconds=10)

HOLDS_OUTPUT = """
import subprocess, sys
from model import NAME
child = subprocess.Popen(["sleep", "3600"])
print(f"\\x1b[32m{NAME}\\x1b[0m", sys.argv[1:], child.pid)
print("warned", file=sys.stderr)
"""

# Without a buffer, `print` writes the end of a line by itself: an interrupt that follows the words
# may come before it, so these scripts write whole lines.
RESUMABLE = """
import os, sys, time
from pathlib import Path
from ec2spawner.checkpoint import resumable
for step in resumable(range(4), every=0, quiet=True):
    sys.stdout.write(f"step {step}\\n")
    if step == 2 and not os.path.exists("resumed"):
        open("resumed", "w").close()
        time.sleep(3600)
print(Path(__file__).parent == Path.cwd())
"""


async def test_in_a_full_home_it_says_so_and_leaves_no_part_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with mounted(tmp_path / "home") as home:
        use_up_bytes(home)
        hub = Hub(script_work("print(1)\n"))
        async with executor(hub, home):
            end = await hub.until_end()
        assert not end.succeeded
        assert end.message == f"The home of this run cannot be used: {HOME_IS_FULL}"
        assert not [each for each in home.rglob("*.py*") if each.is_file()]


def test_a_script_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    with mounted(tmp_path):
        write_script(tmp_path / "a.py", b"old")
        use_up_bytes(tmp_path)
        with pytest.raises(OSError, match="No space"):
            write_script(tmp_path / "a.py", b"new" * 10_000)
        assert (tmp_path / "a.py").read_bytes() == b"old"
        assert {each.name for each in tmp_path.iterdir()} == {"a.py", "big"}


async def test_its_log_is_the_result(tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = home / "projects"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text("NAME = 'net'\n")
    (folder / "train.py").write_text("changed since")
    parameters = {"rate": 0.5, "fast": True, "slow": False, "layers": [64, 32]}
    hub = Hub(script_work(HOLDS_OUTPUT, parameters=parameters))
    async with executor(hub, home) as running:
        end = await hub.until_end()
        assert end.succeeded, end.message
        assert (end.message, end.cells_total) == ("", 0)
        first, second = unpacked(end.result).splitlines()
        arguments = ["--rate", "0.5", "--fast", "--layers", "64", "32"]
        assert first.startswith(f"\x1b[32mnet\x1b[0m {arguments}")
        assert second == "warned"
        assert not runs(int(first.split()[-1])), "a child had its output"
        assert await running.stop() == 0
    assert (folder / "train.py").read_text() == "changed since"
    assert sorted(each.name for each in folder.glob("*.py")) == ["model.py", "train.py"]


async def test_its_failure_has_the_last_lines(tmp_path: Path) -> None:
    hub = Hub(script_work("print('begun')\nraise ValueError('no data')"))
    async with executor(hub, tmp_path / "home"):
        end = await hub.until_end()
    assert not end.succeeded
    assert end.message == "exit status 1: ValueError: no data"
    assert unpacked(end.result).startswith("begun\nTraceback")


async def test_a_killed_script_is_said_so(tmp_path: Path) -> None:
    hub = Hub(script_work("import os\nprint('x')\nos.kill(os.getpid(), 9)"))
    async with executor(hub, tmp_path / "home"):
        end = await hub.until_end()
    assert not end.succeeded
    assert end.message == "killed by SIGKILL (out of memory?): x"


TIDIES_UP = """
import sys, time
try:
    sys.stdout.write("begun\\n")
    time.sleep(3600)
finally:
    print("tidied up")
"""


async def test_an_interrupted_script_can_tidy_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"])  # which the run changes
    script = ScriptRun(script_work(TIDIES_UP), tmp_path)
    await script.interrupt()  # nothing runs yet
    running = asyncio.create_task(script.run())
    try:
        async with asyncio.timeout(SECONDS):
            while script.progress().message != "begun":
                await asyncio.sleep(polling.SHORTEST)
            await script.interrupt()
            outcome = await running
        await script.interrupt()  # it is over
    finally:
        await script.close()
    assert not outcome.succeeded
    assert outcome.message.startswith("killed by SIGINT: begun | tidied up")
    assert outcome.message.endswith("KeyboardInterrupt")


@pytest.mark.nightly(
    guard="tests/integration/hub/test_runs_on_hub.py::"
    "test_an_interrupted_loop_continues_from_its_checkpoint"
)
async def test_it_is_interrupted_and_continues_from_its_checkpoint(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = Hub(script_work(RESUMABLE))
    async with executor(first, home) as running:
        await first.until(lambda report: report.message == "step 2")
        assert await running.stop() == 0
    last = first.reports[-1]
    assert last.action == "progress"
    assert unpacked(last.result).startswith("step 0\nstep 1\nstep 2\n")
    assert "KeyboardInterrupt" in unpacked(last.result)
    assert all(each.action != "end" for each in first.reports)

    second = Hub(script_work(RESUMABLE, attempt=2))
    async with executor(second, home):
        end = await second.until_end()
    assert unpacked(end.result) == "step 2\nstep 3\nTrue\n"


@pytest.mark.nightly(
    guard="tests/unit/run_executor/test_parameters.py::test_what_no_argument_can_be_is_refused"
)
async def test_parameters_that_cannot_be_arguments_are_refused(tmp_path: Path) -> None:
    hub = Hub(script_work("print(1)", parameters={"a b": 1}))
    async with executor(hub, tmp_path / "home"):
        end = await hub.until_end()
    assert not end.succeeded
    assert "'a b'" in end.message
