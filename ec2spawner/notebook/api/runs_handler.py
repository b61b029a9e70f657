"""`{base}ec2spawner/api/runs`: runs notebooks and scripts of the home on instances of their own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

from anyio.to_thread import run_sync
from pydantic import BaseModel, ConfigDict, Field
from tornado import web

from ...runs.errors import WrongRequest
from ...runs.parameters import named_values
from ...runs.submission import RunOptions, submission_of
from ...wire import NotebookReply, RunsRequest, RunSubmission, sentence
from ..agent_link import AgentGoneError
from ..service import NotebookService
from .extension_handler import ExtensionHandler

READ_SECONDS: Final = 10.0
"""For reading and packing the file."""


class RunBody(BaseModel):
    """`POST runs`."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    path: Annotated[str, Field(min_length=1, max_length=1000)]
    """As JupyterLab calls the file: relative to the server's root folder."""
    profile: Annotated[str, Field(min_length=1, max_length=100)]
    """Slug."""
    parameters: Annotated[dict[str, str], Field(max_length=100)] = {}
    """As typed; read by `runs.parameters.value_of`."""
    max_usd: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    deadline_seconds: Annotated[float, Field(gt=0, le=10 * 365 * 86400)] | None = None
    """From now."""
    notify: bool = False


class RunsHandler(ExtensionHandler):
    """`GET runs`: the owner's runs. `POST runs`: submit one. Only the owner may."""

    def initialize(  # type: ignore[override] # Tornado passes what it was registered with
        self, service: NotebookService, root: Path, home: Path
    ) -> None:
        """`root`: the folder that JupyterLab shows."""
        super().initialize(service)
        self._root, self._home = root, home

    @web.authenticated
    async def get(self) -> None:
        """Answer a `RunsAnswer`; 409 with the reason if the hub refuses."""
        await self._pass_on(RunsRequest())

    @web.authenticated
    async def post(self) -> None:
        """Answer a `RunsAnswer` with the run; 400 with the reason for a file that cannot be run,
        409 with the reason if the hub refuses."""
        self.owners_link()
        body = self.body(RunBody)
        try:
            async with asyncio.timeout(READ_SECONDS):
                submission = await run_sync(
                    _submission, body, self._root, self._home, abandon_on_cancel=True
                )
        except WrongRequest as error:
            self.refuse(400, sentence("run-invalid", detail=str(error)[:500]))
        except TimeoutError:
            slow = f"reading {body.path[:200]} took more than {READ_SECONDS:g} s"
            self.refuse(503, sentence("run-invalid", detail=slow))
        await self._pass_on(RunsRequest(action="submit", submission=submission))

    async def _pass_on(self, request: RunsRequest) -> None:
        link = self.owners_link()
        try:
            reply = await link.ask("runs", runs=request)
        except AgentGoneError as error:
            self.refuse(503, error.sentence)
        self._answer(reply)

    def _answer(self, reply: NotebookReply) -> None:
        if reply.runs is None:
            self.reply(False, reply.sentence, 409)
        else:
            self.say(reply.runs)


def _submission(body: RunBody, root: Path, home: Path) -> RunSubmission:
    """Raises `WrongRequest`."""
    parts = body.path.strip("/").split("/")
    if not body.path.isprintable() or any(part in ("", ".", "..") for part in parts):
        raise WrongRequest(f"{body.path!r} is no file below this server's root folder")
    seconds = body.deadline_seconds
    options = RunOptions(
        profile=body.profile,
        parameters=[named_values(body.parameters.items(), "parameter")],
        max_usd=body.max_usd,
        deadline=datetime.now(UTC) + timedelta(seconds=seconds) if seconds else None,
        notify=body.notify,
    )
    return submission_of(root.joinpath(*parts), home, options)
