"""Limits the rate of claims before they are verified, because each verification runs `openssl`.

Anyone who reaches the hub can send claims. The limit is keyed by the instance that a claim names:
each instance that the hub knows has its own bucket, and all others share a small one, so a flood of
unknown claims never blocks an instance that the hub launched. IP addresses are unsuitable as a key:
a header can name any address, and one NAT hides many clients.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from ...aws.identity import IdentityVerifier, InstanceIdentity
from ...core.names import sha256_hex
from ...core.rate_limit import Rate, RateLimit
from ...wire import Claim

KNOWN = Rate(burst=100, per_second=2.0)
"""Of an instance that the hub knows. Its agent sends two claims a minute while it waits, and a few
more when it begins (`agent.claim.SHORT_CLAIMS`)."""

STRANGERS = Rate(burst=20, per_second=10.0)
"""Of all others together: about a tenth of one CPU core."""

STRANGERS_KEY = "strangers"

MAX_VERIFIED = 4096
"""Verified documents to remember: an agent repeats its claim unchanged, every 30 seconds or
sooner."""

_INSTANCE_ID = re.compile(r'"instanceId"\s*:\s*"(i-[0-9a-f]{8,32})"')


class TooManyClaims(Exception):
    """429: retry after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many claims: ask again in {seconds:.0f} s")
        self.seconds = seconds


@dataclass(slots=True)
class ClaimGate:
    """Limits claims by the instance they name, and remembers verified documents."""

    verifier: IdentityVerifier
    knows: Callable[[str], bool]
    """Whether the hub has launched, or lists, an instance of this id."""
    monotonic: Callable[[], float] = time.monotonic
    _known: RateLimit = field(default_factory=lambda: RateLimit(KNOWN))
    _strangers: RateLimit = field(default_factory=lambda: RateLimit(STRANGERS))
    _verified: OrderedDict[str, InstanceIdentity] = field(default_factory=OrderedDict)

    async def identify(self, claim: Claim) -> InstanceIdentity:
        """The identity that a claim proves.

        Raises `TooManyClaims`, `IdentityRefused`, and `IdentityBusyError`.
        """
        digest = sha256_hex(f"{claim.document}\0{claim.signature}")
        verified = self._verified.get(digest)
        limit, key = self._bucket(verified.instance_id if verified else _named(claim.document))
        now = self.monotonic()
        if not limit.take(key, now):
            raise TooManyClaims(limit.wait_seconds(key, now))
        if verified is not None:
            self._verified.move_to_end(digest)
            return verified
        identity = await self.verifier.verify(claim.document, claim.signature)
        self._verified[digest] = identity
        while len(self._verified) > MAX_VERIFIED:
            self._verified.popitem(last=False)
        return identity

    def _bucket(self, instance_id: str) -> tuple[RateLimit, str]:
        if instance_id and self.knows(instance_id):
            return self._known, instance_id
        return self._strangers, STRANGERS_KEY


def _named(document: str) -> str:
    """The instance that an unverified document names; empty for none."""
    found = _INSTANCE_ID.search(document)
    return found.group(1) if found else ""
