"""Runs one lease on its instance: mounts, notebook, heartbeats, and the orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import aiohttp

from ..core.idle.policy import shortest_limit
from ..telemetry import Sampler
from ..wire import (
    SHUT_DOWN,
    AgentEvent,
    HeartbeatResponse,
    LeaseGrant,
    Observation,
    ScheduledEvent,
    StepResult,
)
from .hub.client import GoneError, HubClient, HubError, PowerOffError
from .hub.heartbeat import Heartbeat
from .hub.step_reports import StepReports
from .lease_status import LeaseStatus
from .metadata.identity import Identity
from .metadata.imds import Metadata
from .metadata.interruption import InterruptionWatch
from .metadata.scheduled_events import ScheduledEventWatch
from .mounts.dirty_pages import dirty_bytes
from .mounts.disk_watch import DiskWatch, start_notes
from .mounts.home import HomeError
from .mounts.mounts import Mounts
from .notebook_server.certificates import NotebookCertificates
from .notebook_server.container import EXTENSION_SECONDS, NO_EXTENSION, Container, find_engine
from .notebook_server.errors import NotebookError
from .notebook_server.gpu_nodes import prepare_gpu_nodes
from .notebook_server.local_socket import LocalSocket
from .notebook_server.process import NotebookProcess
from .notebook_server.pulled_images import PulledImages
from .notebook_server.runtime_dir import RUNTIME_DIR
from .settings import Settings
from .termination.sequence import EndSequence
from .termination.upload import upload
from .user_requests import UserRequests

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
"""Interval of idleness assessments."""

PUSH_SECONDS = 2.0
"""Interval of states for the extension when only figures changed."""

TIDY_SECONDS = 10.0
"""Interval of reaping orphans and of checking disks."""

FINAL_REPORT_SECONDS = 30.0
"""Timeout of the last report: the hub waits for it before it detaches the home."""

FLUSH_REPORT_SECONDS = 5.0
"""Interval of reports while the home is flushed."""

STOPPED_WITHIN = 120.0
"""Seconds until the hub has stopped a retained instance whose home could not be unmounted."""

SHUTDOWN_REPORT_SECONDS = 3.0
"""The same while the instance shuts down."""


@dataclass(frozen=True, slots=True)
class End:
    """How a lease ended on this instance."""

    step: Literal["stopped", "failed"]
    message: str


class LeaseRun:
    """One lease on this instance, from its grant to its end."""

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
        if grant.is_worker:
            notebook.name = "worker"
        self._http = http
        self._mounts = Mounts(grant, settings, identity)
        self._disks = DiskWatch(settings, grant)
        self._certificates: NotebookCertificates | None = None
        self._reports = StepReports(hub)
        loop = asyncio.get_running_loop()
        self._end: asyncio.Future[End] = loop.create_future()
        self._off: asyncio.Future[PowerOffError] = loop.create_future()
        """Why the instance powers itself off: the hub said 410, or is lost."""
        self._tasks: list[asyncio.Task[None]] = []
        self._is_retained = False
        """The hub retains this instance after the stop: it claims again instead of powering off."""
        self._observed = asyncio.Event()
        self._status = LeaseStatus(grant, identity.instance_type, sampler)
        self._heartbeat = Heartbeat(hub, self._status, self._on_response)
        metadata = Metadata(settings.metadata_endpoint, http)
        self._interruption = InterruptionWatch(
            metadata, self._on_interruption, recommended=self._on_recommendation
        )
        self._scheduled = ScheduledEventWatch(metadata, self._on_scheduled_event)
        requests = UserRequests(hub, self._status, self._push)
        self._termination = EndSequence(
            self._status, notebook, self._mounts, self._push, self._upload
        )
        self._socket = LocalSocket(
            settings.run_dir,
            settings.user,
            self._observe,
            requests.answer,
            self._termination.documents_saved,
            self._termination.hear,
        )

    async def run(self) -> None:
        """From the grant to the last report. Returns if the instance is retained for its user.

        Raises `PowerOffError` if it is not.
        """
        try:
            await self._open_socket()
            async with self._in_background():
                end = await self._until_end()
                log.info("ending: %s", end.message or end.step)
                await self._termination.save(self._socket, self._off)
                end = await self._release(end)
                await self._report_end(end)
        except asyncio.CancelledError:
            await self._end_at_once(End("stopped", SHUT_DOWN))
            raise
        except PowerOffError:
            raise
        except Exception:
            log.exception("the lease failed")
            await self._end_at_once(End("failed", "The instance agent failed; its log says how."))
            raise
        finally:
            await self._socket.close()

    # --- start, run, end ---------------------------------------------------------------------

    async def _until_end(self) -> End:
        """Start the notebook and wait until something ends the lease."""
        try:
            await self._unless_ended(self._start())
            await self._unless_ended(self._notebook.wait())
            self._finish(End("stopped", await self._notebook.how_it_ended()))
        except (HomeError, NotebookError) as error:
            self._finish(End("failed", str(error)))
        return self._end.result()

    async def _unless_ended(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`, and cancel it when the lease ends."""
        task: asyncio.Future[Any] = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._end}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _start(self) -> None:
        """Mount the home, start the notebook, report `ready`.

        Raises `HomeError` or `NotebookError`.
        """
        grant = self._grant
        self._reports.report("home")
        try:
            await self._mounts.mount()
        finally:
            self._notebook.spare_daemons()
        self._status.full_disks = await self._disks.before_start()
        self._status.disks = self._disks.uses
        self._begin("disks", self._check_disks())
        notes = [_sentence(each) for each in start_notes(self._status.full_disks)]
        notes += [_sentence(each) for each in self._mounts.missing]
        if grant.container:
            notes.append(f"In a container of {grant.container}, which is pulled first.")
        self._reports.report("notebook", " ".join(notes))
        began = time.monotonic()
        await self._write_certificates()
        scheme = "https" if self._certificates else "http"
        server = f"{scheme}://{self._identity.private_address}:{grant.port}{grant.base_url}"
        environment = self._environment(server)
        container = await self._container() if grant.container else None
        if container is not None:
            await container.pull()
            began = time.monotonic()
            await self._notebook.start_in(container, grant.command, environment)
        else:
            await self._notebook.start(grant.command, environment)
        started = time.monotonic()
        await self._notebook.until_listening(f"{server}api", self._http, self._certificates)
        log.info("listening after %.1f s", time.monotonic() - began)
        at_least, at_most = EXTENSION_SECONDS
        limit = min(max(at_least, time.monotonic() - began), at_most)
        has_extension = container is None or await self._socket.until_extension(limit)
        self._status.begin()
        self._reports.report(
            "ready",
            "" if has_extension else NO_EXTENSION,
            port=grant.port,
            listen_seconds=time.monotonic() - started,
        )
        if container is not None:
            self._begin("images", container.prune())

    def _environment(self, server: str) -> dict[str, str]:
        """The lease's variables; those of the profile are above the first, and below the others."""
        runtime_dir = self._notebook.runtime_dir
        return {
            **({RUNTIME_DIR: str(runtime_dir)} if runtime_dir else {}),
            **self._grant.environment,
            "JUPYTERHUB_SERVICE_URL": server,
            "EC2SPAWNER_AGENT_SOCKET": str(self._socket.path),
            **self._mounts.environment,
            **(self._certificates.environment if self._certificates else {}),
        }

    async def _container(self) -> Container:
        """Raises `NotebookError`."""
        settings, runtime_dir = self._settings, self._notebook.runtime_dir
        volumes = [*self._mounts.volumes, (settings.run_dir, str(settings.run_dir), True)]
        if runtime_dir is not None:
            volumes.append((runtime_dir, str(runtime_dir), False))
        return Container(
            engine=find_engine(settings.container_engine),
            image=self._grant.container,
            user=settings.user,
            volumes=tuple(volumes),
            gpu_nodes=await prepare_gpu_nodes(settings.gpu_device),
            pulled=PulledImages(settings.state_dir),
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

    async def _upload(self, seconds: float) -> StepResult | None:
        url = self._grant.upload_to
        return await upload(self._settings.user, url, seconds) if url else None

    async def _release(self, end: End) -> End:
        """End every process of the user, then flush and unmount the home."""
        await self._disks.close()
        await self._termination.end_notebook(self._certificates)
        flush = asyncio.create_task(self._report_flush(), name="flush")
        try:
            problem = await self._termination.release_home()
        finally:
            flush.cancel()
            await asyncio.gather(flush, return_exceptions=True)
            self._status.dirty_bytes = None
        self._status.home_released = self._termination.is_released
        return End(end.step, f"{end.message} {problem}".strip())

    async def _report_flush(self) -> None:
        """Report while a home that outlives the instance is flushed: it may take minutes, for which
        the hub waits."""
        while self._grant.home.kind == "ebs":
            self._status.dirty_bytes = await asyncio.to_thread(dirty_bytes)
            self._heartbeat.news()
            await asyncio.sleep(FLUSH_REPORT_SECONDS)

    async def _report_end(self, end: End) -> None:
        """Report the end; then the hub terminates the instance, or it powers itself off.

        A retained instance claims again instead, which has the same meaning to the hub.
        """
        has_saved = self._termination.session is not None or self._termination.has_uploaded
        is_news = has_saved or self._termination.has_problems
        summary = self._termination.summary() if is_news else ""
        self._reports.post(self._event(end, f"{end.message} {summary}".strip()))
        # Each heartbeat repeats it from now on, until the hub ends the lease.
        self._status.has_stopped = await self._reports.until_sent(
            SHUTDOWN_REPORT_SECONDS if self._off.done() else FINAL_REPORT_SECONDS
        )
        if self._is_retained and self._termination.is_released:
            return
        off = await self._off
        if self._is_retained and isinstance(off, GoneError):
            # The hub stops this instance, which flushes; powering it off may delete its disk.
            await asyncio.sleep(STOPPED_WITHIN)
        raise off

    async def _end_at_once(self, end: End) -> None:
        """Release everything quickly: the instance shuts down, or the agent failed."""
        end = await self._release(end)
        with contextlib.suppress(HubError):
            await self._reports.post_now(self._event(end, end.message), SHUTDOWN_REPORT_SECONDS)

    def _event(self, end: End, message: str) -> AgentEvent:
        """The last report. A hub that was down has heard of no notice yet."""
        return AgentEvent(
            step=end.step,
            at=datetime.now(UTC),
            message=message[:500],
            session=self._termination.session,
            interruption_at=self._status.interruption_at,
            home_released=self._termination.is_released,
        )

    async def _open_socket(self) -> None:
        """Continue without the socket on an error: terminals, GPU and CPU still show idleness."""
        try:
            await self._socket.start()
        except OSError as error:
            log.error("the notebook cannot connect to the agent: %s", error)

    # --- background tasks --------------------------------------------------------------------

    @asynccontextmanager
    async def _in_background(self) -> AsyncIterator[None]:
        self._begin("reports", self._reports.run())
        self._begin("heartbeat", self._send_heartbeats())
        self._begin("tick", self._tick())
        self._begin("interruption", self._interruption.run())
        self._begin("scheduled events", self._scheduled.run())
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Do this until the lease ends."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_log_failure)
        self._tasks.append(task)

    async def _send_heartbeats(self) -> None:
        try:
            await self._heartbeat.run()
        except PowerOffError as error:
            why = f"The hub has ended this lease: {error}"
            self._finish_for_good(type(error)(why))

    async def _tick(self) -> None:
        """Assess idleness, push states, detect a lost hub, reap orphans."""
        pushed_at = tidied_at = 0.0
        while True:
            try:
                self._notebook.bound_log()
                if (own := self._status.stop_for_reclaim()) is not None:
                    self._push()
                    self._finish(End("stopped", own.message))
                if self._assess() or time.monotonic() - pushed_at >= PUSH_SECONDS:
                    pushed_at = time.monotonic()
                    self._push()
                if time.monotonic() - tidied_at >= TIDY_SECONDS:
                    tidied_at = time.monotonic()
                    await asyncio.to_thread(self._notebook.tidy)
            except Exception:
                log.exception("assessing the lease failed; retrying")
            # At most ten assessments a second, however often the notebook sends observations.
            await asyncio.sleep(0.1)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._paced(TICK_SECONDS)):
                    await self._observed.wait()
            self._observed.clear()

    async def _check_disks(self) -> None:
        """Runs as a task of its own, because a disk that does not respond blocks the check."""
        while True:
            full = await self._disks.check()
            self._status.disks = self._disks.uses
            if full != self._status.full_disks:
                self._status.full_disks = full
                self._push()
            await asyncio.sleep(TIDY_SECONDS)

    def _assess(self) -> bool:
        """Assess idleness, and whether the hub is lost; True if idleness has changed."""
        shown = self._status.idleness
        if self._status.assess():
            self._heartbeat.news()
        if self._status.must_end():
            # A hub that answers has ended it by then: nobody else would end the instance.
            why = "The time that this run may take, or its cost cap, is used up."
            self._finish_for_good(PowerOffError(why))
        if self._is_abandoned():
            why = "The hub was unreachable for too long while this server was idle."
            self._finish_for_good(PowerOffError(why))
        return self._status.idleness != shown

    def _paced(self, seconds: float) -> float:
        """The interval, shortened for idle limits of seconds, as in demos and tests."""
        limit = shortest_limit(self._status.policy)
        return min(seconds, limit / 20) if limit else seconds

    def _is_abandoned(self) -> bool:
        """Whether the server has been idle and without a hub for `hub_lost_after_seconds`.

        A busy or extended server continues under its last policy, which may set a maximum age.
        """
        limit = self._grant.hub_lost_after_seconds
        if self._heartbeat.lost_seconds < limit:
            return False
        is_idle = self._status.idle_seconds() >= limit and not self._status.is_extended()
        return is_idle or self._status.is_too_old() or self._end.done()

    def _push(self) -> None:
        self._socket.push(self._status.state())

    def _finish(self, end: End) -> None:
        if not self._end.done():
            self._end.set_result(end)

    def _finish_for_good(self, why: PowerOffError) -> None:
        if not self._off.done():
            self._off.set_result(why)
        self._finish(End("stopped", str(why)))

    def _on_response(self, answer: HeartbeatResponse) -> None:
        self._status.learn(answer)
        self._push()
        if answer.stop is not None:
            self._is_retained = answer.stop.then != "terminate"
            self._termination.follow(answer.stop)
            self._finish(End("stopped", answer.stop.message or answer.stop.reason))

    async def _on_interruption(self, at: datetime | None) -> None:
        """Notify hub and notebook at once, and flush the home: users save their work now."""
        if at != self._status.interruption_at:
            self._status.interruption_at = at
            self._push()
            self._heartbeat.news(urgent=True)
        if at is not None:
            await self._mounts.flush()

    def _on_recommendation(self, at: datetime | None) -> None:
        """An early warning, which ends nothing: hub and user may act on it."""
        self._status.rebalance_at = at
        self._push()
        self._heartbeat.news()

    def _on_scheduled_event(self, event: ScheduledEvent | None) -> None:
        """For the user: the hub reads it from EC2."""
        self._status.scheduled_event = event
        self._push()

    def _observe(self, observation: Observation) -> None:
        self._status.observe(observation)
        self._observed.set()


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the task %s failed", task.get_name(), exc_info=error)
