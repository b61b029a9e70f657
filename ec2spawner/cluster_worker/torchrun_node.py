"""A node of torchrun on this instance: it has a process only while a script runs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from ..core.text.strict_json import WrongBody, parsed
from ..wire import CancelOrder, ClusterJoin, RunOrder, RunStatus
from .log_tail import LogTail
from .torchrun_process import TorchrunProcess, start

M = TypeVar("M", bound=BaseModel)

LEAVE_SECONDS: Final = 5.0
"""From SIGTERM to SIGKILL: the agent gives this worker 10 s."""

STOP_SECONDS: Final = 35.0
"""The same for a cancelled or drained run: torchrun gives a script 30 s to end."""


class TorchrunNode:
    """See `WorkerEngine`."""

    def __init__(self, join: ClusterJoin, host: str, python: str, tail: LogTail) -> None:
        self._join = join
        self._host = host
        self._python = python
        self._tail = tail
        self._run: TorchrunProcess | None = None
        self._starting = asyncio.Lock()
        self._is_drained = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def join(self) -> None:
        """Nothing to join before a run: that this Python has the notebook's torch is known."""
        self._tail.add(f"torch {self._join.engine_version} is ready to run scripts")

    async def wait(self) -> str:
        """A node without a run does not end by itself."""
        await asyncio.Event().wait()
        return ""

    async def drain(self, seconds: float) -> None:
        """End torchrun here, so that the other workers continue without this one, and refuse
        further runs. The script gets SIGTERM, and `seconds` or 30 s, whichever is less."""
        self._is_drained = True
        async with self._starting:
            run = self._run
        if run is not None:
            await run.end("drained", min(max(seconds - 1, 1.0), STOP_SECONDS))

    async def leave(self) -> None:
        """End the script and torchrun on this instance."""
        self._is_drained = True
        async with self._starting:
            run = self._run
        if run is not None:
            await run.end("drained", LEAVE_SECONDS)
            await run.remove()

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        """One run at a time."""
        return (
            web.get("/run", self._show),
            web.post("/run", self._start),
            web.post("/cancel", self._cancel),
        )

    async def _show(self, request: web.Request) -> web.Response:
        return _answer(self._run)

    async def _start(self, request: web.Request) -> web.Response:
        """400 for an order that cannot be read, 409 during another run and once drained. The same
        order again changes nothing."""
        order = _order(RunOrder, await request.read())
        async with self._starting:
            run = self._run
            if run is not None and run.status.run_id == order.run_id:
                return _answer(run)
            if self._is_drained:
                raise web.HTTPConflict(text="this instance is being reclaimed")
            if run is not None:
                if run.status.exit_code is None:
                    raise web.HTTPConflict(text="another run has not ended on this worker")
                await run.remove()
            self._run = await self._started(order)
        return _answer(self._run)

    async def _started(self, order: RunOrder) -> TorchrunProcess:
        try:
            return await start(self._python, order, self._join.address, self._host, self._tail)
        except OSError as error:
            raise web.HTTPInternalServerError(text=f"torchrun cannot be started: {error}") from None

    async def _cancel(self, request: web.Request) -> web.Response:
        """Begin to end a run; 400 for an order that cannot be read. Another run continues."""
        order = _order(CancelOrder, await request.read())
        run = self._run
        if run is not None and run.status.run_id == order.run_id and not run.status.stopped:
            self._begin(run.end("cancelled", STOP_SECONDS))
            await asyncio.sleep(0)  # so that the answer says that it was cancelled
        return _answer(run)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _answer(run: TorchrunProcess | None) -> web.Response:
    status = run.status if run is not None else RunStatus()
    return web.Response(text=status.model_dump_json(), content_type="application/json")


def _order(model: type[M], body: bytes) -> M:
    """Raises `HTTPBadRequest` with the fields that are wrong, without their values: variables may
    be secret."""
    try:
        parsed(body)
        return model.model_validate_json(body)
    except ValidationError as error:
        fields = sorted({".".join(map(str, each["loc"][:1])) or "body" for each in error.errors()})
        problem = ", ".join(fields)
    except WrongBody as error:
        problem = str(error)
    raise web.HTTPBadRequest(text=f"the order cannot be read: {problem}")
