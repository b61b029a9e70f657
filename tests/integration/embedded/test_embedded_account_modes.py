"""Modes of the embedded EC2's account: AWS's free plan, and a verification that takes its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

FREE_TYPE = "t3.micro"
GPU_TYPE = "g5.xlarge"


@pytest.fixture(autouse=True)
def account(lab: Any) -> Iterator[Callable[..., Any]]:
    """Sets the account's modes for one test."""
    yield lambda **modes: lab.control("account", modes)
    lab.control("account", {"plan": "paid", "verified": True})


def refusal(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        call()
    error = refused.value.response["Error"]
    return error["Code"], error["Message"]


def plan(lab: Any) -> dict[str, Any]:
    found: dict[str, Any] = lab.client("freetier").get_account_plan_state()
    return found


@pytest.mark.parametrize("market", ["spot", "on-demand"])
def test_a_free_plan_launches_few_types_and_says_so_for_each_offer(
    lab: Any, account: Callable[..., Any], market: str
) -> None:
    template = lab.template(f"free-plan-{market}")
    account(plan="free")
    answer = lab.fleet(template, market=market, types=(GPU_TYPE, FREE_TYPE))
    assert [group["InstanceType"] for group in answer["Instances"]] == [FREE_TYPE]
    refused = lab.fleet(template, market=market, types=(GPU_TYPE, "g4dn.xlarge"))
    assert refused["Instances"] == []
    assert len(refused["Errors"]) == 8
    assert {error["ErrorCode"] for error in refused["Errors"]} == {"InvalidParameterCombination"}
    [message] = {error["ErrorMessage"] for error in refused["Errors"]}
    assert message.startswith("The specified instance type is not eligible for Free Tier.")
    account(plan="paid")
    assert lab.fleet(template, market=market, types=(GPU_TYPE,))["Errors"] == []


def test_run_instances_is_refused_and_a_dry_run_does_not_notice(
    lab: Any, account: Callable[..., Any]
) -> None:
    def run(kind: str, **more: Any) -> Any:
        call = {"ImageId": lab.facts.image_id, "InstanceType": kind, "MinCount": 1, "MaxCount": 1}
        return lab.ec2.run_instances(**call, **more)

    for modes, expected in (
        ({"plan": "free"}, "InvalidParameterCombination"),
        ({"plan": "paid", "verified": False}, "PendingVerification"),
    ):
        account(**modes)
        assert refusal(lambda: run(GPU_TYPE))[0] == expected
        assert refusal(lambda: run(GPU_TYPE, DryRun=True))[0] == "DryRunOperation"


def test_the_plan_is_what_the_free_tier_service_reports(
    lab: Any, account: Callable[..., Any]
) -> None:
    paid = plan(lab)
    assert (paid["accountPlanType"], paid["accountPlanStatus"]) == ("PAID", "ACTIVE")
    assert "accountPlanExpirationDate" not in paid
    account(plan="free")
    free = plan(lab)
    assert (free["accountPlanType"], free["accountId"]) == ("FREE", lab.facts.account)
    assert free["accountPlanRemainingCredits"] == {"amount": 100.0, "unit": "USD"}
    assert free["accountPlanExpirationDate"].tzinfo is not None
    account(plan="none")
    assert refusal(lambda: plan(lab)) == (
        "ResourceNotFoundException",
        f"Missing data for account: {lab.facts.account}",
    )


def test_the_types_of_a_free_plan_are_those_that_ec2_lists(
    lab: Any, account: Callable[..., Any]
) -> None:
    account(plan="free")
    eligible = [{"Name": "free-tier-eligible", "Values": ["true"]}]
    listed = lab.ec2.describe_instance_types(Filters=eligible)["InstanceTypes"]
    names = {kind["InstanceType"] for kind in listed}
    assert {"t3.micro", "t3.small", "c7i-flex.large", "m7i-flex.large"} <= names
    assert len(names) <= 8


def test_an_account_that_is_being_verified_gets_no_instance_and_no_volume(
    lab: Any, account: Callable[..., Any]
) -> None:
    template = lab.template("not-verified")
    instance_id = lab.fleet(template, market="on-demand")["Instances"][0]["InstanceIds"][0]
    lab.ec2.get_waiter("instance_running").wait(InstanceIds=[instance_id])
    lab.ec2.stop_instances(InstanceIds=[instance_id])
    lab.ec2.get_waiter("instance_stopped").wait(
        InstanceIds=[instance_id], WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    account(verified=False)
    answer = lab.fleet(template)
    assert answer["Instances"] == []
    assert {error["ErrorCode"] for error in answer["Errors"]} == {"PendingVerification"}
    assert "please allow up to 4 hours" in answer["Errors"][0]["ErrorMessage"]
    zone = lab.facts.zones[0]
    refused = refusal(lambda: lab.ec2.create_volume(AvailabilityZone=zone, Size=1))
    assert refused[0] == "PendingVerification"
    started = refusal(lambda: lab.ec2.start_instances(InstanceIds=[instance_id]))
    assert started[0] == "PendingVerification"
    account(verified=True)
    lab.ec2.start_instances(InstanceIds=[instance_id])
    assert lab.fleet(template)["Errors"] == []
    lab.ec2.terminate_instances(InstanceIds=[instance_id])
