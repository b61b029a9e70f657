"""The first four invariants of the design, after each step of whatever may happen to a hub.

A hypothesis state machine drives the real provisioner, its store's file included, over the
simulated EC2 in virtual time: each rule is a wish or a misfortune, then some time passes. A
failure prints its seed and its story; with `EC2SPAWNER_SEED` it is repeated and, in minutes, made
as short as hypothesis can. `make test` takes 1,000 steps, `make test-long` 10,000, or as many as
`EC2SPAWNER_STEPS` says.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import itertools
import logging
import os
import random
import secrets
import shutil
import sqlite3
import sys
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from ec2spawner.core import tags
from ec2spawner.core.instances.retention_rules import AfterStop, Kept
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.provisioner.instances.claims import ClaimRefused, InstanceUnwanted
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.launch import LaunchRequest
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.provisioner.reconciler import PASS_INTERVAL
from ec2spawner.wire import Market
from tests.unit.provisioner.populated_world import (
    BUSY,
    CALLS,
    LOST,
    REAL_PAUSES,
    HubIsDown,
    PopulatedWorld,
)
from tests.unit.provisioner.world import SPEC, Agent
from tests.virtual_time import VirtualTimeLoop

STEPS = 150
"""Of one story, at most: hypothesis ends some that have drawn much. The end of each costs what a
dozen steps cost."""

FEW = pytest.param(1_000, 8, id="short")
MANY = pytest.param(
    int(os.environ.get("EC2SPAWNER_STEPS", "10000")), 19, id="long", marks=pytest.mark.long
)
"""Steps of all stories together, at least, and stories with one seed: one seed, or four, is
enough, and little more."""

FIRST_SEED = 301
"""The same stories for every change, so that a failure is the change's; others by the variable."""

LATEST_LISTING = 20.0
"""Seconds by which the simulated EC2's listings lag behind its answers at most."""

TWO_PASSES = REAL_PAUSES.quiet_interval + 2 * PASS_INTERVAL + REAL_PAUSES.busy_interval
"""Seconds within which two passes see what a listing shows, also when nothing else happens."""

LINGER = AfterStop("linger", 100.0)
STOP = AfterStop("stop", 300.0, per_user=1)
KEPT = (AfterStop(), LINGER, STOP)

MAX_SKEW = 30.0
"""Seconds that the hub's clock jumps away from the true time, forward or back."""

USERS = tuple("ada bob cyd dot eve fay gus hal ida".split())

users = st.sampled_from(USERS)
nth = st.integers(0, 8)


@pytest.fixture
def failures() -> Iterator[list[logging.LogRecord]]:
    """What the provisioner logs with a traceback: it expected nothing of the kind."""
    found: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                found.append(record)

    logger, handler = logging.getLogger("ec2spawner"), Keep()
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    yield found
    logger.removeHandler(handler)
    logger.setLevel(before[0])  # loggers below it remember what is enabled until then
    logger.propagate = before[1]


@pytest.fixture
def one_story_per_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis also draws the constants of all our modules that happen to be imported, and so
    another story after other tests: here it draws none of them."""
    monkeypatch.setattr(providers, "_get_local_constants", Constants)
    monkeypatch.setattr(providers, "CONSTANTS_CACHE", {})


class Story(RuleBasedStateMachine):
    """One hub's life."""

    steps: ClassVar[int] = 0
    calls: ClassVar[Any] = hashlib.sha256()
    """Digest of all calls of all stories, and when they were made."""

    def __init__(self, folder: Path, empty: Path, failures: list[logging.LogRecord]) -> None:
        super().__init__()
        self.outer_error = sys.exc_info()[1]
        """Any other one, at the end, is this story's own."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(empty, folder / "store.sqlite")
        self.failures = failures
        failures.clear()
        self.loop = VirtualTimeLoop()
        self.world = PopulatedWorld(folder, self.loop)
        cloud, store_id = self.world.distant, "not-ours"
        self.strangers = {
            cloud.strange("i-untagged"),
            cloud.strange("i-other-hub", hub="another", store=store_id),
            cloud.strange("i-other-store", hub="hub", store=store_id),
            cloud.strange("i-other-lease", hub="hub", store=store_id, lease="lease-x", intent="x"),
            cloud.strange("i-no-store", hub="hub"),
        }
        self.run(self.world.start())
        self.store_id = self.world.store.store_id
        self.calls_seen = 0
        self.requests: dict[str, LaunchRequest] = {}
        self.surplus: tuple[object, float, int] = (None, 0.0, 0)
        """Which instances are too many, since when, and which pass was the last before."""
        self.latest_skew = self.repeated = 0.0
        """Seconds by which the hub's clock was ahead at most, and then back from there."""
        self.overdue: dict[str, float] = {}
        """Instance or lease id -> since when its time is up and nothing is in the way."""

    def check_invariants(self, *arguments: Any) -> None:
        """After each step. Not hypothesis' own invariants: it would print each after each step."""
        Story.steps += 1
        self.no_instance_without_a_lease()
        self.nothing_outlives_its_time()
        self.calls_are_as_they_must_be()
        self.no_server_is_lost()
        self.no_instance_serves_two_leases()
        self.each_user_has_one_home_at_most()
        self.accounts_of_leases_add_up()
        self.nothing_is_raised_unexpectedly()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def wait(self, seconds: float) -> None:
        self.run(self.world.run(seconds))

    # --- wishes ---

    @rule(user=users, home=st.booleans(), seconds=st.integers(0, 30), after=st.sampled_from(KEPT))
    def start(self, user: str, home: bool, seconds: int, after: AfterStop = KEPT[0]) -> None:
        if user not in self.world.servers:
            kind = "ebs" if home or user == USERS[0] else "none"
            changes: dict[str, Any] = {"after_stop": after} if after.then == "linger" else {}
            if after.then == "stop":
                changes = {"after_stop": after, "spec": replace(SPEC, markets=(Market.ON_DEMAND,))}
            self.run(self.world.start_server(user, home_kind=kind, **changes))
        self.wait(seconds)

    @rule(number=st.integers(1, 6), home=st.booleans(), seconds=st.integers(20, 60))
    def a_class_begins(self, number: int, home: bool, seconds: int) -> None:
        for user in USERS[:number]:
            self.start(user, home, 0)
        self.wait(seconds)

    @precondition(lambda self: self.world.servers)
    @rule(n=nth, seconds=st.integers(0, 30))
    def stop(self, n: int, seconds: int) -> None:
        """Or cancel a start."""
        user, lease_id = pick(list(self.world.servers.items()), n)
        self.run(self.world.stop_server(user, lease_id))
        self.wait(seconds)

    @precondition(lambda self: self.world.was_ready)
    @rule(n=nth, away=st.integers(0, 150), after=st.sampled_from(KEPT[1:]))
    def restart(self, n: int, away: int, after: AfterStop) -> None:
        """Some minutes after a stop, the same user is back."""
        [user] = self.world.served[pick(list(self.world.was_ready.values()), n)]
        if lease_id := self.world.servers.get(user):
            self.run(self.world.stop_server(user, lease_id))
            self.wait(away)
        self.start(user, False, 30, after)

    @rule(seconds=st.integers(1, 120))
    def let_time_pass(self, seconds: int) -> None:
        self.wait(seconds)

    # --- misfortunes ---

    @rule(ticks=st.integers(0, 200), down=st.integers(0, 100), asks=st.integers(0, 4))
    def crash(self, ticks: int, down: int, asks: int) -> None:
        """In the midst of it: a call takes six tenths of a second, a write two hundredths."""
        self.wait(ticks / 100)
        self.run(self.world.kill())
        self.every_request_was_stored()
        self.wait(down)
        self.run(self.world.come_back(asks=asks > 0))
        self.wait(1)

    @rule(
        name=st.sampled_from(CALLS),
        error=st.sampled_from([LOST, BUSY]),
        after=st.booleans(),
        times=st.integers(1, 4),
    )
    def fault(self, name: str, error: CloudError, after: bool, times: int) -> None:
        """Calls are throttled, or lost on their way there, or on their way back."""
        self.world.cloud.fail(name, error, times, after=after and error is LOST)
        self.wait(1)

    @rule(name=st.sampled_from(CALLS), after=st.booleans(), seconds=st.integers(5, 70))
    def hang(self, name: str, after: bool, seconds: int) -> None:
        gate = self.world.cloud.hold(name, after=after, then=LOST)
        self.loop.call_later(seconds, gate.set)
        self.wait(1)

    @rule(seconds=st.integers(1, 40))
    def store_refuses(self, seconds: int) -> None:
        """Its disk is full, or somebody else holds it."""
        self.loop.refusal = OSError(errno.ENOSPC, "No space left on device")
        self.loop.call_later(seconds, lambda: setattr(self.loop, "refusal", None))
        self.wait(1)

    @rule(seconds=st.integers(0, int(LATEST_LISTING)))
    def listings_lag(self, seconds: int) -> None:
        self.world.cloud.listing_lag = float(seconds)
        self.wait(1)

    @precondition(lambda self: self.world.ours())
    @rule(n=nth, long=st.booleans())
    def a_listing_lacks(self, n: int, long: bool) -> None:
        """Fewer listings in a row than count, or more."""
        machine = pick(self.world.ours(), n)
        machine.hidden = True
        if long:
            self.world.may_end[machine.instance.instance_id] = "in no listing for long"
        self.loop.call_later(60 if long else 3, lambda: setattr(machine, "hidden", False))
        self.wait(4)

    @precondition(lambda self: self.world.ours())
    @rule(n=nth, by_hand=st.booleans(), seconds=st.integers(0, 10))
    def instance_ends(self, n: int, by_hand: bool, seconds: int) -> None:
        """EC2 reclaims it, or somebody terminates it in the console."""
        instance_id = pick(self.world.ours(), n).instance.instance_id
        self.world.may_end[instance_id] = "it ended"
        reason = "Client.UserInitiatedShutdown" if by_hand else "Server.SpotInstanceTermination"
        self.world.cloud.end(instance_id, reason)
        self.wait(seconds)

    @rule(market=st.sampled_from(Market), left=st.integers(0, 1), seconds=st.integers(0, 20))
    def sold_out(self, market: Market, left: int, seconds: int) -> None:
        self.world.cloud.sell_out(market, left=left)
        self.wait(seconds)

    @rule(seconds=st.integers(0, 60))
    def there_is_capacity(self, seconds: int) -> None:
        self.world.cloud.capacity.clear()
        self.wait(seconds)

    @rule(cents=st.integers(1, 60), seconds=st.integers(0, 310))
    def prices_move(self, cents: int, seconds: int) -> None:
        for zone in self.world.cloud.subnets.values():
            self.world.cloud.prices["g4dn.xlarge", zone] = cents / 100
        self.wait(seconds)

    @precondition(lambda self: len(self.world.tempers) < 2)
    @rule(temper=st.sampled_from(["good", "mute", "stuck"]))
    def a_bad_image(self, temper: str) -> None:
        self.world.tempers.append(temper)
        self.wait(1)

    @precondition(lambda self: self.world.was_ready)
    @rule(n=nth)
    def agent_falls_silent(self, n: int) -> None:
        instance_id = pick(list(self.world.was_ready.values()), n)
        self.world.agents[instance_id].temper = "silent"
        self.world.may_end.setdefault(instance_id, "silent")  # whichever lease is served there
        self.wait(1)

    @rule(skew=st.integers(-int(MAX_SKEW), int(MAX_SKEW)))
    def clock_jumps(self, skew: int) -> None:
        self.latest_skew = max(self.latest_skew, skew)
        self.repeated = max(self.repeated, self.latest_skew - skew)
        self.world.hub_clock.skew = float(skew)
        self.wait(1)

    @precondition(lambda self: self.world.given())
    @rule(n=nth)
    def a_second_key_claims(self, n: int) -> None:
        """Its user's process knows all that the instance does, but for its agent's key."""
        intruder = Agent(self.world, pick(self.world.given(), n))
        try:
            granted = self.run(self.world.call(intruder.claim(wait=0)))
        except (ClaimRefused, InstanceUnwanted, HubIsDown):
            granted = None
        assert granted is None, f"{intruder.instance_id} is given to a second key"
        self.wait(1)

    @precondition(lambda self: self.world.ours())
    @rule(n=nth)
    def somebody_copies_tags(self, n: int) -> None:
        machine = pick(self.world.ours(), n)
        intent = machine.instance.tags[tags.INTENT]
        if not self.world.provisioner._state.launches.is_open(intent):
            self.strangers.add(self.world.cloud.copy(machine.instance.instance_id))
        self.wait(1)

    # --- 1: no leak ---

    def no_instance_without_a_lease(self) -> None:
        """Beyond two passes that could see it, in a time without faults."""
        world, now = self.world, self.loop.time()
        open_leases = list(world.provisioner._state.leases.open())
        held = {lease.instance_id for lease in open_leases}
        waiting = [x.lease_id for x in open_leases if x.state is LeaseState.WAITING]
        held |= {each.instance_id for each in self.kept_in_time()}
        free = [m.instance.instance_id for m in world.ours() if m.instance.instance_id not in held]
        state = tuple(free), tuple(waiting), world.up_since
        troubled = self.is_troubled("list_instances", "terminate")
        if len(free) <= len(waiting) or troubled or state != self.surplus[0]:
            self.surplus = state, now, world.passes
        _, since, passes = self.surplus
        lasted, passed = now - since, world.passes - passes
        assert lasted <= TWO_PASSES + LATEST_LISTING or passed < 2, (
            f"{free} run for {len(waiting)} waiting leases, {passed} passes and {lasted:.0f} s on"
        )

    def is_troubled(self, *calls: str) -> bool:
        return self.loop.refusal is not None or self.world.distant.is_troubled(*calls)

    def kept_in_time(self) -> Iterator[Kept]:
        retained, now = self.world.provisioner._state.retained, self.world.hub_clock()
        for instance_id in retained.instance_ids:
            kept = retained.get(instance_id)
            if kept is not None and now < kept.until:
                yield kept

    def nothing_outlives_its_time(self) -> None:
        """Instances that never phoned home, and leases that end."""
        world, true_now = self.world, self.world.cloud.clock()
        up = set()
        for machine in world.ours():
            age = (true_now - machine.instance.launched_at).total_seconds()
            agent = world.agents[machine.instance.instance_id]
            listened = min(age, self.loop.time() - world.up_since)  # a hub that was down heard none
            if not agent.phoned and listened > REAL_PAUSES.boot_timeout + MAX_SKEW:
                up.add(agent.instance_id)
        up |= {lease.lease_id for lease in world.provisioner._state.leases.open(LeaseState.ENDING)}
        if self.is_troubled("list_instances", "terminate", "detach_volume"):
            up.clear()
        since = {each: self.overdue.get(each, self.loop.time()) for each in up}
        self.overdue = since
        allowed = TWO_PASSES + LATEST_LISTING + REAL_PAUSES.stop_timeout
        late = [x for x, t in since.items() if self.loop.time() - max(t, world.up_since) > allowed]
        assert not late, f"{late} should be over for more than {allowed:.0f} s"

    def calls_are_as_they_must_be(self) -> None:
        """2: no other server is affected, and none ends unasked. 1: tokens, tags. 4: homes."""
        calls = self.world.cloud.calls[self.calls_seen :]
        self.calls_seen += len(calls)
        for call in calls:
            Story.calls.update(f"{call.at} {call.name}\n".encode())
            touched = [x for argument in call.arguments for x in each_id(argument)]
            assert not self.strangers & set(touched), f"{call} touches somebody else's"
            if call.name == "terminate":
                for lease_id, instance_id in self.world.was_ready.items():
                    justified = instance_id not in touched or self.world.may_it_end(lease_id)
                    assert justified, f"{lease_id} is ended unasked by {call}"
            elif call.name == "launch":
                [request] = call.arguments
                first = self.requests.setdefault(request.client_token, request)
                assert first == request, f"{request.client_token} is used for two requests"
                assert request.tags[tags.HUB] == "hub"
                assert request.tags[tags.STORE] == self.store_id
                assert request.tags[tags.INTENT] == request.client_token
            elif call.name == "attach_volume":
                self.the_home_is_theirs(*call.arguments)

    def the_home_is_theirs(self, volume_id: str, instance_id: str) -> None:
        owner = self.world.cloud.volumes[volume_id].tags[tags.USER]
        leases = [
            lease
            for lease in self.world.provisioner._state.leases._remembered()
            if instance_id == lease.instance_id
            or instance_id in {segment.instance_id for segment in lease.segments}
        ]
        assert {lease.user for lease in leases} <= {owner}, f"{volume_id} goes to another user"

    def every_request_was_stored(self) -> None:
        with closing(sqlite3.connect(self.world.folder / "store.sqlite")) as database:
            rows = database.execute("SELECT client_token FROM intent").fetchall()
        called = {request.client_token for request in self.world.cloud.requests()}
        assert called <= {token for (token,) in rows}, "a call was made that was not stored before"

    # --- 2 and 3: no massacre, unknown is not gone ---

    def no_server_is_lost(self) -> None:
        world = self.world
        for lease_id, instance_id in world.was_ready.items():
            if world.may_it_end(lease_id):
                continue
            lease = world.provisioner._state.leases.get(lease_id)
            assert lease is not None, f"{lease_id} is forgotten"
            assert lease.state is LeaseState.READY, f"{lease_id} ends unasked: {lease.stop}"
            assert lease.instance_id == instance_id
            assert world.cloud.machines[instance_id].ended is None

    def no_instance_serves_two_leases(self) -> None:
        held = [x.instance_id for x in self.world.provisioner._state.leases.open() if x.instance_id]
        assert len(held) == len(set(held)), "two leases hold one instance"
        for instance_id, users in self.world.served.items():
            assert len(users) == 1, f"{instance_id} is given to {users}"

    # --- 4: homes ---

    def each_user_has_one_home_at_most(self) -> None:
        owners = [v.tags[tags.USER] for v in self.world.cloud.volumes.values()]
        assert len(owners) == len(set(owners)), f"a second home was made: {owners}"
        assert not self.world.distant.contested, "a home is taken from another instance"

    # --- 5, as far as it is the provisioner's: money ---

    def accounts_of_leases_add_up(self) -> None:
        for lease in self.world.provisioner._state.leases._remembered():
            assert_no_overlap(lease.segments)
            if lease.state is LeaseState.ENDED:
                assert all(segment.end for segment in lease.segments), "it costs after its end"

    def the_accounts_add_up(self) -> None:
        """No second of an instance is paid twice, by whichever leases or by none.

        Except for those that the hub's clock counted twice.
        """
        with closing(sqlite3.connect(self.world.folder / "store.sqlite")) as database:
            rows = database.execute(
                "SELECT instance_id, started_at, coalesce(ended_at, started_at), lease_id "
                "FROM segment ORDER BY instance_id, started_at, ended_at"
            ).fetchall()
        paid: dict[str, tuple[datetime, str]] = {}
        for instance_id, started_at, ended_at, lease_id in rows:
            start, end = datetime.fromisoformat(started_at), datetime.fromisoformat(ended_at)
            until, by = paid.get(instance_id, (start, ""))
            twice = (min(until, end) - start).total_seconds()
            assert twice <= self.repeated, (
                f"{instance_id} is paid twice for {twice:g} s, by {lease_id} and {by}: "
                f"{[row for row in rows if row[0] == instance_id]}"
            )
            paid[instance_id] = max((until, by), (end, lease_id or "nobody"))

    # --- every failure was expected ---

    def nothing_is_raised_unexpectedly(self) -> None:
        for record in self.failures:
            assert record.exc_info
            raise AssertionError(record.getMessage()) from record.exc_info[1]

    # --- the end of each story ---

    def teardown(self) -> None:
        try:
            if sys.exc_info()[1] is self.outer_error:
                self.everything_ends_well()
        finally:
            self.run(self.world.close())
            self.loop.close()

    def everything_ends_well(self) -> None:
        """Once EC2 is well again: a new server starts, then all are stopped and nothing is left."""
        world = self.world
        world.distant.be_well()
        self.loop.refusal = None
        world.tempers.clear()
        self.wait(200)  # what is marked as sold out is asked for again
        self.run(world.start_server("zoe", home_kind="ebs"))
        self.wait(150)
        lease_id = world.servers.get("zoe", "")
        assert lease_id in world.was_ready, "a new server does not get ready any more"
        for lease in list(world.provisioner._state.leases.open()):
            self.run(world.stop_server(lease.user, lease.lease_id))
        self.wait(2 * TWO_PASSES + REAL_PAUSES.stop_timeout + STOP.seconds + MAX_SKEW)
        left = [m.instance.instance_id for m in world.ours()]
        assert not left, f"{left} run though there is no server"
        assert not world.cloud.stopped(), f"the disks of {world.cloud.stopped()} are left"
        assert not list(world.provisioner._state.leases.open()), "a lease never ends"
        held = [v for v in world.cloud.volumes.values() if v.attached_to]
        assert not held, f"{held} are not let go"
        running = {x for x, machine in world.cloud.machines.items() if machine.ended is None}
        assert self.strangers <= running, "somebody else's instance was ended"
        self.calls_are_as_they_must_be()
        self.the_accounts_add_up()
        self.nothing_is_raised_unexpectedly()


def pick(what: Sequence[Any], n: int) -> Any:
    return what[n % len(what)]


def each_id(argument: object) -> Iterator[str]:
    if isinstance(argument, str):
        yield argument
    elif isinstance(argument, tuple):
        yield from (x for x in argument if isinstance(x, str))


def assert_no_overlap(segments: Sequence[Segment]) -> None:
    for segment in segments:
        assert segment.end is None or segment.start <= segment.end, f"negative time: {segment}"
    for before, after in itertools.pairwise(segments):
        assert before.end is not None, f"two segments run at once: {segments}"
        assert before.end <= after.start, f"segments overlap: {segments}"


@pytest.mark.parametrize(("steps", "stories"), [FEW, MANY])
def test_the_invariants_hold_whatever_happens(
    steps: int,
    stories: int,
    tmp_path: Path,
    empty_store: Path,
    failures: list[logging.LogRecord],
    one_engine: None,
    one_story_per_seed: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = os.environ.get("EC2SPAWNER_SEED")
    first = int(again or FIRST_SEED)
    monkeypatch.setattr(Story, "steps", 0)
    monkeypatch.setattr(Story, "calls", hashlib.sha256())

    def run_story() -> Story:
        # One story run twice is the same to the last id, and so in all that depends on them.
        monkeypatch.setattr(secrets, "token_bytes", random.Random(0).randbytes)
        return Story(tmp_path / "hub", empty_store, failures)

    for number in itertools.count(first):
        try:
            run_state_machine_as_test(
                seed(number)(run_story),  # type: ignore[arg-type]
                settings=settings(
                    max_examples=stories,
                    stateful_step_count=STEPS,
                    deadline=None,
                    database=None,
                    phases=[Phase.generate, Phase.shrink] if again else [Phase.generate],
                    suppress_health_check=list(HealthCheck),
                ),
            )
        except BaseException as error:
            hashes = os.environ.get("PYTHONHASHSEED", "random: `make` sets it to 0")
            error.add_note(
                f"Repeated, and first, with EC2SPAWNER_SEED={number} PYTHONHASHSEED={hashes}"
            )
            raise
        if Story.steps >= steps:
            break
    seeds, digest = f"{first} to {number}", Story.calls.hexdigest()[:16]
    print(f"{Story.steps} steps with the seeds {seeds}, and calls to EC2 of the digest {digest}")


def test_a_seed_reproduces_its_run_whatever_was_imported_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """If this fails after an update of hypothesis, look at how it now finds the constants."""

    def drawn() -> list[int]:
        numbers: list[int] = []

        @seed(0)
        @settings(max_examples=300, database=None, phases=[Phase.generate])
        @given(st.integers(0, 10**9))
        def draw(number: int) -> None:
            numbers.append(number)

        draw()
        return numbers

    def drawn_after_an_import(constants: range) -> list[int]:
        name = f"constants_from_{constants.start}"
        (tmp_path / f"{name}.py").write_text(f"CONSTANTS = {list(constants)}")
        importlib.import_module(name)
        return drawn()

    monkeypatch.syspath_prepend(tmp_path)
    known = drawn()
    assert known != drawn_after_an_import(range(10**6, 10**6 + 900, 7)), "it draws none any more"
    request.getfixturevalue("one_story_per_seed")
    known = drawn()
    assert known == drawn_after_an_import(range(10**7, 10**7 + 900, 7))
