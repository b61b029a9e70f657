"""Saves the variables of all kernels by an order of the agent, and writes the session's record.

Whatever a kernel does, the record is written before the order's time is over: a kernel that does
not report in time is concluded from its journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import ensure_async

from ...core.text.full_disk import is_full
from ...sleep.storage import folder as folders
from ...wire import SavedSession, SleepOrder
from . import session_record
from .committing import KernelSave, commit, last_complete
from .kernel_call import CodeError, KernelGoneError, call
from .lineage import Lineage
from .running_kernels import RunningKernel, kernel_key
from .session_record import SleepingKernel

log = logging.getLogger(__name__)

PARALLEL = 2
"""Kernels that save at the same time: one that pickles uses a core, one that writes the disk."""

COMMIT_SECONDS = 1.0
"""For concluding late kernels and writing the record: some small files."""

POLL_SECONDS = 0.1

INTERRUPT_SECONDS = 2.0
"""Between two interrupts of a kernel that catches them."""

IGNORED_SECONDS = 10.0
"""At a limit: how long a cell may ignore interrupts. Each second costs, and no other cell waits."""

BUSY_SECONDS = 5.0
"""Without an interrupt, the longest wait for a cell to finish: a kernel that is still busy when its
server is idle waits for input, and would cost minutes of an instance."""

NO_EXTENSION = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError"})

CODE = (
    "__import__('ec2spawner.sleep', fromlist=['save'])"
    ".save({folder!r}, seconds={seconds!r}, max_bytes={max_bytes!r}{more})"
)
"""An expression: it leaves no name in the user's namespace."""


@dataclass
class SessionSaving:
    """One order, from its arrival until the record is written."""

    server: ServerApp
    root: Path
    order: SleepOrder
    is_busy: Callable[[str], bool]
    """Whether the kernel of this id runs a cell."""
    running_cell: Callable[[str], str]
    """Id of the cell that the kernel of this id runs; empty where it is not known."""
    kernels: list[RunningKernel]
    kept: list[SleepingKernel]
    """What still sleeps of the session before, because it has not woken yet, or could not: it stays
    as it is."""
    lineage: Lineage
    end: float
    """When all has to be done, by the monotonic clock; a spot notice may bring it nearer."""
    saves: list[KernelSave] = field(init=False)

    def __post_init__(self) -> None:
        kernels = self.kernels[: session_record.MAX_KERNELS]
        self.saves = [KernelSave(each, kernel_key(self.server, each)) for each in kernels]
        self._began = time.monotonic()
        self._slots = asyncio.Semaphore(PARALLEL)

    @property
    def kernel_end(self) -> float:
        """Until when kernels may save."""
        return self.end - min(COMMIT_SECONDS, (self.end - self._began) / 5)

    async def run(self) -> SavedSession | None:
        """Save; None if there is no kernel. Raises `OSError` if the record cannot be written."""
        if not self.saves and not self.kept:
            return None
        idle_first = sorted(self.saves, key=lambda each: self.is_busy(each.kernel.kernel_id))
        running = {asyncio.create_task(self._save(each)) for each in idle_first}
        try:
            while running and time.monotonic() < self.kernel_end:
                _, running = await asyncio.wait(running, timeout=POLL_SECONDS)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        seconds = time.monotonic() - self._began
        return await asyncio.to_thread(
            commit, self.root, self.order, self.saves, self.kept, self.lineage, seconds
        )

    # --- one kernel ---

    async def _save(self, save: KernelSave) -> None:
        try:
            if not save.kernel.is_python:
                save.result = save.unsaved("not-python")
                return
            if not await self._is_free(save):
                save.result = save.unsaved("busy")
                return
            async with self._slots:
                await self._save_now(save)
        except KernelGoneError:
            save.why_not = "died"
        except CodeError as error:
            is_missing = str(error) in NO_EXTENSION
            save.why_not = "no-extension" if is_missing else "failed"
            log.warning("ec2spawner: kernel %s: %s", save.kernel.kernel_id, error)
        except Exception as error:
            log.exception("ec2spawner: kernel %s was not saved", save.kernel.kernel_id)
            save.why_not = "no-space" if is_full(error) else "failed"

    async def _is_free(self, save: KernelSave) -> bool:
        """Wait for a running cell. At half of the time it is interrupted, if the order says so, and
        at once at a limit, which waits `IGNORED_SECONDS` for it; otherwise the wait ends after
        `BUSY_SECONDS`.

        The other half is for saving: how long that takes is not known before it is done.
        """
        kernel_id = save.kernel.kernel_id
        is_limit = self.order.trigger == "limit"
        interrupt_at = self._began if is_limit else self._half()
        interrupted_at = -INTERRUPT_SECONDS
        is_interrupted = False
        while self.is_busy(kernel_id):
            if not is_interrupted:
                save.interrupted_cell = self.running_cell(kernel_id)
            await asyncio.sleep(POLL_SECONDS)
            now = time.monotonic()
            if not self.order.interrupt_busy and now >= self._began + BUSY_SECONDS:
                return False
            if is_limit and now >= self._began + IGNORED_SECONDS:
                return False
            is_due = now >= interrupt_at and now >= interrupted_at + INTERRUPT_SECONDS
            if self.order.interrupt_busy and is_due:
                log.warning("ec2spawner: interrupting kernel %s to save it", kernel_id)
                interrupted_at, is_interrupted = now, True
                manager: Any = self.server.kernel_manager
                await ensure_async(manager.interrupt_kernel(kernel_id))
        if not is_interrupted:
            save.interrupted_cell = None
        return True

    def _half(self) -> float:
        return self._began + (self.kernel_end - self._began) / 2

    async def _save_now(self, save: KernelSave) -> None:
        try:
            kernel = self.server.kernel_manager.get_kernel(save.kernel.kernel_id)
        except KeyError:
            raise KernelGoneError from None
        folder = self.root / folders.KERNELS / save.key
        asleep = await asyncio.to_thread(self._known, save, folder)
        save.generation = await asyncio.to_thread(folders.new_generation, folder)
        save.has_begun, save.why_not = True, "timed-out"
        save.max_bytes = self._share_of_bytes(save)
        seconds = self._share_of_seconds()
        more = f", asleep={str(asleep)!r}" if asleep is not None else ""
        code = CODE.format(
            folder=str(save.generation), seconds=seconds, max_bytes=save.max_bytes, more=more
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + COMMIT_SECONDS):
                await call(kernel, code, save.hear)

    def _known(self, save: KernelSave, folder: Path) -> Path | None:
        """Let the kernel find what it was woken from, in this folder of its notebook's new name;
        that generation, if it was not restored. Blocks."""
        last = save.last = last_complete(self.root, save, self.lineage)
        if last is not None and last.parent != folder:
            try:
                folders.link_into(last, folder)
            except OSError as error:
                log.warning("ec2spawner: %s was renamed: %s", save.kernel.path, error)
        return last if save.kernel.kernel_id in self.lineage.unrestored else None

    def _share_of_seconds(self) -> float:
        """An equal share of what is left; what a kernel does not use, the next ones have."""
        waiting = sum(not each.has_begun and each.result is None for each in self.saves)
        turns = 1 + -(-waiting // PARALLEL)
        return max((self.kernel_end - time.monotonic()) / turns, 0.1)

    def _share_of_bytes(self, save: KernelSave) -> int:
        others = [each for each in self.saves if each is not save]
        taken = sum(
            each.size_bytes if each.result else each.max_bytes for each in others if each.has_begun
        )
        waiting = sum(not each.has_begun and each.result is None for each in others)
        return max(self.order.max_bytes - taken, 0) // (waiting + 1)
