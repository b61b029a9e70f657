"""The CloudFormation stack: judged by CloudFormation's schemas, and created in moto."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
import yaml
from moto import mock_aws

from ec2spawner.config import validate_options
from ec2spawner.core.tags import HUB
from tests.stack_template import CONFIGS, STACK, assembled
from tests.unit.project.test_docs import load_config

pytestmark = pytest.mark.filterwarnings("ignore:.*not supported by moto:UserWarning")

REGION = "us-east-1"  # moto knows the zones of no other region in a template
WHEEL = f"ec2spawner @ https://wheels.example.org/ec2spawner-1-py3-none-any.whl#sha256={'0' * 64}"
MAX_TEMPLATE = 51_200
"""Bytes that CloudFormation takes in a call; a larger template has to be in a bucket."""
MAX_USER_DATA = 16_384


def test_the_template_has_the_policy_and_the_user_data_of_their_files() -> None:
    template = STACK.read_text()
    assert template == assembled(template), "run: python -m tests.stack_template"
    assert len(template.encode()) < MAX_TEMPLATE


def test_cloudformations_schemas_find_nothing() -> None:
    command = ["cfn-lint", "--regions", "us-east-1", REGION, "--", str(STACK)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@dataclass(frozen=True)
class Stack:
    parameters: Mapping[str, str]
    outputs: Mapping[str, str]
    resources: Mapping[str, str]
    """Physical ids by logical id."""

    def environment(self) -> dict[str, str]:
        """What cloud-init writes for the hub."""
        lines = self.user_data()["write_files"][0]["content"].splitlines()
        pairs = (line.partition("=") for line in lines if line[:1] != "#")
        return {name: value.strip('"') for name, _, value in pairs}

    def user_data(self) -> dict[str, Any]:
        ec2 = boto3.client("ec2", REGION)
        attribute = ec2.describe_instance_attribute(
            InstanceId=self.resources["HubInstance"], Attribute="userData"
        )
        text = base64.b64decode(attribute["UserData"]["Value"]).decode()
        assert text.startswith("#cloud-config\n")
        assert len(text.encode()) < MAX_USER_DATA
        found: dict[str, Any] = yaml.safe_load(text)
        return found


def create(name: str, **parameters: str) -> Stack:
    ec2 = boto3.client("ec2", REGION)
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    given = {"Package": WHEEL, "HubImage": image, "Users": "ann ben", **parameters}
    cloudformation = boto3.client("cloudformation", REGION)
    cloudformation.create_stack(
        StackName=name,
        TemplateBody=STACK.read_text(),
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in given.items()],
    )
    [stack] = cloudformation.describe_stacks(StackName=name)["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    resources = cloudformation.list_stack_resources(StackName=name)["StackResourceSummaries"]
    return Stack(
        given,
        {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]},
        {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in resources},
    )


@pytest.fixture(scope="module")
def account() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as environment, mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "testing")
        yield boto3.client("ec2", REGION)


@pytest.fixture(scope="module")
def stack(account: Any) -> Stack:
    return create("small-team")


@pytest.fixture(scope="module")
def other(account: Any) -> Stack:
    """With what is off by default."""
    return create("physics", HubName="physics", Zones="4", Nat="yes", UsersFrom="203.0.113.0/24")


def rules(account: Any, group: str) -> set[tuple[int, str]]:
    """Port and source of all that a group lets in."""
    [found] = account.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    return {
        (rule["FromPort"], source)
        for rule in found["IpPermissions"]
        for source in [
            *(each["GroupId"] for each in rule["UserIdGroupPairs"]),
            *(each["CidrIp"] for each in rule["IpRanges"]),
        ]
    }


def test_the_stack_is_all_that_the_hubs_configuration_needs(
    account: Any, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = stack.environment()
    passwords = {"HUB_USER_PASSWORD": "u" * 16, "HUB_ADMIN_PASSWORD": "a" * 40}
    for name, value in {**environment, **passwords}.items():
        monkeypatch.setenv(name, value)

    config = load_config(CONFIGS / "aws/jupyterhub_config.py")
    options = validate_options(config["EC2Spawner"], cleanup_servers=False, environ={})

    subnets = account.describe_subnets(SubnetIds=list(options.subnets))["Subnets"]
    assert len({subnet["AvailabilityZone"] for subnet in subnets}) == 3
    assert list(options.security_groups) == [stack.outputs["NotebookSecurityGroup"]]
    assert options.region == REGION
    assert options.agent_package == WHEEL.replace("ec2spawner", "ec2spawner[notebook]", 1)
    assert options.hub_name == "small-team"
    assert config["Authenticator"]["allowed_users"] == {"admin", "ann", "ben"}


def test_the_hubs_data_is_on_a_volume_that_no_hub_deletes(account: Any, stack: Stack) -> None:
    volume = stack.environment()["HUB_DATA_VOLUME"]
    [disk] = account.describe_volumes(VolumeIds=[volume])["Volumes"]
    assert disk["Attachments"][0]["InstanceId"] == stack.resources["HubInstance"]
    assert HUB not in {tag["Key"] for tag in disk["Tags"]}


def test_only_the_hub_reaches_notebooks_and_only_they_its_api(account: Any, stack: Stack) -> None:
    hub, notebooks = (stack.outputs[f"{each}SecurityGroup"] for each in ("Hub", "Notebook"))
    assert rules(account, notebooks) == {(8888, hub)}
    assert rules(account, hub) == {(8081, notebooks)}


def test_users_reach_the_page_from_where_the_admin_says(account: Any, other: Stack) -> None:
    hub, notebooks = (other.outputs[f"{each}SecurityGroup"] for each in ("Hub", "Notebook"))
    assert rules(account, hub) == {(8081, notebooks), (443, "203.0.113.0/24")}


def test_the_hubs_role_has_the_policy_of_this_account(account: Any, other: Stack) -> None:
    iam = boto3.client("iam")
    attached = iam.list_attached_role_policies(RoleName=other.resources["HubRole"])
    arn = other.resources["HubPolicy"]
    assert arn in {each["PolicyArn"] for each in attached["AttachedPolicies"]}
    version = iam.get_policy_version(PolicyArn=arn, VersionId="v1")
    expected = (CONFIGS / "iam-policy.json").read_text().replace("small-team", "physics")
    assert version["PolicyVersion"]["Document"] == json.loads(expected)


def test_notebooks_leave_through_the_internet_gateway_or_through_nat(
    account: Any, stack: Stack, other: Stack
) -> None:
    ids = other.environment()["HUB_SUBNETS"].split()
    assert len(account.describe_subnets(SubnetIds=ids)["Subnets"]) == 4
    assert other.resources["NatGateway"] in ways_out(account, other)
    assert stack.resources["InternetGateway"] in ways_out(account, stack)


def ways_out(account: Any, stack: Stack) -> set[str | None]:
    found = account.describe_route_tables(RouteTableIds=[stack.resources["NotebookRoutes"]])
    routes = found["RouteTables"][0]["Routes"]
    return {route.get("NatGatewayId") or route.get("GatewayId") for route in routes}


def test_a_network_that_exists_gets_groups_and_the_hub_may_be_absent(account: Any) -> None:
    vpc = account.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnet = account.create_subnet(VpcId=vpc, CidrBlock="10.9.1.0/24")["Subnet"]
    network = {
        "VpcId": vpc,
        "HubSubnet": subnet["SubnetId"],
        "HubZone": subnet["AvailabilityZone"],
        "NotebookSubnets": f"{subnet['SubnetId']},{subnet['SubnetId']}",
    }
    made = create("absent", Hub="absent", **network).resources.keys()
    assert not {"Vpc", "InternetGateway", "S3Endpoint", "HubInstance"} & made
    assert {"HubData", "HubInterface", "HubGroup", "NotebookGroup"} <= made
