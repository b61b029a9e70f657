"""Values for a store to keep, and a look into its database from outside the hub."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, DateTime, MetaData, NullPool, create_engine, null
from sqlalchemy.types import TypeEngine

from ec2spawner.core.ledger.cost_rows import CostRow, Purpose, Resource
from ec2spawner.provisioner.model.cloud.launch import LaunchRequest, LaunchSpec
from ec2spawner.provisioner.model.leases.lease import (
    Intent,
    IntentState,
    Lease,
    LeaseState,
    StepEvent,
)
from ec2spawner.provisioner.model.sleeping_session import SleepingSession
from ec2spawner.provisioner.store import migrations
from ec2spawner.wire import IdlePolicy, Market, SavedKernel, SavedSession, Step

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SPEC = LaunchSpec(
    instance_types=("g4dn.xlarge",),
    subnets=("subnet-a",),
    image_id="ami-1",
    markets=(Market.SPOT, Market.ON_DEMAND),
    disk_gib=100,
)

HOME_ROW = CostRow(
    day=NOW.date(),
    user="ada",
    server="",
    payer="user:ada",
    profile="",
    instance_type="",
    zone="",
    market="",
    resource=Resource.HOME,
    purpose=Purpose.USED,
    cause="",
    microseconds=1,
    gpus=0,
    nano_usd=7,
    on_demand_nano_usd=7,
)
"""A cost of the ledger that belongs to no lease."""


def lease(lease_id: str = "lease-1", **changes: object) -> Lease:
    made = Lease(
        lease_id=lease_id,
        user="ada",
        server="",
        profile="t4",
        profile_name="T4, 16 GB",
        spec=SPEC,
        launch_key="key",
        home_kind="ebs",
        home_gib=20,
        idle=IdlePolicy(),
        state=LeaseState.WAITING,
        requested_at=NOW,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def sleeping(server: str = "", session_id: str = "s-1", **changes: object) -> SleepingSession:
    kernel = SavedKernel(
        path="train.ipynb", kernel_name="python3", variables=14, size_bytes=3 * 2**30
    )
    made = SleepingSession(
        user="ada",
        server=server,
        lease_id="lease-1",
        session=SavedSession(
            id=session_id,
            slept_at=NOW,
            trigger="idle",
            seconds=8.0,
            size_bytes=3 * 2**30,
            kernels=[kernel],
            kernel_count=1,
        ),
        expires_at=NOW + timedelta(days=30),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def intent(token: str, state: IntentState, created_at: datetime) -> Intent:
    request = LaunchRequest(token, Market.SPOT, 2, SPEC, {"ec2spawner:intent": token})
    return Intent(request, "key", state, created_at)


def story(*seconds: float, start: datetime = NOW) -> tuple[StepEvent, ...]:
    """Request, boot, home, notebook, ready, each this many seconds after the one before."""
    events = [StepEvent(Step.REQUEST, start, "asked")]
    for step, taken in zip((Step.BOOT, Step.HOME, Step.NOTEBOOK, Step.READY), seconds, strict=True):
        events.append(StepEvent(step, events[-1].at + timedelta(seconds=taken), step.value))
    return tuple(events)


@contextlib.contextmanager
def other_program(url: str) -> Iterator[Connection]:
    """A connection to the store's database that is not the hub's."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool)
    with engine.connect() as connection:
        yield connection


def write_schema_0001(url: str) -> None:
    """An empty database becomes a store of the first released schema, with the rows that its own
    code wrote: `ada` runs, `bob` has stopped, and the launch for `eve` was not answered yet."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    written = json.loads(Path(__file__).with_name("store_of_schema_0001.json").read_text())
    with other_program(url) as database, database.begin():
        config.attributes["connection"] = database
        command.upgrade(config, "0001")
        tables = MetaData()
        tables.reflect(database)
        database.execute(tables.tables["store"].delete())
        for name, rows in written.items():
            table = tables.tables[name]
            for row in rows:
                values = {key: _typed(table.c[key].type, value) for key, value in row.items()}
                database.execute(table.insert().values(values))


def _typed(kind: TypeEngine[Any], value: Any) -> Any:
    if value is None:
        return null()
    if isinstance(kind, DateTime):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value


def dump(url: str) -> Mapping[str, list[tuple[Any, ...]]]:
    """All rows of all tables, by table."""
    with other_program(url) as connection:
        found = MetaData()
        found.reflect(connection)
        return {
            name: [tuple(row) for row in connection.execute(table.select())]
            for name, table in sorted(found.tables.items())
        }
