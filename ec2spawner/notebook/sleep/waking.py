"""Starts the kernels of a session that slept, under their old ids, and restores their variables.

A page that is still open finds its kernel by the id, and one that opens by the notebook's path.
Cells that are to run again do so afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import NoSuchKernel
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import ensure_async

from ...sleep.storage import folder as folders
from ...sleep.storage import manifest as manifests
from ...sleep.storage.earlier import newest
from ...sleep.waking import crashes
from ...wire import Wake, WokenKernel
from ...wire.sleep import MAX_KERNELS
from . import restarting
from .kernel_call import CodeError, KernelGoneError, call
from .reports import restoring_kernel, waiting_kernel, woken_kernel
from .running_kernels import is_python, session_file
from .saving import NO_EXTENSION
from .session_locks import session_locks
from .session_record import SessionRecord, SleepingKernel

log = logging.getLogger(__name__)

PARALLEL = 2

START_SECONDS = 60.0
"""For a kernel's process to be started; a cold disk takes most of it."""

RESTORE_SECONDS = 600.0
"""For the variables that are loaded at once; 50 GiB at 125 MiB/s take 400 s."""

MAX_RETRIES = 3
"""In a kernel that has ended while it restored something, and was started again by Jupyter. The
first retry tries everything in a child, so that another one is needed only where that differs."""

RESTART_SECONDS = 60.0
"""Jupyter looks every three seconds whether a kernel has ended; a cold disk takes the rest."""

POLL_SECONDS = 0.1

EAGER_BYTES = 256 * 2**20
"""So much is loaded before the first cell runs, the smallest variables first: two seconds at the
default throughput of a gp3 volume. The rest is loaded when a cell names it, or the kernel is
idle."""

CODE = (
    "__import__('ec2spawner.sleep', fromlist=['restore']).restore({folder!r}, eager_bytes={eager})"
)


class OtherKernelError(Exception):
    """The notebook has a kernel of another kernel spec, or another one that slept: its spec."""


class Waking:
    """The waking of one session."""

    def __init__(
        self,
        server: ServerApp,
        root: Path,
        record: SessionRecord,
        asked: restarting.Asked,
        changed: Callable[[], None],
    ) -> None:
        """`asked` hears of cells that run again; `changed` is called whenever `state` has."""
        self._server = server
        self._root = root
        self._record = record
        self._asked = asked
        self._changed = changed
        self._slots = asyncio.Semaphore(PARALLEL)
        self._locks = session_locks(server.session_manager)
        self._slept_as = [each.kernel_id for each in record.kernels]
        """The ids that they had when they slept: cells to run again are stored under these."""
        self._woken = [waiting_kernel(each.saved) for each in record.kernels]
        self._is_done = False
        self._died: set[str] = set()
        """Ids of kernels whose processes have ended since, and were started again by Jupyter: not
        by their user, who would have meant to be without variables."""

    @property
    def state(self) -> Wake:
        """For the browser."""
        return Wake(
            id=self._record.session.id,
            slept_at=self._record.session.slept_at,
            trigger=self._record.session.trigger,
            again=self._record.woken_at is not None,
            state="done" if self._is_done else "waking",
            kernels=self._woken[:MAX_KERNELS],
            kernel_count=len(self._woken),
        )

    def asleep(self) -> list[SleepingKernel]:
        """What has not woken yet: another sleep leaves its files as they are."""
        pairs = zip(self._record.kernels, self._woken, strict=True)
        return [each for each, woken in pairs if woken.state not in ("done", "failed")]

    def failed(self) -> list[SleepingKernel]:
        """What could not be woken: another sleep keeps its files."""
        pairs = zip(self._record.kernels, self._woken, strict=True)
        return [each for each, woken in pairs if woken.state == "failed"]

    def empty(self) -> list[SleepingKernel]:
        """What could not be woken, and what a kernel had that has died since."""
        died = [each for each in self._record.kernels if each.kernel_id in self._died]
        return [*self.failed(), *died]

    @property
    def kernels(self) -> list[SleepingKernel]:
        """As they were saved, under the ids that they have here."""
        return list(self._record.kernels)

    async def run(self) -> None:
        """Start all kernels, so that pages find them, and restore the variables of each as soon as
        there is none left to start: two at a time, whatever they do."""
        await asyncio.gather(*map(self._wake, range(len(self._record.kernels))))
        self._is_done = True
        self._changed()

    async def _wake(self, place: int) -> None:
        if await self._start(place):
            await self._continue(place)  # behind all that wait for a slot to be started

    async def _start(self, place: int) -> bool:
        each = self._record.kernels[place]
        code = await self._problem(each)
        if not code:
            self._set(place, state="starting")
            async with self._slots:
                try:
                    async with asyncio.timeout(START_SECONDS):
                        await self._start_kernel(each)
                except TimeoutError:
                    code = "timed-out"
                except OtherKernelError as other:
                    log.warning("ec2spawner: %s has the kernel %s now", each.path, other)
                    code = "kernel-failed"
                except Exception:
                    log.exception("ec2spawner: the kernel of %s was not started", each.path)
                    code = "kernel-failed"
        if code:
            self._set(place, state="failed", code=code)
        return not code

    async def _problem(self, each: SleepingKernel) -> str:
        """Why it cannot be started; empty if it can."""
        try:
            specs: Any = self._server.kernel_spec_manager
            specs.get_kernel_spec(each.saved.kernel_name)
        except NoSuchKernel:
            return "kernel-spec-gone"
        except Exception:  # of a provider of its own
            log.exception("ec2spawner: the kernel spec %s cannot be read", each.saved.kernel_name)
            return "kernel-spec-gone"
        if each.type != "notebook" or not each.path:
            return ""
        contents = self._server.contents_manager
        return "" if await ensure_async(contents.file_exists(each.path)) else "notebook-gone"

    async def _start_kernel(self, each: SleepingKernel) -> None:
        manager, sessions = self._server.kernel_manager, self._server.session_manager
        if each.kernel_id in manager:
            return
        kernel_id = _identifier(each.kernel_id)
        if not each.session_id:
            await manager.start_kernel(kernel_name=each.saved.kernel_name, kernel_id=kernel_id)
            return
        of_path = {"path": each.path, "name": each.name, "type": each.type}
        async with self._locks.of(each.path):
            if await ensure_async(sessions.session_exists(path=each.path)):
                # A page was faster: its kernel is the one to restore into.
                kernel = (await sessions.get_session(path=each.path))["kernel"]
                others = {k.kernel_id for k in self._record.kernels if k is not each}
                if kernel["name"] != each.saved.kernel_name or kernel["id"] in others:
                    raise OtherKernelError(kernel["name"])
                self._use(each, kernel["id"])
                return
            session_id = _identifier(each.session_id)
            await sessions.start_kernel_for_session(
                session_id=session_id,
                kernel_name=each.saved.kernel_name,
                kernel_id=kernel_id,
                **of_path,
            )
            await sessions.save_session(session_id, kernel_id=kernel_id, **of_path)

    def _use(self, each: SleepingKernel, kernel_id: str) -> None:
        kernels = [
            k.model_copy(update={"kernel_id": kernel_id}) if k is each else k
            for k in self._record.kernels
        ]
        self._record = self._record.model_copy(update={"kernels": kernels})

    async def _continue(self, place: int) -> None:
        is_restored = await self._restore(place)
        each = self._record.kernels[place]
        if each.type != "notebook" or not each.path:
            return
        try:
            notebook = session_file(self._server, each.path, each.name)
            cells = await restarting.take(notebook, self._slept_as[place])
            if not cells:
                return
            if not is_restored:
                log.warning("ec2spawner: %s is not run again: nothing was restored", each.path)
                return
            log.info("ec2spawner: %d cells of %s run again", len(cells), each.path)
            kernel = self._server.kernel_manager.get_kernel(each.kernel_id)
            self._set(place, interrupted_cell=None)
            await restarting.ask(each.kernel_id, kernel, cells, self._asked)
        except Exception:
            log.exception("ec2spawner: %s is not run again", each.path)

    async def _restore(self, place: int) -> bool:
        """Whether its variables are back."""
        each = self._record.kernels[place]
        if not each.generation or not is_python(self._server, each.saved.kernel_name):
            self._set(place, state="done")
            return False
        folder = await asyncio.to_thread(
            newest,
            self._root / folders.KERNELS / each.generation,
            self._record.generations(self._root),
        )
        code = CODE.format(folder=str(folder), eager=EAGER_BYTES)
        why = ""
        async with self._slots:
            self._set(place, state="restoring")
            try:
                names = await asyncio.to_thread(_names, folder)
                async with asyncio.timeout(RESTORE_SECONDS):
                    await self._call(
                        each, folder, code, lambda report: self._hear(place, report, names)
                    )
            except manifests.Unreadable as error:
                log.warning("ec2spawner: waking %s: %s", each.path, error)
                why = "damaged"
            except TimeoutError:
                why = "timed-out"
            except (KernelGoneError, KeyError):
                why = "died"
            except CodeError as error:
                log.warning("ec2spawner: waking %s: %s", each.path, error)
                why = "no-extension" if str(error) in NO_EXTENSION else "damaged"
            except Exception:
                log.exception("ec2spawner: waking %s failed", each.path)
                why = "damaged"
        if self._woken[place].state != "done":
            self._set(place, state="failed", code=why or "damaged")
        return self._woken[place].state == "done" and not why

    async def _call(
        self,
        each: SleepingKernel,
        folder: Path,
        code: str,
        hear: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """Run the code, again if its kernel ended while it imported or loaded something: it is
        known then what that was. Raises as `call`, and `KeyError`."""
        kernel = self._server.kernel_manager.get_kernel(each.kernel_id)
        has_died = asyncio.Event()

        def died() -> None:
            self._died.add(each.kernel_id)
            has_died.set()

        kernel.add_restart_callback(died)
        for retries_left in reversed(range(MAX_RETRIES + 1)):
            has_died.clear()
            try:
                await call(kernel, code, hear)
            except KernelGoneError:
                what = await asyncio.to_thread(crashes.interrupted, folder)
                if not what or not retries_left:
                    raise
                log.warning("ec2spawner: the kernel of %s ended: restoring %s", each.path, what)
                await _until_restarted(kernel, has_died)
            else:
                self._died.discard(each.kernel_id)
                return

    def _hear(self, place: int, report: Mapping[str, Any], names: Set[str]) -> None:
        saved = self._record.kernels[place].saved
        if report.get("kind") == "restored":
            self._woken[place] = woken_kernel(saved, report, names)
            self._changed()
        elif report.get("kind") == "progress":
            self._woken[place] = restoring_kernel(self._woken[place], report)
            self._changed()

    def _set(self, place: int, **changes: Any) -> None:
        known = self._woken[place].model_dump() | changes
        self._woken[place] = WokenKernel.model_validate(known)
        self._changed()


async def _until_restarted(kernel: Any, has_died: asyncio.Event) -> None:
    """Raises `KernelGoneError` where Jupyter does not start it again."""
    try:
        async with asyncio.timeout(RESTART_SECONDS):
            await has_died.wait()
            while not await kernel.is_alive():
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise KernelGoneError from None


def _names(folder: Path) -> set[str]:
    """Of the variables of a generation. Raises `manifest.Unreadable`."""
    return {each.name for each in manifests.read(folder).saved}


def _identifier(text: str) -> str:
    """The id in the form of Jupyter's own, or a new one: it becomes part of file names."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return str(uuid.uuid4())
