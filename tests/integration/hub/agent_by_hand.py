"""Instances whose agent is the test: it reads the metadata service and speaks to the hub itself.

`silence_agents` keeps the real agents from running.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
from aiohttp import web

from ec2spawner.core.tags import HOME
from ec2spawner.wire import PROTOCOL
from tests.harness import PASSWORD, Embedded, Hub, until

HEARTBEAT_SECONDS = 30.0


def silence_agents(embedded: Embedded) -> None:
    """Put an agent that does nothing in the image, before any launch.

    A real one would start, and import a notebook server, on every instance.
    """
    agent = embedded.data_dir / "ec2/shims/ec2spawner-agent"
    agent.write_text("#!/bin/sh\nexec sleep infinity\n")
    agent.chmod(0o755)


def now() -> str:
    return datetime.now(UTC).isoformat()


def new_key() -> str:
    return secrets.token_urlsafe(32)


@dataclass
class AgentByHand:
    """What one instance's agent knows, and its voice."""

    hub: Hub
    instance_id: str
    address: str
    document: str
    signature: str
    key: str = field(default_factory=new_key)
    lease_id: str = ""
    token: str = ""
    grant: dict[str, Any] = field(default_factory=dict)
    _server: web.AppRunner | None = None

    @classmethod
    async def on(cls, hub: Hub, instance_id: str) -> AgentByHand:
        """On an instance that has booted: its metadata service answers."""

        async def identity() -> tuple[str, str, str] | None:
            for instance in await hub.embedded.instances():
                if instance["instance_id"] == instance_id and instance["metadata_endpoint"]:
                    identity = await _identity(instance["metadata_endpoint"])
                    return instance["address"], *identity
            return None

        address, document, signature = await until(identity, 20, f"{instance_id} to boot")
        return cls(hub, instance_id, address, document, signature)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def claim(self, **changes: Any) -> dict[str, Any]:
        """The body of this agent's claim."""
        return {
            "protocol": PROTOCOL,
            "document": self.document,
            "signature": self.signature,
            "key": self.key,
            "wait_seconds": 10,
        } | changes

    async def obtain_lease(self) -> dict[str, Any]:
        """Claim until there is a lease."""

        async def granted() -> dict[str, Any] | None:
            reply = await call(self.hub, "claims", self.claim())
            assert reply.status_code in {200, 202}, reply.text
            return reply.json() if reply.status_code == 200 else None

        self.grant = await until(granted, 30, "a lease")
        self.lease_id, self.token = self.grant["lease_id"], self.grant["lease_token"]
        return self.grant

    async def serve(self) -> None:
        """Something that answers where the notebook would, for JupyterHub's own look."""

        async def answer(_request: web.Request) -> web.Response:
            return web.json_response({"version": "by hand"})

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        self._server = web.AppRunner(app, shutdown_timeout=0.1)
        await self._server.setup()
        await web.TCPSite(self._server, self.address, self.grant["port"]).start()

    async def wait_home(self) -> None:
        """As every agent does before it is ready: the hub gives up the attaching with the start."""
        home = [
            {"Name": "attachment.instance-id", "Values": [self.instance_id]},
            {"Name": "tag-key", "Values": [HOME]},
        ]
        ec2 = self.hub.embedded.client()

        async def attached() -> bool:
            return bool((await asyncio.to_thread(ec2.describe_volumes, Filters=home))["Volumes"])

        await until(attached, 30, "the home to be attached")

    async def close(self) -> None:
        if self._server is not None:
            await self._server.cleanup()

    async def say(self, what: str, body: Any, token: str | None = None) -> httpx.Response:
        """A call about this agent's lease, with its token or another."""
        token = self.token if token is None else token
        return await call(self.hub, f"leases/{self.lease_id}/{what}", body, token)

    async def event(self, step: str, **more: Any) -> httpx.Response:
        return await self.say("events", {"step": step, "at": now(), **more})

    async def heartbeat(self, **more: Any) -> httpx.Response:
        return await self.say("beat", {"protocol": PROTOCOL, **more})

    @asynccontextmanager
    async def speaking(self) -> AsyncIterator[None]:
        """Send a heartbeat now and then: a hub takes a claim on an instance whose agent has been
        silent for 75 s for a restart, and ends the server."""

        async def speak() -> None:
            while True:
                await asyncio.sleep(HEARTBEAT_SECONDS)
                with suppress(httpx.HTTPError):  # a test may have killed the hub
                    await self.heartbeat()

        speaking = asyncio.create_task(speak())
        try:
            yield
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)


async def call(hub: Hub, path: str, body: Any, token: str = "") -> httpx.Response:
    """A call of the agents' API; `body` is JSON, or bytes to be sent as they are."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    # Nothing here is TLS: to load certificates for each call takes longer than the call.
    async with httpx.AsyncClient(timeout=70, verify=False) as client:
        return await client.post(f"{hub.agent_api}/{path}", headers=headers, **content)


async def agent_of_new_instance(hub: Hub, known: set[str]) -> AgentByHand:
    """The agent of the instance that is there and was not known."""

    async def instance_id() -> str | None:
        found = {instance["instance_id"] for instance in await hub.embedded.instances()}
        return next(iter(found - known), None)

    return await AgentByHand.on(hub, await until(instance_id, 20, "a new instance"))


@asynccontextmanager
async def server_by_hand(
    hub: Hub, user: str, server: str = "", options: dict[str, Any] | None = None
) -> AsyncIterator[AgentByHand]:
    """A server of `user` that is ready, and its agent. Stopped at the end, where it still runs."""
    known = {instance["instance_id"] for instance in await hub.embedded.instances()}
    starting = asyncio.create_task(hub.request_server(user, server, options))
    agent = await agent_of_new_instance(hub, known)
    try:
        await agent.obtain_lease()
        await agent.serve()
        if agent.grant["home"]["kind"] == "ebs":
            await agent.wait_home()
        assert (await agent.event("ready", port=agent.grant["port"])).status_code == 204
        reply = await starting
        assert reply.is_success, reply.text
        await hub.wait_ready(user, server)
        async with agent.speaking():
            yield agent
    finally:
        await end_by_hand(agent, user, server)


async def end_by_hand(agent: AgentByHand, user: str, server: str = "") -> None:
    """The server stops, and its agent does its part at once."""
    deleting = asyncio.create_task(agent.hub.api.delete(agent.hub.server_path(user, server)))
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(90):
            while not deleting.done() and (await agent.heartbeat(hold_seconds=0.5)).is_success:
                if (await agent.event("stopped")).status_code == 410:
                    break
    finally:
        await deleting
        await agent.close()
    await agent.hub.wait_gone(user, server)


@asynccontextmanager
async def browser(hub: Hub, user: str) -> AsyncIterator[httpx.AsyncClient]:
    """A logged-in browser: cookies and nothing else."""
    async with httpx.AsyncClient(
        base_url=hub.url, timeout=30, verify=False, follow_redirects=True
    ) as client:
        form = {
            "username": user,
            "password": PASSWORD,
            "_xsrf": await xsrf_of(client, "/hub/login"),
        }
        reply = await client.post("/hub/login?next=/hub/home", data=form)
        assert reply.url.path == "/hub/home", reply.text
        yield client


async def xsrf_of(client: httpx.AsyncClient, path: str) -> str:
    """The token that a form on this page carries."""
    page = (await client.get(path)).text
    found = re.search(r'name="_xsrf" value="([^"]+)"|_xsrf=([^"&]+)', page)
    assert found, page
    return found.group(1) or found.group(2)


async def _identity(endpoint: str) -> tuple[str, str]:
    """Identity document and signature, as the instance itself reads them."""
    latest = f"{endpoint}/latest"
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        token = (await client.put(f"{latest}/api/token", headers=ttl)).text
        headers = {"X-aws-ec2-metadata-token": token}
        document, signature = [
            (await client.get(f"{latest}/dynamic/instance-identity/{name}", headers=headers)).text
            for name in ("document", "rsa2048")
        ]
    return document, signature
