"""Claims a lease for this instance."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ..core.backoff import Backoff
from ..wire import PROTOCOL, Claim, ClaimWait, Fault, LeaseGrant
from .hub.client import HubClient, HubError, HubRefusedError, PowerOffError
from .metadata.identity import Identity
from .read_ahead.process import ReadAhead

log = logging.getLogger(__name__)

WAIT_SECONDS = 25.0
"""How long the hub may hold one claim: below the idle timeout of proxies and load balancers."""

ANSWERED = "answered"
"""A file in the agent's run directory: a hub has answered a claim. Without it the timer
`ec2spawner-unclaimed`, which user-data installs, powers the instance off 30 minutes after its
boot, whatever became of this agent. `hub/spawn/user_data.sh` names it too."""

FIRST_WAIT_SECONDS = 2.0
"""The same of the first claims while the hub may have files for it to read: those it names in its
answer."""

SHORT_CLAIMS = 3
"""So many claims are short: by then a pass of the hub has seen an instance that waits in the pool.
Where it names no files later, the agent has a lease to wait for, and each claim costs the hub."""

UNCLAIMED_LIMIT_SECONDS = 900.0
"""An instance without a lease powers itself off after this long without a usable answer from the
hub, so that a hub that never returns leaves nothing running."""


@dataclass(frozen=True, slots=True)
class AgentStart:
    """When this agent started."""

    at: float
    """On the monotonic clock, in seconds."""
    boot_seconds: float | None
    """From kernel start; None where it is not known."""

    @classmethod
    def now(cls, *, is_real_boot: bool) -> AgentStart:
        """Where the kernel is another machine's, such as in a simulation, its start is unknown."""
        return cls(time.monotonic(), _seconds_since_boot() if is_real_boot else None)


def new_key() -> str:
    """The agent's key: 32 random bytes, base64url without padding; it lives in memory only."""
    return secrets.token_urlsafe(32)


def new_claim(
    identity: Identity,
    key: str,
    agent_version: str,
    start: AgentStart,
    fault: Fault,
    interruption_at: datetime | None = None,
) -> Claim:
    """A claim for this instance, to be sent now.

    `interruption_at`: when EC2 reclaims it, if there is a notice.
    """
    return Claim(
        protocol=PROTOCOL,
        document=identity.document,
        signature=identity.signature,
        key=key,
        agent_version=agent_version,
        boot_seconds=start.boot_seconds,
        agent_seconds=time.monotonic() - start.at,
        wait_seconds=WAIT_SECONDS,
        fault=fault,
        interruption_at=interruption_at,
    )


async def claim_lease(
    hub: HubClient,
    claim: Claim,
    renew_claim: Callable[[], Awaitable[Claim]],
    *,
    read_ahead: ReadAhead | None = None,
    answered: Callable[[], None] = lambda: None,
    give_up_after: float = UNCLAIMED_LIMIT_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
) -> LeaseGrant:
    """Claim until a lease is granted, without a timeout.

    Raises `PowerOffError` if the hub says so, or gives no usable answer for `give_up_after`
    seconds. A refused claim is logged and repeated with backoff, as a new claim from
    `renew_claim`: a misconfigured hub may be fixed, and an identity may have been misread. A hub
    that refuses for good terminates the instance. `answered` is called at each usable answer: from
    then on hub and agent end this instance when nobody needs it. `read_ahead` begins as the hub
    says, and whoever calls ends it; None reads nothing.
    """
    unreachable, refused = Backoff(), Backoff(first=1.0, longest=300.0)
    made_at = answered_at = monotonic()
    answers = 0
    while True:
        try:
            later = _sent_later(claim, monotonic() - made_at)
            is_short = answers < SHORT_CLAIMS
            answer = await hub.claim(_with_read_ahead(later, read_ahead, is_short=is_short))
        except PowerOffError:
            raise
        except HubError as error:
            if monotonic() - answered_at > give_up_after:
                raise PowerOffError(f"no usable answer for {give_up_after:.0f} s") from error
            is_refusal = isinstance(error, HubRefusedError)
            wait = error.retry_after + (refused if is_refusal else unreachable).next()
            log.warning("claim: %s; retrying in %.1f s", error, wait)
            await asyncio.sleep(wait)
            if is_refusal:
                claim, made_at = await renew_claim(), monotonic()
            continue
        answered()
        answers += 1
        if isinstance(answer, LeaseGrant):
            return answer
        if read_ahead is not None:
            read_ahead.begin(answer.read_ahead)
        unreachable.reset()
        refused.reset()
        answered_at = monotonic()
        await asyncio.sleep(_wait_of(answer))


def _sent_later(claim: Claim, seconds: float) -> Claim:
    """A claim as it is sent so long after it was made: its agent has run longer by then."""
    if claim.agent_seconds is None:
        return claim
    return claim.model_copy(update={"agent_seconds": claim.agent_seconds + seconds})


def _with_read_ahead(claim: Claim, read_ahead: ReadAhead | None, *, is_short: bool) -> Claim:
    if read_ahead is None:
        return claim
    is_short = is_short and not read_ahead.has_begun
    progress = {
        "reads_ahead": read_ahead.is_open,
        "read_ahead_bytes": read_ahead.bytes_read,
        "wait_seconds": FIRST_WAIT_SECONDS if is_short else WAIT_SECONDS,
    }
    return claim.model_copy(update=progress)


def _wait_of(answer: ClaimWait) -> float:
    return min(answer.retry_after_seconds, 60.0)


def _seconds_since_boot() -> float | None:
    try:
        return float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None
