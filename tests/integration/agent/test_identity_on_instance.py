"""The identity of an instance from a metadata service that answers as networks let it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from ec2spawner.agent.hub.client import PowerOffError
from ec2spawner.agent.metadata.identity import read_identity
from ec2spawner.agent.metadata.imds import MAX_RESPONSE_BYTES

DOCUMENT = json.dumps(
    {"instanceId": "i-0123", "instanceType": "g5.xlarge", "privateIp": "10.0.0.7"}
)
SIGNATURE = "MIIB" + "x" * 4000


class MetadataService:
    """Answers in two segments; `document` may be what a test needs."""

    def __init__(self) -> None:
        self.document = DOCUMENT
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        name = request.path.rsplit("/", 1)[-1]
        text = {"token": "a-token", "document": self.document, "rsa2048": SIGNATURE}[name]
        response = web.StreamResponse()
        response.content_length = len(text)
        await response.prepare(request)
        await response.write(text[: len(text) // 2].encode())
        await asyncio.sleep(0.05)
        await response.write(text[len(text) // 2 :].encode())
        return response


@pytest.fixture
async def metadata() -> AsyncIterator[MetadataService]:
    service = MetadataService()
    app = web.Application()
    app.router.add_route("*", "/latest/{rest:.*}", service.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield service
    await runner.cleanup()


async def test_a_response_in_two_segments_is_read_completely(metadata: MetadataService) -> None:
    async with aiohttp.ClientSession() as http:
        identity = await read_identity(metadata.url, http, give_up_after=5)
    assert identity.document == DOCUMENT
    assert identity.signature == SIGNATURE
    assert identity.private_address == "10.0.0.7"


@pytest.mark.parametrize("document", ["{", "{}", " " * (MAX_RESPONSE_BYTES + 1)])
async def test_an_instance_without_an_identity_gives_up(
    metadata: MetadataService, document: str
) -> None:
    metadata.document = document
    async with aiohttp.ClientSession() as http:
        with pytest.raises(PowerOffError, match="no identity"):
            await read_identity(metadata.url, http, give_up_after=0.3)
