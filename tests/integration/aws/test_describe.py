"""Listings are complete or an error, and come in our own values."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.calls import client
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import Instance, InstanceState
from ec2spawner.wire import Market

from .scripted_ec2 import HANG, Call, Reply, ScriptedEC2, error, ok


def instance(instance_id: str, state: str = "running", more: str = "") -> str:
    return (
        f"<item><instanceId>{instance_id}</instanceId><instanceState><name>{state}</name>"
        "</instanceState><instanceType>g4dn.xlarge</instanceType>"
        "<launchTime>2026-11-20T09:25:44.000Z</launchTime>"
        f"<placement><availabilityZone>us-east-1a</availabilityZone></placement>{more}</item>"
    )


def disk(device: str, volume_id: str, is_deleted: str = "false") -> str:
    ebs = f"<volumeId>{volume_id}</volumeId><deleteOnTermination>{is_deleted}</deleteOnTermination>"
    return f"<item><deviceName>{device}</deviceName><ebs>{ebs}</ebs></item>"


def interface(interface_id: str, is_deleted: str = "false") -> str:
    return (
        f"<item><networkInterfaceId>{interface_id}</networkInterfaceId><attachment>"
        f"<deleteOnTermination>{is_deleted}</deleteOnTermination></attachment></item>"
    )


def page(*instances: str, following: str = "") -> Reply:
    token = f"<nextToken>{following}</nextToken>" if following else ""
    return ok(
        "<reservationSet><item><ownerId>123456789012</ownerId>"
        f"<instancesSet>{''.join(instances)}</instancesSet></item></reservationSet>{token}"
    )


async def test_every_page_is_read(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will(
        "DescribeInstances",
        page(instance("i-1"), instance("i-2"), following="two"),
        page(instance("i-2"), instance("i-3"), following="three"),  # shown twice: it moved
        page(instance("i-4")),
    )
    found = await cloud.list_instances("class")
    assert sorted(one.instance_id for one in found) == ["i-1", "i-2", "i-3", "i-4"]
    calls = ec2.made("DescribeInstances")
    assert [call.get("NextToken") for call in calls] == [None, "two", "three"]
    assert {call["MaxResults"] for call in calls} == {"50"}
    assert {(call["Filter.1.Name"], call["Filter.1.Value.1"]) for call in calls} == {
        ("tag:ec2spawner:hub", "class")
    }


async def test_a_page_that_fails_fails_the_listing(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will(
        "DescribeInstances",
        page(instance("i-1"), following="two"),
        error("UnauthorizedOperation", status=403),
    )
    with pytest.raises(CloudError, match="UnauthorizedOperation"):
        await cloud.list_instances("class")


async def test_an_endless_listing_is_abandoned(
    cloud: EC2Cloud, ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_PAGES", 20)
    ec2.will("DescribeSpotPriceHistory", ok("<spotPriceHistorySet/><nextToken>again</nextToken>"))
    with pytest.raises(CloudError, match="EndlessListing"):
        await cloud.spot_history(["g4dn.xlarge"], [], datetime(2026, 11, 20, tzinfo=UTC))
    assert len(ec2.calls) == 20


async def test_a_passing_throttle_is_waited_for(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    throttle = error("RequestLimitExceeded", status=503)
    ec2.will("DescribeInstances", throttle, page(instance("i-1")))
    assert len(await cloud.list_instances("class")) == 1


async def test_the_fields_read_of_an_instance(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    spot = (
        "<instanceLifecycle>spot</instanceLifecycle><privateIpAddress>10.0.0.9</privateIpAddress>"
        "<tagSet><item><key>ec2spawner:lease</key><value>lease-1</value></item></tagSet>"
        f"<blockDeviceMapping>{disk('/dev/sda1', 'vol-1', 'true')}{disk('/dev/sdp', 'vol-2')}"
        f"</blockDeviceMapping><networkInterfaceSet>{interface('eni-1', 'true')}"
        f"{interface('eni-2')}</networkInterfaceSet>"
    )
    reason = "<stateReason><code>Server.SpotInstanceTermination</code></stateReason>"
    ec2.will(
        "DescribeInstances",
        page(instance("i-1", more=spot), instance("i-2", "terminated", more=reason)),
    )
    launched = datetime(2026, 11, 20, 9, 25, 44, tzinfo=UTC)
    assert await cloud.list_instances("class") == [
        Instance(
            instance_id="i-1",
            state=InstanceState.RUNNING,
            instance_type="g4dn.xlarge",
            zone="us-east-1a",
            market=Market.SPOT,
            launched_at=launched,
            private_address="10.0.0.9",
            account_id="123456789012",
            tags={"ec2spawner:lease": "lease-1"},
            volumes={"/dev/sda1": "vol-1", "/dev/sdp": "vol-2"},
            deleted_with=("vol-1", "eni-1"),
        ),
        Instance(
            instance_id="i-2",
            state=InstanceState.TERMINATED,
            instance_type="g4dn.xlarge",
            zone="us-east-1a",
            market=Market.ON_DEMAND,
            launched_at=launched,
            state_reason="Server.SpotInstanceTermination",
            account_id="123456789012",
        ),
    ]


async def test_an_unreadable_response_raises_our_error(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("DescribeInstances", page(instance("i-1", state="levitating")))
    with pytest.raises(CloudError, match="UnexpectedAnswer"):
        await cloud.list_instances("class")


async def test_wildcards_in_a_hub_name_are_escaped(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("DescribeInstances", page())
    await cloud.list_instances("a*b?c\\d")
    assert ec2.calls[0]["Filter.1.Value.1"] == "a\\*b\\?c\\\\d"


async def test_a_hanging_call_does_not_block_the_loop_and_can_be_cancelled(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("DescribeInstances", HANG)
    listing = asyncio.create_task(cloud.list_instances("class"))
    await asyncio.wait_for(asyncio.to_thread(ec2.called.wait), 30)
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing


async def test_without_credentials_the_error_says_where_to_configure_them(
    ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    cloud = EC2Cloud("us-east-1", ec2.url)
    with pytest.raises(CloudError, match="instance role") as failed:
        await cloud.list_instances("class")
    assert not failed.value.retryable
    assert ec2.calls == []
    await cloud.close()


async def test_after_close_there_are_no_more_calls(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    await cloud.close()
    with pytest.raises(CloudError, match="shutting down"):
        await cloud.list_instances("class")
    assert ec2.calls == []


# --- terminate and tag ---


async def test_terminating_unknown_instances_does_not_spare_the_others(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will(
        "TerminateInstances",
        error("InvalidInstanceID.NotFound", "The instance IDs 'i-0bb, i-0dd' do not exist"),
        ok(),
    )
    await cloud.terminate(["i-0aa", "i-0bb", "i-0cc", "i-0dd", "i-0aa"])
    last = ec2.calls[-1]
    asked = {value for key, value in last.items() if key.startswith("InstanceId.")}
    assert asked == {"i-0aa", "i-0cc"}


async def test_terminating_an_instance_that_is_gone_is_no_error(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    gone = error("InvalidInstanceID.NotFound", "The instance ID 'i-0aa' does not exist")
    ec2.will("TerminateInstances", gone)
    await cloud.terminate(["i-0aa"])
    await cloud.terminate([])
    assert len(ec2.calls) == 1


@pytest.mark.parametrize("code", ["OperationNotPermitted", "UnauthorizedOperation"])
async def test_a_protected_instance_does_not_spare_the_others(
    cloud: EC2Cloud, ec2: ScriptedEC2, code: str
) -> None:
    refused = error(code, "not this one")
    ids = ["i-0aa", "i-0bb", "i-0cc", "i-0dd", "i-0ee"]
    ec2.answer_by("TerminateInstances", lambda call: refused if "i-0dd" in call.values() else ok())
    with pytest.raises(CloudError, match=code):
        await cloud.terminate(ids)
    accepted = [
        value
        for call in ec2.calls
        if "i-0dd" not in call.values()
        for name, value in call.items()
        if name.startswith("InstanceId.")
    ]
    assert sorted(accepted) == [instance_id for instance_id in ids if instance_id != "i-0dd"]


async def test_a_call_refused_as_a_whole_is_not_repeated_for_each_instance(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("TerminateInstances", error("AuthFailure", status=401))
    with pytest.raises(CloudError, match="AuthFailure"):
        await cloud.terminate(["i-0aa", "i-0bb"])
    assert len(ec2.calls) == 1


def named(call: Call) -> set[str]:
    return {value for name, value in call.items() if name.startswith("InstanceId.")}


async def test_instances_that_end_at_the_same_time_share_a_call(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("TerminateInstances", ok())
    ids = [f"i-{number:02x}" for number in range(100)]
    await asyncio.gather(*(cloud.terminate([each]) for each in ids))
    assert [named(call) for call in ec2.calls] == [set(ids)]


async def test_a_refusal_reaches_only_whoever_named_the_instance(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    refused = error("OperationNotPermitted", "not this one")
    ec2.answer_by("TerminateInstances", lambda call: refused if "i-0dd" in call.values() else ok())
    others = [["i-0aa"], ["i-0bb", "i-0cc"], ["i-0ee"]]
    asked = [cloud.terminate(each) for each in (*others, ["i-0ff", "i-0dd"])]
    *accepted, failed = await asyncio.gather(*asked, return_exceptions=True)
    assert accepted == [None] * 3
    assert isinstance(failed, CloudError)
    assert failed.code == "OperationNotPermitted"
    ended = set().union(*(named(call) for call in ec2.calls if "i-0dd" not in call.values()))
    assert ended == {"i-0aa", "i-0bb", "i-0cc", "i-0ee", "i-0ff"}


async def test_tags(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("CreateTags", ok("<return>true</return>"))
    await cloud.tag(["i-1", "vol-1"], {"Name": "ada", "ec2spawner:lease": "lease-1"})
    (call,) = ec2.calls
    assert [call["ResourceId.1"], call["ResourceId.2"]] == ["i-1", "vol-1"]
    assert call["Tag.1.Key"] == "Name"
    assert call["Tag.2.Value"] == "lease-1"
    await cloud.tag([], {"Name": "ada"})
    await cloud.tag(["i-1"], {})
    assert len(ec2.calls) == 1
