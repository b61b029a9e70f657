"""Calls on the owner's behalf: what is done, and why they are refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.hub.api.agents.calls import IdleHandler
from ec2spawner.hub.api.agents.calls import _upload_to as upload_to
from ec2spawner.hub.api.agents.hardware import ContinueHandler, HardwareHandler
from ec2spawner.hub.api.agents.owner import OwnersHandler
from ec2spawner.provisioner.model.leases.lease import Lease
from ec2spawner.wire import ContinueRequest, IdlePolicy, IdleRequest, IdleResponse
from tests.unit.provisioner.world import World
from tests.user_accounts import bare_accounts, fake_user, fake_users

from .test_instances_answer import RUN, SERVER

WORKER = replace(SERVER, server="lab/2", head="lease-1")


class Refused(Exception):
    pass


class OfAda(OwnersHandler):
    """Of a hub whose only user, `ada`, has one server, `lab`."""

    def __init__(self) -> None:
        pass

    def read(self, *_: Any) -> Any:
        return ContinueRequest(profile="t4")

    users: Any = fake_users(fake_user("ada", orm_spawners={"lab"}, spawners={"lab": "ada's lab"}))
    service: Any = SimpleNamespace(accounts=bare_accounts())

    def get_json_body(self) -> None:
        """None was sent."""

    def refuse(self, status: int, message: str) -> NoReturn:
        assert status == 409
        raise Refused(message)


class Hardware(OfAda, HardwareHandler):
    pass


class Continue(OfAda, ContinueHandler):
    pass


@pytest.mark.parametrize("handler", [Hardware, Continue])
@pytest.mark.parametrize(
    ("lease", "why"),
    [
        (RUN, "a worker or a run"),
        (WORKER, "a worker or a run"),
        (replace(RUN, user="bob"), "a worker or a run"),
        (replace(SERVER, user="bob"), "no account any more"),
        (replace(SERVER, server="old"), "deleted"),
    ],
)
async def test_a_refusal_says_what_is_so(
    handler: type[HardwareHandler | ContinueHandler], lease: Lease, why: str
) -> None:
    with pytest.raises(Refused, match=why):
        await handler().call(lease)


def test_a_server_of_the_owner_is_found() -> None:
    found: Any = OfAda().owners_spawner(SERVER)
    assert found == "ada's lab"


@pytest.mark.virtual_time
async def test_an_idle_time_is_chosen_within_the_bounds_of_the_policy(world: World) -> None:
    answers: list[IdleResponse] = []

    def refuse(status: int, message: str) -> NoReturn:
        assert status == 403
        raise Refused(message)

    handler: Any = SimpleNamespace(
        provisioner=world.provisioner,
        read=lambda _: IdleRequest(server_seconds=1),
        refuse_unless_ready=lambda _: None,
        refuse=refuse,
        answer=lambda _, answer: answers.append(answer),
    )
    bounds = {"user_server_min_seconds": 900, "user_server_max_seconds": 7200}
    lease, _ = await world.ready(idle=IdlePolicy(server_seconds=3600, **bounds))
    await IdleHandler.call(handler, lease)
    [answer] = answers
    assert (answer.idle.server_seconds, answer.bounded) == (900, True)
    fixed, _ = await world.ready("bea", idle=IdlePolicy(server_seconds=3600))
    with pytest.raises(Refused, match="does not let users choose"):
        await IdleHandler.call(handler, fixed)


def test_each_server_uploads_to_a_place_of_its_own() -> None:
    """A server may be called as the place of the server without a name is."""
    sleep = SleepRules(upload_to="s3://results/")
    names = ("", "-", "%2D", "lab", "lab+1", "lab 1")
    found = [upload_to(replace(SERVER, user="ada", server=name, sleep=sleep)) for name in names]
    assert found[0] == "s3://results/ada/-/"
    assert len(set(found)) == len(names)
    assert all(each.count("/") == 5 and each.startswith("s3://results/ada/") for each in found)
