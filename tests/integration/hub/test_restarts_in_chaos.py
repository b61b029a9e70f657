"""Agents and the hub are killed at any moment, and start again: nothing leaks, no file is lost, and
no server is under check for longer than one wait for its agent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
import pytest

from ec2spawner.provisioner.lifecycle.stored_waits import STORED_EVERY
from ec2spawner.provisioner.state.waits import RETURN_GRACE
from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agents_on_instances import agent_of, make_syncs_slow
from tests.integration.hub.homes_of_users import HomeOf

T = TypeVar("T")

SILENT_AFTER: Final = 90.0
"""Seconds, the shortest that the option allows."""

LONGEST_CHECK: Final = SILENT_AFTER + RETURN_GRACE + STORED_EVERY
"""Seconds during which hubs ran: one wait, what a killed hub had not stored of it, and what the
next one leaves the agent."""

CONFIG = (
    """c.EC2Spawner.profile_list = [
    {"display_name": "Small", "slug": "small", "vcpus": 2, "memory_gib": 4},
]""",
    "c.EC2Spawner.stop_timeout = 4",
    "c.EC2Spawner.sleep = {'save': 2}",  # of a frozen agent
    "c.EC2Spawner.boot_timeout = c.EC2Spawner.ready_timeout = 60",  # of a frozen agent
    f"c.EC2Spawner.agent_silent_after = {SILENT_AFTER}",
)


@pytest.fixture
async def hub(embedded: Embedded, tmp_path: Path) -> AsyncIterator[Hub]:
    make_syncs_slow(embedded, "sleep $((RANDOM % 2)).$((RANDOM % 10))")
    running = Hub(tmp_path / "hub", embedded, config=demo_config(tmp_path / "config", *CONFIG))
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(300))


@dataclass
class Chaos:
    """The amount of chaos, and what has come of it."""

    hub: Hub
    draw: random.Random
    seconds: float
    hub_kills: int
    agent_kills: int
    freezes: int = 0
    """Agents that are frozen just before the hub is killed: the next one waits for them."""
    frozen: int = 0
    starts: int = 0
    servers_ended: int = 0
    missed: int = 0
    """Number of times that nothing was there to be killed."""
    checks: list[float] = field(default_factory=list)
    """Seconds for which each server was under check while a hub ran."""

    @property
    def embedded(self) -> Embedded:
        return self.hub.embedded

    async def run(self, people: list[Person]) -> None:
        """Until all kills are done and everybody has stopped their server."""
        over = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(self.watch([person.name for person in people], over))
            async with asyncio.TaskGroup() as lives:
                lives.create_task(self.spread(self.hub_kills, self.kill_hub))
                lives.create_task(self.spread(self.agent_kills, self.kill_agent))
                end = time.monotonic() + self.seconds
                for person in people:
                    lives.create_task(person.live(end))
            over.set()
            await watch

    async def spread(self, number: int, act: Callable[[], Awaitable[bool]]) -> None:
        """Act so often, at random moments in equal parts of the time; again where nothing came of
        it."""
        if not number:
            return
        part, begun = self.seconds / (number + 1), time.monotonic()
        for each in range(1, number + 1):
            at = begun + part * each + self.draw.uniform(-part / 3, part / 3)
            await asyncio.sleep(max(at - time.monotonic(), 0.0))
            while not await act():
                if time.monotonic() > begun + self.seconds:
                    self.missed += 1
                    break
                await asyncio.sleep(0.2)

    async def kill_hub(self) -> bool:
        """While somebody has a server: False before that."""
        if not await self.embedded.instances():
            return False
        if self.frozen < self.freezes:
            self.frozen += await self.signal_agent(signal.SIGSTOP)
        await self.hub.kill()
        await asyncio.sleep(self.draw.uniform(0.0, 8.0))
        await self.hub.start()
        return True

    async def kill_agent(self) -> bool:
        return await self.signal_agent(signal.SIGKILL)

    async def signal_agent(self, number: signal.Signals) -> bool:
        """Send the signal to the agent of any instance; False while none has an agent that runs."""
        instances = await self.embedded.instances()
        self.draw.shuffle(instances)
        for each in instances:
            pid = await agent_of(self.embedded, each["instance_id"])
            if pid is not None and is_running(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                    return True
        return False

    async def watch(self, users: list[str], over: asyncio.Event) -> None:
        """Measure each check, over restarts of the hub, while it answers."""
        lasted: dict[str, float] = {}
        checked_at = time.monotonic()
        while not over.is_set():
            await asyncio.sleep(0.5)
            for user in users:
                pending = await self.pending(user)
                since, now = checked_at, time.monotonic()
                if pending == "check":
                    lasted[user] = lasted.get(user, 0.0) + now - since
                elif pending != "no answer" and user in lasted:
                    self.checks.append(lasted.pop(user))
            checked_at = time.monotonic()
        self.checks += lasted.values()

    async def pending(self, user: str) -> str:
        try:
            model = await self.hub.model(user)
        except (httpx.TransportError, AssertionError):
            return "no answer"
        return str((model or {}).get("pending"))


def is_running(pid: int) -> bool:
    """False for a process that is stopped, or gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TtZ"
    except OSError:
        return False


class Person:
    """Has a server for as long as it lives, writes files, and starts the next one."""

    def __init__(self, chaos: Chaos, name: str) -> None:
        self.chaos = chaos
        self.hub = chaos.hub
        self.name = name
        self.draw = random.Random(f"{chaos.draw.random()} {name}")
        self.home = HomeOf(chaos.embedded, name)

    async def live(self, end: float) -> None:
        """Until `end`, on the monotonic clock; then without a server."""
        number = 0
        while time.monotonic() < end:
            await self.start()
            stays_until = min(end, time.monotonic() + self.draw.uniform(1.0, 60.0))
            while time.monotonic() < stays_until and await self.has_server():
                if (instance_id := await self.home.holder()) is not None:
                    with contextlib.suppress(FileNotFoundError):  # it has just been shut down
                        self.home.write(instance_id, f"{self.name}-{number}.txt")
                        number += 1
                await asyncio.sleep(self.draw.uniform(0.2, 2.0))
            if self.draw.random() < 0.7 or time.monotonic() >= end:
                await self.stop()
        await self.stop()

    async def start(self) -> None:
        """Whatever happens to the start: the next one is tried."""

        async def is_ready() -> bool:
            model = await self.ask(lambda: self.hub.model(self.name))
            if model is None:
                self.chaos.starts += 1
                await self.ask(lambda: self.hub.request_server(self.name))
                return False
            return bool(model["ready"])

        await until(is_ready, 150, f"the server of {self.name} to be ready", pause=0.5)

    async def has_server(self) -> bool:
        model = await self.ask(lambda: self.hub.model(self.name))
        if model is None:
            self.chaos.servers_ended += 1
        return model is not None

    async def stop(self) -> None:
        """Stop the server, if there is one; one that is under check is left to its end."""

        async def has_stopped() -> bool:
            model = await self.ask(lambda: self.hub.model(self.name))
            if model is not None and model["pending"] != "check":
                await self.ask(lambda: self.hub.api.delete(self.hub.server_path(self.name)))
            return model is None

        await until(has_stopped, 150, f"the server of {self.name} to stop", pause=0.5)

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """The hub's answer, from whichever process gives one."""

        async def answer() -> list[T] | None:
            try:
                return [await call()]
            except (httpx.TransportError, AssertionError):  # none, or a 503 as it starts
                return None

        [found] = await until(answer, 60, "an answer of the hub")
        return found


@pytest.mark.parametrize(
    ("users", "amount"),
    [
        pytest.param(3, {"seconds": 15.0, "hub_kills": 1, "agent_kills": 3}, id="short"),
        pytest.param(
            8,
            {"seconds": 900.0, "hub_kills": 10, "agent_kills": 30, "freezes": 6},
            id="long",
            marks=[pytest.mark.long, pytest.mark.timeout(3600)],
        ),
    ],
)
@pytest.mark.slow(seconds=60)
async def test_nothing_is_lost_however_often_agents_and_hub_start_again(
    hub: Hub, users: int, amount: dict[str, Any]
) -> None:
    seed = int(os.environ.get("EC2SPAWNER_SEED", "0"))
    chaos = Chaos(hub, random.Random(seed), **amount)
    people = [Person(chaos, f"user-{number}") for number in range(users)]
    for person in people:
        await hub.add_user(person.name)
    await chaos.run(people)

    async def nothing_runs() -> bool:
        return not await hub.embedded.instances()

    await until(nothing_runs, 30, "all instances to be gone")
    for person in people:
        await person.home.until_free()
    longest = max(chaos.checks, default=0.0)
    print(
        f"seed {seed}: {chaos.seconds:.0f} s, {chaos.hub_kills} kills of the hub, "
        f"{chaos.agent_kills} of agents, {chaos.missed} of these without anything to kill in time, "
        f"{chaos.frozen} frozen agents; {chaos.starts} starts, "
        f"{chaos.servers_ended} servers that ended by themselves, "
        f"{sum(len(person.home.files) for person in people)} files; "
        f"{len(chaos.checks)} checks, the longest of {longest:.0f} s"
    )
    assert chaos.missed < chaos.agent_kills
    assert longest <= LONGEST_CHECK
    assert await hub.embedded.control("detached-while-mounted") == []
    assert any(person.home.files for person in people)
    assert [person.home.lost() for person in people] == [set()] * users
    assert "ALARM" not in hub.log.read_text(), "no agent was taken for an attack"
