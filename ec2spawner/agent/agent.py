"""The story of an instance: boot, claim, lease, power-off. `lease_run.py` has the lease.

An instance that is kept for its user after a stop continues: it claims again, with the same key.
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
from ..wire import Claim, LeaseGrant
from .claim import (
    UNCLAIMED_LIMIT_SECONDS,
    claim_lease,
    new_claim,
    new_key,
)
from .gpu_check import broken_gpu
from .hub.client import HubClient, PowerOffError
from .lease_run import LeaseRun
from .metadata.identity import Identity, read_identity
from .metadata.imds import Metadata
from .metadata.interruption import InterruptionWatch
from .notebook_server.process import NotebookProcess, base_environment, recover_orphans
from .power_off import power_off
from .settings import Settings

log = logging.getLogger(__name__)

KEEPALIVE_SECONDS = 3.0
"""JupyterHub's proxy hangs up on connections idle for five seconds; we do it first."""

GOODBYE_SECONDS = 3.0
"""How long the notebook's processes get when nothing was in order anyway."""


class Agent:
    """One boot of one instance. `run` returns when there is nothing left to do."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._key = new_key()

    async def run(self) -> None:
        """Live until powered off. Cancel it to end in order: the machine is shutting down."""
        try:
            await self._live()
        except PowerOffError as error:
            log.info("powering off: %s", error)
            await power_off(self._settings.poweroff)
        except Exception:
            # Without its agent an instance would run indefinitely if no hub supervises it.
            log.exception("the agent failed; powering off")
            await power_off(self._settings.poweroff)

    async def _live(self) -> None:
        """From boot to the end of the last lease. Raises `PowerOffError` when it is time."""
        await asyncio.to_thread(_prepare_run_dir, self._settings)
        recover_orphans()
        connector = aiohttp.TCPConnector(
            resolver=aiohttp.ThreadedResolver(), keepalive_timeout=KEEPALIVE_SECONDS
        )
        # Beside everything else until the claim, which must know.
        check = asyncio.create_task(broken_gpu(self._settings.gpu_device), name="GPU check")
        try:
            async with aiohttp.ClientSession(connector=connector) as http:
                while True:
                    await self._serve(http, check)
                    log.info("this instance is kept for its user: claiming again")
        finally:
            check.cancel()
            await asyncio.gather(check, return_exceptions=True)

    async def _serve(self, http: aiohttp.ClientSession, check: asyncio.Task[str]) -> None:
        """One lease. Returns where the instance is kept; raises `PowerOffError` where it is not."""
        notebook = NotebookProcess(
            self._settings.user,
            self._settings.run_dir / "notebook.log",
            base_environment(self._settings.user, os.environ),
        )
        sampler = Sampler(
            # Of its own: a driver that hung in the lease before may still have that one's thread.
            find_gpus(self._settings.simulated_gpu),
            notebook.processes,
            home=self._settings.user.home,
            server_pid=lambda: notebook.pid,
        )
        try:
            await notebook.warm_up()
            identity = await self._read_identity(http)
            log.info("this is %s, %s", identity.instance_id, identity.instance_type)
            hub = HubClient(self._settings.hub_api_url, http)
            grant = await self._claim(hub, http, identity, broken=await check)
            sampler.start()
            run = LeaseRun(self._settings, identity, grant, notebook, sampler, hub, http)
            await run.live()
        finally:
            await notebook.stop(GOODBYE_SECONDS)
            sampler.stop()

    async def _read_identity(self, http: aiohttp.ClientSession) -> Identity:
        return await read_identity(
            self._settings.metadata_endpoint, http, give_up_after=UNCLAIMED_LIMIT_SECONDS
        )

    async def _claim(
        self, hub: HubClient, http: aiohttp.ClientSession, identity: Identity, broken: str
    ) -> LeaseGrant:
        notice: asyncio.Future[datetime] = asyncio.get_running_loop().create_future()

        async def learn(at: datetime | None) -> None:
            if at is not None and not notice.done():
                notice.set_result(at)

        def claim_as(identity: Identity) -> Claim:
            on_ec2 = self._settings.metadata_is_amazon
            reclaimed_at = notice.result() if notice.done() else None
            return new_claim(identity, self._key, __version__, on_ec2, broken, reclaimed_at)

        async def claim_anew() -> Claim:
            return claim_as(await self._read_identity(http))

        metadata = Metadata(self._settings.metadata_endpoint, http)
        watching = asyncio.create_task(InterruptionWatch(metadata, learn).run())
        claiming = asyncio.create_task(claim_lease(hub, claim_as(identity), claim_anew))
        try:
            either: set[asyncio.Future[Any]] = {claiming, notice}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if claiming.done():
                grant = claiming.result()
            else:
                claiming.cancel()  # the hub must know before it gives this instance away
                grant = await claim_lease(hub, claim_as(identity), claim_anew)
        finally:
            for task in (watching, claiming):
                task.cancel()
            await asyncio.gather(watching, claiming, return_exceptions=True)
        log.info("lease %s", grant.lease_id)
        hub.take_lease(grant.lease_id, grant.lease_token)
        return grant


def _prepare_run_dir(settings: Settings) -> None:
    settings.run_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
