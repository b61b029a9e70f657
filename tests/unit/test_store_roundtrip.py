"""Every value comes back from the store as it went in, whatever it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given, settings
from hypothesis import strategies as st

from ec2spawner.core.launch_errors import LaunchError
from ec2spawner.core.money import Segment
from ec2spawner.provisioner.cloud import Image, LaunchRequest, LaunchSpec
from ec2spawner.provisioner.lease import (
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
from ec2spawner.provisioner.store import Store
from ec2spawner.wire import IdlePolicy, Market, Step, Stop

LONG_AGO = datetime(1990, 1, 1, tzinfo=UTC)

text = st.text(max_size=40)
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
)
seconds = st.floats(0, 1e9)
policies = st.builds(
    IdlePolicy,
    server_seconds=seconds,
    kernel_seconds=seconds,
    warn_seconds=seconds,
    user_may_extend_seconds=seconds,
    max_age_seconds=seconds,
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
)
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
)


def after(save: Callable[[Store], Awaitable[None]]) -> Snapshot:
    """What a new, empty store loads after `save`."""

    async def run() -> Snapshot:
        store = await Store.open("sqlite://", now=LONG_AGO)
        try:
            await save(store)
            await save(store)  # every write may be repeated
            return await store.load()
        finally:
            await store.close()

    return asyncio.run(run())


@settings(max_examples=50, deadline=None)
@given(leases)
def test_leases(lease: Lease) -> None:
    loaded = after(lambda store: store.save_lease(lease))
    assert (*loaded.leases, *loaded.ended_lately) == (lease,)


@settings(max_examples=25, deadline=None)
@given(intents)
def test_intents(intent: Intent) -> None:
    assert after(lambda store: store.save_intent(intent)).intents == (intent,)


@settings(max_examples=15, deadline=None)
@given(bindings)
def test_bindings(binding: Binding) -> None:
    assert after(lambda store: store.save_binding(binding)).bindings == (binding,)


@settings(max_examples=15, deadline=None)
@given(homes)
def test_homes(home: Home) -> None:
    assert after(lambda store: store.save_home(home)).homes == (home,)


@settings(max_examples=15, deadline=None)
@given(segments)
def test_overhead(segment: Segment) -> None:
    async def run() -> tuple[Segment, ...]:
        store = await Store.open("sqlite://", now=LONG_AGO)
        try:
            await store.save_overhead(segment)
            return await store.overhead(LONG_AGO)
        finally:
            await store.close()

    assert asyncio.run(run()) == (segment,)


@settings(max_examples=15, deadline=None)
@given(instants)
def test_instants_come_back_as_utc(instant: datetime) -> None:
    home = Home("home", "ada", "", "ebs", 1, instant)
    (loaded,) = after(lambda store: store.save_home(home)).homes
    assert loaded.created_at.tzinfo is UTC
