"""The parts of the journey, once as they should be and once for each fault."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import httpx

from tests.aws_actions import Action
from tests.bench.faults.cells import Cell, Ended, Mode, Scene, unclear
from tests.bench.faults.commands import Commands
from tests.bench.faults.detours import play_detour, record_detour
from tests.bench.faults.site import SOON, USUAL, Site, timed
from tests.bench.faults.timeout import BOUNDS, HURRIED, MARKED_FOR, PLAIN, SLOWNESS, bound_of_start
from tests.harness import until

QUIET = 1.0
"""Seconds without a call but listings, after which the hub has read what it reads."""

LISTINGS = frozenset({"DescribeInstances", "DescribeNetworkInterfaces", "DescribeVolumes"})
"""What a hub asks again and again, `DescribeInstances` or, where it reaps all the time, all."""

FOR_BEGINNING = frozenset({"DescribeSubnets"})
"""Without an answer to these there is no provisioner."""

FOR_A_START = ("GetParameter", "DescribeImages", "DescribeInstances", "DescribeVolumes")
"""What a hub reads as it begins and a start cannot do without, in the order of a start. Without
on the others it continues with what it knows."""

AGAIN_TIMEOUT = 45.0 * SLOWNESS
"""Seconds in which a hub that could not begin notices that AWS answers again: its pauses grow to
half a minute."""

BACKGROUND = (3.0, SOON)
"""Seconds within which a hub has read what no request waits for; longer when calls hang."""

Done = Callable[[Ended], None]


# --- as it should be -------------------------------------------------------------------------


async def record(site: Site, commands: Commands) -> dict[Scene, frozenset[Action]]:
    """The actions of each scene. The hub has been there before: it has old templates to delete."""
    recorded: dict[Scene, frozenset[Action]] = {}

    async def scene(name: Scene, played: Awaitable[object]) -> None:
        began = _now()
        await played
        await _quiet(site)
        recorded[name] = await site.actions_since(began)

    site.let_reap(True)
    await begin(site)
    await _start_and_stop(site)
    await scene(Scene.REAP, record_detour(site, Scene.REAP, ""))
    await site.stop_hub()
    site.let_reap(False)
    await scene(Scene.BEGIN, site.begin_hub())
    await _start_and_stop(site)
    await _quiet(site)
    user, options = site.next_start()
    await scene(Scene.START, site.start(user, options, USUAL))
    await commands.prepare()
    await scene(Scene.CHECK, commands.check())
    await scene(Scene.PRICES, commands.prices())
    await scene(Scene.STOP, site.stop(user, USUAL))
    for detour in (Scene.KEEP, Scene.WAKE, Scene.GROW, Scene.MOVE, Scene.MUTE):
        await scene(detour, record_detour(site, detour, user))
    return recorded


async def _start_and_stop(site: Site) -> None:
    user, options = site.next_start()
    message = await site.start(user, options, USUAL)
    assert not message, f"a start without any fault failed: {message}\n{site.hub.tail()}"
    await site.stop(user, USUAL)


async def begin(site: Site) -> None:
    """Begin a hub, and let it read what it reads."""
    await site.begin_hub()
    await _quiet(site)


async def _quiet(site: Site) -> None:
    seen, since = -1, time.monotonic()

    async def is_quiet() -> bool:
        nonlocal seen, since
        calls = await site.embedded.control("calls")
        others = sum(call["action"] not in LISTINGS for call in calls)
        if others != seen:
            seen, since = others, time.monotonic()
        return time.monotonic() - since >= QUIET

    await until(is_quiet, 30, "the hub to have read what it reads")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# --- a start, a stop -------------------------------------------------------------------------


async def play_start(site: Site, cell: Cell) -> Ended:
    """A start under the fault, and its stop; then the fault is gone and what is left is looked
    at; where the start failed, another one must not."""
    user, options = site.next_start()
    await site.order([cell])
    limit = bound_of_start(cell.row.action.name) + USUAL
    ended = await timed(cell, site.start(user, options, limit))
    if not ended.message and not ended.hung:
        ended = replace(ended, hung=not await _stops(site, user))
    ended = replace(ended, struck=await site.struck(cell))
    await site.clear()
    ended = replace(ended, leaked=await site.settle())
    if ended.message or ended.hung:
        ended = await _again(site, user, ended)
    return ended


async def play_stop(site: Site, cell: Cell) -> Ended:
    """A stop under the fault; the next start finds the home free."""
    user, options = site.next_start()
    message = await site.start(user, options, USUAL)
    if message:
        return Ended(cell, 0.0, broken=f"no start before the fault: {message}")
    await site.order([cell])
    ended = await timed(cell, _stopped(site, user))
    ended = replace(ended, struck=await site.struck(cell))
    await site.clear()
    ended = replace(ended, leaked=await site.settle())
    return await _again(site, user, ended)


async def play_aside(site: Site, cell: Cell) -> Ended:
    """A detour under the fault; its user's next start ends what is kept for them."""
    user, _ = site.next_start()
    ended = await play_detour(site, cell, user)
    return await _again(site, user, ended)


async def play_leftovers(site: Site, cells: Sequence[Cell], done: Done) -> None:
    """No request waits for the reaper: once AWS responds again, nothing is left over."""
    await site.stop_hub()
    site.let_reap(True)
    await begin(site)
    await _start_and_stop(site)
    for cell in cells:
        ended = await play_detour(site, cell, "")
        done(replace(ended, leaked=await site.settle()))
    site.let_reap(False)
    await site.stop_hub()


async def _stopped(site: Site, user: str) -> str:
    await site.stop(user, BOUNDS["stop"].seconds(HURRIED) + USUAL)
    return ""


async def _stops(site: Site, user: str) -> bool:
    try:
        await _stopped(site, user)
    except TimeoutError:
        return False
    return True


async def _again(site: Site, user: str, ended: Ended) -> Ended:
    """The same user's next start, now that the fault is gone."""

    async def idle() -> bool:
        return not await site.is_there(user)

    try:
        await until(idle, USUAL, f"the server of {user} to be gone")
        await asyncio.sleep(MARKED_FOR.total_seconds() if ended.message else 0)
        message = await site.start(user, {"profile": PLAIN}, USUAL)
        broken = f"the next start failed: {message}" if message else ""
        if not message:
            await site.stop(user, USUAL)
    except (AssertionError, TimeoutError) as error:
        broken = f"the next start: {str(error) or 'no answer'}"
    leaked = await site.settle()
    return replace(ended, broken=broken, leaked=tuple({*ended.leaked, *leaked}))


# --- the start of a hub ----------------------------------------------------------------------


@dataclass(slots=True)
class Beginnings:
    """Hubs that begin while AWS fails: with the same fault in all that they read, so that few
    have to begin, and then in ever less of it, so that each call's part is seen. A call that
    another one's failure has kept from being made is struck at the next beginning."""

    site: Site
    done: Done
    _ordered: dict[Cell, str] = field(default_factory=dict)

    async def prepare(self) -> None:
        """Let a hub have been there before."""
        await begin(self.site)
        await _start_and_stop(self.site)

    async def play(self, cells: Sequence[Cell]) -> None:
        """`cells` are of one kind and mode."""
        for cell in cells:
            if cell.row.action.name in FOR_BEGINNING:
                self.done(await self._without(cell))
        left = [cell for cell in cells if cell.row.action.name not in FOR_BEGINNING]
        while left:
            ended = await self._with(left)
            hidden = [each.cell for each in ended if not each.struck]
            if len(hidden) == len(left):
                hidden = []
            for each in ended:
                if each.cell not in hidden:
                    self.done(each)
            left = hidden

    async def _without(self, cell: Cell) -> Ended:
        """The provisioner cannot start: the hub exits with the reason, or users see it."""
        site = self.site
        await site.stop_hub()
        said = site.hub.log.stat().st_size
        await site.order([cell])
        began = time.monotonic()
        user, options = site.next_start()
        limit = BOUNDS["click"].seconds(HURRIED) + USUAL
        try:
            await site.begin_hub()
            ended = await timed(cell, site.start(user, options, limit))
        except httpx.TransportError:
            # It may have answered for a moment.
            await site.hub_ended()
            message = critical_words(site.hub.log.read_bytes()[said:].decode(errors="replace"))
            ended = Ended(cell, time.monotonic() - began, message, unclear=unclear(message))
        ended = replace(ended, struck=await site.struck(cell))
        await site.clear()
        return replace(ended, broken=await self._works_again(user))

    async def _works_again(self, user: str) -> str:
        """Of a hub that keeps running, or of the next one when it has ended."""
        site = self.site

        async def starts() -> bool:
            if site.has_ended:
                await site.begin_hub()
            try:
                message = await site.start(user, {}, USUAL)
                return not message or await site.is_there(user)
            except (httpx.TransportError, TimeoutError):
                return False

        try:
            await until(starts, AGAIN_TIMEOUT, "a start to work again", pause=1.0)
            await site.stop(user, USUAL)
        except (AssertionError, TimeoutError) as error:
            return f"the next start: {str(error) or 'no answer'}"
        return ""

    async def _with(self, cells: Sequence[Cell]) -> list[Ended]:
        """The provisioner begins, and lacks what it could not read."""
        site = self.site
        await site.stop_hub()
        await site.order(cells)
        if not await site.begin_hub():
            return [
                Ended(cell, 0.0, broken=f"the hub ended\n{site.hub.tail(20)}") for cell in cells
            ]
        left, ended = list(cells), []
        if cells[0].mode is Mode.ALWAYS:
            for name in FOR_A_START:
                for cell in [each for each in left if each.row.action.name == name]:
                    ended.append(await self._start(cell))
                    left.remove(cell)
                    await site.leave_only(left)
        if left:
            outcome = await self._start(left[0])
            struck = await site.struck_by_now(left, BACKGROUND[left[0].kind == "hang"])
            ended += [
                replace(outcome, cell=cell, struck=each)
                for cell, each in zip(left, struck, strict=True)
            ]
        await site.clear()
        leaked = await site.settle()
        user, _ = site.next_start()
        broken = await self._works_again(user)
        return [replace(each, leaked=leaked, broken=broken) for each in ended]

    async def _start(self, cell: Cell) -> Ended:
        site = self.site
        user, options = site.next_start()
        limit = bound_of_start(cell.row.action.name) + USUAL
        ended = await timed(cell, site.start(user, options, limit))
        if not ended.message and not ended.hung:
            ended = replace(ended, hung=not await _stops(site, user))
        return replace(ended, struck=await site.struck(cell))


def critical_words(log: str) -> str:
    """The last thing that a hub says before it ends."""
    lines = [line for line in log.splitlines() if line.startswith("[C ")]
    return lines[-1].partition("] ")[2] if lines else ""
