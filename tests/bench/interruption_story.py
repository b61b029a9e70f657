"""Where the time of an interruption goes, phase by phase, as the hub's store has it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import create_engine, select

from ec2spawner.provisioner.store.tables import event_table, lease_table
from ec2spawner.wire import Step
from tests.bench.start_story import seconds_between

PHASES = (
    "notice → the hub knows",
    "→ EC2 has launched a replacement",
    "→ it has booted, and the old server stops",
    "→ session saved, home released",
    "→ home moved",
    "→ notebook listens, JupyterHub knows",
    "→ variables are back, a cell has run",
)


@dataclass(frozen=True, slots=True)
class Moments:
    """Of one lease that continues another one; None for what is not known."""

    asked: datetime | None
    launched: datetime | None
    stopping: datetime | None
    released: datetime | None
    moved: datetime | None
    ready: datetime | None


def phase_seconds(noticed: float, moments: Moments, working: float) -> tuple[float, ...]:
    """Seconds of each of `PHASES`: see `seconds_between`."""
    at = (
        moments.asked,
        moments.launched,
        moments.stopping,
        moments.released,
        moments.moved,
        moments.ready,
    )
    return seconds_between(noticed, at, working)


def read_moments(store: Path) -> dict[str, list[Moments]]:
    """By user, of each interruption in order."""
    engine = create_engine(f"sqlite:///{store}")
    with engine.connect() as connection:
        leases = connection.execute(
            select(lease_table).order_by(lease_table.c.requested_at)
        ).mappings()
        by_id = {lease["lease_id"]: lease for lease in leases}
        at: dict[tuple[str, str], datetime] = {}
        for event in connection.execute(
            select(event_table).order_by(event_table.c.lease_id, event_table.c.position)
        ).mappings():
            at.setdefault((event["lease_id"], event["step"]), event["at"])
    engine.dispose()
    found = defaultdict(list)
    for lease_id, lease in by_id.items():
        if lease["continues"] in by_id:
            found[lease["user_name"]].append(
                Moments(
                    asked=lease["requested_at"],
                    launched=at.get((lease_id, Step.BOOT)),
                    stopping=by_id[lease["continues"]]["stop_requested_at"],
                    released=at.get((lease_id, Step.HOME)),
                    moved=at.get((lease_id, Step.NOTEBOOK)),
                    ready=lease["ready_at"],
                )
            )
    return dict(found)
