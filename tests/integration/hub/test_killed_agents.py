"""Agents that are killed: systemd restarts them, and every lease ends once, with all its files."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, running_hub, until
from tests.integration.hub.agents_on_instances import agent_of, home_on, make_syncs_slow

pytestmark = [pytest.mark.slow(seconds=60), pytest.mark.asyncio(loop_scope="module")]

CONFIG = """
c.EC2Spawner.profile_list = [
    {"display_name": "Small", "slug": "small", "vcpus": 2, "memory_gib": 4},
    {"display_name": "Kept", "slug": "kept", "vcpus": 2, "memory_gib": 4,
     "market": "on-demand", "after_stop": {"stop": "1d"}},
]
c.EC2Spawner.sleep = {"save": "5m"}
c.EC2Spawner.stop_timeout = "5m"
"""
"""No test could wait for the longest stop: what ends sooner does so because the agent is gone."""

FAILS_ONCE = """#!/bin/sh
if mkdir "$HOME/failed" 2>/dev/null; then kill -9 $$; fi
exec "${0%/*}/ec2spawner-agent-that-works" "$@"
"""

FAILS = """#!/bin/sh
sed -i s/^RestartSec=.*/RestartSec=0.1/ "$EC2SPAWNER_UNITS/ec2spawner-agent.service"
echo "a start of this agent"
kill -9 $$
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    """Each test has a user of its own, and leaves no server."""

    def slow(embedded: Embedded) -> None:
        make_syncs_slow(embedded, "test ! -e $HOME/slow || sleep 2")

    folder = tmp_path_factory.mktemp("killed-agents")
    async with running_hub(folder, CONFIG, image=slow) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def hub(shared_hub: Hub) -> AsyncIterator[Hub]:
    yield shared_hub
    await shared_hub.embedded.clear_faults()
    assert "ALARM" not in shared_hub.log.read_text(), "no agent is taken for an attack"


async def served(hub: Hub, user: str, profile: str = "small") -> str:
    """Id of the instance of a server that has started, with a file in its home."""
    others = {each["instance_id"] for each in await hub.embedded.instances()}
    await hub.start_server(user, options={"profile": profile})
    [instance_id] = {each["instance_id"] for each in await hub.embedded.instances()} - others
    (home_on(hub.embedded, instance_id) / f"{user}.txt").write_text(user)
    return instance_id


async def kill_agent(embedded: Embedded, instance_id: str) -> int:
    """Its process id."""
    pid = await agent_of(embedded, instance_id)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


@contextmanager
def agent_in_image(embedded: Embedded, script: str) -> Iterator[None]:
    """Another one for the instances that boot meanwhile."""
    agent = embedded.data_dir / "ec2/shims/ec2spawner-agent"
    works = agent.rename(agent.with_name("ec2spawner-agent-that-works"))
    agent.write_text(script)
    agent.chmod(0o755)
    try:
        yield
    finally:
        works.rename(agent)


async def state_of(embedded: Embedded, instance_id: str) -> dict[str, Any]:
    found = await embedded.control("instances")
    return next((x for x in found if x["instance_id"] == instance_id), {"state": "terminated"})


async def until_off(embedded: Embedded, instance_id: str, state: str = "terminated") -> None:
    async def is_off() -> bool:
        return bool((await state_of(embedded, instance_id))["state"] == state)

    await until(is_off, 30, f"{instance_id} to be {state}")


def files(embedded: Embedded, user: str) -> list[Path]:
    return list((embedded.data_dir / "ec2/volumes").glob(f"*/{user}.txt"))


async def test_a_server_ends_with_its_agent_and_keeps_its_files(hub: Hub) -> None:
    embedded, logged = hub.embedded, len(hub.log.read_text())
    instance_id = await served(hub, "ann")
    before = {x["pid"] for x in (await state_of(embedded, instance_id))["processes"]}
    killed = await kill_agent(embedded, instance_id)

    async def restarted() -> int | None:
        found = await agent_of(embedded, instance_id)
        return None if found == killed else found

    await until(restarted, 30, "another agent")
    # No notebook, kernel or daemon of the first one sees the second.
    state = await state_of(embedded, instance_id)
    left = {x["command"] for x in state.get("processes", ()) if x["pid"] in before}
    assert left <= {"systemctl", "sleep"}
    # The hub terminates it where it hears of the crash before EC2 lists the shutdown. A test below
    # shows without a hub that it ends by itself.
    await until_off(embedded, instance_id)
    await hub.wait_gone("ann")
    assert "its agent crashed" in hub.log.read_text()[logged:]
    assert files(embedded, "ann")
    second = await served(hub, "ann")
    assert second != instance_id
    await hub.stop_server("ann")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_start.py::"
    "test_an_instance_that_dies_while_the_notebook_starts_is_replaced"
)
async def test_a_start_gets_another_instance_when_its_agent_is_killed(hub: Hub) -> None:
    embedded = hub.embedded
    await embedded.control("faults", {"action": "AttachVolume", "kind": "hang"})
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hub.request_server("bob", options={"profile": "small"}))

        async def assigned() -> str | None:
            found = re.search(r"of 'bob'/'' gets (i-\w+)", hub.log.read_text())
            return found[1] if found else None

        first = await until(assigned, 60, "an agent that waits for the home")
        await kill_agent(embedded, first)
        await until_off(embedded, first)
        await embedded.clear_faults()
    await hub.wait_ready("bob")
    [running] = await embedded.instances()
    assert running["instance_id"] != first
    await hub.stop_server("bob")


async def test_an_agent_that_is_killed_before_its_claim_serves_nevertheless(hub: Hub) -> None:
    with agent_in_image(hub.embedded, FAILS_ONCE):
        instance_id = await served(hub, "cid")
        root = hub.embedded.data_dir / "ec2/instances" / instance_id / "root"
        assert (root / "failed").exists()
    await hub.stop_server("cid")


async def test_an_agent_that_fails_too_often_fails_the_start_with_its_last_words(hub: Hub) -> None:
    with agent_in_image(hub.embedded, FAILS):
        reply = await hub.request_server("dan", options={"profile": "small"})
    assert reply.status_code == 503
    message = reply.json()["message"]
    assert "2 instances ended before your server was ready" in message
    assert "the agent does not run, this instance powers off: a start of this agent" in message
    assert not await hub.embedded.instances()


SLEEPS = pytest.mark.nightly(
    guard="tests/integration/hub/test_killed_agents.py::"
    "test_a_stop_does_not_wait_for_a_killed_agent"
)


@pytest.mark.parametrize("how", ["stop", pytest.param("sleep", marks=SLEEPS)])
async def test_a_stop_does_not_wait_for_a_killed_agent(hub: Hub, how: str) -> None:
    embedded, user = hub.embedded, f"eve-{how}"
    instance_id = await served(hub, user)
    (embedded.data_dir / "ec2/instances" / instance_id / "root/slow").touch()
    own = {"Authorization": f"token {await hub.user_token(user)}"}

    async def is_flushing() -> bool:
        commands = (await state_of(embedded, instance_id)).get("processes", ())
        return any(each["command"] == "sync" for each in commands)

    async with asyncio.TaskGroup() as tasks:
        if how == "stop":
            stop = hub.api.delete(hub.server_path(user), headers=own)
        else:
            stop = hub.api.post(f"/ec2{hub.server_path(user)}/sleep", headers=own)
        asked = tasks.create_task(stop)
        await until(is_flushing, 30, "the agent to flush the home")
        await kill_agent(embedded, instance_id)
        await until_off(embedded, instance_id)
        await hub.wait_gone(user, timeout=30)
    assert asked.result().is_success
    assert files(embedded, user)


@pytest.mark.nightly(
    guard="tests/unit/provisioner/retention/test_retained_instances.py::"
    "test_a_server_that_powers_its_retained_instance_off_loses_no_disk"
)
async def test_a_disk_that_was_kept_before_outlives_its_agent(hub: Hub) -> None:
    embedded = hub.embedded
    instance_id = await served(hub, "fay", "kept")
    await hub.stop_server("fay")
    await until_off(embedded, instance_id, "stopped")
    await hub.start_server("fay", options={"profile": "kept"})
    await kill_agent(embedded, instance_id)
    await until_off(embedded, instance_id, "stopped")
    await hub.wait_gone("fay", timeout=30)
    await hub.start_server("fay", options={"profile": "kept"})
    [running] = await embedded.instances()
    assert running["instance_id"] == instance_id
    await hub.stop_server("fay")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_start_check.py::"
    "test_a_server_without_its_instance_is_detected_soon"
)
async def test_an_agent_that_is_killed_while_no_hub_runs(hub: Hub) -> None:
    instance_id = await served(hub, "gus")
    await hub.kill()
    await kill_agent(hub.embedded, instance_id)
    await until_off(hub.embedded, instance_id)
    await hub.start()
    await hub.wait_gone("gus", timeout=30)
    await served(hub, "gus")
    await hub.stop_server("gus")
