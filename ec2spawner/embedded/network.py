"""The ground an embedded EC2 stands on: a VPC of loopback addresses, six zones, one image."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from .api.moto_backend import Moto
from .api.protocol import EC2Error
from .images import register_image

AWS_RESERVED = 5
"""Addresses of every subnet that AWS keeps for itself."""

ZONES = ("a", "b", "c", "d", "e", "f")
"""As many as us-east-1 has; not every zone has every instance type."""
PUBLIC_SUBNET = len(ZONES)
"""Index of the block of the subnet with the NAT gateway: no instance is launched in it."""

BLOCKS = range(64, 127)
"""A VPC is 127.N.0.0/16 with N from here: as many embedded EC2s may run on one machine."""

ROUTER_PORT = 1337

ID_SEED = 127
"""The ids of the network are the same at every start: a hub's configuration names them."""

IMAGE_NAME = "Deep Learning OSS Nvidia Driver AMI GPU PyTorch (Ubuntu 24.04) 20260101, simulated"
IMAGE_DESCRIPTION = "Simulated: it says that it has NVIDIA driver 595.91.07"
IMAGE_DISK_GIB = 75
ARCHITECTURE = "x86_64"


@dataclass(frozen=True, slots=True)
class Network:
    """What is there from the start."""

    vpc_id: str
    subnets: Mapping[str, str]
    """Zone -> subnet id."""
    hub_subnet: str
    """The public one, with the NAT gateway and the hub's machine."""
    default_group: str
    """The VPC's default security group, of which the hub's machine is a member."""
    security_group: str
    """For instances with notebooks: it admits members of the default group, such as the hub's
    machine, at all TCP ports."""
    image_id: str

    def set_free_addresses(self, moto: Moto, subnet_id: str, free: int | None) -> None:
        """From now on so many addresses are free; None is all that are. Only inside `moto.run`.

        Raises `InvalidSubnetID.NotFound`. Instances that come and go change the number.
        """
        subnet = moto.backend.get_subnet(subnet_id)
        if free is None:
            subnet._available_ip_addresses = subnet.cidr.num_addresses - AWS_RESERVED
        else:
            subnet._available_ip_addresses += free - subnet.available_ip_address_count

    def check_free_addresses(self, moto: Moto, subnet_id: str, wanted: int) -> None:
        """Only inside `moto.run`. Raises `InsufficientFreeAddressesInSubnet`."""
        if moto.backend.get_subnet(subnet_id).available_ip_address_count < wanted:
            raise EC2Error(
                "InsufficientFreeAddressesInSubnet",
                f"There are not enough free addresses in subnet '{subnet_id}' to satisfy the "
                "requested number of instances.",
            )


class AddressBlock:
    """127.N.0.0/16, held for this embedded EC2 alone by a listener on its router's address.

    Two embedded EC2s that gave the same address to two instances would answer for each other.
    The kernel lets the listener go when this process ends, however it ends.
    """

    def __init__(self, favourite: int) -> None:
        """Take the first free block from a favourite on. Raises OSError when none is.

        With one favourite by data directory, an embedded EC2 does not meet what another, killed
        one has left running: only the next start with that directory ends it.
        """
        first = favourite % len(BLOCKS)
        for number in (*BLOCKS[first:], *BLOCKS[:first]):
            router = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                router.bind((f"127.{number}.0.1", ROUTER_PORT))
                router.listen(1)
            except OSError:
                router.close()
                continue
            self.number = number
            self._router = router
            return
        raise OSError(
            f"every block 127.{BLOCKS.start}.0.0/16 to 127.{BLOCKS.stop - 1}.0.0/16 is in use "
            f"(port {ROUTER_PORT})"
        )

    @property
    def cidr(self) -> str:
        """The VPC's block: 65,536 loopback addresses of this simulation alone."""
        return f"127.{self.number}.0.0/16"

    def subnet_cidr(self, index: int) -> str:
        """The block of one subnet, 8,192 addresses."""
        return f"127.{self.number}.{32 * index}.0/19"

    def release(self) -> None:
        """Let another simulation on this machine use the block."""
        self._router.close()


def build(moto: Moto, block: AddressBlock) -> Network:
    """Make the network and the image. Only inside `moto.run`."""
    with moto.same_ids(ID_SEED):
        vpc_id, subnets, hub_subnet = _build_network(moto, block)
        default, notebooks = _build_groups(moto, vpc_id)
    image_id = _register_image(moto)
    return Network(vpc_id, subnets, hub_subnet, default, notebooks, image_id)


def _build_groups(moto: Moto, vpc_id: str) -> tuple[str, str]:
    """Ids of the default group of the VPC, and of one for notebooks."""
    call = moto.call_here
    groups = call("DescribeSecurityGroups", Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])
    default = groups["SecurityGroups"][0]["GroupId"]
    what = "Instances of ec2spawner: the hub reaches them"
    made = call("CreateSecurityGroup", GroupName="notebooks", Description=what, VpcId=vpc_id)
    notebooks = made["GroupId"]
    tcp = {"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535}
    # On EC2 a VPC's default group admits its own members. Which ports the hub has is not known.
    members = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": default}]}
    from_notebooks = {**tcp, "UserIdGroupPairs": [{"GroupId": notebooks}]}
    from_hub = {**tcp, "UserIdGroupPairs": [{"GroupId": default}]}
    for group, rules in ((default, [members, from_notebooks]), (notebooks, [from_hub])):
        call("AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=rules)
    return default, notebooks


def _build_network(moto: Moto, block: AddressBlock) -> tuple[str, dict[str, str], str]:
    """Id of the VPC, zone -> subnet id, and the id of the public subnet."""
    call = moto.call_here
    vpc_id = call("CreateVpc", CidrBlock=block.cidr)["Vpc"]["VpcId"]
    subnets: dict[str, str] = {}
    for index, letter in enumerate(ZONES):
        subnet = call(
            "CreateSubnet",
            VpcId=vpc_id,
            CidrBlock=block.subnet_cidr(index),
            AvailabilityZone=moto.region + letter,
        )["Subnet"]
        call(
            "ModifySubnetAttribute",
            SubnetId=subnet["SubnetId"],
            MapPublicIpOnLaunch={"Value": False},
        )
        subnets[subnet["AvailabilityZone"]] = subnet["SubnetId"]
    return vpc_id, subnets, _build_way_out(moto, vpc_id, block)


def _build_way_out(moto: Moto, vpc_id: str, block: AddressBlock) -> str:
    """As AWS's console builds a VPC: private subnets, and one NAT gateway in a public one, whose
    id is returned."""
    call = moto.call_here
    inside = {"VpcId": vpc_id}
    internet = call("CreateInternetGateway")["InternetGateway"]["InternetGatewayId"]
    call("AttachInternetGateway", InternetGatewayId=internet, **inside)
    public: str = call(
        "CreateSubnet",
        CidrBlock=block.subnet_cidr(PUBLIC_SUBNET),
        AvailabilityZone=moto.region + ZONES[0],
        **inside,
    )["Subnet"]["SubnetId"]
    [private] = call("DescribeRouteTables", Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])[
        "RouteTables"
    ]
    table = call("CreateRouteTable", **inside)["RouteTable"]["RouteTableId"]
    call("AssociateRouteTable", RouteTableId=table, SubnetId=public)
    everywhere = {"DestinationCidrBlock": "0.0.0.0/0"}
    call("CreateRoute", RouteTableId=table, GatewayId=internet, **everywhere)
    address = call("AllocateAddress", Domain="vpc")["AllocationId"]
    gateway = call("CreateNatGateway", SubnetId=public, AllocationId=address)["NatGateway"]
    call(
        "CreateRoute",
        RouteTableId=private["RouteTableId"],
        NatGatewayId=gateway["NatGatewayId"],
        **everywhere,
    )
    return public


def _register_image(moto: Moto) -> str:
    """The image's id, another one at every start: no request made in advance can name it."""
    image = register_image(
        moto,
        {
            "Name": IMAGE_NAME,
            "Description": IMAGE_DESCRIPTION,
            "Architecture": ARCHITECTURE,
            "RootDeviceName": "/dev/sda1",
            "VirtualizationType": "hvm",
            "BlockDeviceMappings": [
                {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": IMAGE_DISK_GIB}}
            ],
        },
    )
    shown = moto.backend.amis[image["ImageId"]]
    # RegisterImage makes images of one's own.
    shown.owner_alias = "amazon"
    shown.virtualization_type = "hvm"
    return str(image["ImageId"])
