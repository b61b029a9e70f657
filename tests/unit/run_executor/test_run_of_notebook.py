"""A notebook is executed to completion by a real kernel, and the hub has its result."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ec2spawner.wire import RunReport
from tests import polling
from tests.unit.run_executor.executor_process import (
    Hub,
    executor,
    notebook,
    notebook_work,
    result_of,
    runs,
    text_of,
)

pytestmark = pytest.mark.slow(seconds=20)

RESUMABLE = """
import os, time
from ec2spawner.checkpoint import resumable
done = []
def save(path): path.write_text(repr(done))
def load(path): done.extend(eval(path.read_text()))
for step in resumable(range(4), save=save, load=load, every=0):
    done.append(step)
    print(f"step {step} in {os.getpid()}", flush=True)
    if step == 1 and not os.path.exists("resumed"):
        open("resumed", "w").close()
        time.sleep(3600)
print(done)
"""


async def test_outputs_arrive_as_they_come_and_the_result_once(tmp_path: Path) -> None:
    source = new_notebook(
        cells=[
            new_markdown_cell("# Training"),
            new_code_cell("rate = 1", metadata={"tags": ["parameters"]}),
            new_code_cell(
                "import os, pathlib, time\n"
                "print(rate, os.getcwd(), os.environ['JPY_SESSION_NAME'], flush=True)\n"
                "while not pathlib.Path('go').exists(): time.sleep(0.05)"
            ),
            new_code_cell("1 / 0", metadata={"tags": ["raises-exception"]}),
            new_code_cell("rate * 2"),
        ]
    )
    hub = Hub(notebook_work(source, parameters={"rate": 0.5}))
    home = tmp_path / "home"
    folder = home / "projects"
    async with executor(hub, home) as running:
        progress = await hub.until(lambda report: bool(_text(report)))
        assert progress.action == "progress"
        assert (progress.cells_done, progress.cells_total) == (2, 5)
        assert progress.message.startswith("cell 3 of 5: import os")
        session = folder / "train.ipynb"
        assert text_of(result_of(progress).cells[3]) == f"0.5 {folder} {session}\n"
        async with aiohttp.ClientSession() as http:
            async with http.get(f"{running.url}api") as answer:
                assert await answer.json() == {}
            async with http.get(running.url) as answer:
                assert answer.status == 404
        (folder / "go").touch()

        end = await hub.until_end()
        assert end.succeeded
        assert (end.cells_done, end.cells_total, end.message) == (5, 5, "")
        executed = result_of(end)
        assert executed.cells[2].metadata.tags == ["injected-parameters"]
        assert executed.cells[4].outputs[0].ename == "ZeroDivisionError"
        assert executed.cells[5].outputs[0].data["text/plain"] == "1.0"
        assert executed.metadata.ec2spawner == {"run": 3, "attempt": 1, "kernel": "python3"}

        assert running.process.returncode is None, "the hub ends the instance"
        assert await running.stop() == 0
    # An executor that is stopped before it has the hub's answer reports the same once more.
    ends = [each for each in hub.reports if each.action == "end"]
    assert ends in ([end], [end, end])
    assert "injected" not in (folder / "train.ipynb").read_text(), "the document, not its result"


async def test_the_first_error_ends_a_run(tmp_path: Path) -> None:
    long = "x" * 1000
    source = notebook("a = 1", f"raise ValueError('\\x1b[31m{long}')", "print('never')")
    hub = Hub(notebook_work(source))
    async with executor(hub, tmp_path / "home"):
        end = await hub.until_end()
    assert not end.succeeded
    assert end.message.startswith("cell 2: ValueError: xxx")
    assert len(end.message) == 500
    assert end.cells_done == 1
    executed = result_of(end)
    assert executed.cells[1].outputs[0].output_type == "error"
    assert executed.cells[2].outputs == []


async def test_a_kernel_that_is_killed_fails_the_run(tmp_path: Path) -> None:
    source = notebook(
        "import os, pathlib, signal, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '3600'])\n"
        "print(child.pid, flush=True)\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.05)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    hub = Hub(notebook_work(source))
    home = tmp_path / "home"
    async with executor(hub, home):
        await hub.until(lambda report: bool(_text(report)))
        (home / "projects/go").touch()
        end = await hub.until_end()
        assert not end.succeeded
        assert end.message == "cell 1: the kernel died (out of memory?)"
        child = int(text_of(result_of(end).cells[0]))
        assert not runs(child)


async def test_the_end_of_the_instance_leaves_its_last_state(tmp_path: Path) -> None:
    source = notebook(
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '3600'], start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(3600)",
        "print('never')",
    )
    hub = Hub(notebook_work(source))
    async with executor(hub, tmp_path / "home") as running:
        seen = await hub.until(lambda report: bool(_text(report)))
        child = int(text_of(result_of(seen).cells[0]))
        assert runs(child)
        assert await running.stop() == 0
        assert not runs(child)
    last = hub.reports[-1]
    assert last.action == "progress"
    first, second = result_of(last).cells
    assert first.outputs[-1].ename == "KeyboardInterrupt"
    assert second.outputs == []
    assert all(each.action != "end" for each in hub.reports)


@pytest.mark.nightly(
    guard="tests/integration/hub/test_runs_on_hub.py::"
    "test_an_interrupted_loop_continues_from_its_checkpoint"
)
async def test_a_second_attempt_continues_from_the_checkpoint(tmp_path: Path) -> None:
    home, source = tmp_path / "home", notebook(RESUMABLE)
    first = Hub(notebook_work(source))
    async with executor(first, home) as running:
        await first.until(lambda report: "step 1" in _text(report))
        running.process.kill()  # as the instance is lost
        await running.status()

    second = Hub(notebook_work(source, attempt=2))
    async with executor(second, home):
        end = await second.until_end()
    assert end.succeeded, end.message
    said = _text(end)
    assert "step 0" not in said, "it was saved before the instance was lost"
    assert said.startswith("step 1 in")
    assert said.endswith("[0, 1, 2, 3]\n")

    other = Hub(notebook_work(source, number=4))
    async with executor(other, home):
        end = await other.until_end()
    assert "step 0 in" in _text(end), "another run has other checkpoints"


async def test_a_hub_that_is_down_is_waited_for(tmp_path: Path) -> None:
    hub = Hub(notebook_work(notebook("print('done')")))
    hub.silent = {"begin": 2, "progress": 1000, "end": 2}
    async with executor(hub, tmp_path / "home") as running:
        end = await hub.until_end()
        assert end.succeeded
        assert "done" in _text(end)
        assert await running.stop() == 0
    repeated = [each for each in hub.unanswered if each.action == "end"]
    assert repeated == [end, end], "the same report, until it is answered"


@pytest.mark.nightly(
    guard="tests/unit/run_executor/test_executor.py::test_progress_never_comes_after_the_end"
)
async def test_a_run_that_has_ended_says_so_also_when_it_is_stopped(tmp_path: Path) -> None:
    hub = Hub(notebook_work(notebook("print('done')")))
    hub.silent = {"end": 1}
    async with executor(hub, tmp_path / "home") as running:
        while not hub.unanswered or hub.unanswered[-1].action != "end":
            await asyncio.sleep(polling.SHORTEST)
        assert await running.stop() == 0
    assert hub.reports[-1].action == "end"


@pytest.mark.nightly(
    guard="tests/unit/run_executor/test_executor.py::"
    "test_a_refusal_ends_the_program_with_a_status_of_its_own"
)
async def test_a_refusal_ends_the_executor(tmp_path: Path) -> None:
    hub = Hub(notebook_work(notebook("1")))
    hub.refusal = "no run is waiting for this instance"
    async with executor(hub, tmp_path / "home") as running:
        assert await running.status() == 3
        assert hub.refusal in await running.errors()


@pytest.mark.nightly(
    guard="tests/unit/run_executor/test_notebook_document.py::test_what_is_no_notebook_is_said_so"
)
async def test_a_document_that_is_no_notebook_fails_the_run(tmp_path: Path) -> None:
    hub = Hub(notebook_work(notebook("1"), document="AAAA"))
    async with executor(hub, tmp_path / "home"):
        end = await hub.until_end()
    assert not end.succeeded
    assert "it is damaged" in end.message


@pytest.mark.nightly(
    guard="tests/unit/run_executor/test_run_of_script.py::test_its_log_is_the_result"
)
async def test_a_file_of_the_same_name_stays(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "projects").mkdir(parents=True)
    (home / "projects/train.ipynb").write_text("changed since")
    hub = Hub(notebook_work(notebook("1 + 1"), attempt=2))
    async with executor(hub, home):
        assert (await hub.until_end()).succeeded
    assert (home / "projects/train.ipynb").read_text() == "changed since"


@pytest.mark.nightly(
    guard="tests/unit/run_executor/test_executor.py::"
    "test_without_an_agent_the_program_says_what_is_missing"
)
def test_without_an_agent_it_says_what_is_missing() -> None:
    bare = {key: value for key, value in os.environ.items() if "SOCKET" not in key}
    command = [sys.executable, "-m", "ec2spawner.run_executor"]
    ran = subprocess.run(command, env=bare, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "EC2SPAWNER_AGENT_SOCKET" in ran.stderr


def _text(report: RunReport) -> str:
    """What its notebook has printed."""
    return "".join(map(text_of, result_of(report).cells)) if report.result else ""
