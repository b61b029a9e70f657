"""Sessions sleep and wake, with real kernels: whatever a kernel does, in the order's time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from ec2spawner.notebook.sleep import session_record
from tests.integration.notebook.sleeping_server import SleepingServer
from tests.jupyter_by_hand import Kernel, printed

pytestmark = pytest.mark.slow(seconds=50)

SLOW = """
import time
class Slow:
    def __reduce__(self):
        time.sleep(600)
slow = Slow()
"""
BUSY = "import time\nwhile True: time.sleep(0.01)"
"""It leaves the processor to what the test waits for."""
DEAF = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)"


@pytest.fixture
async def server() -> AsyncIterator[SleepingServer]:
    home = Path(tempfile.mkdtemp(prefix="ec2sleep-"))
    server = SleepingServer(home)
    try:
        yield server
    finally:
        await server.end()
        print(server.log()[-6000:])
        shutil.rmtree(home, ignore_errors=True)


async def test_a_session_sleeps_and_wakes_under_its_old_ids(server: SleepingServer) -> None:
    await server.start()
    await server.notebook("a.ipynb", "x = [1, 2]\ny = x\ndef double(n):\n    return 2 * n")
    await server.notebook("b.ipynb", "name = 'b'\nfirst = (n for n in [1])")
    before = (await server.ada.call("GET", "api/sessions"))[1]
    [kernel_of_a] = [each["kernel"] for each in before if each["path"] == "a.ipynb"]
    console = {"path": "console-1", "name": "Console 1", "type": "console", "kernel": kernel_of_a}
    assert (await server.ada.call("POST", "api/sessions", json=console))[0] == 201
    said = await server.sleep()
    assert said.session is not None
    saved = {each.path: each for each in said.session.kernels}
    assert saved["a.ipynb"].variables == 3
    assert saved["a.ipynb"].code == ""
    assert [each.name for each in saved["b.ipynb"].lost] == ["first"]
    assert server.progress(said.id), "the agent gives up on an extension that says nothing"
    await server.end()

    await server.start()
    wake = await server.woken()
    assert {(each["path"], each["state"], each["variables"]) for each in wake["kernels"]} == {
        ("a.ipynb", "done", 3),
        ("b.ipynb", "done", 1),
    }
    after = (await server.ada.call("GET", "api/sessions"))[1]
    ids = [
        {(each["id"], each["path"], each["kernel"]["id"]) for each in e} for e in (before, after)
    ]
    assert ids[0] == ids[1], "a page that is still open finds its kernel"
    assert await server.value("a.ipynb", "x, x is y, double(4)") == "[1, 2] True 8"
    assert await server.value("b.ipynb", "name, 'first' in dir()") == "b False"
    [notice] = (await server.ada.status())["notices"]
    assert (notice["kind"], notice["level"]) == ("session", "warning")
    assert notice["details"][0]["params"] == {"count": 1}
    assert server.record is not None
    assert server.record.woken_at is not None


@pytest.mark.nightly(
    guard="tests/integration/hub/test_sleep_on_hub.py::test_a_start_wakes_it_or_starts_fresh"
)
async def test_what_was_woken_wakes_again_only_where_that_is_asked_for(
    server: SleepingServer,
) -> None:
    await server.start()
    await server.notebook("a.ipynb", "x = 1")
    await server.sleep()
    await server.end()
    await server.start(EC2SPAWNER_WAKE="no")
    await asyncio.sleep(1)
    assert (await server.ada.status())["wake"] is None
    assert server.record is not None
    assert server.record.woken_at is None, "it still sleeps"
    await server.end()
    await server.start()
    await server.woken()
    await server.until(lambda: server.record and server.record.woken_at)
    await server.end()
    await server.start()
    await asyncio.sleep(1)
    assert (await server.ada.status())["wake"] is None
    await server.end()
    await server.start(EC2SPAWNER_WAKE="last")
    assert (await server.woken())["kernels"][0]["variables"] == 1


@pytest.mark.nightly(guard="tests/unit/notebook/test_killed_sleep.py::test_a_complete_sleep")
async def test_the_last_sleep_stays_until_the_next_is_complete(server: SleepingServer) -> None:
    await server.start()
    kernel = await server.notebook("a.ipynb", "x = 1")
    await server.sleep()
    [first] = server.generations()
    await kernel.run(f"x = 2\n{SLOW}")
    server.push(server.new_order(600))
    await server.until(lambda: len(server.generations()) == 2)
    await asyncio.sleep(0.5)
    await server.end(signal.SIGKILL)
    assert first in server.generations()
    await server.start()
    await server.woken()
    assert await server.value("a.ipynb", "x") == "1", "as it was saved completely"
    slept_at = server.record.session.slept_at
    # Under its notebook's new name, nothing can be saved: what there is then says how old it is.
    _, [session] = await server.ada.call("GET", "api/sessions")
    new = {"path": "b.ipynb", "name": "b.ipynb"}
    assert (await server.ada.call("PATCH", "api/contents/a.ipynb", json=new))[0] == 200
    assert (await server.ada.call("PATCH", f"api/sessions/{session['id']}", json=new))[0] == 200
    kernel = Kernel(server.ada, session["kernel"]["id"])
    running = await server.running(kernel, f"x = 2\n{DEAF}", BUSY)
    [saved] = (await server.sleep(8)).session.kernels
    assert (saved.path, saved.variables, saved.code) == ("b.ipynb", 1, "busy")
    assert abs(saved.values_of - slept_at) < timedelta(seconds=10)
    await server.end()
    running.cancel()
    await server.start()
    [woken] = (await server.woken())["kernels"]
    assert (woken["path"], woken["variables"], woken["code"]) == ("b.ipynb", 1, "busy")
    assert woken["values_of"]
    assert await server.value("b.ipynb", "x") == "1"
    await server.notebook("b.ipynb", "x = 3")
    [saved] = (await server.sleep()).session.kernels
    assert (saved.variables, saved.values_of) == (1, None)
    await server.until(lambda: len(server.generations()) == 1)
    assert first not in server.generations()


@pytest.mark.nightly(
    guard="tests/unit/notebook/test_waking_beside_pages.py::"
    "test_what_the_user_saved_since_is_restored"
)
async def test_what_the_user_saved_since_is_restored_after_a_failure(
    server: SleepingServer,
) -> None:
    await server.start()
    await server.notebook("a.ipynb", "x = 1")
    await server.sleep()
    await server.end(signal.SIGKILL)
    await server.start()
    await server.woken()
    assert await server.value("a.ipynb", "x") == "1"
    kernel = await server.notebook("a.ipynb", "x = 2\n%sleep")
    assert kernel
    await server.end(signal.SIGKILL)
    await server.start(EC2SPAWNER_WAKE="last")
    await server.woken()
    assert await server.value("a.ipynb", "x") == "2"
    # Of a kernel that dies, and is empty when it sleeps next, too.
    pid = await server.value("a.ipynb", "__import__('os').getpid()")
    os.kill(int(pid), signal.SIGKILL)
    async with asyncio.timeout(60):
        found = ""
        while found != "False":
            # What is asked of a kernel that has just died is never answered.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    found = await server.value("a.ipynb", "'x' in globals()")
            await asyncio.sleep(0.1)
    [saved] = (await server.sleep()).session.kernels
    assert saved.variables == 0
    assert [(each.name, each.code) for each in saved.lost] == [("x", "not-restored")]
    assert saved.lost[0].kept_of is not None
    assert len(server.generations()) == 2


@pytest.mark.nightly(
    guard="tests/unit/notebook/test_waking_beside_pages.py::"
    "test_a_kernel_that_something_has_ended_is_restored_without_that"
)
async def test_a_module_that_ends_its_kernel_is_not_imported_again(server: SleepingServer) -> None:
    flaky = server.home / "flaky.py"
    flaky.write_text("class Thing: pass")
    await server.start()
    await server.notebook("a.ipynb", "import flaky\nx, thing = 1, flaky.Thing()")
    await server.sleep()
    await server.end()

    flaky.write_text("import os\nos.abort()")
    ada = await server.start()
    while not (await ada.status())["wake"]:
        await asyncio.sleep(0.02)
    kernel_id = await ada.start_notebook("a.ipynb")  # a page opens it meanwhile
    [woken] = (await server.woken())["kernels"]
    assert (woken["state"], woken["variables"]) == ("done", 1)
    codes = {each["name"]: each["code"] for each in woken["lost"]}
    assert codes == {"flaky": "crashed", "thing": "needs"}
    assert server.log().count("ended: restoring flaky") == 1
    assert len((await ada.call("GET", "api/sessions"))[1]) == 1
    assert await server.value("a.ipynb", "x") == "1"
    # It is the user who knows when it is repaired.
    flaky.write_text("class Thing: pass")
    said = printed(await Kernel(ada, kernel_id).run("%wake flaky thing\nprint(type(thing))"))
    assert "Restored flaky, thing." in said
    assert "flaky.Thing" in said


@pytest.mark.nightly(
    guard="tests/unit/notebook/test_session_record.py::"
    "test_a_kernel_that_has_moved_to_another_folder_leaves_the_first"
)
async def test_what_is_not_of_the_session_any_more_leaves_the_disk(server: SleepingServer) -> None:
    await server.start()
    await server.notebook("a.ipynb", "x = 1")
    await server.notebook("b.ipynb", "y = 1")
    await server.sleep()
    await server.end()
    await server.start(EC2SPAWNER_WAKE="no")
    await server.notebook("b.ipynb", "y = 2")
    await server.notebook("c.ipynb", "z = 2")
    before = server.generations()
    await server.sleep()
    await server.until(lambda: not set(before) & set(server.generations()))
    kept = {each.parent.name.split("-")[0] for each in server.generations()}
    assert kept == {"b", "c"}, "a.ipynb was not open any more"


async def test_an_order_is_carried_out_once(server: SleepingServer) -> None:
    await server.start()
    await server.notebook("a.ipynb", "x = 1")
    order = server.new_order()
    for _ in range(3):
        server.push(order)
        await asyncio.sleep(0.05)
    await server.until(lambda: server.answers(order.id))
    server.push(order)
    await asyncio.sleep(1)
    assert len(server.answers(order.id)) == 1
    assert len(server.generations()) == 1


async def test_a_busy_kernel_is_interrupted_at_half_of_the_time(server: SleepingServer) -> None:
    """The other half is long enough for any machine: `test_asked_kernels.py` has the instants."""
    await server.start()
    kernel = await server.notebook("a.ipynb", "x = 1")
    running = await server.running(kernel, "y = 2", BUSY)
    began = time.monotonic()
    said = await server.sleep(60)
    assert time.monotonic() - began > 25, "not before"
    async with asyncio.timeout(60):
        assert "KeyboardInterrupt" in str(await running)
    [saved] = said.session.kernels
    assert (saved.variables, saved.code) == (2, "")


INTERRUPTED = pytest.mark.nightly(
    guard="tests/unit/notebook/test_asked_kernels.py::"
    "test_a_cell_that_ignores_interrupts_is_reported_and_delays_no_other"
)


@pytest.mark.parametrize(
    ("may", "seconds"), [(False, 120), pytest.param(True, 12, marks=INTERRUPTED)]
)
async def test_a_kernel_that_stays_busy_is_reported_and_delays_no_other(
    server: SleepingServer, may: bool, seconds: int
) -> None:
    """Without an interrupt, the stop does not wait for it as long as for saving."""
    await server.start()
    kernel = await server.notebook("a.ipynb", "x = 1")
    await server.notebook("b.ipynb", "z = 3")
    running = await server.running(kernel, DEAF, BUSY)
    began = time.monotonic()
    said = await server.sleep(seconds, interrupt_busy=may)
    assert time.monotonic() - began < 60
    saved = {each.path: each for each in said.session.kernels}
    assert (saved["a.ipynb"].code, saved["a.ipynb"].variables) == ("busy", 0)
    assert (saved["b.ipynb"].code, saved["b.ipynb"].variables) == ("", 1)
    running.cancel()


@pytest.mark.nightly(
    guard="tests/integration/notebook/test_sleep_of_notebook.py::"
    "test_a_kernel_that_stays_busy_is_reported_and_delays_no_other"
)
async def test_a_kernel_whose_process_is_stopped_is_concluded(server: SleepingServer) -> None:
    await server.start()
    await server.notebook("a.ipynb", "import os\nx = 1")
    pid = int(await server.value("a.ipynb", "os.getpid()"))
    await server.notebook("b.ipynb", "z = 3")
    os.kill(pid, signal.SIGSTOP)
    said = await server.sleep(12)
    os.kill(pid, signal.SIGKILL)
    saved = {each.path: each for each in said.session.kernels}
    assert (saved["a.ipynb"].code, saved["a.ipynb"].variables) == ("timed-out", 0)
    assert saved["b.ipynb"].variables == 1


async def test_a_kernel_that_dies_while_it_saves_keeps_what_it_has_saved(
    server: SleepingServer,
) -> None:
    await server.start()
    await server.notebook("a.ipynb", f"import os\nx = 1\n{SLOW}")
    pid = int(await server.value("a.ipynb", "os.getpid()"))
    order = server.new_order(30)
    server.push(order)
    await server.until(lambda: "x" in server.noted_as_saved())
    os.kill(pid, signal.SIGKILL)
    [said] = await server.until(lambda: server.answers(order.id))
    [saved] = said.session.kernels
    assert saved.code == "died"
    assert saved.variables >= 1
    assert "x" not in {each.name for each in saved.lost}


async def test_a_notice_brings_the_end_of_an_order_nearer(server: SleepingServer) -> None:
    await server.start()
    await server.notebook("a.ipynb", f"x = 1\n{SLOW}")
    order = server.new_order(300)
    began = time.monotonic()
    server.push(order)
    await server.until(lambda: server.generations())
    server.push(order.model_copy(update={"until": order.until - timedelta(seconds=295)}))
    [said] = await server.until(lambda: server.answers(order.id))
    assert 3 < time.monotonic() - began < 60, "not after 300 seconds"
    assert said.session is not None


async def test_kernels_that_cannot_be_saved_say_why(server: SleepingServer) -> None:
    spec = server.home / ".local/share/jupyter/kernels/shell"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    body = {"argv": argv, "display_name": "Shell", "language": "bash"}
    (spec / "kernel.json").write_text(json.dumps(body))
    await server.start()
    await server.notebook("shell.ipynb", kernel="shell")
    await server.notebook("old.ipynb", "import sys\nsys.modules['ec2spawner.sleep'] = None")
    said = await server.sleep()
    codes = {each.path: each.code for each in said.session.kernels}
    assert codes == {"shell.ipynb": "not-python", "old.ipynb": "no-extension"}


@pytest.mark.nightly(
    guard="tests/unit/notebook/test_waking_beside_pages.py::"
    "test_what_is_gone_is_reported_and_the_rest_wakes"
)
async def test_what_is_gone_is_reported_and_the_rest_wakes(server: SleepingServer) -> None:
    await server.start()
    for name in ("deleted.ipynb", "spec.ipynb", "damaged.ipynb", "good.ipynb"):
        await server.notebook(name, "x = 1")
    await server.sleep()
    await server.end()
    (server.home / "deleted.ipynb").unlink()
    record = server.record
    kernels = []
    for each in record.kernels:
        if each.path == "spec.ipynb":
            saved = each.saved.model_copy(update={"kernel_name": "gone"})
            each = each.model_copy(update={"saved": saved})
        if each.path == "damaged.ipynb":
            (server.root / "kernels" / each.generation / "manifest.json").write_text("{")
        kernels.append(each)
    session_record.write(server.root, record.model_copy(update={"kernels": kernels}))
    await server.start()
    found = {
        each["path"]: (each["state"], each["code"]) for each in (await server.woken())["kernels"]
    }
    assert found == {
        "deleted.ipynb": ("failed", "notebook-gone"),
        "spec.ipynb": ("failed", "kernel-spec-gone"),
        "damaged.ipynb": ("failed", "damaged"),
        "good.ipynb": ("done", ""),
    }
    again = {each.path: each for each in (await server.sleep()).session.kernels}
    assert again["deleted.ipynb"].variables == 1, "it could still come back"
    await server.end()
    document = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (server.home / "deleted.ipynb").write_text(json.dumps(document))
    await server.start()
    await server.woken()
    assert await server.value("deleted.ipynb", "x") == "1"


async def test_a_damaged_or_foreign_record_wakes_nothing(server: SleepingServer) -> None:
    server.root.mkdir(parents=True, mode=0o700)
    (server.root / "session.json").write_text('{"format": 1, "kernels": [')
    await server.start()
    await asyncio.sleep(1)
    assert (await server.ada.status())["wake"] is None
    assert "cannot be read" in server.log()


@pytest.mark.nightly(
    guard="tests/unit/notebook/test_session_record.py::"
    "test_an_expired_session_that_is_killed_while_it_is_removed_is_removed_again"
)
async def test_an_expired_session_is_removed(server: SleepingServer) -> None:
    await server.start()
    await server.notebook("a.ipynb", "x = 1")
    await server.sleep()
    await server.end()
    await server.start(EC2SPAWNER_SLEEP_KEEP_SECONDS="0")
    await server.until(lambda: server.record is None)
    assert server.generations() == []
    assert (await server.ada.status())["wake"] is None


async def test_without_kernels_there_is_nothing_to_save(server: SleepingServer) -> None:
    await server.start()
    said = await server.sleep()
    assert said.session is None
    assert server.record is None


# --- cells that run again ---

LOOP = """
from ec2spawner import checkpoint
import time
begun = globals().get("begun", 0) + 1
for step in checkpoint.resumable(range(1000), every=0, restart={restart}):
    last = step
    print("step", step, flush=True)
    if begun > 1:
        break
    time.sleep(0.2)
"""


NOT_ASKED_FOR = pytest.mark.nightly(
    guard="tests/unit/checkpoint/test_resumable.py::"
    "test_a_cell_runs_again_only_if_its_user_asked_for_that"
)


@pytest.mark.parametrize("restart", [True, pytest.param(False, marks=NOT_ASKED_FOR)])
async def test_a_loop_runs_again_once_if_its_user_asked_for_that(
    server: SleepingServer, restart: bool
) -> None:
    await server.start()
    kernel = await server.notebook("a.ipynb")
    await server.notebook("b.ipynb", "x = 1")
    running = asyncio.create_task(kernel.run(LOOP.format(restart=restart)))
    await server.until(lambda: list(server.home.glob(".ec2spawner/checkpoints/*/*/*")))
    await server.sleep(30)
    await running
    await server.end()

    expected = "2" if restart else "1"
    await server.start()
    await server.woken()
    async with asyncio.timeout(60):  # a cell runs again once the variables are back
        while await server.value("a.ipynb", "begun") != expected:
            pass
    # The sleep ends the loop at once, perhaps in its first step.
    assert await server.value("a.ipynb", f"last >= {int(restart)}") == "True"
    assert await server.value("b.ipynb", "'begun' in dir()") == "False", "the notebook's own"
    await server.end()

    await server.start(EC2SPAWNER_WAKE="last")
    await server.woken()
    assert await server.value("a.ipynb", "begun") == "1", "as it slept: not at each wake"


@pytest.mark.nightly(
    guard="tests/integration/notebook/test_sleep_of_notebook.py::"
    "test_a_loop_runs_again_once_if_its_user_asked_for_that"
)
async def test_pages_hear_a_cell_that_runs_again(server: SleepingServer) -> None:
    await server.start()
    kernel = await server.notebook("a.ipynb")
    loop = LOOP.format(restart=True).replace("break", "pass")
    running = asyncio.create_task(kernel.run(loop, cell_id="the-cell"))
    await server.until(lambda: list(server.home.glob(".ec2spawner/checkpoints/*/*/*")))
    await server.sleep(30)
    await running
    await server.end()

    ada = await server.start()
    wake = await server.woken()
    assert wake["state"] == "done", "while the loop runs"
    assert wake["kernels"][0]["interrupted_cell"] is None, "its user has nothing to run again"
    [session] = (await ada.call("GET", "api/sessions"))[1]
    url = f"{ada.base_url}api/kernels/{session['kernel']['id']}/channels"
    async with asyncio.timeout(20), ada.http.ws_connect(url) as page:
        while True:
            said = json.loads((await page.receive()).data)
            if said["header"]["msg_type"] == "stream":
                break
    assert said["content"]["text"].startswith("step")
    # No page has sent the cell: the one that is opened next shows what it prints.
    [kept] = (await ada.call("GET", "ec2spawner/api/outputs?path=a.ipynb"))[1]["executions"]
    assert (kept["cell_id"], kept["is_running"]) == ("the-cell", True)
    assert any("step" in each.get("text", "") for each in kept["outputs"]), kept
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    # The loop, which needs minutes, delays no stop.
    await asyncio.wait_for(server.process.wait(), 60)


# --- hooks -----------------------------------------------------------------------------------


def write_hook(server: SleepingServer, script: str) -> None:
    file = server.home / ".ec2spawner" / "on-interruption"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


async def test_the_hook_runs_before_variables_are_saved_and_knows_its_time(
    server: SleepingServer,
) -> None:
    write_hook(
        server, 'echo "$EC2SPAWNER_SECONDS_LEFT $EC2SPAWNER_TRIGGER" > given; ls .ec2spawner/sleep'
    )
    await server.start()
    await server.notebook("a.ipynb", "x = 1")
    said = await server.sleep(30, trigger="user")
    [step] = said.steps
    assert (step.step, step.outcome) == ("hook", "failed"), "there was nothing to list yet"
    assert step.detail == "exit status 2"
    seconds, trigger = (server.home / "given").read_text().split()
    assert 8 <= int(seconds) <= 10
    assert trigger == "user"
    assert said.session.kernels[0].variables == 1


@pytest.mark.nightly(
    guard="tests/unit/notebook/test_sleep_hooks.py::"
    "test_an_entry_point_that_hangs_is_ended_with_what_it_started"
)
async def test_a_hook_that_hangs_is_killed_with_what_it_started(server: SleepingServer) -> None:
    write_hook(server, "sleep 1000 & echo $! > pid; wait")
    await server.start()
    await server.notebook("a.ipynb", "x = 1")
    said = await server.sleep(20)
    assert [each.outcome for each in said.steps] == ["late"]
    assert said.session.kernels[0].variables == 1
    pid = int((server.home / "pid").read_text())
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


@pytest.mark.nightly(
    guard="tests/unit/notebook/test_sleep_hooks.py::test_what_a_hook_prints_is_bounded"
)
async def test_what_a_hook_prints_is_bounded(server: SleepingServer) -> None:
    write_hook(server, "head -c 3000000 /dev/zero | tr '\\0' x")
    await server.start()
    await server.notebook("a.ipynb", "x = 1")
    said = await server.sleep(20)
    assert [each.outcome for each in said.steps] == ["done"]
    assert 60_000 < len(server.log()) < 200_000
