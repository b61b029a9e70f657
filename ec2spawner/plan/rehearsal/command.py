"""`ec2spawner plan --rehearse N`, after the plan: exit status 0 where every server got ready and
nothing is left, 1 where not or where the plan speaks against it, 2 for a wrong request, 3 where it
would begin and nobody has agreed, 130 after Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, Final, TypeVar

import aiohttp
from rich.console import Console

from ...hub_call import hub_api_url, token_and_hub
from ...provisioner.store.databases.database import StoreError
from ...provisioner.store.read_only import Starts, read_starts_of
from ...terminal import complain, text
from .course import Course
from .hub import Hub, HubFailed
from .prediction import Prediction
from .report import as_values, consent_words, print_result
from .request import Rehearsal
from .result import Result, result_of
from .run import Say, rehearse, remove
from .users import left_by_earlier, names

FAILED: Final = 1
WRONG: Final = 2
WOULD_RUN: Final = 3
STOPPED: Final = 130


@dataclass(frozen=True, slots=True)
class Target:
    """The hub."""

    name: str
    """Its address as it was written."""
    token: str = field(repr=False)


def target_of(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Target | None:
    """None after a complaint."""
    found = token_and_hub("plan", arguments.hub, environ)
    return None if found is None else Target(found[1], found[0])


def run_rehearsal(
    rehearsal: Rehearsal,
    predicted: Prediction,
    target: Target,
    store_url: str,
    arguments: argparse.Namespace,
) -> tuple[int, Mapping[str, Any] | None]:
    """The exit status, and for JSON what was found; the latter is None without a result."""
    earlier = _earlier(target)
    if earlier is None:
        return FAILED, None
    now = datetime.now(UTC)
    if lasting := [until for until in earlier.values() if until > now]:
        complain(
            "plan",
            f"another rehearsal may take until {max(lasting):%H:%M} UTC, or was killed. Fix: wait "
            "for it, or end it: ec2spawner plan --rehearse=0",
        )
        return FAILED, None
    if not has_agreed(consent_words(rehearsal, target.name, predicted), arguments):
        return WOULD_RUN, None
    course = Course()

    async def work(hub: Hub, say: Say) -> Starts | None:
        if earlier:
            await remove(hub, list(earlier), Course(), say)
        users = names(rehearsal.until(datetime.now(UTC)), token_hex(2), rehearsal.number)
        await rehearse(hub, rehearsal, users, course, say)
        return await _read(store_url, users)

    status, found = _run(work, course, target)
    if status:
        return status, None
    return _shown(result_of(rehearsal.number, course, predicted, found), arguments)


def run_removal(target: Target, arguments: argparse.Namespace) -> int:
    """`--rehearse 0`: remove what rehearsals have left, those in progress as well."""
    earlier = _earlier(target)
    if earlier is None:
        return FAILED
    users = sorted(earlier)
    if not users:
        Console().print(text("No rehearsal has left anything."))
        return 0
    words = f"This stops the servers of {len(users)} users of rehearsals and deletes them: "
    if not has_agreed(f"{words}{users[0]} to {users[-1]}.", arguments):
        return WOULD_RUN
    course = Course()

    async def work(hub: Hub, say: Say) -> None:
        await remove(hub, users, course, say)

    status, _ = _run(work, course, target)
    if status:
        return status
    for each, why in course.left.items():
        complain("plan", f"not removed: {each}: {why}")
    Console().print(text(f"{len(users) - len(course.left)} of {len(users)} users are removed."))
    return FAILED if course.left else 0


def _earlier(target: Target) -> Mapping[str, datetime] | None:
    """The users that rehearsals have left, and until when each may take; None after a complaint."""

    async def users() -> list[str]:
        async with _session(target) as http:
            hub = Hub(hub_api_url(target.name), http)
            await hub.instances()  # before anything begins: the token must be able to see its end
            return await hub.users()

    try:
        return left_by_earlier(asyncio.run(users()))
    except HubFailed as error:
        complain("plan", str(error))
        return None


def _session(target: Target) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        headers={"Authorization": f"token {target.token}"},
        # A connection for each start, as each user has one.
        connector=aiohttp.TCPConnector(limit=0),
    )


T = TypeVar("T")


def _run(
    work: Callable[[Hub, Say], Coroutine[Any, Any, T]], course: Course, target: Target
) -> tuple[int, T | None]:
    """0 and its result, or the exit status after a complaint."""

    async def run() -> T:
        with Console(stderr=True).status("") as status:
            async with _session(target) as http:
                task = asyncio.create_task(work(Hub(hub_api_url(target.name), http), status.update))
                _obey_signals(task, course)
                return await task

    try:
        return 0, asyncio.run(run())
    except asyncio.CancelledError:
        complain("plan", _interrupted(course))
        return STOPPED, None
    except HubFailed as error:
        complain("plan", str(error))
        return FAILED, None


def _obey_signals(task: asyncio.Task[Any], course: Course) -> None:
    """The first signal ends the starts, and what was begun is removed; another one ends the
    removal."""

    def end() -> None:
        if course.is_stopping and not course.is_interrupted:
            complain("plan", "stopping the servers; press Ctrl-C again to leave them")
        else:
            task.cancel()
        course.is_interrupted = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, end)


def _interrupted(course: Course) -> str:
    if not course.is_stopping:
        return "interrupted. Nothing was started"
    if not course.left:
        return "interrupted. Everything that was started is stopped and removed"
    return (
        f"interrupted. Not removed: {', '.join(sorted(course.left)[:5])}"
        f"{' and others' if len(course.left) > 5 else ''}. Fix: ec2spawner plan --rehearse=0 "
        "--yes; the hub ends these servers by itself"
    )


def has_agreed(words: str, arguments: argparse.Namespace) -> bool:
    """Whether `--yes` was given, or somebody at a terminal says so."""
    console = Console(stderr=True)
    console.print(text(words))
    if arguments.yes:
        return True
    if not sys.stdin.isatty():
        complain("plan", "add --yes to do it: on an AWS account these are real instances")
        return False
    console.print(text("Begin? [y/N] "), end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _read(store_url: str, users: Sequence[str]) -> Starts | None:
    try:
        return await read_starts_of(store_url, users)
    except StoreError as error:
        complain("plan", f"the store cannot be read: {error}")
        return None


def _shown(result: Result, arguments: argparse.Namespace) -> tuple[int, Mapping[str, Any]]:
    if not arguments.json:
        print_result(result, Console())
    return (0 if result.is_clean else FAILED), as_values(result)
