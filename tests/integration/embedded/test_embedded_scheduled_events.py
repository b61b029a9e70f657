"""Scheduled events: announced in metadata and DescribeInstanceStatus, and then they happen."""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .test_embedded_imds import Metadata

SCHEDULED = "meta-data/events/maintenance/scheduled"
HISTORY = "meta-data/events/maintenance/history"


def running(lab: Any, **more: Any) -> tuple[str, Metadata]:
    instance_id = lab.run("echo up; exec sleep 1000", **more)
    return instance_id, Metadata(lab, instance_id)


def statuses(lab: Any, **asked: Any) -> dict[str, Any]:
    found = lab.ec2.describe_instance_status(**asked)["InstanceStatuses"]
    return {each["InstanceId"]: each for each in found}


def with_event(code: str) -> list[dict[str, Any]]:
    return [{"Name": "event.code", "Values": [code]}]


def test_an_event_is_announced_in_ec2s_shapes_until_it_is_withdrawn(lab: Any) -> None:
    instance_id, metadata = running(lab)
    other, _ = running(lab)
    assert json.loads(metadata.text(SCHEDULED)) == []
    announced = lab.control(f"scheduled-event/{instance_id}", {"code": "instance-retirement"})

    [shown] = json.loads(metadata.text(SCHEDULED))
    assert shown.keys() == {"NotBefore", "Code", "Description", "EventId", "NotAfter", "State"}
    assert (shown["Code"], shown["State"]) == ("instance-retirement", "active")
    assert shown["EventId"] == announced["event"]
    found = statuses(lab, Filters=with_event("instance-retirement"))
    assert found.keys() == {instance_id}
    assert found[instance_id]["InstanceState"] == {"Code": 16, "Name": "running"}
    [event] = found[instance_id]["Events"]
    assert event["InstanceEventId"] == announced["event"]
    begins = parsedate_to_datetime(shown["NotBefore"])
    assert event["NotBefore"].replace(microsecond=0) == begins
    assert event["NotBefore"] < event["NotAfter"]
    assert {instance_id, other} <= statuses(lab).keys()
    assert not statuses(lab, Filters=with_event("system-reboot"))

    lab.control(f"scheduled-event/{instance_id}", {"code": None})
    assert json.loads(metadata.text(SCHEDULED)) == []
    [past] = json.loads(metadata.text(HISTORY))
    assert (past["State"], past["Description"][:10]) == ("canceled", "[Canceled]")


@pytest.mark.parametrize(("market", "state"), [("on-demand", "stopped"), ("spot", "terminated")])
def test_a_scheduled_stop_happens(lab: Any, market: str, state: str) -> None:
    spot = {"InstanceMarketOptions": {"MarketType": "spot"}} if market == "spot" else {}
    instance_id, _ = running(lab, InstanceType="g5.xlarge", **spot)
    lab.control(f"scheduled-event/{instance_id}", {"code": "instance-stop", "in_seconds": 0.2})
    shown = lab.wait_for(instance_id, state)
    assert shown["StateReason"]["Code"] == "Server.ScheduledStop"


def test_a_scheduled_reboot_happens_and_is_over(lab: Any, wait_until: Any) -> None:
    instance_id = lab.run("echo booted >>~/boots; exec sleep 1000")
    lab.wait_for(instance_id, "running")
    boots = Path(lab.facts.data_dir) / "instances" / instance_id / "root" / "boots"
    wait_until(boots.exists)
    lab.control(f"scheduled-event/{instance_id}", {"code": "system-reboot", "in_seconds": 0.2})

    def is_over() -> bool:
        [event] = statuses(lab)[instance_id]["Events"]
        return str(event["Description"]).startswith("[Completed]")

    wait_until(is_over)
    assert lab.state(instance_id) == "running"


def test_a_stopped_instance_starts_on_a_host_without_the_event(lab: Any) -> None:
    instance_id, _ = running(lab)
    lab.control(f"scheduled-event/{instance_id}", {"code": "instance-stop"})
    lab.ec2.stop_instances(InstanceIds=[instance_id])
    lab.wait_for(instance_id, "stopped")
    assert instance_id not in statuses(lab)
    assert statuses(lab, IncludeAllInstances=True)[instance_id]["Events"]
    lab.ec2.start_instances(InstanceIds=[instance_id])
    lab.wait_for(instance_id, "running")
    [event] = statuses(lab)[instance_id]["Events"]
    assert event["Description"].startswith("[Canceled]")


def test_what_ec2_refuses_is_refused(lab: Any) -> None:
    instance_id, _ = running(lab)
    for wrong in ({"Filters": [{"Name": "tag:a", "Values": ["b"]}]}, {"MaxResults": 1}):
        with pytest.raises(ClientError) as refused:
            lab.ec2.describe_instance_status(**wrong)
        assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"
    with pytest.raises(ClientError) as refused:
        lab.ec2.describe_instance_status(InstanceIds=[instance_id], MaxResults=5)
    assert refused.value.response["Error"]["Code"] == "InvalidParameterCombination"
    assert lab.ask("scheduled-event/i-0123456789abcdef0", {"code": "instance-stop"})[0] == 404
    assert lab.ask(f"scheduled-event/{instance_id}", {"code": "instance-pause"})[0] == 400
