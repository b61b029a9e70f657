"""From an instance that is nobody's to one that holds a lease."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

from ..core.backoff import Backoff
from ..wire import (
    PROTOCOL,
    Claim,
    ClaimWait,
    LeaseGrant,
)
from .hub.client import (
    HubClient,
    HubError,
    HubRefusedError,
    PowerOffError,
)
from .metadata.identity import Identity

log = logging.getLogger(__name__)

WAIT_SECONDS = 25.0
"""How long the hub may hold one claim: under the idle timeout of proxies and load balancers."""

UNCLAIMED_LIMIT_SECONDS = 900.0
"""Nobody's and without a usable answer from the hub for this long: the instance powers itself
off, so that a hub that never comes back leaves nothing running."""


def new_key() -> str:
    """The agent's key: 32 random bytes, base64url without padding; it lives in memory only."""
    return secrets.token_urlsafe(32)


def new_claim(
    identity: Identity,
    key: str,
    agent_version: str,
    real_boot: bool,
    broken: str = "",
    interruption_at: datetime | None = None,
) -> Claim:
    """`broken`: what is broken on this machine, for people; empty where nothing is known to be.
    `interruption_at`: when EC2 takes it back, where there is a notice."""
    return Claim(
        protocol=PROTOCOL,
        document=identity.document,
        signature=identity.signature,
        key=key,
        agent_version=agent_version,
        boot_seconds=_seconds_since_boot() if real_boot else None,
        wait_seconds=WAIT_SECONDS,
        broken=broken,
        interruption_at=interruption_at,
    )


async def claim_lease(
    hub: HubClient,
    claim: Claim,
    claim_anew: Callable[[], Awaitable[Claim]],
    *,
    give_up_after: float = UNCLAIMED_LIMIT_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
) -> LeaseGrant:
    """The lease that this instance gets, however long that takes.

    Raises `PowerOffError` where the hub says so, or has given no usable answer for `give_up_after`
    seconds. A refusal is logged and asked again, ever more rarely, with what `claim_anew` reads:
    a hub that was misconfigured may be put right, an identity may have been misread, and a hub
    that means it ends this instance.
    """
    silence, refusal = Backoff(), Backoff(first=1.0, longest=300.0)
    answered_at = monotonic()
    while True:
        try:
            answer = await hub.claim(claim)
        except PowerOffError:
            raise
        except HubError as error:
            if monotonic() - answered_at > give_up_after:
                raise PowerOffError(f"no usable answer for {give_up_after:.0f} s") from error
            refused = isinstance(error, HubRefusedError)
            wait = error.retry_after + (refusal if refused else silence).next()
            log.warning("claim: %s; asking again in %.1f s", error, wait)
            await asyncio.sleep(wait)
            if refused:
                claim = await claim_anew()
            continue
        if isinstance(answer, LeaseGrant):
            return answer
        silence.reset()
        refusal.reset()
        answered_at = monotonic()
        await asyncio.sleep(_wait_of(answer))


def _wait_of(answer: ClaimWait) -> float:
    return min(answer.retry_after_seconds, 60.0)


def _seconds_since_boot() -> float | None:
    try:
        return float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None
