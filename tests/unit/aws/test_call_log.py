"""What the record of AWS calls shows of an account that others use too."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.aws.calls import call_log

HUB = {"Key": "ec2spawner:hub", "Value": "hub"}
OWN, THEIRS = ({"Key": "ec2spawner:store", "Value": store} for store in ("own", "another"))


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Path]:
    logger = logging.getLogger("ec2spawner.aws.calls")
    before = (list(logger.handlers), logger.level)
    call_log.record_to(tmp_path / "calls.jsonl", "own")
    yield tmp_path / "calls.jsonl"
    for handler in logger.handlers:
        if handler not in before[0]:
            handler.close()
    logger.handlers[:], logger.level = before


def test_resources_of_other_stores_are_not_recorded(calls: Path) -> None:
    def instance(name: str, *tags: dict[str, str]) -> dict[str, Any]:
        return {"Instances": [{"InstanceId": name, "Tags": list(tags)}]}

    foreign = [instance("i-ann", HUB, THEIRS) for _ in range(call_log.MAX_ENTRIES)]
    reservations = [*foreign, instance("i-own", HUB, OWN), instance("i-lost", HUB)]
    call_log.record("DescribeInstances", {}, {"Reservations": reservations}, "ok")
    interface = {"NetworkInterfaceId": "eni-ann", "TagSet": [HUB, THEIRS]}
    subnet = {"SubnetId": "subnet-1", "Tags": [{"Key": "team", "Value": "x"}]}
    call_log.record("DescribeMore", {}, {"Interfaces": [interface], "Subnets": [subnet]}, "ok")
    instances, more = (json.loads(line) for line in calls.read_text().splitlines())
    own, others = instances["answer"]["Reservations"]
    assert own["Instances"][0]["InstanceId"] == "i-own"
    assert others == f"({len(foreign) + 1} of other stores)"
    assert more["answer"] == {"Interfaces": ["(1 of other stores)"], "Subnets": [subnet]}
