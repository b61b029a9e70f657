"""Calls on the owner's behalf say why they are refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from ec2spawner.hub.api.agents.hardware import ContinueHandler, HardwareHandler
from ec2spawner.hub.api.agents.owner import OwnersHandler
from ec2spawner.provisioner.model.leases.lease import Lease
from ec2spawner.wire import ContinueRequest

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

    def find_user(self, name: str) -> Any:
        ada = SimpleNamespace(orm_spawners={"lab"}, spawners={"lab": "ada's lab"})
        return ada if name == "ada" else None

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
