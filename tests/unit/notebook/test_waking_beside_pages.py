"""Waking the kernel of a notebook while its page, or the kernel itself, does something else."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import types
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from jupyter_client.kernelspec import NoSuchKernel
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from jupyter_server.services.sessions.sessionmanager import SessionManager

from ec2spawner.notebook.sleep import restarting, waking
from ec2spawner.notebook.sleep.kernel_call import KernelGoneError
from ec2spawner.notebook.sleep.session_locks import session_locks
from ec2spawner.notebook.sleep.session_record import SessionRecord, SleepingKernel
from ec2spawner.notebook.sleep.waking import Waking
from ec2spawner.sleep import restart
from ec2spawner.sleep.storage import manifest
from ec2spawner.sleep.storage.manifest import Entry, Manifest
from ec2spawner.sleep.waking import crashes
from ec2spawner.wire import SavedKernel, SavedSession

NOTEBOOK, SESSION, KERNEL = "a.ipynb", str(uuid4()), str(uuid4())
OTHER = "00000000-0000-4000-8000-00000000000f"
GENERATION, OTHER_GENERATION = (f"{key}-0/20260101000000000-00000000" for key in "ab")


class Process:
    """Jupyter's kernel manager of one kernel."""

    def __init__(self, kernel_name: str) -> None:
        self.kernel_name = kernel_name
        self.is_up = True
        self._died: list[Callable[[], None]] = []

    def add_restart_callback(self, callback: Callable[[], None]) -> None:
        self._died.append(callback)

    async def is_alive(self) -> bool:
        return self.is_up

    def restart(self) -> None:
        """As Jupyter does it: it calls back, then starts the process."""
        for each in self._died:
            each()
        self.is_up = True


class Kernels(AsyncMappingKernelManager):
    """Their processes start when `may_start` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_start = asyncio.Event(), asyncio.Event()
        self.processes: dict[str, Process] = {}

    async def start_kernel(  # type: ignore[override]
        self, *, kernel_name: str, kernel_id: str | None = None, **_: object
    ) -> str:
        self.is_asked.set()
        await self.may_start.wait()
        kernel_id = kernel_id or str(uuid4())
        self.processes[kernel_id] = Process(kernel_name)
        return kernel_id

    def __contains__(self, kernel_id: str) -> bool:
        return kernel_id in self.processes

    def kernel_model(self, kernel_id: str) -> dict[str, str]:
        return {"id": kernel_id, "name": self.processes[kernel_id].kernel_name}

    def get_kernel(self, kernel_id: str) -> Any:
        return self.processes[kernel_id]

    def cwd_for_path(self, path: str, **_: object) -> str:
        return str(Path.home())


class Server:
    """What waking uses of a `ServerApp`."""

    def __init__(self, home: Path) -> None:
        self.kernel_manager = Kernels()
        self.contents_manager = AsyncFileContentsManager(root_dir=str(home))
        self.session_manager: Any = SessionManager(
            kernel_manager=self.kernel_manager, contents_manager=self.contents_manager
        )
        spec = types.SimpleNamespace(language="python")
        self.kernel_spec_manager = types.SimpleNamespace(get_kernel_spec=lambda name: spec)

    async def post_session(self, kernel_name: str = "python3") -> Any:
        """As Jupyter Server's handler of `POST api/sessions` does it."""
        sessions = self.session_manager
        if await sessions.session_exists(path=NOTEBOOK):
            return await sessions.get_session(path=NOTEBOOK)
        return await sessions.create_session(
            path=NOTEBOOK, kernel_name=kernel_name, kernel_id=None, name=NOTEBOOK, type="notebook"
        )


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "kernels" / GENERATION
    folder.mkdir(parents=True)
    manifest.write(folder, Manifest((Entry("x", saved=True),)))
    (tmp_path / NOTEBOOK).touch()
    server = Server(tmp_path)
    yield server
    server.session_manager.close()


def sleeping(tmp_path: Path, server: Server, **about: str) -> Waking:
    saved = SavedKernel(path=NOTEBOOK, kernel_name="python3", variables=1, size_bytes=1)
    given = {"kernel_id": KERNEL, "session_id": SESSION, "path": NOTEBOOK, "name": NOTEBOOK}
    return waking_of(tmp_path, server, SleepingKernel(saved=saved, **(given | about)))


def waking_of(tmp_path: Path, server: Server, *kernels: SleepingKernel) -> Waking:
    saved = [each.saved for each in kernels]
    session = SavedSession(
        id="s", slept_at=datetime.now(UTC), trigger="idle", seconds=1, size_bytes=1, kernels=saved
    )
    record = SessionRecord(session=session, kernels=list(kernels))
    return Waking(server, tmp_path, record, lambda *_: None, lambda: None)  # type: ignore[arg-type]


@pytest.mark.parametrize("who", ["page", "wake"])
async def test_a_notebook_has_one_session_whoever_is_first(
    tmp_path: Path, server: Server, who: str
) -> None:
    woken = sleeping(tmp_path, server)
    begin = [server.post_session, woken.run]
    first, second = begin if who == "page" else reversed(begin)
    async with asyncio.timeout(20), asyncio.TaskGroup() as both:
        both.create_task(first())
        await server.kernel_manager.is_asked.wait()
        both.create_task(second())
        await asyncio.sleep(0.1)  # the second one asks too, unless it waits
        server.kernel_manager.may_start.set()
    [session] = await server.session_manager.list_sessions()
    [kernel_id] = server.kernel_manager.processes
    assert session["kernel"]["id"] == kernel_id
    assert [each.kernel_id for each in woken.kernels] == [kernel_id]
    assert (kernel_id == KERNEL) == (who == "wake"), "the old id, unless a page was faster"
    assert woken.state.kernels[0].state == "done"


async def test_the_locks_of_a_session_manager_are_made_once(server: Server) -> None:
    sessions = server.session_manager
    assert session_locks(sessions) is session_locks(sessions)
    server.kernel_manager.may_start.set()
    first, second = await asyncio.gather(server.post_session(), server.post_session())
    assert first["id"] == second["id"]


async def test_a_kernel_of_another_spec_is_the_users(tmp_path: Path, server: Server) -> None:
    server.kernel_manager.may_start.set()
    await server.post_session("another")
    woken = sleeping(tmp_path, server, generation=GENERATION)
    await woken.run()
    [state] = woken.state.kernels
    assert (state.state, state.code) == ("failed", "kernel-failed")
    assert [each.kernel_id for each in woken.failed()] == [KERNEL], "the next sleep keeps its files"
    assert len(server.kernel_manager.processes) == 1


async def test_a_second_kernel_of_a_notebook_is_not_restored_into_the_first(
    tmp_path: Path, server: Server
) -> None:
    server.kernel_manager.may_start.set()
    [first] = sleeping(tmp_path, server, generation="").kernels
    second = first.model_copy(update={"kernel_id": OTHER, "session_id": OTHER})
    woken = waking_of(tmp_path, server, first, second)
    await woken.run()
    assert sorted(each.state for each in woken.state.kernels) == ["done", "failed"]
    assert len(server.kernel_manager.processes) == 1


# --- what the kernel does meanwhile ---


async def restored(kernel: object, code: str, hear: Callable[[Any], None]) -> None:
    hear({"kind": "restored", "restored": ["x"]})


@pytest.mark.parametrize("code", ["notebook-gone", "kernel-spec-gone", "damaged"])
async def test_what_is_gone_is_reported_and_the_rest_wakes(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def spec(name: str) -> object:
        if name == "gone":
            raise NoSuchKernel(name)
        return types.SimpleNamespace(language="python")

    monkeypatch.setattr(server.kernel_spec_manager, "get_kernel_spec", spec)
    monkeypatch.setattr(waking, "call", restored)
    server.kernel_manager.may_start.set()
    [gone] = sleeping(tmp_path, server, generation=GENERATION).kernels
    folder = tmp_path / "kernels" / GENERATION
    shutil.copytree(folder, tmp_path / "kernels" / OTHER_GENERATION)
    other = {"kernel_id": OTHER, "session_id": OTHER, "path": "b.ipynb", "name": "b.ipynb"}
    good = gone.model_copy(update=other | {"generation": OTHER_GENERATION})
    (tmp_path / "b.ipynb").touch()
    match code:
        case "notebook-gone":
            (tmp_path / NOTEBOOK).unlink()
        case "kernel-spec-gone":
            saved = gone.saved.model_copy(update={"kernel_name": "gone"})
            gone = gone.model_copy(update={"saved": saved})
        case _:
            (folder / "manifest.json").write_text("{")
    woken = waking_of(tmp_path, server, gone, good)
    await woken.run()
    found = [(each.state, each.code) for each in woken.state.kernels]
    assert found == [("failed", code), ("done", "")]
    assert [each.kernel_id for each in woken.failed()] == [KERNEL], "the next sleep keeps its files"


async def test_what_the_user_saved_since_is_restored(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `%sleep`, before the process was killed, perhaps during another one."""
    codes = []

    async def call(kernel: object, code: str, hear: Callable[[Any], None]) -> None:
        codes.append(code)
        await restored(kernel, code, hear)

    monkeypatch.setattr(waking, "call", call)
    server.kernel_manager.may_start.set()
    folder = tmp_path / "kernels" / GENERATION
    since, incomplete = (
        folder.with_name(folder.name.replace("20260101", day)) for day in ("20260102", "20260103")
    )
    shutil.copytree(folder, since)
    incomplete.mkdir()
    woken = sleeping(tmp_path, server, generation=GENERATION)
    await woken.run()
    assert codes == [waking.CODE.format(folder=str(since), eager=waking.EAGER_BYTES)]
    assert woken.state.kernels[0].state == "done"


async def test_a_cell_runs_again_in_the_kernel_that_a_page_has_started(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def ask(kernel_id: str, kernel: Any, cells: Any, *_: object) -> None:
        asked.append((kernel_id, [each.code for each in cells]))

    monkeypatch.setattr(waking, "call", restored)
    monkeypatch.setattr(restarting, "ask", ask)
    restart.remember("loop", restart.Cell(NOTEBOOK, KERNEL, "c1", "train()", ""))
    server.kernel_manager.may_start.set()
    session = await server.post_session()
    await sleeping(tmp_path, server, generation=GENERATION).run()
    assert session["kernel"]["id"] != KERNEL
    assert asked == [(session["kernel"]["id"], ["train()"])]


def crashing(
    server: Server, marked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[str]:
    """Each restore ends its kernel while it imports the next of these modules; what was called."""
    calls: list[str] = []
    marker = tmp_path / "kernels" / GENERATION / crashes.MARKER

    async def call(kernel: Process, code: str, hear: Callable[[Any], None]) -> None:
        calls.append(code)
        marker.unlink(missing_ok=True)  # the one before is known
        if not marked:
            await restored(kernel, code, hear)
            return
        name = marked.pop(0)
        if name:
            marker.write_text(f"{name}\n")
        kernel.is_up = False
        if name == "seen late":
            kernel.restart()
        else:
            asyncio.get_running_loop().call_later(0.05, kernel.restart)
        raise KernelGoneError

    monkeypatch.setattr(waking, "call", call)
    server.kernel_manager.may_start.set()
    return calls


@pytest.mark.parametrize("marked", [["one"], ["one", "two", "three"], ["seen late"]])
async def test_a_kernel_that_something_has_ended_is_restored_without_that(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, marked: list[str]
) -> None:
    calls = crashing(server, list(marked), monkeypatch, tmp_path)
    woken = sleeping(tmp_path, server, generation=GENERATION)
    async with asyncio.timeout(20):
        await woken.run()
    assert woken.state.kernels[0].state == "done"
    assert len(calls) == len(marked) + 1
    assert woken.empty() == [], "the next sleep keeps nothing for it"
    server.kernel_manager.processes[KERNEL].restart()
    assert [each.kernel_id for each in woken.empty()] == [KERNEL], "what dies later is noticed"


@pytest.mark.parametrize(("marked", "times"), [(["a", "b", "c", "d", "e"], 4), ([""], 1)])
async def test_a_kernel_that_ends_again_and_again_is_given_up(
    tmp_path: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    marked: list[str],
    times: int,
) -> None:
    calls = crashing(server, marked, monkeypatch, tmp_path)
    woken = sleeping(tmp_path, server, generation=GENERATION)
    async with asyncio.timeout(20):
        await woken.run()
    [state] = woken.state.kernels
    assert (state.state, state.code) == ("failed", "died")
    assert len(calls) == times


async def test_a_kernel_that_jupyter_does_not_start_again_is_given_up(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "RESTART_SECONDS", 0.2)
    monkeypatch.setattr(Process, "restart", lambda self: None)
    crashing(server, ["one"], monkeypatch, tmp_path)
    woken = sleeping(tmp_path, server, generation=GENERATION)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(20):
            await woken.run()
    assert woken.state.kernels[0].code == "died"
