"""Who pays for a server that its user continues on other hardware."""

from __future__ import annotations

from typing import Any

import pytest

from ec2spawner.hub.security.sealed_start import NotebookStart
from ec2spawner.hub.spawn.hardware_change import continue_on
from tests.unit.provisioner.world import World

from .test_run_payers import PAYERS, URL, service, spawner_of, world

__all__ = ["world"]

START = NotebookStart(environment={}, command=["jupyterhub-singleuser"], api_token="", base_url="/")


async def payer_after(
    world: World, before: str, payers: dict[str, Any], asked: dict[str, str] | None = None
) -> str:
    """Of ann's server that was charged to `before`, once it continues elsewhere; empty is ann."""
    spawner = spawner_of("lab", "research")
    hub = service(spawner, payers)
    await world.ready("ann", payer=before, sealed_start=hub.seal.close(START))
    await continue_on(hub, world.provisioner, spawner, URL, {"profile": "t4"} | (asked or {}))
    found = world.provisioner.moves.last("ann", "")
    assert found is not None
    named = hub.seal.open(found.sealed_start).user_options.get("payer")
    assert named == (None if payers == {} else found.payer or "user:ann")
    return found.payer


@pytest.mark.parametrize("payer", ["group:research", ""])
async def test_a_server_that_continues_keeps_its_payer(world: World, payer: str) -> None:
    """The default of ann is the group lab; an empty payer is ann."""
    assert await payer_after(world, payer, PAYERS) == payer


async def test_another_payer_can_be_named(world: World) -> None:
    assert await payer_after(world, "", PAYERS, {"payer": "group:research"}) == "group:research"


async def test_where_there_is_no_choice_no_payer_is_stored_for_later_starts(world: World) -> None:
    assert await payer_after(world, "", {}) == ""
