"""What JupyterHub's `/hub/metrics` says of us: its registry is prometheus-client's default one."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter

SECOND_KEY_CLAIMS: Final = Counter(
    "ec2spawner_second_key_claims_total",
    "Claims of an instance by another key than the one it is bound to: somebody on it tries to "
    "act as its agent",
)

CLAIMS_LIMITED: Final = Counter(
    "ec2spawner_claims_limited_total",
    "Claims that were answered 429, because too many had been refused before",
)
