"""Who this instance is: the instance identity document, read over IMDSv2."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass

import aiohttp

from .backoff import Backoff
from .hub_client import PowerOffError

log = logging.getLogger(__name__)

TOKEN_SECONDS = 21600
"""The longest life of an IMDSv2 token; one is enough for a boot."""

TIMEOUT = aiohttp.ClientTimeout(total=5)

MAX_ANSWER_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Identity:
    document: str
    """The exact JSON text that was signed."""
    signature: str
    """PKCS7, base64 in one line, as `/rsa2048` gives it."""
    instance_id: str
    instance_type: str
    private_address: str


class MetadataError(Exception):
    """The metadata service did not answer, or not with what it should."""


async def read_identity(
    endpoint: str, http: aiohttp.ClientSession, *, give_up_after: float
) -> Identity:
    """The identity of this instance; asks until the metadata service answers.

    Raises `PowerOffError` when it has not for `give_up_after` seconds: without an identity there
    is no lease, and nobody would miss this instance.
    """
    backoff = Backoff(first=0.1, longest=10.0)
    began = time.monotonic()
    while True:
        try:
            return await _read_once(endpoint, http)
        except MetadataError as error:
            if time.monotonic() - began > give_up_after:
                raise PowerOffError(f"no identity for {give_up_after:.0f} s") from error
            wait = backoff.next()
            log.warning("%s; asking again in %.1f s", error, wait)
            await asyncio.sleep(wait)


async def _read_once(endpoint: str, http: aiohttp.ClientSession) -> Identity:
    token = await _ask(
        http,
        "PUT",
        f"{endpoint}/latest/api/token",
        {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)},
    )
    headers = {"X-aws-ec2-metadata-token": token.strip()}
    identity = f"{endpoint}/latest/dynamic/instance-identity"
    document, signature = await asyncio.gather(
        _ask(http, "GET", f"{identity}/document", headers),
        _ask(http, "GET", f"{identity}/rsa2048", headers),
    )
    try:
        fields = json.loads(document)
        return Identity(
            document=document,
            signature="".join(signature.split()),
            instance_id=str(fields["instanceId"]),
            instance_type=str(fields["instanceType"]),
            private_address=str(fields["privateIp"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise MetadataError(f"the identity document is not as it should be: {error!r}") from error


async def _ask(http: aiohttp.ClientSession, method: str, url: str, headers: dict[str, str]) -> str:
    try:
        async with http.request(method, url, headers=headers, timeout=TIMEOUT) as response:
            if response.status != 200:
                raise MetadataError(f"{method} {url} answered {response.status}")
            body = bytearray()
            # To its end: one `read` gives what has come so far, and half a signature is none.
            async for part in response.content.iter_any():
                body += part
                if len(body) > MAX_ANSWER_BYTES:
                    raise MetadataError(f"{method} {url}: more than {MAX_ANSWER_BYTES} bytes")
            return body.decode()
    except (aiohttp.ClientError, TimeoutError, UnicodeDecodeError) as error:
        raise MetadataError(f"{method} {url}: {error!r}") from error
