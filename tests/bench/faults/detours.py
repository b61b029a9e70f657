"""What few starts and stops meet: a machine that is kept, a home that grows or moves, an image
that does not boot, and what is left over despite that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from tests.bench.faults.cells import Cell, Ended, Scene
from tests.bench.faults.site import USUAL, Site, timed
from tests.bench.faults.timeout import BOUNDS, HURRIED, KEPT, PLAIN, bound_of_start

SIZE_GIB = 10
"""Of a home before it grows."""


async def stop(site: Site, user: str, limit: float = USUAL) -> str:
    await site.stop(user, limit)
    return ""


async def has_a_server_to_keep(site: Site, user: str) -> None:
    await _well(site.start(user, {"profile": KEPT}, USUAL))


async def has_a_kept_machine(site: Site, user: str) -> None:
    await has_a_server_to_keep(site, user)
    await site.stop(user, USUAL)
    assert not await site.uptime(), "the machine was not stopped"


async def wake(site: Site, user: str, limit: float) -> str:
    return await site.start(user, {"profile": KEPT}, limit)


async def has_a_home(site: Site, user: str) -> None:
    await _well(site.start(user, {"profile": PLAIN, "home_gib": SIZE_GIB}, USUAL))
    await site.stop(user, USUAL)


async def grow(site: Site, user: str, limit: float) -> str:
    return await site.start(user, {"profile": PLAIN, "home_gib": SIZE_GIB + 1}, limit)


async def move(site: Site, user: str, limit: float) -> str:
    zone = await site.home_moves_to(user)
    return await site.start(user, {"profile": PLAIN, "move_home": zone}, limit)


async def has_nothing(site: Site, user: str) -> None:
    pass


async def start_mute(site: Site, user: str, limit: float) -> str:
    await asyncio.to_thread(site.mute.touch)
    try:
        message = await site.start(user, {"profile": PLAIN}, limit)
    finally:
        await asyncio.to_thread(site.mute.unlink)
    assert message, "a server without an agent got ready"
    return message


async def leave_over(site: Site, user: str, limit: float) -> str:
    await site.leave_over()
    return ""


@dataclass(frozen=True, slots=True)
class Detour:
    before: Callable[[Site, str], Awaitable[None]]
    """What the user has when AWS begins to fail."""
    play: Callable[[Site, str, float], Awaitable[str]]
    """With the user and a limit, seconds: empty, or the message to the user."""


DETOURS = {
    Scene.KEEP: Detour(has_a_server_to_keep, stop),
    Scene.WAKE: Detour(has_a_kept_machine, wake),
    Scene.GROW: Detour(has_a_home, grow),
    Scene.MOVE: Detour(has_a_home, move),
    Scene.MUTE: Detour(has_nothing, start_mute),
    Scene.REAP: Detour(has_nothing, leave_over),
}


async def play_detour(site: Site, cell: Cell, user: str) -> Ended:
    """The fault strikes until the call was made that it is for; then it is gone, and no machine
    runs once its server has stopped."""
    detour = DETOURS[cell.row.scene]
    await detour.before(site, user)
    await site.order([cell])
    bound = bound_of_start(cell.row.action.name)
    if cell.row.scene is Scene.KEEP:
        bound = BOUNDS["stop"].seconds(HURRIED)
    ended = await timed(cell, detour.play(site, user, bound + USUAL))
    ended = replace(ended, struck=await site.struck_soon(cell))
    await site.clear()
    if not ended.message and not ended.hung and user and await site.is_there(user):
        await site.stop(user, USUAL)
    return ended if ended.hung else replace(ended, leaked=await site.uptime())


async def record_detour(site: Site, scene: Scene, user: str) -> None:
    """Once as it should be, with what the hub does about it when its user has gone."""
    await DETOURS[scene].before(site, user)
    message = await DETOURS[scene].play(site, user, USUAL)
    assert bool(message) == (scene is Scene.MUTE), f"{scene}: {message}\n{site.hub.tail()}"
    if user and await site.is_there(user):
        await site.stop(user, USUAL)
    left = await (site.uptime() if scene in {Scene.KEEP, Scene.WAKE} else site.settle())
    assert not left, f"{scene}: without any fault there is left over: {left}"


async def _well(started: Awaitable[str]) -> None:
    message = await started
    assert not message, f"no start before the fault: {message}"
