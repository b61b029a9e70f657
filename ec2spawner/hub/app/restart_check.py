"""JupyterHub's check, after its start, of the servers that ran before; one delays no other.

JupyterHub polls each server, asks for its URL, stops it if nothing answers there, and adds all
routes when the last check is done. Our servers are checked when their agent has called and their
notebook answers, which may take minutes. So each server gets its route when its own check is done,
and a request to stop a server cuts its check short.
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
from ...provisioner.model.leases.lease import Lease, LeaseState
from ...provisioner.provisioner import Provisioner
from ...wire import Stop

log = logging.getLogger(__name__)

REQUEST_TIMEOUT = 10.0
"""Seconds for a notebook to answer before the next attempt."""

RECHECK_INTERVAL = 30.0
"""Seconds between two checks of a lease for which no change was reported."""

CUT_SHORT_TIMEOUT = 10.0
"""Seconds for a check to end after it is cut short: one request to the hub itself."""


class RestartCheck:
    """The check of one server after a hub start."""

    def __init__(self) -> None:
        self._cut_short = asyncio.Event()

    async def wait(self, spawner: Spawner, provisioner: Provisioner, lease: Lease) -> Lease | None:
        """The lease once its server is known to run; None once it ended or a stop was requested.

        Has no timeout of its own: a server whose agent is silent may still run, until the
        provisioner ends it.
        """
        settings, base_url = spawner.user.settings, spawner.server.base_url
        context = make_ssl_context(
            settings.get("internal_ssl_key"),
            settings.get("internal_ssl_cert"),
            cafile=settings.get("internal_ssl_ca"),
        )
        known = settled(provisioner, lease, base_url, context, spawner.start_timeout)
        await _first_of(self._cut_short.wait(), known)
        now = provisioner.lease(lease.lease_id)
        is_running = now is not None and now.state is LeaseState.READY
        return now if is_running and not self._cut_short.is_set() else None

    async def cut_short(self, spawner: Spawner) -> bool:
        """End the check, so that JupyterHub can stop the server; False if it cannot end.

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
        """Check again if the stop for which the check was cut short was refused."""
        if not spawner.ready:
            return
        self._cut_short.clear()
        spawner._check_pending = True
        provisioner.spawn(self._again(spawner), f"check of {spawner._log_name}")

    async def _again(self, spawner: Spawner) -> None:
        """Check as JupyterHub does, which has recorded the hub's address for the server."""
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
            return  # the request that cut it short stops the server
        if await spawner.poll_and_notify() is None:
            # JupyterHub saved no state of a start that the end of the hub interrupted.
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
    """Return once the server is known to run, or once its lease has ended.

    A start that the end of the hub interrupted continues, although JupyterHub considers it done.
    """
    if lease.state in {LeaseState.WAITING, LeaseState.STARTING}:
        try:
            await provisioner.wait_ready(lease.lease_id, start_timeout)
        except TimeoutError:
            message = "The hub restarted during the start, which then took too long"
            await provisioner.end(lease.lease_id, Stop(reason="failed", message=message))
        except StartFailed as error:
            log.warning("The start of %s failed: %s", lease.lease_id, error)
        lease = provisioner.lease(lease.lease_id) or lease
    lease = await provisioner.wait_heard(lease)
    if lease.state is LeaseState.READY:
        url = url_path_join(lease.url, base_url, "api")
        await _first_of(_over(provisioner, lease), _answers(url, ssl_context))


async def _answers(url: str, ssl_context: SSLContext | None) -> None:
    """Wait until the notebook answers.

    Its agent calls the hub, so the server runs. JupyterHub would stop what does not answer within
    `http_timeout`, which is every server during a network failure.
    """
    while True:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                await wait_for_http_server(url, REQUEST_TIMEOUT, ssl_context)
            return
        except TimeoutError:
            log.warning(
                "The notebook at %s does not answer, although the agent of its instance does", url
            )


async def _over(provisioner: Provisioner, lease: Lease) -> None:
    """Wait until a lease is no longer ready."""
    now: Lease | None = lease
    while now is not None and now.state is LeaseState.READY:
        await provisioner.wait_for_change(lease.lease_id, RECHECK_INTERVAL)
        now = provisioner.lease(lease.lease_id)


async def _add_route(spawner: Spawner) -> None:
    """Make a checked server reachable now; JupyterHub would wait for the last check."""
    app = JupyterHub.instance()
    await app._start_future  # before that, the proxy may not run
    if not spawner.ready:
        return  # it was stopped meanwhile
    try:
        await app.proxy.add_user(spawner.user, spawner.name)
    except Exception:
        # JupyterHub repairs the routes after the last check, and every few minutes.
        log.exception("The route of %s could not be added yet", spawner._log_name)


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when the first of them returns, or raise its error; cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
