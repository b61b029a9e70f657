"""What the check reads of an account, where it is well and where it is not."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from ec2spawner.aws.ec2 import EC2Cloud
from ec2spawner.check.facts.clock import clock_skew
from ec2spawner.check.facts.network import read_groups
from ec2spawner.check.finding import Finding, State
from ec2spawner.check.hub_config import HubConfig
from ec2spawner.check.repairs.apply import Result, make_repairs
from ec2spawner.check.repairs.plan import more_vcpus, open_port, spot_role
from ec2spawner.check.steps.account import check_roles
from ec2spawner.check.steps.context import Context
from ec2spawner.check.steps.files import check_files
from ec2spawner.check.steps.network import check_network
from ec2spawner.check.topics import Topic
from ec2spawner.check.verdicts.account import judge_clock
from ec2spawner.config import validate_options
from ec2spawner.core.offers.quotas import ListedQuota
from tests.harness import Embedded
from tests.integration.commands.admin import Admin

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("known_at_once"),
]

API_PORT = 8081


@dataclass
class Account:
    """One AWS account whose network the tests change."""

    ec2: Any
    iam: Any
    s3: Any
    described: dict[str, Any]
    cloud: EC2Cloud

    def context(self, hub_address: str = "127.0.0.1", **options: Any) -> Context:
        described = self.described
        checked = validate_options(
            {
                "region": described["region"],
                "endpoint_url": described["ec2_endpoint"],
                "subnets": described["subnets"],
                "image": described["image_id"],
                **options,
            },
            cleanup_servers=False,
            environ={},
        )
        url = f"http://{hub_address}:{API_PORT}/hub/api"
        config = HubConfig(checked, url, "c.EC2Spawner.hub_api_url", "/hub/api", "", API_PORT, 0)
        return Context(config, self.cloud, datetime.now(UTC))

    def group(self, name: str, *rules: dict[str, Any]) -> str:
        """A new security group with these inbound rules."""
        [subnet] = self.ec2.describe_subnets(SubnetIds=self.described["subnets"][:1])["Subnets"]
        made = self.ec2.create_security_group(
            GroupName=name, Description=name, VpcId=subnet["VpcId"]
        )["GroupId"]
        if rules:
            self.ec2.authorize_security_group_ingress(GroupId=made, IpPermissions=list(rules))
        return str(made)


def tcp(port: int, **sources: Any) -> dict[str, Any]:
    return {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, **sources}


def of_group(group: str) -> dict[str, Any]:
    return {"UserIdGroupPairs": [{"GroupId": group}]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def account(embedded: Embedded) -> AsyncIterator[Account]:
    described = embedded.described
    with pytest.MonkeyPatch.context() as patch:
        for name, value in embedded.credentials.items():
            patch.setenv(name, value)
        cloud = EC2Cloud(described["region"], described["ec2_endpoint"])
        ec2, iam, s3 = (embedded.client(service) for service in ("ec2", "iam", "s3"))
        yield Account(ec2, iam, s3, described, cloud)
        await cloud.close()


async def network(context: Context) -> dict[Topic, Finding]:
    findings: list[Finding] = []
    await check_network(context, findings)
    return {finding.topic: finding for finding in findings}


def states(found: dict[Topic, Finding], *topics: Topic) -> list[State]:
    return [found[topic].state for topic in topics]


PORTS = (Topic.NOTEBOOK_PORT, Topic.HUB_PORT)


async def test_the_hubs_own_security_groups_are_found_by_its_address(account: Account) -> None:
    hub = account.group("hub")
    notebooks = account.group("own-notebooks")
    interface = account.ec2.create_network_interface(
        SubnetId=account.described["subnets"][0], Groups=[hub]
    )["NetworkInterface"]
    context = account.context(interface["PrivateIpAddress"], security_groups=[notebooks])
    shut = await network(context)
    assert states(shut, *PORTS) == [State.FAILED, State.FAILED]
    assert f"allow TCP 8888 from {hub} in {notebooks}" in shut[Topic.NOTEBOOK_PORT].fix
    assert f"allow TCP {API_PORT} from {notebooks} in {hub}" in shut[Topic.HUB_PORT].fix

    authorize = account.ec2.authorize_security_group_ingress
    authorize(GroupId=notebooks, IpPermissions=[tcp(8888, **of_group(hub))])
    authorize(GroupId=hub, IpPermissions=[tcp(API_PORT, **of_group(notebooks))])
    assert states(await network(context), *PORTS) == [State.OK, State.OK]


async def test_instances_that_reach_each_other_are_a_warning_for_hubs_with_clusters(
    account: Account,
) -> None:
    clusters = {"max_workers": 2}
    hub = account.described["hub_security_group"]  # the VPC's default one
    own = account.group("no-instances", tcp(8888, **of_group(hub)))
    for options, state in (
        ({"clusters": clusters, "security_groups": [own]}, State.OK),
        ({"clusters": clusters, "security_groups": [own, hub]}, State.WARNING),
        ({}, State.OK),
    ):
        found = await network(account.context(**options))
        assert found[Topic.SECURITY_GROUPS].state is state, options


async def test_sources_of_rules_are_read_or_named_as_unread(account: Account) -> None:
    lists = account.ec2.create_managed_prefix_list(
        PrefixListName="lab", MaxEntries=1, AddressFamily="IPv4"
    )["PrefixList"]["PrefixListId"]
    group = account.group(
        "sources",
        tcp(6379, Ipv6Ranges=[{"CidrIpv6": "2001:db8::/32"}]),
        tcp(6380, PrefixListIds=[{"PrefixListId": lists}]),
    )
    [found] = await read_groups(account.context().client, [group])
    assert {(*rule.ipv6_cidrs, *rule.unread) for rule in found.ingress} == {
        ("2001:db8::/32",),
        (lists,),
    }


async def test_the_groups_of_a_hub_outside_the_vpc_stay_unproved(account: Account) -> None:
    notebooks = account.group("open", tcp(8888, IpRanges=[{"CidrIp": "10.9.0.0/16"}]))
    found = await network(account.context("10.9.0.5", security_groups=[notebooks]))
    assert states(found, *PORTS) == [State.OK, State.UNPROVED]
    found = await network(account.context("10.8.0.5", security_groups=[notebooks]))
    assert states(found, *PORTS) == [State.UNPROVED, State.UNPROVED]


async def test_routes_and_public_addresses_of_each_subnet_are_read(account: Account) -> None:
    usual = await network(account.context())
    assert states(usual, Topic.WAY_OUT, Topic.PUBLIC_ADDRESS) == [State.OK, State.OK]
    assert "nat-" in usual[Topic.WAY_OUT].said

    ec2, subnet = account.ec2, account.described["subnets"][0]
    [described] = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]
    table = ec2.create_route_table(VpcId=described["VpcId"])["RouteTable"]["RouteTableId"]
    association = ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)["AssociationId"]
    try:
        cut_off = await network(account.context())
        assert cut_off[Topic.WAY_OUT].state is State.WARNING
        assert subnet in cut_off[Topic.WAY_OUT].said
        stock = "/aws/service/deeplearning/ami/x86_64/base/latest/ami-id"
        assert (await network(account.context(image=stock)))[Topic.WAY_OUT].state is State.FAILED
        ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
        [gateway] = ec2.describe_internet_gateways()["InternetGateways"]
        ec2.create_route(
            RouteTableId=table,
            DestinationCidrBlock="0.0.0.0/0",
            GatewayId=gateway["InternetGatewayId"],
        )
        public = await network(account.context())
        assert states(public, Topic.WAY_OUT, Topic.PUBLIC_ADDRESS) == [State.OK, State.WARNING]
    finally:
        ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": False})
        ec2.disassociate_route_table(AssociationId=association)


async def test_a_missing_spot_role_is_found(account: Account) -> None:
    async def spot_role() -> State:
        findings: list[Finding] = []
        context = account.context()
        await check_roles(context, context.options.profiles, findings)
        [found] = [f.state for f in findings if f.topic is Topic.SPOT_ROLE]
        assert not [f for f in findings if f.topic is Topic.KMS_KEY], "AWS's own key"
        return found

    assert await spot_role() is State.OK
    account.iam.delete_role(RoleName="AWSServiceRoleForEC2Spot")
    assert await spot_role() is State.WARNING
    account.iam.create_service_linked_role(AWSServiceName="spot.amazonaws.com")
    assert await spot_role() is State.OK


async def test_buckets_are_found_without_credentials(account: Account) -> None:
    account.s3.create_bucket(Bucket="check-data")
    names = ("check-data", "check-nowhere")
    buckets = [{"bucket": name, "path": f"/data/{name}"} for name in names]
    findings: list[Finding] = []
    context = account.context(buckets=buckets, instance_profile="notebooks")
    await check_files(context, (), findings)
    assert [finding.state for finding in findings] == [State.OK, State.FAILED]


async def test_the_clock_is_compared_with_the_endpoints(account: Account) -> None:
    endpoint = account.described["ec2_endpoint"]

    async def judged(ahead: float) -> State:
        found = judge_clock(await clock_skew(endpoint, lambda: time.time() + ahead))
        assert found is not None
        return found.state

    assert await judged(0) is State.OK
    assert await judged(60) is State.WARNING
    assert await judged(-400) is State.FAILED
    assert await clock_skew("http://127.0.0.1:1") is None


async def test_fix_makes_what_is_safe_and_free_and_checks_again(
    admin: Admin, embedded: Embedded, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, notebooks = account.group("hub-to-fix"), account.group("notebooks-to-fix")
    subnet = account.described["subnets"][0]
    also = account.group("also-of-the-hub")
    interface = account.ec2.create_network_interface(SubnetId=subnet, Groups=[hub, also])
    hub = min(hub, also)
    address = interface["NetworkInterface"]["PrivateIpAddress"]
    account.iam.delete_role(RoleName="AWSServiceRoleForEC2Spot")
    await embedded.control("limits", {"quotas": {"spot": 0}})
    arguments = (
        f"--EC2Spawner.security_groups=['{notebooks}']",
        f"--EC2Spawner.hub_api_url=http://{address}:{API_PORT}/hub/api",
        "--EC2Spawner.profile_list=[{'display_name': 'T4', 'gpu': 'T4'}]",
        "--JupyterHub.active_server_limit=3",
    )
    codes = {"spot-role", "notebook-port", "hub-port", "quota"}
    try:
        fixed = await admin.checks(
            *arguments, "--fix", "--yes", environment={**embedded.admin_credentials}
        )
    finally:
        await embedded.control("limits", {"quotas": {"spot": None}})
    assert [fix["result"] for fix in fixed.json["fixes"]] == ["done"] * 4, fixed.output
    left = {f["code"] for f in fixed.json["findings"] if f["state"] in ("failed", "warning")}
    assert left & codes == {"quota"}, "AWS has not decided yet"
    [request] = [f["what"] for f in fixed.json["fixes"] if "vCPUs" in f["what"]]
    assert request.startswith("request 12 vCPUs instead of 0 ")
    spot = ListedQuota("L-3819A6DF", "All G and VT Spot Instance Requests", 0.0)
    again = [
        spot_role(),
        open_port(notebooks, 8888, hub),
        open_port(hub, API_PORT, notebooks),
        more_vcpus(spot, 12, account.described["region"]),
    ]
    options = account.context().options
    by_hub = await make_repairs(options, again, lambda _: True)
    assert [outcome.result for outcome in by_hub] == [Result.DENIED] * 4
    for name, value in embedded.admin_credentials.items():
        monkeypatch.setenv(name, value)
    by_admin = await make_repairs(options, again, lambda _: True)
    assert [outcome.result for outcome in by_admin] == [Result.DONE_BEFORE] * 4
