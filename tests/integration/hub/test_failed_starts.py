"""Starts that do not end well leave nothing behind, and say why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, demo_config, until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=40)]

OF_EACH_USER = """
async def prepare(spawner):
    name = spawner.user.name
    if name == "sleeper":
        spawner.cmd = ["sleep", "60"]
    if name == "broken":
        spawner.cmd = ["no-such-program"]
    if name == "late":
        spawner.start_timeout = 8
c.EC2Spawner.pre_spawn_hook = prepare
"""
"""Users whose starts end before they are over."""

NOBODY_THERE = (
    "--EC2Spawner.hub_api_url=http://127.0.0.1:9/hub/api",
    "--EC2Spawner.boot_timeout=15s",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    embedded = await Embedded(folder / "embedded").start()
    config = demo_config(folder / "config", OF_EACH_USER)
    running = Hub(folder / "hub", embedded, config=config)
    try:
        yield await running.start()
    finally:
        await embedded.stop()  # the hub would wait for the call that hangs
        await running.stop()
        print(running.tail(200))


@pytest_asyncio.fixture(loop_scope="module")
async def hub(shared_hub: Hub) -> AsyncIterator[Hub]:
    """Each test has a user of its own; EC2 is in order, and has no instances."""
    embedded = shared_hub.embedded
    await wait_until_nothing_runs(embedded)
    yield shared_hub
    await embedded.clear_faults()
    await embedded.control("boot", {"seconds": 0})
    await embedded.control("lag", {"seconds": None})


@pytest_asyncio.fixture(loop_scope="module")
async def embedded(hub: Hub) -> Embedded:
    return hub.embedded


async def wait_until_nothing_runs(embedded: Embedded) -> None:
    async def nothing() -> bool:
        return not await embedded.instances()

    await until(nothing, 20, "every instance to be gone")


async def launched(embedded: Embedded) -> str:
    async def first() -> str | None:
        running = await embedded.instances()
        return running[0]["instance_id"] if running else None

    return await until(first, 10, "an instance to be launched")


async def called(embedded: Embedded, launches: int) -> None:
    """Wait until so many launch calls have arrived."""

    async def is_called() -> bool:
        return len(await embedded.calls("CreateFleet")) >= launches

    await until(is_called, 10, "a launch call")


async def reached(hub: Hub, user: str, step: str) -> None:
    """Follow the progress of a start until it is at this step."""
    path = f"{hub.server_path(user)}/progress"
    async with asyncio.timeout(90), hub.api.stream("GET", path) as events:
        async for line in events.aiter_lines():
            event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            if (step, "now") in [(each["name"], each["state"]) for each in event.get("steps", ())]:
                return
    raise AssertionError(f"the start of {user} never came to {step}")


async def failure(hub: Hub, user: str) -> str:
    """What the progress of a start says at last."""
    await hub.request_server(user)
    path = f"{hub.server_path(user)}/progress"
    async with asyncio.timeout(90), hub.api.stream("GET", path) as events:
        async for line in events.aiter_lines():
            event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            if event.get("failed"):
                return str(event["message"])
    raise AssertionError(f"the start of {user} did not fail")


@pytest.mark.parametrize(
    ("user", "step"),
    [("ada", "launch"), ("ann", "boot"), ("ben", "home"), ("sleeper", "notebook")],
)
async def test_cancelled_at_any_step_leaves_no_instance_and_another_can_be_started(
    hub: Hub, embedded: Embedded, user: str, step: str
) -> None:
    await embedded.control("boot", {"seconds": 60 if step == "boot" else 0})
    if action := {"launch": "CreateFleet", "home": "AttachVolume"}.get(step):
        await embedded.control("faults", {"action": action, "kind": "hang"})
    await hub.add_user("admin")
    # The next start of a profile shares its launch call while that hangs.
    options = {"profile": "a100x8"} if step == "launch" else {}
    launches = len(await embedded.calls("CreateFleet"))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hub.request_server(user, options=options))
        if step == "launch":
            await called(embedded, launches + 1)
        else:
            await launched(embedded)
            await reached(hub, user, step)
        reply = await hub.api.delete(hub.server_path(user))
        assert reply.status_code in {202, 204}, reply.text
        await wait_until_nothing_runs(embedded)
    await hub.wait_gone(user, timeout=10)
    admin = {"Authorization": f"token {await hub.user_token('admin')}"}
    shown = (await hub.api.get("ec2/instances", headers=admin)).json()
    if step != "notebook":  # that of `sleeper` may have ended by itself before
        assert user not in [each["user"] for each in shown["failed_starts"]], "it was cancelled"
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hub.request_server(user, options={"profile": "cpu"}))
        await launched(embedded)
        await hub.api.delete(hub.server_path(user))
    await wait_until_nothing_runs(embedded)
    await hub.wait_gone(user)


async def test_what_was_bought_for_a_start_is_charged_to_the_user_who_cancels_it(
    hub: Hub, embedded: Embedded
) -> None:
    await embedded.control("boot", {"seconds": 60})
    await hub.add_user("eva")
    own = {"Authorization": f"token {await hub.user_token('eva')}"}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hub.request_server("eva"))
        await launched(embedded)
        await reached(hub, "eva", "boot")
        reply = await hub.api.delete(hub.server_path("eva"), headers=own)
        assert reply.status_code in {202, 204}, reply.text

    async def is_charged() -> bool:
        path = "ec2/usage/costs"
        costs = await hub.api.get(path, params={"by": "cause"}, headers=own)
        # Asked often, the hub answers 429 for a moment.
        sums = costs.json()["sums"] if costs.is_success else ()
        return ["unassigned"] in [each["key"] for each in sums]

    await until(is_charged, 20, "what was bought to be charged")


async def test_timed_out_start_names_its_last_step_and_leaves_no_instance(
    hub: Hub, embedded: Embedded
) -> None:
    await embedded.control("boot", {"seconds": 60})
    reply = await hub.request_server("late")
    assert reply.status_code == 503
    message = reply.json()["message"]
    assert "8 seconds" in message
    assert "still booting" in message
    await wait_until_nothing_runs(embedded)


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_start.py::"
    "test_an_instance_that_dies_before_its_claim_is_replaced"
)
async def test_instance_that_dies_while_booting_is_replaced(hub: Hub, embedded: Embedded) -> None:
    await embedded.control("boot", {"seconds": 3})
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hub.request_server("cat"))
        first = await launched(embedded)
        await embedded.control(f"interrupt/{first}", {"notice_seconds": 0})
    await hub.wait_ready("cat")
    running = await embedded.instances()
    assert len(running) == 1
    assert running[0]["instance_id"] != first
    await hub.stop_server("cat")
    await wait_until_nothing_runs(embedded)


async def test_instance_that_ec2_ends_for_the_configuration_fails_the_start_with_the_cause(
    hub: Hub, embedded: Embedded
) -> None:
    await embedded.control("lag", {"seconds": 0})  # a template that lags is asked for again
    launches = len(await embedded.calls("CreateFleet"))
    kind = "terminate:Client.InvalidKMSKey.InvalidState"
    await embedded.control("faults", {"action": "CreateFleet", "kind": kind, "times": 9})
    message = await failure(hub, "dan")
    assert "The KMS key provided is in an incorrect state" in message
    assert "AWSServiceRoleForEC2Spot" in message, "the fix"
    assert len(await embedded.calls("CreateFleet")) == launches + 1


async def test_failing_notebook_start_says_why(hub: Hub, embedded: Embedded) -> None:
    reply = await hub.request_server("broken")
    assert reply.status_code == 503, reply.text
    assert "no-such-program" in reply.json()["message"]
    await wait_until_nothing_runs(embedded)


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_start_timeout.py::"
    "test_an_agent_that_never_calls_fails_the_start_with_the_boot_log"
)
async def test_silent_instance_fails_its_start_with_the_end_of_its_boot_log(
    tmp_path: Path,
) -> None:
    embedded = await Embedded(tmp_path / "embedded").start()
    hub = Hub(tmp_path / "hub", embedded, *NOBODY_THERE)
    try:
        await hub.start()
        message = await failure(hub, "ann")
        assert "did not call the hub within 15 seconds of its start" in message
        assert "security groups" in message
        assert "The end of its boot log: " in message
        assert "no answer to claims" in message, "the agent's own words"
        await wait_until_nothing_runs(embedded)
        assert len(await embedded.calls("CreateFleet")) == 1
    finally:
        await hub.stop()
        await embedded.stop()
        print(hub.tail(120))


def rule(group: str, low: int, high: int) -> dict[str, Any]:
    source = {"UserIdGroupPairs": [{"GroupId": group}]}
    return {"IpProtocol": "tcp", "FromPort": low, "ToPort": high, **source}


@contextmanager
def open_only(embedded: Embedded, *ports: tuple[int, int]) -> Iterator[None]:
    """Let only these TCP ports pass between the hub and instances, whoever connects."""
    ec2, facts = embedded.client(), embedded.described
    instances, hub = facts["security_group"], facts["hub_security_group"]
    described = ec2.describe_security_groups(GroupIds=[instances, hub])["SecurityGroups"]
    usual = {each["GroupId"]: each["IpPermissions"] for each in described}
    few = {
        instances: [rule(hub, low, high) for low, high in ports],
        hub: [rule(instances, low, high) for low, high in ports],
    }

    def replace_rules(before: dict[str, Any], after: dict[str, Any]) -> None:
        for each in (instances, hub):
            ec2.revoke_security_group_ingress(GroupId=each, IpPermissions=before[each])
            ec2.authorize_security_group_ingress(GroupId=each, IpPermissions=after[each])

    replace_rules(usual, few)
    try:
        yield
    finally:
        replace_rules(few, usual)


async def test_a_security_group_that_does_not_let_the_hub_in_fails_the_start_with_the_cause(
    hub: Hub, embedded: Embedded
) -> None:
    with open_only(embedded, (0, 8887), (8889, 65535)):
        message = await failure(hub, "eve")
        assert ":8888" in message
        assert "security group" in message
        await wait_until_nothing_runs(embedded)
