"""Background tasks of one provisioner: referenced until they are done, cancelled with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from ..model.cloud.cloud import CloudError
from ..store.store import StoreError

log = logging.getLogger(__name__)

T = TypeVar("T")


class TaskGroup:
    """The tasks in progress."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run in the background; a failure is logged, and the next pass retries what is missing."""

        async def guarded() -> None:
            try:
                await work
            except (CloudError, StoreError) as error:
                log.error("%s: %s", name, error)
            except Exception:
                log.exception("%s failed", name)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            work.close()  # where the task was cancelled before it began

        task = asyncio.create_task(guarded(), name=f"ec2spawner {name}")
        self._tasks.add(task)
        task.add_done_callback(done)

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run in the background for whoever awaits the task, which is referenced until it is
        done."""
        task = asyncio.create_task(work, name=f"ec2spawner {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finish(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Do the work to its end, also where the caller is cancelled. Raises what it raises; a
        failure after that is logged."""

        def log_failure(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("%s: %s", name, error)

        task = self.start(work, name)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(log_failure)
            raise

    def names(self) -> set[str]:
        """Names of the tasks in progress."""
        return {task.get_name() for task in self._tasks}

    async def end(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
