"""The instance identity document, read over IMDSv2."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass

import aiohttp

from ...core.backoff import Backoff
from ..hub.client import PowerOffError
from .imds import Metadata, MetadataError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """What the instance metadata service says about this instance."""

    document: str
    """The exact JSON text that was signed."""
    signature: str
    """PKCS7 in base64 on one line, as from `/rsa2048`."""
    instance_id: str
    instance_type: str
    private_address: str


async def read_identity(
    endpoint: str, http: aiohttp.ClientSession, *, give_up_after: float
) -> Identity:
    """The identity of this instance; retries until the metadata service answers.

    Raises `PowerOffError` after `give_up_after` seconds: without an identity there is no lease.
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
            log.warning("%s; retrying in %.1f s", error, wait)
            await asyncio.sleep(wait)


async def _read_once(endpoint: str, http: aiohttp.ClientSession) -> Identity:
    metadata = Metadata(endpoint, http)
    document = await metadata.read("dynamic/instance-identity/document")
    signature = await metadata.read("dynamic/instance-identity/rsa2048")
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
        raise MetadataError(f"invalid identity document: {error!r}") from error
