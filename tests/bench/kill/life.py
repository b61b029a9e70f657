"""The life of one hub: its legs, in each of which it may be killed, and what is found after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.bench.kill.checks import (
    MARKER,
    STUCK,
    Account,
    Person,
    Problem,
    cluster_problems,
    server_problems,
)
from tests.bench.kill.killable_hub import KillableHub, StoredLease
from tests.harness import until
from tests.runs_by_rest import Runs

AFTERMATH = 1.2
"""Seconds after a leg has come to its end in which moments still belong to it, such as its tags."""

SETTLED_WITHIN = 60.0
"""Seconds for all that must hold after the hub's return: two passes and the waits of `hub_config`,
one after the other, on a machine with other things to do."""

PASSES = 2

WITHIN = 60.0
"""Seconds for what a leg waits for while nothing is killed."""

NOTICE_SECONDS = 5
"""Of an interruption: EC2's two minutes made short."""


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of a hub's life."""

    name: str
    prepare: Callable[[Life], Awaitable[None]]
    act: Callable[[Life], Awaitable[None]]
    """Asks the hub and waits for its answer, or waits for what the hub does by itself."""
    finish: Callable[[Life], Awaitable[None]]
    """What must still be possible when the hub is back."""
    user: str = ""
    """Whose server it is about: afterwards it is ready, or it is gone."""
    must_be_gone: bool = False
    happens: Callable[[Life], Awaitable[None]] | None = None
    """What comes from outside, and is not stopped by the death of a hub."""


@dataclass(frozen=True, slots=True)
class Outcome:
    died: bool
    problems: tuple[Problem, ...]
    seconds: float = 0.0
    """From the hub's return until all was well."""
    passes: int = 0
    """The same in reconcile passes."""


@dataclass(slots=True)
class Life:
    hub: KillableHub
    people: dict[str, Person] = field(default_factory=dict)
    bystanders: set[str] = field(default_factory=set)
    """Users whose servers are ready, and stay so whatever happens to others."""
    joined: set[str] = field(default_factory=set)
    """Leases of the workers that had joined when the hub was killed last."""
    victim: str = ""
    """The instance of the worker or run that was ended by hand last."""
    request_id: str = ""
    """Of the last run that was submitted."""
    account: Account = field(init=False)

    def __post_init__(self) -> None:
        self.account = Account(self.hub)

    async def live(self, leg: Leg, die_at: str = "") -> Outcome:
        """One leg, with the hub's death at a moment of it where one is given."""
        try:
            await leg.prepare(self)
        except (AssertionError, httpx.HTTPError) as error:
            return Outcome(False, (Problem(STUCK, f"before {leg.name}: {_short(error)}"),))
        self.hub.order(leg.name, die_at)
        try:
            if leg.happens is not None:
                await leg.happens(self)
            await self.hub.unless_dead(self._act(leg))
        except (AssertionError, httpx.HTTPError) as error:
            return Outcome(False, (Problem(STUCK, f"{leg.name}: {_short(error)}"),))
        finally:
            self.hub.order("", "")
        died = self.hub.is_dead
        return await self._judge(leg, died)

    async def _act(self, leg: Leg) -> None:
        await leg.act(self)
        await asyncio.sleep(AFTERMATH)

    async def _judge(self, leg: Leg, died: bool) -> Outcome:
        began = time.monotonic()
        try:
            self.joined = await self.account.joined_workers() if died else set()
            if died:
                await self.hub.start()
                began = time.monotonic()
            problems = await self._settle(leg)
            seconds, passes = time.monotonic() - began, self.hub.passes
            if not problems:
                self.joined.clear()  # what follows may give some of them up
                await leg.finish(self)
                problems = await self._settle(leg)
        except (AssertionError, httpx.HTTPError) as error:
            if self.hub.is_dead and not died:
                # It had read its order just before that was taken back.
                return await self._judge(leg, died=True)
            return Outcome(died, (Problem(STUCK, f"after the hub's return: {_short(error)}"),))
        return Outcome(died, tuple(problems), seconds, passes)

    async def _settle(self, leg: Leg) -> list[Problem]:
        """Wait until nothing is wrong; what still is when the time is over."""
        deadline = time.monotonic() + SETTLED_WITHIN
        while True:
            problems = await self._problems(leg)
            if not problems and self.hub.passes >= PASSES:
                return []
            if time.monotonic() > deadline:
                return problems or [Problem(STUCK, "there was no second reconcile pass")]
            await asyncio.sleep(0.25)

    async def _problems(self, leg: Leg) -> list[Problem]:
        problems = [
            Problem(STUCK, f"the lease of {lease.user} is {lease.state}")
            for lease in self.hub.leases()
            if lease.state not in {"ready", "ended"}
        ]
        problems += await self.account.problems(list(self.people.values()))
        problems += cluster_problems(self.hub.leases(), self.joined)
        for name in sorted(self.bystanders - {leg.user}):
            problems += await server_problems(self.hub, self.people[name])
        if not leg.user:
            return problems
        if await self.hub.is_gone(leg.user):
            return problems
        if leg.must_be_gone or not await self.hub.is_ready(leg.user):
            what = "is still there" if leg.must_be_gone else "is neither ready nor gone"
            return [*problems, Problem(STUCK, f"the server of {leg.user} {what}")]
        person = self.people.get(leg.user)
        return problems + (await server_problems(self.hub, person) if person else [])

    # --- what legs are made of ---

    async def ensure_ready(self, user: str, profile: str = "plain") -> None:
        """Started where it is not, with a file in the home that must never be lost."""
        if not await self.hub.is_ready(user):
            await self.hub.start_server(user, options={"profile": profile})
        person = self.people.get(user) or Person(user, await self.hub.user_token(user))
        self.people[user] = person
        if not person.markers:
            marker = f"{MARKER}{user}"
            reply = await self.hub.ask_server(
                "PUT", user, person.token, f"api/contents/{marker}", {"content": ""}
            )
            assert reply.status_code == httpx.codes.CREATED, f"{reply.status_code} {reply.text}"
            person.markers.append(marker)

    async def ensure_gone(self, user: str) -> None:
        """Stopped where it is not."""
        if user in self.people and not await self.hub.is_gone(user):
            await self.hub.stop_server(user)

    def instance_of(self, user: str) -> str:
        instance_id = self.lease_of(user).instance_id
        assert instance_id is not None
        return instance_id

    def lease_of(self, user: str) -> StoredLease:
        """Of the server that is ready."""
        [lease] = [
            x for x in self.hub.leases() if x.user == user and x.state == "ready" and not x.head
        ]
        return lease

    def workers_of(self, user: str) -> list[StoredLease]:
        """Workers that have joined, by lease; none without a server that is ready."""
        leases = self.hub.leases()
        servers = {x.lease_id for x in leases if x.user == user and x.state == "ready"}
        ready = (x for x in leases if x.head in servers and x.state == "ready")
        return sorted(ready, key=lambda x: x.lease_id)

    async def ask_cluster(self, user: str, **request: Any) -> None:
        """A call about a cluster, as a kernel of the user's server makes it."""
        token = self.people[user].token
        reply = await self.hub.ask_server("POST", user, token, "ec2spawner/api/cluster", request)
        assert reply.status_code == httpx.codes.OK, f"{reply.status_code} {reply.text}"

    async def wait_workers(self, user: str, number: int, without: str = "") -> None:
        """Until so many workers have joined, and no others are there; `without` is an instance
        that must not be among them."""

        async def joined() -> bool:
            workers = self.workers_of(user)
            others = [x for x in self.hub.leases() if x.head and x.state not in {"ready", "ended"}]
            is_without = without not in {x.instance_id for x in workers}
            return len(workers) == number and not others and is_without

        await until(joined, WITHIN, f"{number} workers of {user}")

    async def interrupt(self, instance_id: str) -> None:
        """EC2 reclaims it, after a notice of `NOTICE_SECONDS`."""
        body = {"notice_seconds": NOTICE_SECONDS}
        await self.hub.embedded.control(f"interrupt/{instance_id}", body)

    async def submit_run(self, user: str, script: str) -> int:
        """Its number; the same again for the same request."""
        runs = Runs(self.hub, self.people[user].token)
        return await runs.submit(script, "x.py", profile="plain", request_id=self.request_id)

    async def instance_of_run(self, user: str, number: int) -> str:
        """Once it has begun there."""
        runs = Runs(self.hub, self.people[user].token)

        async def has_begun() -> bool:
            return bool((await runs.one(number))["message"] == "begun")

        await until(has_begun, WITHIN, f"run {number} to begin")
        [lease] = [x for x in self.hub.leases() if x.run == number and x.state == "ready"]
        return str(lease.instance_id)

    async def complete_run(self, user: str, number: int) -> None:
        """Until it has succeeded, with one result and nothing else left of it."""
        run = await Runs(self.hub, self.people[user].token).until(number, "ended", seconds=WITHIN)
        assert run["outcome"] == "succeeded", run

        async def is_cleared() -> bool:
            is_over = all(x.state == "ended" for x in self.hub.leases() if x.run == number)
            return is_over and self.hub.has_result(number)

        await until(is_cleared, WITHIN, f"one result of run {number}, and nothing else")


def _short(error: BaseException) -> str:
    """The first line that says something, of what may end in a hub's whole log."""
    text = str(error) or repr(error)
    return text.splitlines()[0][:200]
