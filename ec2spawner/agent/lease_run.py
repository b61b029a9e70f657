"""A lease on its instance: home, notebook, beats, and the end in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import aiohttp

from ..core.idle.policy import bounds, shortest_limit
from ..telemetry import Sampler
from ..wire import (
    SAVE_SECONDS,
    HeartbeatResponse,
    LeaseGrant,
    NotebookReply,
    NotebookRequest,
    Observation,
    Sentence,
    sentence,
)
from .hub.client import HubClient, HubError, PowerOffError
from .hub.heartbeat import Heartbeat
from .hub.step_reports import Reports
from .metadata.identity import Identity
from .metadata.imds import Metadata
from .metadata.interruption import InterruptionWatch
from .mounts.full_disks import full_disks
from .mounts.home import HomeError
from .mounts.mounts import Mounts
from .notebook_server.certificates import NotebookCertificates
from .notebook_server.local_socket import LocalSocket
from .notebook_server.process import NotebookError, NotebookProcess
from .notebook_server.watch import Watch
from .settings import Settings

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
"""How often idleness is assessed."""

PUSH_SECONDS = 2.0
"""How often the extension gets a new state when nothing but figures changed."""

TIDY_SECONDS = 10.0
"""How often orphans are buried, and disks are looked at."""

REPORT_SECONDS = 30.0
"""How long the last report may take: the hub waits for it before it detaches the home."""

GOODBYE_SECONDS = 3.0
"""The same when the machine is shutting down and waits for nobody."""


@dataclass(frozen=True, slots=True)
class End:
    """How a lease ended on this instance."""

    step: Literal["stopped", "failed"]
    message: str


class LeaseRun:
    """A lease from its grant to its end on this instance."""

    def __init__(
        self,
        settings: Settings,
        identity: Identity,
        grant: LeaseGrant,
        notebook: NotebookProcess,
        sampler: Sampler,
        hub: HubClient,
        http: aiohttp.ClientSession,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._grant = grant
        self._notebook = notebook
        self._hub = hub
        self._http = http
        self._mounts = Mounts(grant, settings, identity)
        self._certificates: NotebookCertificates | None = None
        self._reports = Reports(hub)
        loop = asyncio.get_running_loop()
        self._end: asyncio.Future[End] = loop.create_future()
        self._off: asyncio.Future[str] = loop.create_future()
        """Why nobody will terminate us but ourselves: the hub said 410, or is lost."""
        self._is_kept = False
        """The hub said so with the stop: powering off is not the end, nor is 410."""
        self._in_order = True
        """Nothing of the home is held any more."""
        self._observed = asyncio.Event()
        self._saved = asyncio.Event()
        """No open page has anything left to save."""
        self._watch = Watch(grant, identity.instance_type, sampler)
        self._heart = Heartbeat(hub, self._watch, self._learn)
        metadata = Metadata(settings.metadata_endpoint, http)
        self._interruption = InterruptionWatch(metadata, self._learn_of_interruption)
        self._socket = LocalSocket(
            settings.run_dir, settings.user, self._observe, self._request, self._saved.set
        )

    async def live(self) -> None:
        """From the grant to the last report. Returns where the instance is kept for its user.

        Raises `PowerOffError` when it is time for that.
        """
        try:
            await self._open_socket()
            async with self._in_background():
                end = await self._until_end()
                log.info("the end: %s", end.message or end.step)
                await self._until_saved()
                end = await self._let_go(end)
                await self._say_goodbye(end)
        except asyncio.CancelledError:
            await self._end_at_once(End("stopped", "The machine was shut down."))
            raise
        except PowerOffError:
            raise
        except Exception:
            log.exception("the lease failed")
            await self._end_at_once(End("failed", "The instance agent failed; its log says how."))
            raise
        finally:
            await self._socket.close()

    # --- the three acts ----------------------------------------------------------------------

    async def _until_end(self) -> End:
        """Start the notebook and wait until something ends the lease."""
        try:
            await self._unless_ended(self._start())
            await self._unless_ended(self._notebook.wait())
            self._finish(End("stopped", self._notebook.how_it_ended()))
        except (HomeError, NotebookError) as error:
            self._finish(End("failed", str(error)))
        return self._end.result()

    async def _unless_ended(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this, or stop doing it when the lease ends."""
        task: asyncio.Future[Any] = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._end}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _start(self) -> None:
        """Home, notebook, ready. Raises `HomeError` or `NotebookError`."""
        grant = self._grant
        self._reports.tell("home")
        try:
            await self._mounts.mount()
        finally:
            self._notebook.spare_daemons()
        self._reports.tell("notebook", " ".join(map(_sentence, self._mounts.missing)))
        began = time.monotonic()
        await self._write_certificates()
        scheme = "https" if self._certificates else "http"
        server = f"{scheme}://{self._identity.private_address}:{grant.port}{grant.base_url}"
        environment = grant.environment | {
            "JUPYTERHUB_SERVICE_URL": server,
            "EC2SPAWNER_AGENT_SOCKET": str(self._socket.path),
            **self._mounts.environment,
        }
        if self._certificates is not None:
            environment |= self._certificates.environment
        await self._notebook.start(grant.command, environment)
        await self._notebook.until_listening(f"{server}api", self._http, self._certificates)
        self._watch.begin()
        self._reports.tell(
            "ready", f"listening after {time.monotonic() - began:.1f} s", port=grant.port
        )

    async def _write_certificates(self) -> None:
        if self._grant.certificates is None:
            return
        try:
            self._certificates = await asyncio.to_thread(
                NotebookCertificates.write,
                self._grant.certificates,
                self._settings.run_dir,
                self._settings.user,
            )
        except OSError as error:
            what = "the notebook's certificates cannot be written"
            raise NotebookError(f"{what}: {error}") from error

    async def _until_saved(self) -> None:
        """After a stop, give open pages time to save their documents: `SAVE_SECONDS` at most.

        Bounded here, because the notebook process is its user's: it can shorten the wait, not
        extend it.
        """
        if self._watch.stop is None or not self._socket.has_speaker:
            return
        began = time.monotonic()
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._saved.wait()),
            asyncio.ensure_future(self._notebook.wait()),
        ]
        try:
            await asyncio.wait(
                {*waits, self._off}, timeout=SAVE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        how = "saved" if self._saved.is_set() else "not reported as saved"
        log.info("open documents are %s after %.1f s", how, time.monotonic() - began)

    async def _let_go(self, end: End) -> End:
        """End every process of the user, then write down and unmount the home."""
        await self._notebook.stop()
        if self._certificates is not None:
            await asyncio.to_thread(self._certificates.remove)
        try:
            await self._mounts.release()
        except HomeError as error:
            log.error("%s", error)
            self._in_order = False
            return End(end.step, f"{end.message} {error}".strip())
        await self._notebook.end_daemons()
        return end

    async def _say_goodbye(self, end: End) -> None:
        """Report the end; then the hub terminates us, or there is reason to power off.

        A kept instance does neither: it claims again, which says the same as the report.
        """
        self._reports.tell(end.step, end.message)
        await self._reports.until_reported(GOODBYE_SECONDS if self._off.done() else REPORT_SECONDS)
        if self._is_kept and self._in_order:
            return
        raise PowerOffError(await self._off)

    async def _end_at_once(self, end: End) -> None:
        """The machine goes down: end in order, as quickly as that can be done."""
        end = await self._let_go(end)
        with contextlib.suppress(HubError):
            await self._reports.report_now(end.step, end.message, GOODBYE_SECONDS)

    async def _open_socket(self) -> None:
        """The server works without it: idleness is derived from terminals, GPU and CPU."""
        try:
            await self._socket.start()
        except OSError as error:
            log.error("the notebook will not reach the agent: %s", error)

    # --- background tasks --------------------------------------------------------------------

    @asynccontextmanager
    async def _in_background(self) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(self._reports.run(), name="reports"),
            asyncio.create_task(self._heartbeat(), name="beat"),
            asyncio.create_task(self._tick(), name="tick"),
            asyncio.create_task(self._check_disks(), name="disks"),
            asyncio.create_task(self._interruption.run(), name="interruption"),
        ]
        for task in tasks:
            task.add_done_callback(_say_if_failed)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _heartbeat(self) -> None:
        try:
            await self._heart.run()
        except PowerOffError as error:
            self._finish_for_good(f"The hub has ended this lease: {error}")

    async def _tick(self) -> None:
        """Assess idleness, show it, notice a lost hub, and keep order."""
        pushed_at = tidied_at = 0.0
        while True:
            try:
                self._notebook.bound_log()
                if self._check() or time.monotonic() - pushed_at >= PUSH_SECONDS:
                    pushed_at = time.monotonic()
                    self._socket.push(self._watch.state())
                if time.monotonic() - tidied_at >= TIDY_SECONDS:
                    tidied_at = time.monotonic()
                    await asyncio.to_thread(self._notebook.tidy)
            except Exception:
                # One failed check must not leave the server unwatched for good.
                log.exception("a check of the lease failed; the next ones follow")
            # Whatever the notebook says, and however often: ten checks a second are enough.
            await asyncio.sleep(0.1)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._paced(TICK_SECONDS)):
                    await self._observed.wait()
            self._observed.clear()

    async def _check_disks(self) -> None:
        """A task of its own: a disk that does not answer holds up nothing else."""
        while True:
            full = await asyncio.to_thread(full_disks, self._settings, self._grant.home.kind)
            if full != self._watch.full_disks:
                codes = ", ".join(each.code for each in full)
                log.warning("Full disks: %s", codes or "none, all have room again")
                self._watch.full_disks = full
                self._socket.push(self._watch.state())
            await asyncio.sleep(TIDY_SECONDS)

    def _check(self) -> bool:
        """Assess idleness and the hub's silence; True when there is something new to show."""
        shown = self._watch.idleness
        if self._watch.assess():
            self._heart.news()
        if self._is_abandoned():
            self._finish_for_good("The hub has not answered for long and nothing works here.")
        return self._watch.idleness != shown

    def _paced(self, seconds: float) -> float:
        """Shorter under a policy of seconds, as demonstrations and tests have."""
        limit = shortest_limit(self._watch.policy)
        return min(seconds, limit / 20) if limit else seconds

    def _is_abandoned(self) -> bool:
        """No hub and no work, both for `hub_lost_after_seconds`: nobody will ever stop us.

        What works, or was asked to be kept, continues under its last policy, which may have an end.
        """
        limit = self._grant.hub_lost_after_seconds
        if self._heart.lost_seconds < limit:
            return False
        nothing_works = self._watch.idle_seconds() >= limit and not self._watch.is_kept()
        return nothing_works or self._watch.is_too_old() or self._end.done()

    def _finish(self, end: End) -> None:
        if not self._end.done():
            self._end.set_result(end)

    def _finish_for_good(self, why: str) -> None:
        if not self._off.done():
            self._off.set_result(why)
        self._finish(End("stopped", why))

    def _learn(self, answer: HeartbeatResponse) -> None:
        self._watch.learn(answer)
        self._socket.push(self._watch.state())
        if answer.stop is not None:
            self._is_kept = answer.stop.then != "terminate"
            self._finish(End("stopped", answer.stop.message or answer.stop.reason))

    async def _learn_of_interruption(self, at: datetime | None) -> None:
        """All open pages learn of it at once; what they then save is flushed."""
        if at != self._watch.interruption_at:
            self._watch.interruption_at = at
            self._socket.push(self._watch.state())
            self._heart.news()
        if at is not None:
            await self._mounts.flush()

    def _observe(self, observation: Observation) -> None:
        self._watch.observe(observation)
        self._observed.set()

    async def _request(self, request: NotebookRequest) -> NotebookReply:
        """The user pressed a button; the hub decides."""
        try:
            if request.type == "stop":
                await self._hub.stop()
                granted = None
            elif request.type == "idle":
                granted = await self._choose_idle(request.seconds or 3600.0)
            else:
                granted = await self._extend(request.seconds or 3600.0)
        except HubError as error:
            detail = getattr(error, "message", "")
            why = sentence("refused", detail=detail) if detail else sentence("hub-silent")
            return NotebookReply(id=request.id, ok=False, sentence=why)
        return NotebookReply(id=request.id, ok=True, sentence=granted)

    async def _extend(self, seconds: float) -> Sentence | None:
        """None where it was granted as asked for."""
        answer = await self._hub.extend(seconds)
        self._watch.extended_until = answer.extended_until
        self._watch.assess()
        self._socket.push(self._watch.state())
        return sentence("extension-bounded") if answer.bounded else None

    async def _choose_idle(self, seconds: float) -> Sentence | None:
        """None where it was granted as asked for."""
        answer = await self._hub.choose_idle(seconds)
        self._watch.follow(answer.idle)
        self._socket.push(self._watch.state())
        if not answer.bounded:
            return None
        shortest, longest = bounds(answer.idle)
        return sentence(
            "idle-time-bounded",
            min_seconds=shortest,
            max_seconds=longest,
            seconds=answer.idle.server_seconds,
        )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _say_if_failed(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the task %s failed", task.get_name(), exc_info=error)
