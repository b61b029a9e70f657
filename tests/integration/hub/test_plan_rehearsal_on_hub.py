"""`ec2spawner plan --rehearse` at a hub: real starts, and nothing of them left."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from ec2spawner.core.starts.phases import Phase
from ec2spawner.plan.rehearsal.users import names
from ec2spawner.provisioner.store.read_only import peek
from tests.forked_command import Ended, run_command
from tests.harness import ADMIN_TOKEN, CONFIG, Embedded, Hub, until
from tests.integration.commands.admin import COMMAND
from tests.nursery import ForkedProcess

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=20)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded"), boot_seconds=1.0).start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    running = Hub(tmp_path_factory.mktemp("hub"), embedded)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


class Plan:
    """The command, in a process that a test can signal."""

    def __init__(self, hub: Hub, directory: Path) -> None:
        self.hub = hub
        self.directory = directory
        self.process: ForkedProcess | None = None

    async def run(self, *arguments: str, token: str = "") -> Ended:
        """With the token of an admin, unless another one is given."""
        environment = {
            **self.hub.process_environment(),
            "COLUMNS": "200",
            "JUPYTERHUB_API_TOKEN": token or await self.hub.user_token("admin"),
        }
        command = ("plan", f"--config={CONFIG}", f"--hub={self.hub.url}", *arguments)

        def started(process: ForkedProcess) -> None:
            self.process = process

        return await run_command(COMMAND, command, environment, self.directory, started)

    def send_signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)


@pytest_asyncio.fixture(loop_scope="module")
async def plan(hub: Hub, tmp_path: Path) -> Plan:
    await hub.add_user("admin")
    return Plan(hub, tmp_path)


THREE = ("--profile=cpu", "--rehearse=3")


async def rehearsing(hub: Hub) -> list[str]:
    """The users of rehearsals."""
    reply = await hub.api.get("/users?name_filter=rehearsal-")
    return [user["name"] for user in reply.json()]


async def assert_nothing_left(hub: Hub) -> None:
    """Neither users nor instances, and no home of theirs that stays: volumes are deleted once a
    minute."""
    assert await rehearsing(hub) == []
    assert await hub.embedded.instances() == []
    url = f"sqlite:///{hub.directory / 'ec2spawner.sqlite'}"
    stored = await peek(url, (), now=datetime.now(UTC))
    stay = [home.user for home in stored.snapshot.homes if home.delete_at is None]
    assert [user for user in stay if user.startswith("rehearsal-")] == []


async def start_temporary(hub: Hub, user: str) -> httpx.Response:
    headers = {"Authorization": f"token {await hub.user_token('admin')}"}
    options = {"profile": "cpu", "temporary": 600}
    return await hub.api.post(hub.server_path(user), json=options, headers=headers)


async def test_servers_start_are_measured_and_leave_nothing(hub: Hub, plan: Plan) -> None:
    """Nor does what an earlier rehearsal has left too long."""
    volumes = len(await hub.embedded.calls("CreateVolume"))
    [overdue] = names(datetime.now(UTC) - timedelta(minutes=1), "0a9f", 1)
    for user in (overdue, "rehearsal-of-the-choir"):
        await hub.add_user(user)
    assert (await start_temporary(hub, overdue)).status_code == 201
    ended = await plan.run(*THREE, "--yes", "--json")
    assert ended.status == 0, ended.output + ended.errors
    found = ended.json
    assert found["users"] == 3
    result = found["rehearsal"]
    assert (result["requested"], result["ready"], result["failures"]) == (3, 3, [])
    assert result["left"] == {}
    assert sum(place["count"] for place in result["places"]) == 3
    assert {place["market"] for place in result["places"]} == {"spot"}
    assert all(place["zone"] and place["instance_type"] for place in result["places"])
    total, waited = result["total"], result["waited"]
    assert 1 < total["median"] <= total["p95"] <= total["max"] <= waited["max"]
    assert set(result["phases"]) >= {Phase.BUY, Phase.BOOT, Phase.HOME, Phase.ROUTE}
    assert result["usd_lacks"] == ""
    assert 0 < result["usd"] < result["predicted"]["max_usd"]
    made = len(await hub.embedded.calls("CreateVolume")) - volumes
    assert made == 1 + 3, "each has a home of its own"
    assert result["stop_seconds"] > 0
    assert "3 servers" in ended.errors
    assert "Predicted cost: about" in ended.errors
    assert await rehearsing(hub) == ["rehearsal-of-the-choir"], "nobody else's user is touched"
    assert (await hub.api.delete("/users/rehearsal-of-the-choir")).status_code == 204
    await assert_nothing_left(hub)


async def test_nothing_starts_without_consent(hub: Hub, plan: Plan) -> None:
    blind = await plan.run("--rehearse=0", "--yes", token=ADMIN_TOKEN)
    assert blind.status == 1
    assert "this needs the scope custom:ec2spawner:instances" in blind.errors
    ended = await plan.run(*THREE)
    assert ended.status == 3, ended.errors
    assert "add --yes" in ended.errors
    assert await rehearsing(hub) == []


@pytest.mark.nightly(
    guard="tests/unit/plan/test_rehearsal_command.py::test_the_command_rehearses_what_is_not_short"
)
async def test_what_the_plan_calls_short_is_not_tried(
    hub: Hub, embedded: Embedded, plan: Plan
) -> None:
    await embedded.control("limits", {"quotas": {"spot": 4, "on-demand": 4}})
    try:
        ended = await plan.run(*THREE, "--yes")
    finally:
        await embedded.control("limits", {"quotas": {"spot": None, "on-demand": None}})
    assert ended.status == 1
    assert "the plan says that 3 servers cannot start: spot vCPU quota" in ended.errors
    assert await rehearsing(hub) == []


@pytest.mark.nightly(
    guard="tests/unit/plan/test_rehearsal_command.py::"
    "test_servers_that_do_not_start_fail_the_rehearsal"
)
async def test_why_starts_failed_is_reported(hub: Hub, embedded: Embedded, plan: Plan) -> None:
    fault = {"action": "CreateFleet", "kind": "UnauthorizedOperation", "times": 20}
    await embedded.control("faults", fault)
    try:
        ended = await plan.run("--profile=cpu", "--users=3", "--rehearse=2", "--yes")
    finally:
        await embedded.clear_faults()
    assert ended.status == 1, ended.errors
    plan_part, _, rest = ended.output.partition("Rehearsal: 0 of 2 servers got ready")
    assert '3 users of "No GPU"' in plan_part
    assert "2 failed (refused): " in rest
    assert rest.rstrip().endswith("2 of 2 starts did not succeed; nothing is left.")
    await assert_nothing_left(hub)


async def begun(hub: Hub, plan: Plan, rehearsal: asyncio.Task[Ended]) -> None:
    """Return once its instances boot."""

    async def three() -> bool:
        assert not rehearsal.done(), rehearsal.result()
        return len(await hub.embedded.instances()) == 3

    await until(three, 60, "three instances")


async def test_a_signal_stops_all_that_was_started(hub: Hub, plan: Plan) -> None:
    running = asyncio.create_task(plan.run(*THREE, "--yes"))
    await begun(hub, plan, running)
    plan.send_signal(signal.SIGTERM)
    ended = await running
    assert ended.status == 130, ended.output + ended.errors
    assert "Everything that was started is stopped and removed" in ended.errors
    await assert_nothing_left(hub)


@pytest.mark.nightly(
    guard="tests/unit/plan/test_rehearsal_command.py::"
    "test_what_a_killed_rehearsal_has_left_is_removed"
)
async def test_what_a_killed_rehearsal_leaves_is_found_and_removed(hub: Hub, plan: Plan) -> None:
    running = asyncio.create_task(plan.run(*THREE, "--yes"))
    await begun(hub, plan, running)
    plan.send_signal(signal.SIGKILL)
    await running
    assert len(await rehearsing(hub)) == 3
    refused = await plan.run(*THREE, "--yes")
    assert refused.status == 1
    assert "another rehearsal may take until" in refused.errors
    removed = await plan.run("--rehearse=0", "--yes")
    assert removed.status == 0, removed.errors
    assert "3 of 3 users are removed." in removed.output
    await assert_nothing_left(hub)


async def test_only_who_has_the_scope_starts_a_temporary_server(hub: Hub) -> None:
    await hub.add_user("eve")
    headers = {"Authorization": f"token {await hub.user_token('eve')}"}
    options = {"profile": "cpu", "temporary": 600}
    reply = await hub.api.post(hub.server_path("eve"), json=options, headers=headers)
    assert reply.status_code == 400
    assert "custom:ec2spawner:instances" in reply.json()["message"]


@pytest.mark.nightly(
    guard="tests/unit/provisioner/homes/test_temporary_homes.py::"
    "test_files_that_stay_never_go_to_a_temporary_start"
)
async def test_a_home_with_files_is_never_made_temporary(hub: Hub) -> None:
    await hub.start_server("ada", options={"profile": "cpu"})
    await hub.stop_server("ada")
    await hub.add_user("admin")
    reply = await start_temporary(hub, "ada")
    assert reply.status_code == 400
    assert "has a home with files" in reply.json()["message"]
