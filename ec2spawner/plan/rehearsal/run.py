"""The course of a rehearsal: users, all starts at once, all stops, and nothing left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from .course import Course
from .hub import Hub, HubFailed, StartFailed
from .prediction import STOP_TIMEOUT
from .request import Rehearsal

POLL: Final = 1.0
"""Seconds between two questions what is still there."""

Say = Callable[[str], None]
"""Shows what happens now."""


async def rehearse(
    hub: Hub, rehearsal: Rehearsal, users: Sequence[str], course: Course, say: Say
) -> None:
    """Start the servers of these new users, stop them, and delete the users.

    Whatever ends it, a cancellation as well, what it has started is stopped. Raises `HubFailed`
    where the users cannot be created.
    """
    options = {"profile": rehearsal.profile, "temporary": rehearsal.temporary_seconds}

    async def start(user: str) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(rehearsal.timeout):
                await hub.start(user, options)
        except StartFailed as error:
            course.failed[user] = str(error)
        except TimeoutError:
            course.failed[user] = f"not ready within --timeout={rehearsal.timeout:g} s"
        else:
            course.ready[user] = time.monotonic() - began
        say(f"{len(course.ready)} of {len(users)} ready, {len(course.failed)} failed")

    try:
        await hub.create(users)
        say(f"Starting {len(users)} servers")
        async with asyncio.TaskGroup() as starts:
            for user in users:
                starts.create_task(start(user))
    finally:
        await remove(hub, users, course, say)


async def remove(hub: Hub, users: Sequence[str], course: Course, say: Say) -> None:
    """Stop the servers of these users, delete the users, and wait until their instances are gone.

    What is left after `STOP_TIMEOUT`, or where this is cancelled, is in `course.left`.
    """
    course.is_stopping = True
    removal = _Removal(hub, set(users))
    began = time.monotonic()
    try:
        async with asyncio.timeout(STOP_TIMEOUT):
            say(f"Stopping {len(users)} servers")
            await removal.begin()
            while removal.users or removal.instances:
                await asyncio.sleep(POLL)
                await removal.advance()
                say(f"{len(removal.users)} users and {len(removal.instances)} instances are left")
            course.stop_seconds = time.monotonic() - began
    except TimeoutError:
        pass
    finally:
        seconds = time.monotonic() - began
        course.left = {
            each: removal.why.get(each, f"still there after {seconds:.0f} s")
            for each in sorted(removal.users | removal.instances)
        }


@dataclass(slots=True)
class _Removal:
    """Calls that the hub did not answer are made again by the next `advance`."""

    hub: Hub
    users: set[str]
    """That exist."""
    instances: set[str] = field(default_factory=set)
    """Theirs, that exist."""
    why: dict[str, str] = field(default_factory=dict)
    """User -> what the hub said last of a call that failed."""

    async def begin(self) -> None:
        """Stop every server and every start."""
        await self._see()
        await self._each(self.users, self.hub.stop)

    async def advance(self) -> None:
        """Stop what does not stop yet, and delete the users whose server has ended."""
        servers = await self._see()
        if servers is None:
            return
        await self._each([u for u, state in servers.items() if state != "ending"], self.hub.stop)
        gone: set[str] = set()

        async def delete(user: str) -> None:
            if await self.hub.delete(user):
                gone.add(user)

        await self._each(self.users - servers.keys(), delete)
        self.users -= gone

    async def _see(self) -> Mapping[str, str] | None:
        """The states of these users' servers, by user; None where the hub does not answer."""
        try:
            found = await self.hub.instances()
        except HubFailed as error:
            self.why |= dict.fromkeys(self.users | self.instances, str(error))
            return None
        servers = [each for each in found["servers"] if each["user"] in self.users]
        self.instances |= {str(each["instance_id"]) for each in servers if each["instance_id"]}
        existing = (*found["servers"], *found["unassigned"])
        self.instances &= {str(each["instance_id"]) for each in existing}
        return {str(each["user"]): str(each["state"]) for each in servers}

    async def _each(self, users: Collection[str], call: Callable[[str], Awaitable[None]]) -> None:
        answers = await asyncio.gather(*(call(user) for user in users), return_exceptions=True)
        for user, answer in zip(users, answers, strict=True):
            if isinstance(answer, HubFailed):
                self.why[user] = str(answer)
            elif isinstance(answer, BaseException):
                raise answer
