"""The proxy of a hub that ends rather than use the proxy of another hub."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import psutil
from jupyterhub.objects import Server
from jupyterhub.proxy import ConfigurableHTTPProxy

LISTEN_SECONDS: Final = 30.0
"""Seconds for node to load the proxy and listen, on a busy machine."""

SECOND_PORT_SECONDS: Final = 3.0
"""Seconds from the first of the ports to the second: node opens both at once, and logs that one is
in use without ending."""

PAUSE: Final = 0.05


class OwnProxy(ConfigurableHTTPProxy):
    """A configurable-http-proxy that listens on its ports itself.

    JupyterHub considers its proxy started once the addresses answer, whoever answers there: if
    another hub's proxy has one of the ports, JupyterHub would add its routes to that one.
    """

    async def start(self) -> None:
        """Start the process. Raises `RuntimeError` unless it listens on both of its TCP ports."""
        try:
            await super().start()
            await self._until_listening()
        except (RuntimeError, TimeoutError) as error:
            if self.proxy_process and self.proxy_process.poll() is None:
                self.stop()
            raise RuntimeError(
                f"The proxy could not listen on {self.public_url} and {self.api_url}; its own "
                "output is above. If another program has one of these ports, end that program or "
                "choose another port."
            ) from error

    async def _until_listening(self) -> None:
        wanted = {Server.from_url(url).port for url in (self.public_url, self.api_url)}
        async with asyncio.timeout(LISTEN_SECONDS) as limit:
            while not wanted <= (found := await asyncio.to_thread(self._listening_ports)):
                if (status := self.proxy_process.poll()) is not None:
                    raise RuntimeError(f"the proxy ended with exit status {status}")
                if wanted & found:
                    soon = asyncio.get_running_loop().time() + SECOND_PORT_SECONDS
                    limit.reschedule(min(limit.when() or soon, soon))
                await asyncio.sleep(PAUSE)

    def _listening_ports(self) -> set[int]:
        """TCP ports on which the proxy's process listens, or one that it started."""
        found: set[int] = set()
        with contextlib.suppress(psutil.Error):  # it has just ended
            process = psutil.Process(self.proxy_process.pid)
            for each in (process, *process.children(recursive=True)):
                connections = each.net_connections(kind="tcp")
                found |= {c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN}
        return found
