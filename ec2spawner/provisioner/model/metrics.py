"""What has happened, for the hub's `/hub/metrics`. What is, `figures.py` reads from memory."""

from __future__ import annotations

from itertools import product
from typing import Final, get_args

from prometheus_client import Counter, Histogram

from ...core.alarms.alarm import Kind
from ...core.ledger.cost_rows import Purpose
from ...core.sleep.session_end import SessionEnd
from ...core.starts.outcome import Outcome
from ...wire import Market, Trigger

NO_MARKET: Final = "none"
"""Label of a start for which nothing was bought."""

DENIED_STARTS: Final = Counter(
    "ec2spawner_denied_starts_total",
    "Starts that a limit refused, by whose limit it was and what it bounds",
    ["scope", "limit"],
)

START_SECONDS: Final = Histogram(
    "ec2spawner_start_seconds",
    "From the request for a server to a notebook that listens, or to the end of a failed start",
    ["outcome", "market"],
    buckets=(2, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200),
)
"""A retained instance serves within seconds, EC2 boots one in half a minute to minutes, and spot
that is sold out may be awaited for longer."""

PHASE_SECONDS: Final = Histogram(
    "ec2spawner_start_phase_seconds",
    "How long the phases of starts took, without those in which a start ended",
    ["phase", "market"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200),
)

POOL_STARTS: Final = Counter(
    "ec2spawner_pool_starts_total",
    "Starts of profiles with a warm pool: hit (an instance was waiting), stopped (one was started "
    "that waited stopped) or miss, by profile",
    ["profile", "outcome"],
)

GPU_SECONDS: Final = Counter(
    "ec2spawner_gpu_seconds_total",
    "GPU-seconds of running instances: used, idle (of servers without work), or overhead (of no "
    "server that is ready)",
    ["purpose"],
)

ENDED: Final = Counter(
    "ec2spawner_leases_ended_total",
    "Servers that ended, and starts that failed, by the reason",
    ["reason"],
)

SLEPT: Final = Counter(
    "ec2spawner_sessions_slept_total",
    "Sessions whose variables were saved before their instance ended, by what caused that",
    ["trigger"],
)

SESSIONS_ENDED: Final = Counter(
    "ec2spawner_sessions_ended_total",
    "Sleeping sessions that were woken, replaced or deleted, or that expired",
    ["outcome"],
)

INTERRUPTIONS: Final = Counter(
    "ec2spawner_interruptions_total",
    "Spot instances that AWS reclaimed, whether somebody used them or not",
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

ALARMS: Final = Counter(
    "ec2spawner_alarms_total", "Alarms that were raised, also those sent in one message", ["kind"]
)

ALARMS_NOT_ACCEPTED: Final = Counter(
    "ec2spawner_alarms_not_accepted_total",
    "Attempts to send an alarm that its destination did not accept",
)

# Alerts count by `increase()`, which misses the first event of a series that it makes appear.
for _outcome, _market in product(Outcome, [*Market, NO_MARKET]):
    START_SECONDS.labels(_outcome, _market)
for _purpose in Purpose:
    GPU_SECONDS.labels(_purpose)
for _trigger in get_args(Trigger):
    SLEPT.labels(_trigger)
for _end in SessionEnd:
    SESSIONS_ENDED.labels(_end)
for _kind in Kind:
    ALARMS.labels(_kind)
