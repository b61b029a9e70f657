"""What claims cost the hub, and whom a flood of them hinders."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ec2spawner.aws.identity import IdentityRefused, IdentityVerifier
from ec2spawner.embedded.runtime.identity import IdentitySigner
from ec2spawner.hub.security import claim_rate_limit
from ec2spawner.hub.security.claim_rate_limit import ClaimGate, TooManyClaims
from ec2spawner.wire import Claim

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")

OURS, STRANGE = "i-078517ca8a70a1dde", "i-0123456789abcdef0"


class Gate:
    """A gate with a clock to turn, and EC2's signature."""

    def __init__(self, folder: Path) -> None:
        self.signer = IdentitySigner(folder)
        self.now = 100.0
        self.verifier = IdentityVerifier("us-east-1", [self.signer.certificate_path])
        self.gate = ClaimGate(self.verifier, lambda each: each == OURS, lambda: self.now)

    def claim(self, instance_id: str, forged: str = "") -> Claim:
        fields = {
            "instanceId": instance_id,
            "accountId": "123456789012",
            "region": "us-east-1",
            "pendingTime": "2026-11-20T09:25:44Z",
        }
        document = json.dumps(fields)
        signature = self.signer.sign(document.encode())
        return Claim(protocol=2, document=document + forged, signature=signature, key="k" * 43)

    async def refused(self, claim: Claim) -> str:
        try:
            await self.gate.identify(claim)
        except IdentityRefused:
            return "refused"
        except TooManyClaims:
            return "limited"
        return "proved"


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    made = Gate(tmp_path)
    yield made
    made.verifier.close()


async def test_unknown_claims_share_one_limit_without_affecting_our_instances(gate: Gate) -> None:
    burst = claim_rate_limit.STRANGERS.burst
    forged = [gate.claim(f"i-{n:017x}", forged=" x") for n in range(burst + 3)]
    assert [await gate.refused(each) for each in forged] == ["refused"] * burst + ["limited"] * 3
    assert await gate.refused(gate.claim(OURS)) == "proved"
    gate.now += 1 / claim_rate_limit.STRANGERS.per_second
    assert await gate.refused(gate.claim(STRANGE)) == "proved"
    assert await gate.refused(gate.claim(STRANGE)) == "limited"


async def test_a_limited_claim_gets_retry_after(gate: Gate) -> None:
    for _ in range(claim_rate_limit.STRANGERS.burst):
        await gate.refused(gate.claim(STRANGE))
    with pytest.raises(TooManyClaims) as limited:
        await gate.gate.identify(gate.claim(STRANGE))
    gate.now += limited.value.seconds
    assert await gate.refused(gate.claim(STRANGE)) == "proved"


async def test_a_claim_that_is_repeated_is_verified_once(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = gate.claim(OURS)
    assert await gate.refused(claim) == "proved"
    monkeypatch.setattr(gate.verifier, "_openssl", "/nonexistent/openssl")
    for _ in range(claim_rate_limit.KNOWN.burst - 2):
        assert await gate.refused(claim) == "proved"
    changed = claim.model_copy(update={"signature": claim.signature[:-8] + "AAAAAAA="})
    with pytest.raises(OSError, match="nonexistent"):
        await gate.gate.identify(changed)


async def test_claims_that_one_of_our_instances_repeats_are_limited(gate: Gate) -> None:
    """Also those that are answered "wait": `wait_seconds` may be 0."""
    claim = gate.claim(OURS)
    outcomes = [await gate.refused(claim) for _ in range(claim_rate_limit.KNOWN.burst + 2)]
    assert outcomes == ["proved"] * claim_rate_limit.KNOWN.burst + ["limited"] * 2
    gate.now += 1 / claim_rate_limit.KNOWN.per_second
    assert await gate.refused(claim) == "proved"
