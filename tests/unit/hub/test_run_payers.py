"""Who pays for a run: the payer of the server that it is sent from, or whom its user names to the
hub."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from ec2spawner.core.alarms.alarm import AlarmRules, Kind
from ec2spawner.core.profiles.choices import OptionsRefused
from ec2spawner.core.runs.documents import pack
from ec2spawner.hub.api.agents.hardware import HardwareHandler
from ec2spawner.hub.api.agents.runs import RunsHandler
from ec2spawner.hub.runs.lease import run_lease
from ec2spawner.hub.runs.submission import CannotRun, submit
from ec2spawner.provisioner.model.leases.run import Run
from ec2spawner.provisioner.runs.runs import Owner
from ec2spawner.wire import HardwareChoices, RunsRequest, RunSubmission
from tests import stored
from tests.unit.provisioner.world import World

from .hub_of_ann import PAYERS, URL, service, spawner_of

pytestmark = pytest.mark.virtual_time

ANN = Owner("ann")


def submission(payer: str = "") -> RunSubmission:
    return RunSubmission(path="a.py", document=pack([b"pass"]), profile="t4", payer=payer)


async def submitted(
    world: World,
    *groups: str,
    asked: str = "",
    server: str | None = None,
    payers: dict[str, Any] = PAYERS,
) -> Run:
    """A run of ann's, sent from a server with this payer, or from none."""
    spawner = spawner_of(*groups)
    hub = service(spawner, payers)
    lease = None if server is None else stored.lease(user="ann", payer=server)
    [found] = await submit(hub, world.provisioner, spawner, ANN, submission(asked), server=lease)
    run = world.provisioner._state.runs.get(found.number)
    assert run is not None
    return run


@pytest.mark.parametrize("server", ["group:research", "group:lab", ""])
async def test_a_run_is_charged_to_the_payer_of_its_server(world: World, server: str) -> None:
    """The default of ann is the group lab; an empty payer is ann."""
    run = await submitted(world, "lab", "research", server=server)
    assert run.payer == server


async def test_a_server_charges_no_other_payer_of_its_user(world: World) -> None:
    """Everyone with access to the server can submit runs from it."""
    run = await submitted(world, "lab", "research", asked="group:lab", server="group:lab")
    assert run.payer == "group:lab"
    for asked in ("group:research", "user:ann"):
        with pytest.raises(CannotRun, match="charged to its own payer, group:lab"):
            await submitted(world, "lab", "research", asked=asked, server="group:lab")


@pytest.mark.parametrize(
    ("server", "payers"), [("group:research", PAYERS), ("", PAYERS | {"user": False})]
)
async def test_a_payer_that_is_lost_since_the_start_is_replaced_by_no_other(
    world: World, server: str, payers: dict[str, Any]
) -> None:
    with pytest.raises(OptionsRefused, match="may not pay for it any more"):
        await submitted(world, "lab", server=server, payers=payers)


async def test_a_program_with_the_users_own_token_names_who_pays(world: World) -> None:
    for asked, payer in (("group:research", "group:research"), ("user:ann", "")):
        assert (await submitted(world, "lab", "research", asked=asked)).payer == payer
    with pytest.raises(OptionsRefused, match="group:research"):
        await submitted(world, "lab", asked="group:research")


async def test_a_run_of_no_server_is_charged_to_the_default(world: World) -> None:
    assert (await submitted(world, "lab", "research")).payer == "group:lab"
    assert (await submitted(world)).payer == ""


async def test_the_call_of_an_agent_names_its_server(world: World) -> None:
    spawner = spawner_of("lab", "research")

    async def check_submissions(_: Any) -> None:
        pass

    handler: Any = SimpleNamespace(
        service=service(spawner, PAYERS),
        provisioner=world.provisioner,
        owners_spawner=lambda _: spawner,
        check_submissions=check_submissions,
        may_be_large=False,
    )
    lease = stored.lease(user="ann", payer="group:research")
    request = RunsRequest(action="submit", submission=submission())
    [run] = await RunsHandler.submit(handler, lease, ANN, request)
    assert run.payer == "group:research"


@pytest.mark.parametrize("payer", ["user:ann", "group:research"])
async def test_who_pays_for_a_run_is_who_pays_for_its_instance(world: World, payer: str) -> None:
    """Also where that is ann, and her default is a group."""
    run = await submitted(world, "lab", "research", asked=payer)
    spawner = spawner_of("lab", "research")
    lease, _ = await run_lease(service(spawner, PAYERS), world.provisioner, spawner, run, {}, URL)
    assert (lease.payer or "user:ann") == payer


async def hardware(world: World, payer: str) -> HardwareChoices:
    """What ann's server that is charged to this payer is offered."""
    spawner = spawner_of("lab", "research")
    answers: list[HardwareChoices] = []
    handler: Any = SimpleNamespace(
        service=service(spawner, PAYERS),
        provisioner=world.provisioner,
        owners_spawner=lambda _: spawner,
        refuse_body=lambda: None,
        refuse_unless_ready=lambda _: None,
        answer=lambda _, answer: answers.append(answer),
    )
    await HardwareHandler.call(handler, stored.lease(user="ann", payer=payer))
    return answers[0]


@pytest.mark.parametrize(
    ("destinations", "kinds", "expected"),
    [((), Kind, False), (("ops",), Kind, True), (("ops",), [Kind.LEAK], False)],
)
async def test_ends_are_reported_where_an_alarm_reaches_somebody(
    world: World, destinations: tuple[str, ...], kinds: Iterable[Kind], expected: bool
) -> None:
    rules = AlarmRules(kinds=frozenset(kinds))
    await world.restart(alarm_destinations=destinations, alarms=rules)
    assert (await hardware(world, "")).reports_ends is expected
