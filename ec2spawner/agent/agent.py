"""One boot of an instance: warm up, claim, run a lease, power off.

An instance that is retained for its user after a stop claims again, with the same key.
"""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import datetime
from typing import Any

import aiohttp

from .._version import __version__
from ..telemetry import Sampler, find_gpus
from ..wire import Claim, Fault, LeaseGrant
from .admin_key import keep_admin_key
from .agent_lock import AgentLock
from .claim import ANSWERED, UNCLAIMED_LIMIT_SECONDS, AgentStart, claim_lease, new_claim, new_key
from .gpu_check import broken_gpu
from .gpu_driver import gpu_without_driver
from .hub.client import GoneError, HubClient, PowerOffError
from .lease_run import LeaseRun
from .metadata.identity import Identity, read_identity
from .metadata.imds import Metadata
from .metadata.interruption import InterruptionWatch
from .notebook_server.process import NotebookProcess, base_environment, become_subreaper
from .notebook_server.runtime_dir import make_runtime_dir, remove_runtime_dir
from .power_off import power_off
from .read_ahead.process import ReadAhead
from .settings import Settings

log = logging.getLogger(__name__)

KEEPALIVE_SECONDS = 3.0
"""JupyterHub's proxy closes connections that are idle for five seconds; the agent closes first."""

FAILURE_GRACE_SECONDS = 3.0
"""For the notebook's processes to end after a failure."""


class Agent:
    """One boot of one instance."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._key = new_key()
        self._start = AgentStart.now(is_real_boot=settings.metadata_is_amazon)
        self._read_ahead = ReadAhead(settings)

    async def run(self) -> None:
        """Run until powered off. Cancel it for an orderly end when the instance shuts down.

        Raises `AnotherAgentError` where one runs on this instance already.
        """
        lock = await asyncio.to_thread(_lock, self._settings)
        if lock.has_claimed:
            log.error(
                "an earlier agent of this boot has crashed after its claim (journalctl -u "
                "ec2spawner-agent), and the hub accepts no other key; powering off"
            )
            await power_off(self._settings.poweroff)
        try:
            await self._run_leases(lock)
        except PowerOffError as error:
            # The end of the boot log, where the hub finds a failure by its level.
            level = logging.INFO if isinstance(error, GoneError) else logging.ERROR
            log.log(level, "powering off: %s", error)
            await power_off(self._settings.poweroff)
        except Exception as error:
            # Without its agent nothing would ever terminate an instance that no hub manages.
            log.exception("the agent failed: %r; powering off", error)
            await power_off(self._settings.poweroff)

    async def _run_leases(self, lock: AgentLock) -> None:
        """One lease after another. Raises `PowerOffError` when the last one has ended."""
        become_subreaper()
        connector = aiohttp.TCPConnector(
            resolver=aiohttp.ThreadedResolver(), keepalive_timeout=KEEPALIVE_SECONDS
        )
        # Runs concurrently until the claim, which carries its result.
        check = asyncio.create_task(self._check_gpus(), name="GPU check")
        try:
            async with aiohttp.ClientSession(connector=connector) as http:
                # Before a home is mounted over that of the image.
                metadata = Metadata(self._settings.metadata_endpoint, http)
                await keep_admin_key(self._settings, metadata)
                while True:
                    await self._serve(http, check, lock)
                    log.info("retained for the user of the last lease: claiming again")
        finally:
            check.cancel()
            await asyncio.gather(check, return_exceptions=True)

    async def _check_gpus(self) -> Fault:
        fault = await gpu_without_driver(self._settings)
        if fault.reason:
            return fault
        return Fault(reason=await broken_gpu(self._settings.gpu_device))

    async def _serve(
        self, http: aiohttp.ClientSession, check: asyncio.Task[Fault], lock: AgentLock
    ) -> None:
        """One lease. Returns if the instance is retained, and raises `PowerOffError` otherwise."""
        user, run_dir = self._settings.user, self._settings.run_dir
        runtime_dir = await asyncio.to_thread(make_runtime_dir, run_dir, user)
        environment = base_environment(user, os.environ, runtime_dir)
        notebook = NotebookProcess(user, run_dir / "notebook.log", environment)
        sampler = Sampler(
            # A new one per lease: a driver that hung may still block the thread of the last one.
            find_gpus(self._settings.simulated_gpu, self._settings.user.home),
            notebook.processes,
            home=self._settings.user.home,
            server_pid=lambda: notebook.server_pid,
        )
        try:
            await notebook.warm_up()
            identity = await self._read_identity(http)
            log.info("instance %s, %s", identity.instance_id, identity.instance_type)
            hub = HubClient(self._settings.hub_api_url, http)
            fault = await check
            await asyncio.to_thread(lock.note_claim)
            grant = await self._claim(hub, http, identity, fault)
            sampler.start()
            run = LeaseRun(self._settings, identity, grant, notebook, sampler, hub, http)
            await run.run()
        finally:
            await notebook.stop(FAILURE_GRACE_SECONDS)
            sampler.stop()
            await asyncio.to_thread(remove_runtime_dir, runtime_dir)

    async def _read_identity(self, http: aiohttp.ClientSession) -> Identity:
        return await read_identity(
            self._settings.metadata_endpoint, http, give_up_after=UNCLAIMED_LIMIT_SECONDS
        )

    def _note_answer(self) -> None:
        """Keep the timer of `user_data.sh` from powering off. Blocks for the creation of a file."""
        try:
            (self._settings.run_dir / ANSWERED).touch(mode=0o600)
        except OSError as error:
            log.error("the timer will power this instance off 30 minutes after its boot: %s", error)

    async def _claim(
        self, hub: HubClient, http: aiohttp.ClientSession, identity: Identity, fault: Fault
    ) -> LeaseGrant:
        notice: asyncio.Future[datetime] = asyncio.get_running_loop().create_future()

        async def on_notice(at: datetime | None) -> None:
            if at is not None and not notice.done():
                notice.set_result(at)

        def claim_as(identity: Identity) -> Claim:
            reclaimed_at = notice.result() if notice.done() else None
            return new_claim(identity, self._key, __version__, self._start, fault, reclaimed_at)

        async def renew_claim() -> Claim:
            return claim_as(await self._read_identity(http))

        async def claim(identity: Identity) -> LeaseGrant:
            return await claim_lease(
                hub,
                claim_as(identity),
                renew_claim,
                read_ahead=self._read_ahead,
                answered=self._note_answer,
            )

        metadata = Metadata(self._settings.metadata_endpoint, http)
        watching = asyncio.create_task(InterruptionWatch(metadata, on_notice).run())
        claiming = asyncio.create_task(claim(identity))
        try:
            either: set[asyncio.Future[Any]] = {claiming, notice}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if claiming.done():
                grant = claiming.result()
            else:
                claiming.cancel()  # the hub must know before it assigns a lease
                grant = await claim(identity)
        finally:
            for task in (watching, claiming):
                task.cancel()
            await asyncio.gather(self._read_ahead.end(), watching, claiming, return_exceptions=True)
        log.info("lease %s", grant.lease_id)
        hub.take_lease(grant.lease_id, grant.lease_token)
        return grant


def _lock(settings: Settings) -> AgentLock:
    settings.run_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
    return AgentLock(settings.run_dir)
