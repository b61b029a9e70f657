"""What users send is held to the same bounds by form, by REST and where it was stored; the admin's
profiles and groups may be functions."""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.wire import Market
from tests.harness import Embedded, Hub, until
from tests.integration.hub.agent_by_hand import browser, xsrf_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=10)]

CPU: dict[str, Any] = {
    "display_name": "No GPU",
    "slug": "cpu",
    "vcpus": 4,
    "memory_gib": 16,
    "default": True,
}
T4: dict[str, Any] = {
    "display_name": "T4, 16 GB",
    "slug": "t4",
    "gpu": "T4",
    "profile_options": {
        "market": ["on-demand"],
        "disk_gib": {"min": 50, "max": 500},
        "idle": {"min": "15m", "max": "4h"},
    },
}
BIG: dict[str, Any] = {"display_name": "8 × A100", "slug": "big", "gpu": "A100", "gpu_count": 8}
USUAL = [CPU, T4, {**BIG, "groups": ["research"]}]

REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "unknown profile": ({"profile": "a100"}, 'profile: there is none called "a100". Choose one'),
    "another group's": ({"profile": "big"}, 'profile: "8 × A100" is not open to you.'),
    "unknown option": ({"instance_type": "p5.48xlarge"}, '"instance_type": there is no such'),
    "disk too large": (
        {"profile": "t4", "disk_gib": "501"},
        "disk_gib: 501 is out of bounds. Send a whole number of GiB from 50 to 500",
    ),
    "no number": ({"profile": "t4", "disk_gib": "1e2"}, 'disk_gib: "1e2" is no whole number.'),
    "idle for too long": (
        {"profile": "t4", "idle": "5h"},
        'idle: "5h" is out of bounds. Send a time from 15 minutes to 4 hours',
    ),
    "market that is closed": (
        {"profile": "t4", "market": "spot-only"},
        'market: "T4, 16 GB" is not open for spot-only. Send spot-first, spot-wait or on-demand',
    ),
    "choice that is closed": (
        {"profile": "cpu", "disk_gib": "100"},
        'disk_gib: "No GPU" leaves no choice of it.',
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def any_hub(
    embedded: Embedded, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("hub")
    running = Hub(
        directory,
        embedded,
        config=Path(__file__).with_name("profiles_config.py"),
        environment={"PROFILES": str(directory / "profiles.json")},
    )
    offer(running, USUAL)
    try:
        yield await running.start()
    finally:
        await running.stop()
        print(running.tail(120))


@pytest.fixture
def hub(any_hub: Hub) -> Hub:
    """With its usual profiles, whatever the test before has offered."""
    offer(any_hub, USUAL)
    return any_hub


def offer(hub: Hub, profiles: list[dict[str, Any]]) -> None:
    (hub.directory / "profiles.json").write_text(json.dumps(profiles))


async def post_form(hub: Hub, user: str, fields: dict[str, str]) -> httpx.Response:
    async with browser(hub, user) as page:
        xsrf = await xsrf_of(page, f"/hub/spawn/{user}")
        return await page.post(f"/hub/spawn/{user}?_xsrf={xsrf}", data=fields)


async def notebook_status(hub: Hub, user: str) -> dict[str, Any]:
    """The status of the server once it knows its price."""
    headers = {"Authorization": f"token {await hub.user_token(user)}"}
    async with httpx.AsyncClient(
        verify=False, base_url=hub.url, headers=headers, timeout=60
    ) as client:

        async def with_cost() -> dict[str, Any] | None:
            reply = await client.get(f"/user/{user}/ec2spawner/api/status")
            found: dict[str, Any] = reply.json() if reply.is_success else {}
            return found if found.get("cost") else None

        return await until(with_cost, 20, "the status to carry a cost")


def disk_of_the_one_instance(embedded: Embedded) -> int:
    """Its own disk, in GiB: the volume that goes with it."""
    client = embedded.client()
    running = [{"Name": "instance-state-name", "Values": ["running"]}]
    [reservation] = client.describe_instances(Filters=running)["Reservations"]
    [instance] = reservation["Instances"]
    devices = instance["BlockDeviceMappings"]
    [root] = [x["Ebs"] for x in devices if x["DeviceName"] == instance["RootDeviceName"]]
    [volume] = client.describe_volumes(VolumeIds=[root["VolumeId"]])["Volumes"]
    size: int = volume["Size"]
    return size


# --- refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", REFUSED)
async def test_rest_is_refused_with_the_reason(hub: Hub, embedded: Embedded, case: str) -> None:
    options, reason = REFUSED[case]
    launches = await embedded.calls("CreateFleet")
    reply = await hub.request_server("ann", options=options)
    assert reply.status_code == 400
    assert reply.json()["message"].startswith(reason)
    assert await embedded.calls("CreateFleet") == launches


@pytest.mark.parametrize("case", REFUSED)
async def test_the_form_is_refused_with_the_reason(hub: Hub, embedded: Embedded, case: str) -> None:
    fields, reason = REFUSED[case]
    launches = await embedded.calls("CreateFleet")
    reply = await post_form(hub, "ben", fields)
    assert reply.status_code == 400
    assert reason in html.unescape(reply.text)
    assert await embedded.calls("CreateFleet") == launches


@pytest.mark.parametrize("disk", [True, [100], None, 1e9, -100, {"min": 100}])
async def test_rest_is_refused_for_what_no_form_can_send(hub: Hub, disk: object) -> None:
    reply = await hub.request_server("ann", options={"profile": "t4", "disk_gib": disk})
    assert reply.status_code == 400
    assert reply.json()["message"].startswith("disk_gib: ")


async def test_a_stop_that_jupyterhub_refuses_says_why(hub: Hub) -> None:
    await hub.add_user("pat")
    reply = await hub.api.request("DELETE", "/users/pat/server", json={"remove": True})
    assert reply.status_code == 400
    assert "default server" in reply.json()["message"]


async def test_refusals_on_the_spawn_page_log_a_line_and_no_traceback(hub: Hub) -> None:
    size = hub.log.stat().st_size
    async with browser(hub, "eve") as page:
        xsrf = await xsrf_of(page, "/hub/spawn/eve")
        refused = await page.post(f"/hub/spawn/eve?_xsrf={xsrf}", data={"profile": "a100"})
        assert refused.status_code == 400
        assert (await page.get("/hub/spawn/eve?opt-profile=cpu")).is_success
    said = hub.log.read_bytes()[size:].decode()
    assert "there is none called" in said
    assert "the link is not signed by this hub" in said
    assert "Traceback" not in said


@pytest.mark.nightly(
    guard="tests/unit/hub/test_stored_options.py::test_refused_options_are_never_stored"
)
async def test_stored_options_are_checked_against_current_bounds(hub: Hub) -> None:
    choice = {"profile": "t4", "disk_gib": 200}
    await hub.start_server("cara", options=choice)
    await hub.stop_server("cara")
    smaller = {**T4["profile_options"], "disk_gib": {"min": 50, "max": 150}}
    offer(hub, [CPU, {**T4, "profile_options": smaller}])
    reply = await hub.request_server("cara")
    assert reply.status_code == 400
    assert reply.json()["message"].startswith("disk_gib: 200 is out of bounds.")
    model = await hub.start_server("cara")
    assert model["user_options"] == {}, "what was refused is forgotten, and the default starts"
    await hub.stop_server("cara")


@pytest.mark.nightly(
    guard="tests/unit/hub/test_stored_options.py::test_refused_options_are_never_stored"
)
async def test_a_stored_profile_that_was_closed_since_is_refused(hub: Hub) -> None:
    await hub.start_server("dan", options={"profile": "t4"})
    await hub.stop_server("dan")
    offer(hub, [CPU, {**T4, "groups": ["research"]}])
    reply = await hub.request_server("dan")
    assert reply.status_code == 400
    assert reply.json()["message"].startswith('profile: "T4, 16 GB" is not open to you.')


# --- accepted --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "by",
    [
        pytest.param(
            "form",
            marks=pytest.mark.nightly(
                guard="tests/integration/hub/test_profiles_api.py::"
                "test_the_form_starts_what_its_button_names"
            ),
        ),
        "REST",
    ],
)
async def test_the_chosen_options_are_started(hub: Hub, embedded: Embedded, by: str) -> None:
    choice = {"profile": "t4", "market": "on-demand", "disk_gib": "200", "idle": "30m"}
    if by == "form":
        assert (await post_form(hub, "eve", choice)).is_success
        await hub.wait_ready("eve")
    else:
        await hub.start_server("eve", options={**choice, "disk_gib": 200, "idle": 1800})
    status = await notebook_status(hub, "eve")
    assert status["cost"]["market"] == Market.ON_DEMAND
    assert status["idle_policy"]["server_seconds"] == 1800
    assert await asyncio.to_thread(disk_of_the_one_instance, embedded) == 200
    await hub.stop_server("eve")


@pytest.mark.nightly(
    guard="tests/unit/hub/test_profile_list.py::test_group_overrides_are_checked_and_capped"
)
async def test_without_a_choice_the_group_overrides_apply(hub: Hub, embedded: Embedded) -> None:
    await hub.start_server("stu")
    assert await asyncio.to_thread(disk_of_the_one_instance, embedded) == 80
    await hub.stop_server("stu")
    reply = await hub.request_server("stu", options={"profile": "t4", "disk_gib": 501})
    assert reply.status_code == 400, "no group's disk opens another choice"


# --- functions of the admin ------------------------------------------------------------------


async def profiles_on_page(hub: Hub, user: str) -> list[str]:
    await hub.add_user(user)
    async with browser(hub, user) as page:
        text = (await page.get(f"/hub/spawn/{user}")).text
    return [slug for slug in ("cpu", "t4", "big") if f'value="{slug}"' in text]


async def test_a_group_is_a_name_or_a_function(hub: Hub) -> None:
    assert await profiles_on_page(hub, "rita") == ["cpu", "t4", "big"]
    assert await profiles_on_page(hub, "fay") == ["cpu", "t4"]
    offer(hub, [CPU, {**T4, "groups": "broken"}, {**BIG, "groups": "on_call"}])
    assert await profiles_on_page(hub, "rita") == ["cpu", "big"]
    assert await profiles_on_page(hub, "fay") == ["cpu"]
    assert "The function `groups` of profile t4 failed for fay" in hub.log.read_text()
    reply = await hub.request_server("fay", options={"profile": "big"})
    assert reply.status_code == 400


async def test_a_broken_profile_list_is_reported_to_the_user_and_explained_in_the_log(
    hub: Hub,
) -> None:
    offer(hub, [CPU, {**T4, "gpu": "T5"}])
    reply = await hub.request_server("gus")
    assert reply.status_code == 503
    said = "Inform gpu-help@example.org"
    assert said in reply.json()["message"]
    async with browser(hub, "gus") as page:
        shown = await page.get("/hub/spawn/gus")
    assert shown.status_code == 503
    assert said in html.unescape(shown.text)
    log = hub.log.read_text()
    assert 'c.EC2Spawner.profile_list[1].gpu ("T4, 16 GB"): EC2 has no GPU called "T5"' in log
    (hub.directory / "profiles.json").write_text("not JSON")
    assert (await hub.request_server("gus")).status_code == 503
    assert "c.EC2Spawner.profile_list failed for gus" in hub.log.read_text()
