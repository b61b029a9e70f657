"""`ec2spawner plan`: whether a class fits, as EC2, the quotas and the prices say it now."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness import CONFIG, Embedded
from tests.integration.commands.admin import Admin

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def plans(admin: Admin, *arguments: str) -> tuple[int, Any]:
    ended = await admin.types("plan", f"--config={CONFIG}", "--json", *arguments)
    assert ended.output, ended.errors
    return ended.status, ended.json


async def test_a_class_is_compared_with_what_the_account_has(
    admin: Admin, embedded: Embedded
) -> None:
    await embedded.control("limits", {"quotas": {"spot": 128, "on-demand": 32}})
    zone = f"{embedded.described['region']}b"
    price = {"instance_type": "g4dn.xlarge", "zone": zone, "usd_per_hour": 0.0501}
    await embedded.control("prices", price)
    await embedded.control("account", {"plan": "free"})
    try:
        status, found = await plans(admin, "--profile=t4-16-gb", "--users=41", "--at=09:00")
    finally:
        await embedded.control("limits", {"quotas": {"spot": None, "on-demand": None}})
        await embedded.control("account", {"plan": "paid"})
    assert (status, found["enough"]) == (1, False)
    by_name = {each["name"]: each for each in found["verdicts"]}
    assert by_name["account plan"]["enough_for"] == 0
    assert (by_name["spot vCPU quota"]["state"], by_name["spot vCPU quota"]["enough_for"]) == (
        "short",
        32,
    )
    assert "ask AWS for 164" in by_name["spot vCPU quota"]["fix"]
    assert by_name["on-demand vCPU quota"]["enough_for"] == 8
    assert by_name["zones"]["state"] == "ok"
    assert by_name["free addresses"]["enough_for"] > 0
    assert by_name["spot capacity"]["state"] == "unknown", "the hub's policy does not allow it"
    assert by_name["spot capacity"]["said"].startswith("UnauthorizedOperation")
    spot, on_demand = found["costs"]
    assert (spot["zone"], spot["instance_type"]) == (zone, "g4dn.xlarge")
    assert spot["usd_per_hour"] >= 0.0501
    assert on_demand["usd"] >= 41 * 2 * 0.526
    assert found["starts"] is None
    [reservation] = found["reservations"]
    assert reservation["usd"] == pytest.approx(41 * 2 * 0.526)


@pytest.mark.nightly(
    guard="tests/unit/plan/test_plan_verdicts.py::test_quotas_that_cannot_be_read_are_unknown"
)
async def test_a_quota_that_cannot_be_read_is_unknown(admin: Admin, embedded: Embedded) -> None:
    fault = {"action": "ListServiceQuotas", "kind": "AccessDeniedException", "times": 1}
    await embedded.control("faults", fault)
    status, found = await plans(admin, "--profile=t4-16-gb", "--users=1")
    assert (status, found["enough"]) == (0, None)
    [quota] = [each for each in found["verdicts"] if each["name"] == "vCPU quota"]
    assert quota["state"] == "unknown"
    assert "AccessDenied" in quota["said"]


async def test_a_person_gets_the_whole_plan_and_nothing_is_started(
    admin: Admin, embedded: Embedded
) -> None:
    before = len(await embedded.control("calls"))
    ended = await admin.types("plan", f"--config={CONFIG}", "--profile=cpu", "--users=3")
    assert ended.status == 0, ended.errors
    assert '3 users of "No GPU"' in ended.output
    assert "Nothing was started or changed." in ended.output
    made = (await embedded.control("calls"))[before:]
    changing = ("Create", "Run", "Start", "Request", "Delete", "Terminate")
    assert not [each for each in made if each["action"].startswith(changing)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--profile=t5", "--users=4"), 'no profile has the slug "t5"'),
        (("--profile=t4-16-gb", "--users=0"), "--users=0 is not within"),
        (("--profile=t4-16-gb", "--users=4", "--at=9am"), '"9am" is no time of day'),
        (("--profile=t4-16-gb", "--users=4", "--EC2Spawner.region=us"), "c.EC2Spawner.region"),
    ],
)
async def test_wrong_requests_are_refused(
    admin: Admin, arguments: tuple[str, ...], said: str
) -> None:
    ended = await admin.types("plan", f"--config={CONFIG}", "--json", *arguments)
    assert (ended.status, ended.output) == (2, "")
    assert said in ended.errors
    assert "Traceback" not in ended.errors
