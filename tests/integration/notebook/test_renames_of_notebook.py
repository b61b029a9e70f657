"""A notebook that is renamed while its kernel runs has its own variables, and no other's.

With a real notebook server, as JupyterLab asks it to rename.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.notebook.sleeping_server import SleepingServer
from tests.jupyter_by_hand import Kernel, printed

pytestmark = pytest.mark.slow(seconds=12)


@pytest.fixture
async def server() -> AsyncIterator[SleepingServer]:
    home = Path(tempfile.mkdtemp(prefix="ec2rename-"))
    server = SleepingServer(home)
    try:
        await server.start()
        yield server
    finally:
        await server.end()
        print(server.log()[-6000:])
        shutil.rmtree(home, ignore_errors=True)


async def rename(server: SleepingServer, old: str, new: str) -> None:
    """As JupyterLab does: the file, then its session."""
    assert server.ada is not None
    folder = new.rpartition("/")[0]
    if folder:
        (server.home / folder).mkdir(exist_ok=True)
    status, _ = await server.ada.call("PATCH", f"api/contents/{old}", json={"path": new})
    assert status == 200
    _, sessions = await server.ada.call("GET", "api/sessions")
    [session] = [each for each in sessions if each["path"] == old]
    changed = {"path": new, "name": new.rpartition("/")[2], "type": "notebook"}
    status, _ = await server.ada.call("PATCH", f"api/sessions/{session['id']}", json=changed)
    assert status == 200


async def restart(server: SleepingServer, kernel: Kernel) -> None:
    assert server.ada is not None
    status, _ = await server.ada.call("POST", f"api/kernels/{kernel.kernel_id}/restart")
    assert status == 200


async def said(kernel: Kernel, code: str) -> str:
    return printed(await kernel.run(code)).strip()


@pytest.mark.parametrize("new", ["two.ipynb", "My book's.ipynb", "sub/one.ipynb"])
async def test_a_renamed_notebook_sleeps_and_wakes_under_its_new_name(
    server: SleepingServer, new: str
) -> None:
    kernel = await server.notebook("one.ipynb", "x = 41")
    await rename(server, "one.ipynb", new)
    await kernel.run("%sleep")
    await restart(server, kernel)
    await kernel.run("%wake")
    assert await said(kernel, "print(x + 1)") == "42"


async def test_what_slept_before_the_rename_wakes_after_it(server: SleepingServer) -> None:
    kernel = await server.notebook("one.ipynb", "x = 41")
    await kernel.run("%sleep")
    await rename(server, "one.ipynb", "two.ipynb")
    await restart(server, kernel)
    await kernel.run("%wake")
    assert await said(kernel, "print(x + 1)") == "42"


async def test_a_new_notebook_of_the_old_name_has_its_own_variables(
    server: SleepingServer,
) -> None:
    first = await server.notebook("a.ipynb", "x = 'of the first'")
    await first.run("%sleep")
    await rename(server, "a.ipynb", "b.ipynb")
    second = await server.notebook("a.ipynb")
    await second.run("%wake")
    assert await said(second, "print('x' in dir())") == "False", "nothing of the renamed one"
    await second.run("x = 'of the second'")
    await first.run("x = 'of the first, later'")
    await second.run("%sleep")
    await first.run("%sleep")
    for kernel, expected in ((first, "of the first, later"), (second, "of the second")):
        await restart(server, kernel)
        await kernel.run("%wake")
        assert await said(kernel, "print(x)") == expected


async def test_names_that_go_round_find_their_own(server: SleepingServer) -> None:
    one = await server.notebook("one.ipynb", "x = 1")
    two = await server.notebook("two.ipynb", "x = 2")
    await one.run("%sleep")
    await two.run("%sleep")
    for old, new in (("one", "third"), ("two", "one"), ("third", "two"), ("two", "last")):
        await rename(server, f"{old}.ipynb", f"{new}.ipynb")
    for kernel, expected in ((one, "1"), (two, "2")):
        await restart(server, kernel)
        await kernel.run("%wake")
        assert await said(kernel, "print(x)") == expected


async def test_a_stop_with_sleep_after_a_rename_wakes_the_renamed_one(
    server: SleepingServer,
) -> None:
    kernel = await server.notebook("a.ipynb", "x = 1")
    await kernel.run("%sleep")
    await rename(server, "a.ipynb", "b.ipynb")
    await kernel.run("x = 2")
    answer = await server.sleep()
    assert answer.session is not None
    assert [each.path for each in answer.session.kernels] == ["b.ipynb"]
    await server.end()
    await server.start()
    await server.woken()
    assert await server.value("b.ipynb", "x") == "2"
