"""Which of EC2's token buckets a request draws from, and how much."""

from __future__ import annotations

from typing import Any

import pytest

from ec2spawner.core.ec2_api_limits import (
    MUTATING,
    NON_MUTATING,
    REQUESTS,
    RESOURCES,
    UNFILTERED,
    Charge,
    charges,
)
from ec2spawner.core.rate_limit import Rate

TAGGED = [{"Name": "tag:ec2spawner:hub", "Values": ["class"]}]


@pytest.mark.parametrize(
    ("action", "parameters", "rate"),
    [
        ("CreateFleet", {}, MUTATING),
        ("AttachVolume", {"VolumeId": "vol-1"}, MUTATING),
        ("CreateTags", {}, Rate(100, 10)),
        ("DescribeVolumes", {}, UNFILTERED),
        ("DescribeVolumes", {"VolumeIds": ["vol-1"]}, NON_MUTATING),
        ("DescribeVolumes", {"Filters": TAGGED}, NON_MUTATING),
        ("DescribeVolumes", {"Filters": []}, UNFILTERED),
        ("DescribeInstances", {"MaxResults": 50}, NON_MUTATING),
        ("DescribeImages", {}, NON_MUTATING),
        ("GetConsoleOutput", {"InstanceId": "i-1"}, NON_MUTATING),
    ],
)
def test_a_request_takes_one_token_from_the_bucket_of_its_category(
    action: str, parameters: dict[str, Any], rate: Rate
) -> None:
    (charge,) = charges(action, parameters)
    assert (charge.rate, charge.tokens) == (rate, 1)


def test_narrowed_and_other_readings_have_separate_buckets() -> None:
    narrowed = charges("DescribeVolumes", {"Filters": TAGGED})
    assert narrowed[0].bucket != charges("DescribeVolumes", {})[0].bucket


def test_instances_are_charged_by_their_number() -> None:
    request, instances = charges("TerminateInstances", {"InstanceIds": ["i-1", "i-2", "i-3"]})
    assert request == Charge("TerminateInstances", REQUESTS["TerminateInstances"], 1)
    assert (instances.rate, instances.tokens) == (RESOURCES["TerminateInstances"], 3)
    assert instances.bucket != request.bucket
    assert [charge.tokens for charge in charges("RunInstances", {"MaxCount": 7})] == [1, 7]
