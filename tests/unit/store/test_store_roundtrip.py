"""Every value comes back from the store as it went in, whatever it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from ec2spawner.core.homes.zone_migration import Move
from ec2spawner.core.instances.retention_rules import AfterStop, Kept
from ec2spawner.core.ledger.cost_rows import (
    WHOSE,
    CostRow,
    CostSum,
    Dimension,
    Purpose,
    Resource,
    sum_rows,
)
from ec2spawner.core.ledger.idle_spans import IdleSpan
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.core.offers.launch_errors import LaunchError
from ec2spawner.core.offers.spot_wait import Wait
from ec2spawner.core.sleep.continuation import TakenOver
from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.provisioner.model.cloud.image import Image
from ec2spawner.provisioner.model.cloud.launch import DataVolume, LaunchRequest, LaunchSpec
from ec2spawner.provisioner.model.leases.lease import (
    Attempt,
    AttemptOutcome,
    Binding,
    Home,
    Intent,
    IntentState,
    Lease,
    LeaseState,
    Snapshot,
    StepEvent,
)
from ec2spawner.provisioner.model.leases.mounts import Mounts
from ec2spawner.provisioner.model.sleeping_session import SleepingSession
from ec2spawner.provisioner.store import tables
from ec2spawner.provisioner.store.store import Store
from ec2spawner.wire import (
    BucketMount,
    HomeMount,
    IdlePolicy,
    LostVariable,
    Market,
    SavedKernel,
    SavedSession,
    SavedVariable,
    Step,
    Stop,
)

T = TypeVar("T")
LONG_AGO = datetime(1990, 1, 1, tzinfo=UTC)

# PostgreSQL knows no NUL in a text: see test_store_postgresql.py.
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
words = st.lists(text, max_size=3).map(tuple)
price = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
offsets = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
instants = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=offsets)  # noqa: DTZ001
maybe_instant = st.none() | instants
markets = st.sampled_from(Market)

specs = st.builds(
    LaunchSpec,
    instance_types=words,
    subnets=words,
    image_id=text,
    markets=st.lists(markets, max_size=2).map(tuple),
    disk_gib=st.integers(1, 16384),
    security_groups=words,
    instance_profile=text,
    key_name=text,
    user_data=text,
    data_volumes=st.lists(st.builds(DataVolume, snapshot=text, path=text), max_size=2).map(tuple),
    max_usd_per_hour=st.none() | price,
)
seconds = st.floats(0, 1e9)
policies = st.builds(
    IdlePolicy,
    server_seconds=seconds,
    kernel_seconds=seconds,
    warn_seconds=seconds,
    user_may_extend_seconds=seconds,
    max_age_seconds=seconds,
    then=st.sampled_from(["sleep", "stop"]),
    gpu_busy_percent=st.floats(0, 100),
    cpu_busy_percent=st.floats(0, 1000),
)
stops = st.builds(Stop, reason=st.sampled_from(["user", "idle", "budget", "lost"]), message=text)
segments = st.builds(
    Segment,
    instance_id=text,
    market=markets,
    usd_per_hour=st.none() | price,
    start=instants,
    end=maybe_instant,
    source=text,
    zone=text,
    gpus=st.integers(0, 16).map(float),
    on_demand_usd_per_hour=st.none() | price,
)
events = st.builds(StepEvent, step=st.sampled_from(Step), at=instants, message=text, detail=text)
attempts = st.builds(
    Attempt,
    market=markets,
    instance_types=words,
    zones=words,
    at=instants,
    usd_per_hour=st.none() | price,
    outcome=st.sampled_from(AttemptOutcome),
    answer=text,
    skipped=text,
)
images = st.builds(
    Image,
    image_id=text,
    name=text,
    created_at=maybe_instant,
    architecture=text,
    root_device=text,
    driver=text,
)
mounts = st.builds(
    Mounts,
    efs=st.none()
    | st.builds(
        HomeMount,
        kind=st.just("efs"),
        file_system=text,
        access_point=text,
        directory=text,
        tls=st.booleans(),
        iam=st.booleans(),
    ),
    buckets=st.lists(
        st.builds(BucketMount, bucket=text, prefix=text, path=text, read_only=st.booleans()),
        max_size=2,
    ).map(tuple),
    scratch=text,
)
leases = st.builds(
    Lease,
    lease_id=text,
    user=text,
    server=text,
    profile=text,
    profile_name=text,
    spec=specs,
    launch_key=text,
    home_kind=text,
    home_gib=st.integers(0, 16384),
    idle=policies,
    state=st.sampled_from(LeaseState),
    requested_at=instants,
    sealed_start=text,
    instance_id=st.none() | text,
    token_sha256=text,
    url=text,
    assigned_at=maybe_instant,
    ready_at=maybe_instant,
    ended_at=maybe_instant,
    extended_until=maybe_instant,
    stop=st.none() | stops,
    replaced=st.integers(0, 100),
    events=st.lists(events, max_size=5).map(tuple),
    attempts=st.lists(attempts, max_size=3).map(tuple),
    image=st.none() | images,
    segments=st.lists(segments, max_size=5).map(tuple),
    payer=text,
    stop_requested_at=maybe_instant,
    idle_spans=st.lists(st.builds(IdleSpan, instants, maybe_instant), max_size=3).map(tuple),
    after_stop=st.builds(AfterStop),
    sleep=st.builds(
        SleepRules,
        save_seconds=seconds,
        max_bytes=st.integers(0, 2**50),
        keep_seconds=seconds,
        after_interruption=st.sampled_from(["resume", "resume-on-demand", "stop"]),
    ),
    continues=text,
    taken_over=st.builds(TakenOver, st.just("hardware"), seconds, seconds, st.integers(0, 9)),
    mounts=mounts,
    wait=st.none()
    | st.builds(Wait, until=instants, otherwise=st.lists(markets, max_size=2).map(tuple)),
).filter(lambda lease: lease.state is not LeaseState.ENDED or lease.ended_at is not None)
requests = st.builds(
    LaunchRequest,
    client_token=text,
    market=markets,
    count=st.integers(1, 1000),
    spec=specs,
    tags=st.dictionaries(text, text, max_size=4),
    offers=st.lists(st.tuples(text, text), max_size=3).map(tuple),
    preferred=st.integers(0, 3),
)
errors = st.builds(LaunchError, code=text, message=text, instance_type=text, subnet=text, zone=text)
intents = st.builds(
    Intent,
    request=requests,
    launch_key=text,
    state=st.sampled_from(IntentState),
    created_at=instants,
    instance_ids=words,
    errors=st.lists(errors, max_size=3).map(tuple),
)
bindings = st.builds(Binding, instance_id=text, key_sha256=text, bound_at=instants)
moves = st.builds(
    Move,
    move_id=text,
    zone=text,
    from_volume_id=text,
    from_zone=text,
    volume_token=text,
    snapshot_asked_at=maybe_instant,
    snapshot_id=st.none() | text,
    volume_id=st.none() | text,
    opened_at=maybe_instant,
    discard=words,
)
homes = st.builds(
    Home,
    home_id=text,
    user=text,
    server=text,
    kind=text,
    size_gib=st.integers(1, 16384),
    created_at=instants,
    volume_id=st.none() | text,
    zone=st.none() | text,
    volume_token=text,
    made_from=text,
    used_at=maybe_instant,
    move=st.none() | moves,
)
keeps = st.builds(
    Kept,
    instance_id=text,
    user=text,
    server=text,
    lease_id=text,
    profile=text,
    profile_name=text,
    then=st.sampled_from(["linger", "stop"]),
    fit_key=text,
    kept_at=instants,
    until=instants,
    launched_at=instants,
    disk_gib=st.integers(1, 16384),
    started_for=text,
    asked_at=maybe_instant,
)

counts = st.integers(0, 2**31)
saved_kernels = st.builds(
    SavedKernel,
    path=text,
    kernel_name=text,
    variables=counts,
    size_bytes=counts,
    largest=st.lists(st.builds(SavedVariable, name=text, size_bytes=counts), max_size=2),
    lost=st.lists(st.builds(LostVariable, name=text, code=text), max_size=2),
    lost_count=counts,
    code=text,
)
sleeping_sessions = st.builds(
    SleepingSession,
    user=text,
    server=text,
    lease_id=text,
    session=st.builds(
        SavedSession,
        id=text,
        slept_at=instants,
        trigger=st.sampled_from(["interruption", "idle", "user", "hardware"]),
        seconds=seconds,
        size_bytes=counts,
        kernels=st.lists(saved_kernels, max_size=2),
        kernel_count=counts,
    ),
    expires_at=instants,
    woken_at=maybe_instant,
    expiry_reported=st.booleans(),
)


words_of_costs = st.sampled_from(["", "ada", "bob", "hub", "t4", "used", "idle", "instance"])
SOME_DAY = date(2026, 11, 20)
SOME_SEGMENT = Segment("i-1", Market.SPOT, 0.2, LONG_AGO, LONG_AGO)
SOME_LEASE = Lease(
    lease_id="lease",
    user="ada",
    server="",
    profile="t4",
    profile_name="T4",
    spec=LaunchSpec((), (), "", (), 8),
    launch_key="",
    home_kind="none",
    home_gib=0,
    idle=IdlePolicy(),
    state=LeaseState.ENDED,
    requested_at=LONG_AGO,
    ended_at=LONG_AGO,
)
costs = st.builds(
    CostRow,
    day=st.integers(0, 4).map(lambda days: SOME_DAY + timedelta(days=days)),
    user=words_of_costs,
    server=words_of_costs,
    payer=words_of_costs,
    profile=words_of_costs,
    instance_type=words_of_costs,
    zone=words_of_costs,
    market=words_of_costs,
    resource=st.sampled_from(Resource),
    purpose=st.sampled_from(Purpose),
    cause=words_of_costs,
    microseconds=st.integers(0, 10**13),
    gpus=st.integers(0, 16).map(float),
    nano_usd=st.none() | st.integers(0, 10**15),
    on_demand_nano_usd=st.none() | st.integers(0, 10**15),
)


class EmptiedStore:
    """One store for all examples: to open one takes ten times as long as to write and read."""

    def __init__(self, runner: asyncio.Runner, store: Store) -> None:
        self._runner = runner
        self._store = store

    def run(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """What the work on the store answers, which is empty before."""

        async def emptied_first() -> T:
            await self._store._thread.write(remove_all)
            return await work(self._store)

        return self._runner.run(emptied_first())

    def after(self, save: Callable[[Store], Awaitable[None]]) -> Snapshot:
        """What an empty store loads after `save`."""

        async def work(store: Store) -> Snapshot:
            await save(store)
            await save(store)  # every write may be repeated
            return await store.load()

        return self.run(work)


def remove_all(connection: Connection) -> None:
    for table in reversed(tables.metadata.sorted_tables):
        if table is not tables.store_table:
            connection.execute(table.delete())


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest) -> Iterator[EmptiedStore]:
    url = "sqlite://"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql").new_database()
    with asyncio.Runner() as runner:
        store = runner.run(Store.open(url, now=LONG_AGO))
        yield EmptiedStore(runner, store)
        runner.run(store.close())


@settings(max_examples=50, deadline=None)
@given(leases)
def test_leases(empty: EmptiedStore, lease: Lease) -> None:
    loaded = empty.after(lambda store: store.save_lease(lease))
    assert (*loaded.leases, *loaded.ended_lately) == (lease,)


@settings(max_examples=25, deadline=None)
@given(intents)
def test_intents(empty: EmptiedStore, intent: Intent) -> None:
    assert empty.after(lambda store: store.save_intent(intent)).intents == (intent,)


@settings(max_examples=15, deadline=None)
@given(bindings)
def test_bindings(empty: EmptiedStore, binding: Binding) -> None:
    assert empty.after(lambda store: store.save_binding(binding)).bindings == (binding,)


@settings(max_examples=15, deadline=None)
@given(homes)
def test_homes(empty: EmptiedStore, home: Home) -> None:
    assert empty.after(lambda store: store.save_home(home)).homes == (home,)


@settings(max_examples=15, deadline=None)
@given(keeps)
def test_kept_instances(empty: EmptiedStore, kept: Kept) -> None:
    assert empty.after(lambda store: store.save_kept(kept)).kept == (kept,)


@settings(max_examples=15, deadline=None)
@given(sleeping_sessions)
def test_sleeping_sessions(empty: EmptiedStore, session: SleepingSession) -> None:
    assert empty.after(lambda store: store.save_sleeping_session(session)).sleeping == (session,)


@settings(max_examples=15, deadline=None)
@given(segments)
def test_overhead(empty: EmptiedStore, segment: Segment) -> None:
    async def work(store: Store) -> tuple[Segment, ...]:
        await store.ledger.save_overhead([segment], "boot")
        return await store.ledger.overhead(LONG_AGO)

    assert empty.run(work) == (segment,)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(costs, st.integers(0, 2)), max_size=12),
    st.lists(st.sampled_from(Dimension), unique=True, max_size=3),
    st.dictionaries(st.sampled_from(Dimension), st.lists(words_of_costs, min_size=1), max_size=2),
)
def test_costs_are_summed_as_in_memory(
    empty: EmptiedStore,
    drawn: list[tuple[CostRow, int]],
    by: list[Dimension],
    filters: dict[Dimension, list[str]],
) -> None:
    """Of two leases and of one period of overhead, whose lines are written twice."""
    only: dict[Dimension, Collection[str]] = dict(filters)
    only.pop(Dimension.DAY, None)
    rows = [row for row, _ in drawn]

    async def work(store: Store) -> tuple[CostSum, ...]:
        for number in range(2):
            ended = replace(SOME_LEASE, lease_id=f"lease-{number}")
            for _ in range(2):
                await store.save_lease(ended, [row for row, of in drawn if of == number])
        overhead = [row for row, of in drawn if of == 2]
        assert await store.ledger.save_overhead([SOME_SEGMENT], "boot", overhead[1:]) == ()
        replaced = await store.ledger.save_overhead([SOME_SEGMENT], "boot", overhead)
        assert replaced == sum_rows(overhead[1:], WHOSE)
        return tuple(await store.ledger.costs(SOME_DAY, SOME_DAY + timedelta(days=2), by, only))

    expected = sum_rows([row for row in rows if row.day <= SOME_DAY + timedelta(days=2)], by, only)
    assert empty.run(work) == expected


@settings(max_examples=15, deadline=None)
@given(instants)
def test_instants_come_back_as_utc(empty: EmptiedStore, instant: datetime) -> None:
    home = Home("home", "ada", "", "ebs", 1, instant)
    (loaded,) = empty.after(lambda store: store.save_home(home)).homes
    assert loaded.created_at.tzinfo is UTC
