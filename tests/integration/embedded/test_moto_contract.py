"""What the embedded EC2 relies on inside moto, whose insides move between releases.

When one of these fails after an upgrade, `ec2spawner/embedded` must be changed with it; a test
of behaviour would only say that something is wrong, not what.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ec2spawner.embedded.api.moto_backend import Moto
from ec2spawner.embedded.api.protocol import EC2Error
from ec2spawner.embedded.network import AddressBlock, Network, build


@pytest.fixture
async def world() -> AsyncIterator[tuple[Moto, Network]]:
    moto = Moto("123456789012", "us-east-1")
    await moto.start()
    block = AddressBlock(0)
    try:
        yield moto, await moto.run(lambda: build(moto, block))
    finally:
        block.release()
        await moto.close()


def run(moto: Moto, network: Network, count: int = 1, **more: Any) -> list[str]:
    answer = moto.call_here(
        "RunInstances",
        ImageId=network.image_id,
        InstanceType="g5.xlarge",
        SubnetId=next(iter(network.subnets.values())),
        MinCount=count,
        MaxCount=count,
        **more,
    )
    return [instance["InstanceId"] for instance in answer["Instances"]]


async def test_a_new_account_is_empty(world: tuple[Moto, Network]) -> None:
    moto, network = world

    vpcs = (await moto.call("DescribeVpcs"))["Vpcs"]
    images = (await moto.call("DescribeImages"))["Images"]

    assert [vpc["VpcId"] for vpc in vpcs] == [network.vpc_id]
    assert [image["ImageId"] for image in images] == [network.image_id]


async def test_a_state_that_is_set_is_listed_and_filtered(world: tuple[Moto, Network]) -> None:
    from moto.ec2.models.instances import InstanceState, StateReason

    moto, network = world

    def set_state() -> Any:
        (instance_id,) = run(moto, network)
        shown = moto.instance(instance_id)
        shown._state = InstanceState("shutting-down", 32)
        shown._reason = "because"
        shown.state_reason = StateReason("Server.Why: why", "Server.Why")
        filters = [{"Name": "instance-state-name", "Values": ["shutting-down"]}]
        return moto.call_here("DescribeInstances", Filters=filters)

    answer = await moto.run(set_state)

    (instance,) = answer["Reservations"][0]["Instances"]
    assert instance["State"] == {"Code": 32, "Name": "shutting-down"}
    assert instance["StateReason"]["Code"] == "Server.Why"
    assert instance["StateTransitionReason"] == "because"


async def test_addresses_are_released_once(world: tuple[Moto, Network]) -> None:
    moto, network = world

    def cycle() -> tuple[str, list[str]]:
        (instance_id,) = run(moto, network)
        shown = moto.instance(instance_id)
        address = shown.private_ip
        for interface in shown.nics.values():
            interface.delete_on_termination = True
        shown.terminate()
        shown._private_ips.clear()
        return address, [moto.instance(i).private_ip for i in run(moto, network, count=3)]

    address, later = await moto.run(cycle)

    assert address in later
    assert len(set(later)) == 3


async def test_instances_have_the_fields_we_read(world: tuple[Moto, Network]) -> None:
    moto, network = world

    def facts() -> dict[str, Any]:
        (instance_id,) = run(
            moto,
            network,
            InstanceMarketOptions={"MarketType": "spot"},
            InstanceInitiatedShutdownBehavior="terminate",
            ClientToken="token",
        )
        shown = moto.instance(instance_id)
        return {
            "lifecycle": shown.lifecycle,
            "behavior": shown.instance_initiated_shutdown_behavior,
            "token": shown.client_token,
            "image": shown.image_id,
            "devices": list(shown.block_device_mapping),
            "naive": shown.launch_time.tzinfo,
            "code": shown.state_code,
            "interfaces": len(shown.network_interfaces),
        }

    assert await moto.run(facts) == {
        "lifecycle": "spot",
        "behavior": "terminate",
        "token": "token",
        "image": network.image_id,
        "devices": ["/dev/sda1"],
        "naive": None,
        "code": 16,
        "interfaces": 1,
    }


async def test_a_subnets_free_addresses_can_be_set_and_are_counted(
    world: tuple[Moto, Network],
) -> None:
    moto, network = world
    (subnet_id, *_) = network.subnets.values()

    def free() -> int:
        (found,) = moto.call_here("DescribeSubnets", SubnetIds=[subnet_id])["Subnets"]
        return int(found["AvailableIpAddressCount"])

    def counts() -> list[int]:
        counted = [free()]
        network.set_free_addresses(moto, subnet_id, 3)
        counted.append(free())
        run(moto, network, count=2)
        counted.append(free())
        network.set_free_addresses(moto, subnet_id, None)
        return [*counted, free()]

    addresses = 2**13 - 5
    assert await moto.run(counts) == [addresses, 3, 1, addresses - 2]


async def test_an_image_has_the_fields_we_read(world: tuple[Moto, Network]) -> None:
    moto, network = world

    (image,) = (await moto.call("DescribeImages", Owners=["amazon"]))["Images"]

    assert image["ImageId"] == network.image_id
    assert image["ImageOwnerAlias"] == "amazon"
    assert image["Architecture"] == "x86_64"
    assert image["VirtualizationType"] == "hvm"


async def test_an_instance_can_be_removed_from_moto(world: tuple[Moto, Network]) -> None:
    moto, network = world

    def forget() -> Any:
        (instance_id,) = run(moto, network)
        backend = moto.backend
        backend.create_tags([instance_id], {"a": "b"})
        for reservation_id, reservation in list(backend.reservations.items()):
            if moto.instance(instance_id) in reservation.instances:
                del backend.reservations[reservation_id]
                break
        assert backend.tags.pop(instance_id) == {"a": "b"}
        return moto.call_here("DescribeInstances")["Reservations"]

    assert await moto.run(forget) == []


async def test_a_volume_can_be_restored_with_its_id(world: tuple[Moto, Network]) -> None:
    moto, _ = world

    def rename() -> Any:
        backend = moto.backend
        volume = backend.create_volume(
            zone_name="us-east-1a",
            size=7,
            volume_type="gp3",
            encrypted=True,
            iops=3000,
            throughput=None,
        )
        del backend.volumes[volume.id]
        volume.id = "vol-0123456789abcdef0"
        backend.volumes[volume.id] = volume
        backend.create_tags([volume.id], {"a": "b"})
        return moto.call_here("DescribeVolumes", VolumeIds=[volume.id])["Volumes"][0]

    volume = await moto.run(rename)

    assert volume["VolumeId"] == "vol-0123456789abcdef0"
    assert volume["Tags"] == [{"Key": "a", "Value": "b"}]
    assert volume["Size"] == 7


async def test_a_launch_template_is_returned_as_it_was_created(world: tuple[Moto, Network]) -> None:
    moto, network = world
    data = {
        "ImageId": network.image_id,
        "UserData": "IyEvYmluL2Jhc2gK",
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required"},
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [network.security_group]}],
        "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 200}}],
    }
    made = await moto.call("CreateLaunchTemplate", LaunchTemplateName="t", LaunchTemplateData=data)
    found = await moto.call(
        "DescribeLaunchTemplateVersions",
        LaunchTemplateId=made["LaunchTemplate"]["LaunchTemplateId"],
        Versions=["$Latest"],
    )

    returned = found["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    assert {name: returned[name] for name in data} == data


async def test_calls_that_moto_lacks_raise_our_error(
    world: tuple[Moto, Network],
) -> None:
    moto, _ = world

    with pytest.raises(EC2Error, match="UnsupportedOperation"):
        await moto.call("GetSpotPlacementScores", TargetCapacity=1)


async def test_two_accounts_are_isolated(world: tuple[Moto, Network]) -> None:
    moto, network = world
    other = Moto("210987654321", "us-east-1")
    await other.start()
    await moto.run(lambda: run(moto, network))

    answers = await asyncio.gather(moto.call("DescribeInstances"), other.call("DescribeInstances"))

    assert [len(answer["Reservations"]) for answer in answers] == [1, 0]
    await other.close()


async def test_requests_find_their_method_without_a_new_search(
    world: tuple[Moto, Network],
) -> None:
    from moto.core import responses

    moto, _ = world
    await moto.call("DescribeVolumes")
    services: Any = moto._application.get_backend_for_host
    in_responses: Any = responses
    methods = in_responses.method_names_from_class
    before = services.cache_info(), methods.cache_info()

    await moto.call("DescribeVolumes")

    after = services.cache_info(), methods.cache_info()
    assert [each.misses for each in after] == [each.misses for each in before]
    assert all(new.hits > old.hits for new, old in zip(after, before, strict=True))


async def test_a_changed_network_is_read_again(world: tuple[Moto, Network]) -> None:
    moto, network = world

    def ports() -> set[int]:
        groups = moto.list_in_vpc("SecurityGroups", network.vpc_id)
        return {rule.get("FromPort", 0) for each in groups for rule in each["IpPermissions"]}

    def open_port() -> tuple[set[int], set[int]]:
        before = ports()
        group = moto.list_in_vpc("SecurityGroups", network.vpc_id)[0]["GroupId"]
        rule = {"IpProtocol": "tcp", "FromPort": 4711, "ToPort": 4711}
        rule |= {"IpRanges": [{"CidrIp": "10.0.0.0/8"}]}
        moto.call_here("AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=[rule])
        return before, ports()

    before, after = await moto.run(open_port)

    assert after - before == {4711}
