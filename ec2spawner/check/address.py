"""Whether instances could reach the hub by the address that they are given.

The address is resolved, and asked for what only a hub with ec2spawner answers. Where no hub runs,
we listen for a moment where it would, and see whether the address leads here. Security groups and
routes between subnets cannot be seen from the hub itself.
"""

from __future__ import annotations

import asyncio
import json
import socket
from urllib.parse import urlparse

from tornado.simple_httpclient import SimpleAsyncHTTPClient

from ..hub.app.api_address import address_fix
from .finding import Finding, failed, ok, unproved, warning
from .hub_config import HubConfig
from .topics import Topic

TIMEOUT = 3.0
"""Seconds for a name, for a connection, and for an answer: all of it is near."""

MAX_ANSWER = 64 * 1024
"""Bytes of an answer; JupyterHub's are below 100."""

CLAIMS = "/ec2/claims"
"""Below the hub's API: takes POST alone, so any other method is answered 405 where it exists."""


async def judge_address(config: HubConfig) -> Finding:
    """One finding about `config.api_url`. Raises nothing."""
    url = urlparse(config.api_url)
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    fix = address_fix(config.address_option, config.api_path)
    try:
        address = await resolve(host)
    except (OSError, TimeoutError):
        return failed(Topic.HUB_ADDRESS, f"{host} has no address", fix)
    where = f"{host}:{port}" if host == address else f"{host}:{port} ({address})"
    if await _connects(address, port):
        return await _judge_answer(config.api_url, where, fix)
    if port != config.bind_port:
        said = f"{where} does not answer, and may be in front of the hub, which is not running"
        return unproved(Topic.HUB_ADDRESS, said, f"start the hub's proxy and check again, or {fix}")
    return await _judge_listener(config, address, where, fix)


async def _judge_listener(config: HubConfig, address: str, where: str, fix: str) -> Finding:
    """Nobody answers: whether that would be the hub, were it there."""
    bind_ip, port = config.bind_ip, config.bind_port
    try:
        listener = await asyncio.start_server(_hang_up, bind_ip or None, port)
    except OSError as error:
        said = f"{where} does not answer, and the hub cannot listen on port {port}: {error}"
        return unproved(Topic.HUB_ADDRESS, said, fix)
    async with listener:
        if await _connects(address, port):
            return ok(Topic.HUB_ADDRESS, f"{where} leads here; the hub is not running")
    return failed(Topic.HUB_ADDRESS, f"{where} does not lead to where the hub listens", fix)


async def _judge_answer(api_url: str, where: str, fix: str) -> Finding:
    """Who it is that answers."""
    client = SimpleAsyncHTTPClient(force_instance=True, max_body_size=MAX_ANSWER)
    try:
        status, body = await _get(client, f"{api_url}/")
        version = _version(body) if status == 200 else None
        if version is None:
            said = f"{where} answers HTTP {status} where a JupyterHub would answer its version"
            return failed(Topic.HUB_ADDRESS, f"{said}: something else is there", fix)
        status, _ = await _get(client, f"{api_url}{CLAIMS}")
    except Exception as error:  # whatever a stranger's answer makes of an HTTP client
        said = f"{where} takes connections, and does not answer as a hub: {_words(error)}"
        return failed(Topic.HUB_ADDRESS, said, fix)
    finally:
        client.close()
    if status == 405:
        return ok(Topic.HUB_ADDRESS, f"{where} answers: JupyterHub {version} with ec2spawner")
    return warning(
        Topic.HUB_ADDRESS,
        f"{where} answers: JupyterHub {version} without ec2spawner",
        "restart that hub with this configuration, if it is this one; if not, " + fix,
    )


async def _get(client: SimpleAsyncHTTPClient, url: str) -> tuple[int, bytes]:
    """Status and body, whatever the status is. Raises what the client does without an answer."""
    answer = await client.fetch(
        url,
        raise_error=False,
        follow_redirects=False,
        connect_timeout=TIMEOUT,
        request_timeout=TIMEOUT,
    )
    return answer.code, answer.body or b""


def _version(body: bytes) -> str | None:
    """What JupyterHub answers at the root of its API: `{"version": "6.1.1"}`."""
    try:
        said = json.loads(body)
    except ValueError:
        return None
    version = said.get("version") if isinstance(said, dict) else None
    return version if isinstance(version, str) else None


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


async def resolve(host: str) -> str:
    """The first address of a name. Raises OSError, TimeoutError."""
    async with asyncio.timeout(TIMEOUT):
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return str(found[0][4][0])


async def _connects(address: str, port: int) -> bool:
    try:
        async with asyncio.timeout(TIMEOUT):
            _, writer = await asyncio.open_connection(address, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
