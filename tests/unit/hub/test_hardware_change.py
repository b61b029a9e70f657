"""A server that its user continues on other hardware: who pays for it, and how far it is."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from ec2spawner.core.profiles.choices import OptionsRefused
from ec2spawner.hub.api.agents.clusters import ClusterHandler
from ec2spawner.hub.api.agents.hardware import ContinueHandler
from ec2spawner.hub.api.agents.owner import OwnersHandler
from ec2spawner.hub.api.move import _move as move_of
from ec2spawner.hub.security.sealed_start import NotebookStart
from ec2spawner.hub.spawn.allowed_profiles import payers_of
from ec2spawner.hub.spawn.hardware_change import continue_on
from ec2spawner.provisioner.model.leases.lease import LeaseState, StepEvent
from ec2spawner.wire import ClusterRequest, ContinueRequest, Step, Stop
from tests import stored
from tests.unit.provisioner.world import World

from .hub_of_ann import PAYERS, URL, service, spawner_of

pytestmark = pytest.mark.virtual_time

START = NotebookStart(environment={}, command=["jupyterhub-singleuser"], api_token="", base_url="/")


async def payer_after(
    world: World,
    before: str,
    payers: dict[str, Any],
    asked: dict[str, str] | None = None,
    groups: tuple[str, ...] = ("lab", "research"),
) -> str:
    """Of ann's server that was charged to `before`, once it continues elsewhere; empty is ann."""
    spawner = spawner_of(*groups)
    hub = service(spawner, payers)
    await world.ready("ann", payer=before, sealed_start=hub.seal.close(START))
    await continue_on(hub, world.provisioner, spawner, URL, {"profile": "t4"} | (asked or {}))
    found = world.provisioner.moves.last("ann", "")
    assert found is not None
    named = hub.seal.open(found.sealed_start).user_options.get("payer")
    has_choice = len(payers_of(hub.options, "ann", spawner)) > 1
    assert named == ((found.payer or "user:ann") if has_choice else None)
    return found.payer


@pytest.mark.parametrize("payer", ["group:research", ""])
async def test_a_server_that_continues_keeps_its_payer(world: World, payer: str) -> None:
    """The default of ann is the group lab; an empty payer is ann."""
    assert await payer_after(world, payer, PAYERS) == payer


@pytest.mark.parametrize(
    ("payer", "payers", "groups"),
    [
        ("group:of-before", PAYERS, ("lab", "research")),
        ("group:of-before", {}, ()),
        ("", PAYERS | {"user": False}, ("lab", "research")),
        ("", PAYERS | {"user": False}, ("lab",)),
    ],
)
async def test_a_payer_that_is_lost_since_the_start_is_replaced_by_no_other(
    world: World, payer: str, payers: dict[str, Any], groups: tuple[str, ...]
) -> None:
    """Everyone with access to the server can move it."""
    with pytest.raises(OptionsRefused, match="may not pay for it any more"):
        await payer_after(world, payer, payers, groups=groups)


@pytest.mark.parametrize("before", ["", "group:of-before"])
async def test_another_payer_can_be_named_to_the_hub(world: World, before: str) -> None:
    asked = {"payer": "group:research"}
    assert await payer_after(world, before, PAYERS, asked) == "group:research"


async def test_where_there_is_no_choice_no_payer_is_stored_for_later_starts(world: World) -> None:
    assert await payer_after(world, "", {}) == ""


class Limited(Exception):
    pass


class Refused(Exception):
    pass


class OfAnn(OwnersHandler):
    """A call of the agent of ann's server."""

    def __init__(self, world: World, hub: Any, spawner: Any, message: Any) -> None:
        self.world, self.hub_of_ann, self.spawner, self.message = world, hub, spawner, message

    @property
    def service(self) -> Any:
        return self.hub_of_ann

    @property
    def provisioner(self) -> Any:
        return self.world.provisioner

    def owners_spawner(self, lease: Any) -> Any:
        return self.spawner

    def read(self, *_: Any) -> Any:
        return self.message

    def refuse(self, *_: Any) -> NoReturn:
        raise Refused

    async def refuse_for_now(self, *_: Any) -> NoReturn:
        raise Limited

    def answer(self, *_: Any) -> None:
        pass


class Continue(OfAnn, ContinueHandler):
    pass


class ChangeCluster(OfAnn, ClusterHandler):
    pass


@pytest.mark.parametrize(
    ("handler", "refused"),
    [
        (Continue, ContinueRequest(profile="none-of-ours")),
        (ChangeCluster, ClusterRequest(action="start", workers=1)),
        (ChangeCluster, ClusterRequest(action="scale", workers=1)),
    ],
)
async def test_what_is_refused_takes_nothing_of_what_is_allowed(
    world: World, monkeypatch: pytest.MonkeyPatch, handler: type[OfAnn], refused: Any
) -> None:
    """The hub has no profile of that name, and no clusters."""
    spawner = spawner_of()
    monkeypatch.setattr(spawner, "get_env", lambda: {"JUPYTERHUB_API_URL": URL})
    hub = service(spawner, {})
    lease, _ = await world.ready("ann", sealed_start=hub.seal.close(START))
    for _ in range(40):
        with pytest.raises(Refused):
            await handler(world, hub, spawner, refused).call(lease)
    await Continue(world, hub, spawner, ContinueRequest(profile="t4")).call(lease)


@pytest.mark.parametrize(
    ("state", "has_left", "shown"),
    [
        (LeaseState.WAITING, False, ("looking", "Looking for a machine")),
        (LeaseState.STARTING, False, ("booting", "Looking for a machine")),
        (LeaseState.STARTING, True, ("moving", "Looking for a machine")),
        (LeaseState.ENDED, True, ("failed", "There is none")),
    ],
)
async def test_how_far_a_move_is(state: LeaseState, has_left: bool, shown: tuple[str, str]) -> None:
    stop = Stop(reason="failed", message="There is none") if state is LeaseState.ENDED else None
    event = StepEvent(Step.REQUEST, stored.NOW, "Looking for a machine")
    found = move_of(stored.lease(state=state, stop=stop, events=(event,)), has_left=has_left)
    assert (found.state, found.message) == shown
