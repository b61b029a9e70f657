"""What kernels are asked around a sleep: to save their variables, and to run cells again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_client.session import Session

from ec2spawner.notebook.sleep import restarting, saving
from ec2spawner.notebook.sleep.kernel_call import ALIVE_SECONDS, MIME
from ec2spawner.notebook.sleep.lineage import Lineage
from ec2spawner.notebook.sleep.restarting import BEGIN_SECONDS
from ec2spawner.notebook.sleep.running_kernels import RunningKernel
from ec2spawner.notebook.sleep.saving import BUSY_SECONDS, INTERRUPT_SECONDS, SessionSaving
from ec2spawner.sleep.restart import BY_WAKE, Cell
from ec2spawner.sleep.storage import manifest
from ec2spawner.sleep.storage.manifest import Entry, Manifest
from ec2spawner.wire import SavedKernel, SleepOrder, Trigger
from tests.virtual_time import in_virtual_time, virtual_loop

Request = dict[str, Any]


class Channel:
    """One socket of a kernel's client."""

    def __init__(self, send: Callable[[Request], None] = lambda _: None) -> None:
        self.send = send
        self.messages: asyncio.Queue[Request] = asyncio.Queue()

    async def get_msg(self, timeout: float | None = None) -> Request:
        try:
            async with asyncio.timeout(timeout):
                return await self.messages.get()
        except TimeoutError:
            raise Empty from None


class Kernel:
    """Jupyter's kernel manager of one kernel, and the client that it makes.

    Code that saves writes a generation with one variable.
    """

    def __init__(self, begins_after: float = 0.0, *, ends_in_save: bool = False) -> None:
        self._begins_after = begins_after
        self._ends_in_save = ends_in_save
        self.session = Session()
        self.shell_channel = Channel(self._run)
        self.control_channel = Channel(lambda each: self._publish("status", each))
        self.iopub_channel = Channel()
        self.asked_for: list[str] = []
        self.cells: list[Request] = []
        self.is_connected = False
        self.restart_callbacks: list[Callable[[], None]] = []

    def client(self) -> Kernel:
        return self

    def start_channels(self, *, stdin: bool, hb: bool) -> None:
        self.is_connected = True

    def stop_channels(self) -> None:
        self.is_connected = False

    def add_restart_callback(self, callback: Callable[[], None]) -> None:
        self.restart_callbacks.append(callback)

    def remove_restart_callback(self, callback: Callable[[], None]) -> None:
        self.restart_callbacks.remove(callback)

    async def is_alive(self) -> bool:
        return True

    def execute(self, code: str, **_: object) -> str:
        """Run code of ours, which no page sees."""
        request = self.session.msg("execute_request", {"code": code})
        folder = re.search(r"save\('([^']+)'", code)
        assert folder is not None
        if self._ends_in_save:
            loop = asyncio.get_running_loop()
            for callback in self.restart_callbacks:  # as Jupyter calls back that it runs again
                loop.call_later(ALIVE_SECONDS / 2, callback)
            return str(request["header"]["msg_id"])
        saved = Manifest((Entry("x", saved=True),))
        manifest.write(Path(folder[1]), saved)
        report = {"kind": "saved", **manifest.summary(saved)}
        self._publish("display_data", request, data={MIME: report})
        self._publish("status", request, execution_state="idle")
        self._reply(request, status="ok")
        return str(request["header"]["msg_id"])

    def _run(self, request: Request) -> None:
        self.asked_for.append(request["header"]["msg_type"])
        if self.asked_for[-1] == "execute_request":
            self.cells.append(request)
            loop = asyncio.get_running_loop()
            loop.call_later(self._begins_after, self._publish, "execute_input", request)
        else:
            self._publish("status", request, execution_state="busy")
        self._reply(request, status="ok", banner="a kernel")

    def _publish(self, kind: str, request: Request, **content: object) -> None:
        self.iopub_channel.messages.put_nowait(self.session.msg(kind, content, parent=request))

    def _reply(self, request: Request, **content: object) -> None:
        kind = request["header"]["msg_type"].replace("request", "reply")
        self.shell_channel.messages.put_nowait(self.session.msg(kind, content, parent=request))


# --- cells that run again ---

CELLS = [
    Cell("a.ipynb", "k1", "the-cell", "train()", ""),
    Cell("a.ipynb", "k1", "", "print(step)", ""),
]


@in_virtual_time
async def test_cells_run_again_as_if_a_page_had_sent_them() -> None:
    kernel = Kernel()
    recorded: list[tuple[str, Mapping[str, Any], str]] = []

    def asked(kernel_id: str, of: Any, header: Mapping[str, Any], cell_id: str) -> None:
        assert (of, kernel.cells) == (kernel, []), "before it runs, or its first output is missed"
        recorded.append((kernel_id, header, cell_id))

    await restarting.ask("k1", kernel, CELLS, asked)
    assert [each["content"]["code"] for each in kernel.cells] == ["train()", "print(step)"]
    assert [each["metadata"] for each in kernel.cells] == [
        {BY_WAKE: True, "cellId": "the-cell"},
        {BY_WAKE: True},
    ]
    # Without its id, no page could show what the second one prints.
    assert recorded == [("k1", kernel.cells[0]["header"], "the-cell")]
    assert not kernel.is_connected


@pytest.mark.parametrize(("begins_after", "seconds"), [(3.0, 3.0), (1000.0, BEGIN_SECONDS)])
@in_virtual_time
async def test_the_wake_continues_once_the_first_cell_runs(
    begins_after: float, seconds: float
) -> None:
    await restarting.ask("k1", Kernel(begins_after), CELLS, lambda *_: None)
    assert virtual_loop().time() == pytest.approx(seconds)


@pytest.mark.parametrize("has_page", [False, True])
@in_virtual_time
async def test_a_page_can_connect_to_a_kernel_that_runs_cells_again(has_page: bool) -> None:
    """Jupyter Server asks for a kernel's information once, and would wait for the cells."""
    kernel: Any = Kernel()
    if has_page:
        kernel._kernel_info_future = of_page = Future[Any]()
    await restarting.ask("k1", kernel, CELLS, lambda *_: None)
    expected = [] if has_page else ["kernel_info_request"]
    assert kernel.asked_for == [*expected, "execute_request", "execute_request"]
    if has_page:
        assert kernel._kernel_info_future is of_page
    else:
        assert kernel._kernel_info_future.result()["banner"] == "a kernel"


# --- variables of a kernel that runs a cell ---


class Busy:
    """A server whose kernel `k` runs a cell for so long, or until so many interrupts."""

    def __init__(
        self,
        home: Path,
        *,
        seconds: float = 1e9,
        interrupts: int = 1000,
        kernel: Kernel | None = None,
    ) -> None:
        self._home = home
        self._until = seconds
        self._interrupts = interrupts
        self.interrupted_at: list[float] = []
        self.kernel_manager = SimpleNamespace(
            get_kernel=lambda _: kernel or Kernel(),
            interrupt_kernel=self._interrupt,
            cwd_for_path=lambda _: str(home),
        )

    def _interrupt(self, kernel_id: str) -> None:
        self.interrupted_at.append(virtual_loop().time())

    def is_busy(self, kernel_id: str) -> bool:
        is_interrupted = len(self.interrupted_at) >= self._interrupts
        return kernel_id == "k" and not is_interrupted and virtual_loop().time() < self._until

    async def sleep(
        self, seconds: float, *, interrupt_busy: bool = True, trigger: Trigger = "user"
    ) -> SavedKernel:
        [saved] = await self.sleep_of(
            "k", seconds=seconds, interrupt_busy=interrupt_busy, trigger=trigger
        )
        return saved

    async def sleep_of(
        self,
        *kernel_ids: str,
        seconds: float,
        interrupt_busy: bool = True,
        trigger: Trigger = "user",
    ) -> Sequence[SavedKernel]:
        """What is saved of these kernels, each of a notebook of its own."""
        order = SleepOrder(
            id="s",
            trigger=trigger,
            until=datetime.now(UTC),
            interrupt_busy=interrupt_busy,
            max_bytes=1000,
        )
        kernels = [
            RunningKernel(x, "python3", True, f"s-{x}", f"{x}.ipynb", f"{x}.ipynb", "notebook")
            for x in kernel_ids
        ]
        server: Any = self
        session = await SessionSaving(
            server,
            self._home,
            order,
            self.is_busy,
            lambda kernel_id: f"cell-of-{kernel_id}",
            kernels,
            [],
            Lineage(),
            seconds,
        ).run()
        assert session is not None
        return session.kernels


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time a save by the loop of the test."""
    monkeypatch.setattr(saving, "time", SimpleNamespace(monotonic=lambda: virtual_loop().time()))


@pytest.mark.parametrize(("seconds", "is_saved"), [(BUSY_SECONDS - 1, True), (1e9, False)])
@in_virtual_time
async def test_a_cell_is_waited_for_a_moment_where_no_kernel_may_be_interrupted(
    tmp_path: Path, seconds: float, is_saved: bool
) -> None:
    server = Busy(tmp_path, seconds=seconds)
    saved = await server.sleep(8, interrupt_busy=False)
    assert (saved.variables, saved.code) == ((1, "") if is_saved else (0, "busy"))
    assert virtual_loop().time() == pytest.approx(min(seconds, BUSY_SECONDS), abs=0.5)
    assert server.interrupted_at == []
    assert saved.interrupted_cell == (None if is_saved else "cell-of-k"), "the stop ends it"


@in_virtual_time
async def test_a_cell_that_catches_an_interrupt_has_another_until_it_ends(tmp_path: Path) -> None:
    server = Busy(tmp_path, interrupts=3)
    saved = await server.sleep(41, interrupt_busy=True)
    assert (saved.variables, saved.code, saved.interrupted_cell) == (1, "", "cell-of-k")
    half = (41 - saving.COMMIT_SECONDS) / 2
    expected = [half + number * INTERRUPT_SECONDS for number in range(3)]
    assert server.interrupted_at == pytest.approx(expected, abs=0.5), "not before half of the time"


@in_virtual_time
async def test_a_cell_that_ignores_interrupts_is_reported_and_delays_no_other(
    tmp_path: Path,
) -> None:
    server = Busy(tmp_path)
    saved = await server.sleep_of("k", "idle", seconds=41, interrupt_busy=True)
    found = {each.path: (each.variables, each.code, each.interrupted_cell) for each in saved}
    assert found == {"k.ipynb": (0, "busy", "cell-of-k"), "idle.ipynb": (1, "", None)}
    assert len(server.interrupted_at) > 5
    assert virtual_loop().time() == pytest.approx(41 - saving.COMMIT_SECONDS, abs=0.5)


@pytest.mark.parametrize("interrupts", [1, 3])
@in_virtual_time
async def test_at_a_limit_a_cell_is_interrupted_at_once_and_its_variables_are_saved(
    tmp_path: Path, interrupts: int
) -> None:
    server = Busy(tmp_path, interrupts=interrupts)
    saved = await server.sleep(120, trigger="limit")
    assert (saved.variables, saved.code, saved.interrupted_cell) == (1, "", "cell-of-k")
    expected = [number * INTERRUPT_SECONDS for number in range(interrupts)]
    assert server.interrupted_at == pytest.approx(expected, abs=0.5)


@in_virtual_time
async def test_at_a_limit_only_a_cell_that_ignores_interrupts_for_ten_seconds_is_lost(
    tmp_path: Path,
) -> None:
    server = Busy(tmp_path)
    saved = await server.sleep_of("k", "idle", seconds=120, trigger="limit")
    found = {each.path: (each.variables, each.code) for each in saved}
    assert found == {"k.ipynb": (0, "busy"), "idle.ipynb": (1, "")}
    assert virtual_loop().time() == pytest.approx(10, abs=0.5)


@in_virtual_time
async def test_a_cell_that_ends_by_itself_is_not_interrupted(tmp_path: Path) -> None:
    server = Busy(tmp_path, seconds=15)
    saved = await server.sleep(41, interrupt_busy=True)
    assert (saved.variables, saved.code, server.interrupted_at) == (1, "", [])
    assert saved.interrupted_cell is None


@in_virtual_time
async def test_a_kernel_that_jupyter_has_started_again_meanwhile_has_died(tmp_path: Path) -> None:
    kernel = Kernel(ends_in_save=True)
    saved = await Busy(tmp_path, seconds=0, kernel=kernel).sleep(41, interrupt_busy=True)
    assert saved.code == "died"
    assert ALIVE_SECONDS / 2 <= virtual_loop().time() < ALIVE_SECONDS, "at once"
    assert kernel.restart_callbacks == []
