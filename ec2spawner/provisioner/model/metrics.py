"""What has happened, for the hub's `/hub/metrics`. What is, `figures.py` reads from memory."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Histogram

START_SECONDS: Final = Histogram(
    "ec2spawner_start_seconds",
    "From the request for a server to a notebook that listens, of starts that got there",
    ["market"],
    buckets=(1, 2, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200),
)

ENDED: Final = Counter(
    "ec2spawner_leases_ended_total",
    "Servers that ended, and starts that failed, by the reason",
    ["reason"],
)

INTERRUPTIONS: Final = Counter(
    "ec2spawner_interruptions_total",
    "Spot instances that AWS took back, whether somebody used them or not",
    ["instance_type"],
)

PASS_SECONDS: Final = Histogram(
    "ec2spawner_pass_seconds",
    "How long a reconcile pass took",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60),
)

PASSES_FAILED: Final = Counter(
    "ec2spawner_passes_failed_total", "Reconcile passes that ended with an error"
)

STORE_ERRORS: Final = Counter(
    "ec2spawner_store_errors_total", "Reads and writes of the store that failed"
)

REAPED: Final = Counter(
    "ec2spawner_reaped_total",
    "Things left over in the cloud that were deleted, by their kind",
    ["kind"],
)
