"""Where the time of our starts goes, step by step, as the store has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from sqlalchemy import create_engine, select

from ec2spawner.provisioner.store.tables import event_table, lease_table
from ec2spawner.wire import Step

STEPS = (
    "click → lease on the waiting list",
    "→ EC2 has launched an instance",
    "→ its agent has a lease",
    "→ home mounted",
    "→ notebook listens, hub knows",
    "→ JupyterHub says ready",
)


@dataclass(frozen=True, slots=True)
class Milestones:
    """Instants of one lease in the store, in UTC; None for what never happened."""

    requested: datetime
    launched: datetime | None
    assigned: datetime | None
    notebook: datetime | None
    ready: datetime | None


def step_seconds(clicked: float, milestones: Milestones, ready: float) -> tuple[float, ...]:
    """Seconds of each of `STEPS`: see `seconds_between`."""
    found = milestones
    at = (found.requested, found.launched, found.assigned, found.notebook, found.ready)
    return seconds_between(clicked, at, ready)


def seconds_between(
    began: float, milestones: Iterable[datetime | None], ended: float
) -> tuple[float, ...]:
    """Seconds from each to the next; their sum is `ended - began`. Epoch seconds. Pure.

    What happened out of order, or is not known, took no time: its neighbour has it.
    """
    instants = [began]
    for at in milestones:
        known = at.timestamp() if at is not None else instants[-1]
        instants.append(min(max(known, instants[-1]), ended))
    instants.append(ended)
    return tuple(after - before for before, after in pairwise(instants))


def read_milestones(store: Path) -> Mapping[str, Milestones]:
    """By user; each has had one server. The hub that owns the store has ended."""
    engine = create_engine(f"sqlite:///{store}")
    with engine.connect() as connection:
        leases = connection.execute(select(lease_table)).mappings().all()
        events = connection.execute(
            select(event_table).order_by(event_table.c.lease_id, event_table.c.position)
        ).mappings()
        at: dict[tuple[str, str], datetime] = {}
        for event in events:
            at.setdefault((event["lease_id"], event["step"]), event["at"].astimezone(UTC))
    engine.dispose()
    return {
        lease["user_name"]: Milestones(
            requested=lease["requested_at"],
            launched=at.get((lease["lease_id"], Step.BOOT)),
            assigned=lease["assigned_at"],
            notebook=at.get((lease["lease_id"], Step.NOTEBOOK)),
            ready=lease["ready_at"],
        )
        for lease in leases
    }
