"""Profiles of one user: by list or function, for everyone or a group, within a bounded time."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ec2spawner.config import Options, validate_options
from ec2spawner.core.profiles.choices import OptionsRefused
from ec2spawner.hub.spawn import server_options
from ec2spawner.hub.spawn.allowed_profiles import allowed_profiles, choose
from ec2spawner.hub.spawn.server_options import ProfileListError, options_for, options_for_page
from ec2spawner.spawner import EC2Spawner
from tests.user_accounts import fake_user

CPU = {"display_name": "No GPU", "slug": "cpu", "vcpus": 4}
T4 = {"display_name": "T4", "slug": "t4", "gpu": "T4"}
BROKEN = "Inform gpu-help@example.org; the hub's log has the reason"


def spawner_of(*groups: str, **configured: Any) -> EC2Spawner:
    """A spawner as JupyterHub makes it for a user of these groups."""
    return EC2Spawner(user=fake_user("ann", *groups), **configured)


def hub_options(spawner: EC2Spawner) -> Options:
    return validate_options(
        {
            "region": "us-east-1",
            "subnets": ["subnet-1"],
            "contact": "gpu-help@example.org",
            "profile_list": spawner.profile_list,
        },
        cleanup_servers=False,
        environ={},
    )


async def visible(spawner: EC2Spawner) -> list[str]:
    """What the page shows."""
    options = await options_for_page(hub_options(spawner), spawner)
    return [profile.slug for profile in await allowed_profiles(options, spawner)]


async def test_groups_decide_which_profiles_are_visible() -> None:
    profiles = [CPU, {**T4, "groups": ["research", "staff"]}]
    assert await visible(spawner_of(profile_list=profiles)) == ["cpu"]
    assert await visible(spawner_of("students", profile_list=profiles)) == ["cpu"]
    assert await visible(spawner_of("staff", profile_list=profiles)) == ["cpu", "t4"]


async def test_spawners_share_what_is_configured_but_no_override() -> None:
    first, second = (spawner_of(profile_list=[dict(CPU), dict(T4)]) for _ in range(2))
    other = spawner_of(profile_list=[T4])
    assert first.configured is second.configured
    assert [each["slug"] for each in other.configured["profile_list"]] == ["t4"]
    first.profile_list[1]["slug"] = "group-t4"  # as JupyterHub merges an override
    options = hub_options(second)
    assert [p.slug for p in (await options_for(options, first)).profiles] == ["cpu", "group-t4"]
    assert [p.slug for p in (await options_for(options, second)).profiles] == ["cpu", "t4"]


async def test_groups_may_be_a_function() -> None:
    def by_name(spawner: Any) -> bool:
        return bool(spawner.user.name == "ann")

    async def later(spawner: Any) -> bool:
        await asyncio.sleep(0)
        return bool(spawner.user.name == "bob")

    profiles = [{**CPU, "groups": by_name}, {**T4, "groups": later}]
    assert await visible(spawner_of(profile_list=profiles)) == ["cpu"]


async def test_a_failing_groups_function_permits_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_spawner: Any) -> bool:
        raise LookupError("no directory")

    assert await visible(spawner_of(profile_list=[CPU, {**T4, "groups": broken}])) == ["cpu"]
    assert "The function `groups` of profile t4 failed for ann" in caplog.text
    assert "no directory" in caplog.text


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_function_returns_the_list_of_its_user(is_async: bool) -> None:
    def profiles(spawner: Any) -> list[dict[str, Any]]:
        return [CPU, T4] if spawner.user.groups else [CPU]

    async def later(spawner: Any) -> list[dict[str, Any]]:
        return profiles(spawner)

    source = later if is_async else profiles
    assert await visible(spawner_of(profile_list=source)) == ["cpu"]
    assert await visible(spawner_of("staff", profile_list=source)) == ["cpu", "t4"]


@pytest.mark.parametrize(
    ("returned", "logged"),
    [
        (None, "c.EC2Spawner.profile_list: must be a list, and is None"),
        ([{**T4, "gpu": "T5"}], 'c.EC2Spawner.profile_list[0].gpu ("T4"): EC2 has no GPU called'),
        ([CPU, CPU], "c.EC2Spawner.profile_list[1].slug"),
    ],
)
async def test_an_invalid_list_is_reported_as_the_admins_to_fix(
    returned: Any, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ProfileListError) as broken:
        await visible(spawner_of(profile_list=lambda _spawner: returned))
    assert BROKEN in str(broken.value)
    assert logged in caplog.text
    assert "Fix: " in caplog.text


async def test_a_hanging_function_times_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_options, "HOOK_TIMEOUT", 0.01)

    async def never(_spawner: Any) -> bool:
        await asyncio.Event().wait()
        return True

    with pytest.raises(ProfileListError):
        await visible(spawner_of(profile_list=never))
    assert "c.EC2Spawner.profile_list did not answer within 0.01 s" in caplog.text
    assert await visible(spawner_of(profile_list=[{**T4, "groups": never}, CPU])) == ["cpu"]


async def test_a_request_can_be_cancelled_while_a_function_runs() -> None:
    """A cancelled request is no broken list."""

    async def never(_spawner: Any) -> None:
        await asyncio.Event().wait()

    waiting = asyncio.ensure_future(visible(spawner_of(profile_list=never)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_group_overrides_are_checked_and_capped() -> None:
    bounds = {"disk_gib": {"min": 50, "max": 500}, "idle": {"min": "15m", "max": "4h"}}
    spawner = spawner_of("students", profile_list=[{**T4, "profile_options": bounds}])
    hub = hub_options(spawner)
    assert await options_for(hub, spawner) is hub, "nothing to check where nothing changed"
    spawner.group_overrides = {
        "1": {
            "groups": ["students"],
            "spawner_override": {"disk_gib": 60, "idle": {"server": 1200}},
        }
    }
    await spawner.apply_group_overrides()
    own = await options_for(hub, spawner)
    [profile] = own.profiles
    assert own.disk(profile) == 60
    assert own.idle_policy(profile).server_seconds == 1200
    assert (await choose(own, "ann", spawner, {"disk_gib": 500})).disk_gib == 500
    with pytest.raises(OptionsRefused, match="disk_gib: 501 is out of bounds"):
        await choose(own, "ann", spawner, {"disk_gib": 501})


async def test_a_list_of_group_overrides_replaces_the_hubs() -> None:
    spawner = spawner_of("students", profile_list=[CPU, T4])
    hub = hub_options(spawner)
    spawner.group_overrides = {
        "1": {"groups": ["students"], "spawner_override": {"profile_list": [CPU]}}
    }
    await spawner.apply_group_overrides()
    with pytest.raises(OptionsRefused, match='there is none called "t4"'):
        await choose(await options_for(hub, spawner), "ann", spawner, {"profile": "t4"})


async def test_a_page_before_the_first_start_shows_group_overrides() -> None:
    """JupyterHub applies overrides when a server starts, which is too late to choose."""
    spawner = spawner_of("students", profile_list=[CPU, T4])
    spawner.group_overrides = {
        "1": {"groups": ["students"], "spawner_override": {"profile_list": [CPU]}}
    }
    hub = hub_options(spawner)
    assert [profile.slug for profile in (await options_for_page(hub, spawner)).profiles] == ["cpu"]


async def test_group_overrides_vanish_from_the_page_with_the_membership() -> None:
    """The spawner of a page is the one that starts later: it keeps nothing of the page's."""
    spawner = spawner_of("staff", profile_list=[CPU])
    hub = hub_options(spawner)
    override = {"profile_list": [CPU, T4], "idle": {"server": "9h"}, "environment": {"KEY": "1"}}
    spawner.group_overrides = {"1": {"groups": ["staff"], "spawner_override": override}}
    assert len((await options_for_page(hub, spawner)).profiles) == 2
    spawner.user.groups = []
    await spawner.apply_group_overrides()
    assert await options_for(hub, spawner) is hub
    assert "KEY" not in spawner.environment


@pytest.mark.parametrize("fails", ["waits", "raises"])
async def test_group_overrides_that_time_out_or_fail_raise_an_error(
    fails: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def overrides(_spawner: Any) -> dict[str, Any]:
        if fails == "raises":
            raise LookupError("no directory")
        return await asyncio.Future()

    monkeypatch.setattr(server_options, "HOOK_TIMEOUT", 0.05)
    spawner = spawner_of(profile_list=[CPU])
    hub = hub_options(spawner)
    spawner.group_overrides = overrides
    with pytest.raises(ProfileListError, match=BROKEN):
        await options_for_page(hub, spawner)
    assert "c.EC2Spawner.group_overrides failed for ann" in caplog.text


async def test_an_invalid_override_starts_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    spawner = spawner_of("students", profile_list=[T4])
    hub = hub_options(spawner)
    spawner.idle = {"sever": "1h"}
    with caplog.at_level(logging.ERROR), pytest.raises(ProfileListError):
        await options_for(hub, spawner)
    assert "c.EC2Spawner.idle.sever: there is no such option. Fix: did you mean server" in (
        caplog.text
    )
