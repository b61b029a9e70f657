"""JupyterHub's check of the servers that ran before its start, without one holding up another.

JupyterHub polls each of them, asks for its URL, stops it when nothing answers there, and adds the
routes of all once the last check is done. For us a server is checked when its agent has been heard
and its notebook answers, which may take minutes. So each server gets its route when its own check
is done, and a check is cut short when somebody asks for a stop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit

from jupyterhub.app import JupyterHub
from jupyterhub.spawner import Spawner
from jupyterhub.utils import make_ssl_context, url_path_join, wait_for_http_server

from ...provisioner.lifecycle.start import StartFailed
from ...provisioner.model.lease import Lease, LeaseState
from ...provisioner.provisioner import Provisioner
from ...wire import Stop

log = logging.getLogger(__name__)

REQUEST_TIMEOUT = 10.0
"""Seconds for a notebook to answer before it is asked again."""

RECHECK_INTERVAL = 30.0
"""Seconds between two looks at a lease of which no change was reported."""

CUT_SHORT_TIMEOUT = 10.0
"""Seconds for a check that is cut short to end: one request to the hub itself."""


class RestartCheck:
    """The check of one server after a hub start."""

    def __init__(self) -> None:
        self._cut_short = asyncio.Event()

    async def wait(self, spawner: Spawner, provisioner: Provisioner, lease: Lease) -> Lease | None:
        """The lease once its server is known to run; None once it is over or its stop is wanted.

        For as long as that takes: a server that nothing is heard of may run.
        """
        settings, base_url = spawner.user.settings, spawner.server.base_url
        context = make_ssl_context(
            settings.get("internal_ssl_key"),
            settings.get("internal_ssl_cert"),
            cafile=settings.get("internal_ssl_ca"),
        )
        known = settled(provisioner, lease, base_url, context, spawner.start_timeout)
        await _first_of(self._cut_short.wait(), known)
        now = provisioner.registry.get(lease.lease_id)
        is_running = now is not None and now.state is LeaseState.READY
        return now if is_running and not self._cut_short.is_set() else None

    async def cut_short(self, spawner: Spawner) -> bool:
        """End the check, so that JupyterHub can stop the server; False where it cannot end.

        A check that still waits for EC2's first answer cannot, and continues.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CUT_SHORT_TIMEOUT
        self._cut_short.set()
        while spawner._check_pending and loop.time() < deadline:
            await asyncio.sleep(0.05)
        if spawner._check_pending:
            self._cut_short.clear()
            return False
        return True

    def resume(self, spawner: Spawner, provisioner: Provisioner) -> None:
        """Check again where the stop that a check was cut short for has been refused."""
        if not spawner.ready:
            return
        self._cut_short.clear()
        spawner._check_pending = True
        provisioner.background.spawn(self._again(spawner), f"check of {spawner._log_name}")

    async def _again(self, spawner: Spawner) -> None:
        """As JupyterHub checks, which has taken the hub's address for the server's meanwhile."""
        try:
            url = urlsplit(await spawner.get_url())
            server = spawner.server
            if server is None:
                return  # it was stopped meanwhile
            server.protocol, server.ip, server.port = url.scheme, url.hostname, url.port
            spawner.user.db.commit()
        finally:
            spawner._check_pending = False
        await self.done(spawner)

    async def done(self, spawner: Spawner) -> None:
        """Follow up on a check that JupyterHub has just completed with an answer."""
        if self._cut_short.is_set():
            return  # whoever wanted that stops the server
        if await spawner.poll_and_notify() is None:
            # Of a start that the hub's end interrupted JupyterHub has saved nothing.
            spawner.orm_spawner.state = spawner.get_state()
            spawner.user.db.commit()
            await _add_route(spawner)


async def settled(
    provisioner: Provisioner,
    lease: Lease,
    base_url: str,
    ssl_context: SSLContext | None,
    start_timeout: float,
) -> None:
    """Return once the server runs for certain, or once its lease is over.

    A start that the hub's end interrupted continues, although JupyterHub believes it is done.
    """
    if lease.state in {LeaseState.WAITING, LeaseState.STARTING}:
        try:
            await provisioner.starting.wait_ready(lease.lease_id, start_timeout)
        except TimeoutError:
            message = "The hub restarted during the start, which took too long then"
            await provisioner.ending.begin(lease.lease_id, Stop(reason="failed", message=message))
        except StartFailed as error:
            log.warning("The start of %s failed: %s", lease.lease_id, error)
        lease = provisioner.registry.get(lease.lease_id) or lease
    lease = await provisioner.heartbeats.wait_heard(lease)
    if lease.state is LeaseState.READY:
        url = url_path_join(lease.url, base_url, "api")
        await _first_of(_over(provisioner, lease), _answers(url, ssl_context))


async def _answers(url: str, ssl_context: SSLContext | None) -> None:
    """Wait until the notebook answers.

    Its agent speaks, so the server runs. JupyterHub stops what does not answer within
    `http_timeout`: all servers, when the network is at fault.
    """
    while True:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                await wait_for_http_server(url, REQUEST_TIMEOUT, ssl_context)
            return
        except TimeoutError:
            log.warning("Nothing answers at %s, although its instance's agent does", url)


async def _over(provisioner: Provisioner, lease: Lease) -> None:
    """Wait until a lease is no longer ready."""
    now: Lease | None = lease
    while now is not None and now.state is LeaseState.READY:
        await provisioner.registry.wait_for_change(lease.lease_id, RECHECK_INTERVAL)
        now = provisioner.registry.get(lease.lease_id)


async def _add_route(spawner: Spawner) -> None:
    """Make a checked server reachable now: JupyterHub does it when the last check is done."""
    app = JupyterHub.instance()
    await app._start_future  # before, the proxy may not run
    if not spawner.ready:
        return  # it was stopped meanwhile
    try:
        await app.proxy.add_user(spawner.user, spawner.name)
    except Exception:
        # JupyterHub compares the routes again after the last check, and every few minutes.
        log.exception("The route of %s is not added yet", spawner._log_name)


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when one of them has, or raise what it raised; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
