"""Metrics of the hub's AWS calls. Their labels stay few: actions are those that this code calls."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Histogram

CALLS: Final = Counter(
    "ec2spawner_aws_calls_total",
    "Calls to AWS, each counted once however often it was repeated, by their outcome: ok, "
    "throttled, queued (its turn within EC2's rate limit would not have come in time), refused (a "
    "permission, a parameter, a state) or failed (no answer, or a fault of AWS's)",
    ["action", "outcome"],
)

SECONDS: Final = Histogram(
    "ec2spawner_aws_call_seconds",
    "How long calls to AWS took, with their repetitions and the waits before each",
    ["action"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)

THROTTLES: Final = Counter(
    "ec2spawner_aws_throttles_total",
    "Answers of AWS's that said: too many calls. Those that were repeated with success count too",
    ["action"],
)

QUEUED: Final = Counter(
    "ec2spawner_aws_queued_seconds_total",
    "Seconds that calls to EC2 waited before they were sent: for its rate limit, or for earlier "
    "calls of the same action",
    ["action"],
)
