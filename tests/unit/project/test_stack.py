"""The CloudFormation stack: judged by CloudFormation's schemas, and created in moto."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from moto import mock_aws

from ec2spawner.config import validate_options
from ec2spawner.core.tags import HUB
from tests.stack_template import CONFIGS, PARTS, STACK, assembled
from tests.unit.project.test_aws_commands import Tagged
from tests.unit.project.test_docs import load_config

pytestmark = pytest.mark.filterwarnings("ignore:.*not supported by moto:UserWarning")

REGION = "us-east-1"  # moto knows the zones of no other region in a template
WHEEL = f"ec2spawner @ https://wheels.example.org/ec2spawner-1-py3-none-any.whl#sha256={'0' * 64}"
MAX_TEMPLATE = 51_200
"""Bytes that CloudFormation takes in a call; a larger template has to be in a bucket."""
MAX_USER_DATA = 16_384
MAX_PARAMETER = 4_096
"""Bytes of a parameter that costs nothing."""


@pytest.mark.parametrize("file", PARTS, ids=lambda file: file.stem)
def test_a_template_has_the_policies_and_the_user_data_of_their_files(file: Path) -> None:
    template = file.read_text()
    assert template == assembled(file), "run: python -m tests.stack_template"
    assert len(template.encode()) < MAX_TEMPLATE


@pytest.mark.parametrize("file", PARTS, ids=lambda file: file.stem)
def test_cloudformations_schemas_find_nothing(file: Path) -> None:
    command = ["cfn-lint", "--regions", "us-east-1", REGION, "--", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@dataclass(frozen=True)
class Stack:
    parameters: Mapping[str, str]
    outputs: Mapping[str, str]
    resources: Mapping[str, str]
    """Physical ids by logical id."""

    def settings(self) -> str:
        """What `update-hub` writes for the hub."""
        pointer = variables(yaml.safe_load(self.user_data())["write_files"][0]["content"])
        ssm = boto3.client("ssm", pointer["STACK_REGION"])
        value: str = ssm.get_parameter(Name=pointer["STACK_SETTINGS"])["Parameter"]["Value"]
        assert len(value.encode()) < MAX_PARAMETER
        return value

    def environment(self) -> dict[str, str]:
        return variables(self.settings())

    def user_data(self) -> str:
        ec2 = boto3.client("ec2", REGION)
        attribute = ec2.describe_instance_attribute(
            InstanceId=self.resources["HubInstance"], Attribute="userData"
        )
        text = base64.b64decode(attribute["UserData"]["Value"]).decode()
        assert text.startswith("#cloud-config\n")
        assert len(text.encode()) < MAX_USER_DATA
        return text


def variables(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if line[:1] != "#")
    return {name: value.strip('"') for name, _, value in pairs}


def create(name: str, **parameters: str) -> Stack:
    ec2 = boto3.client("ec2", REGION)
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    given = {"HubName": name, "Package": WHEEL, "HubImage": image, "Users": "ann ben"}
    given |= parameters
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
    changed = {"Users": "cem", "Package": "ec2spawner==2", "Zones": "4", "Nat": "yes"}
    return create("physics", UsersFrom="203.0.113.0/24", **changed)


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


@pytest.mark.parametrize(
    ("policy", "file"),
    [("HubPolicy", "iam-policy.json"), ("HubClusterPolicy", "clusters-policy.json")],
)
def test_the_hubs_role_has_the_policies_of_this_account(
    account: Any, other: Stack, policy: str, file: str
) -> None:
    iam = boto3.client("iam")
    attached = iam.list_attached_role_policies(RoleName=other.resources["HubRole"])
    arn = other.resources[policy]
    assert arn in {each["PolicyArn"] for each in attached["AttachedPolicies"]}
    version = iam.get_policy_version(PolicyArn=arn, VersionId="v1")
    expected = (CONFIGS / file).read_text().replace("small-team", "physics")
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


def test_no_parameter_is_in_user_data_but_the_hubs_name(stack: Stack, other: Stack) -> None:
    """CloudFormation stops and starts an instance whose user-data changes, and cloud-init writes
    its files at the first boot only."""
    assert other.environment()["HUB_USERS"] == "cem"
    assert other.environment()["HUB_PACKAGE"] == "ec2spawner==2"
    assert other.user_data() == stack.user_data().replace("small-team", "physics")


def test_the_hub_may_read_its_settings_and_no_other_parameter(account: Any, stack: Stack) -> None:
    """Judged in the template: moto has no AWS::IAM::RolePolicy."""
    template = yaml.load(STACK.read_text(), Loader=Tagged)["Resources"]
    policy = template["HubReadsItsSettings"]["Properties"]
    [statement] = policy["PolicyDocument"]["Statement"]
    assert statement["Action"] == "ssm:GetParameter"
    arn = "arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter${HubSettings}"
    assert statement["Resource"] == arn
    assert stack.resources["HubSettings"].startswith("/ec2spawner/small-team/")


@pytest.fixture
def network(account: Any) -> dict[str, str]:
    """Parameters of a VPC that exists."""
    vpc = account.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnet = account.create_subnet(VpcId=vpc, CidrBlock="10.9.1.0/24")["Subnet"]
    return {
        "VpcId": vpc,
        "HubSubnet": subnet["SubnetId"],
        "HubZone": subnet["AvailabilityZone"],
        "NotebookSubnets": f"{subnet['SubnetId']},{subnet['SubnetId']}",
    }


def test_a_network_that_exists_gets_groups_and_the_hub_may_be_absent(
    account: Any, network: dict[str, str]
) -> None:
    inside = create("inside", Hub="absent", **network)
    made = inside.resources.keys()
    assert not {"Vpc", "InternetGateway", "S3Endpoint", "HubInstance"} & made
    assert not {"HubAddress", "HubAddressInYourVpc", "HubAddressAssociation"} & made
    assert {"HubData", "HubInterface", "HubGroup", "NotebookGroup"} <= made
    [interface] = account.describe_network_interfaces(
        NetworkInterfaceIds=[inside.resources["HubInterface"]]
    )["NetworkInterfaces"]
    assert inside.outputs["Url"] == f"https://{interface['PrivateIpAddress']}"


def test_in_a_network_that_exists_a_hub_has_a_public_address_on_request(
    account: Any, network: dict[str, str]
) -> None:
    """moto makes the address, and no association: that is judged in the template."""
    reached = create("reached", Hub="absent", HubAddressInVpc="yes", **network)
    public = reached.outputs["Url"].removeprefix("https://")
    assert account.describe_addresses(PublicIps=[public])["Addresses"]
    template = yaml.load(STACK.read_text(), Loader=Tagged)
    association = template["Resources"]["HubAddressAssociation"]
    assert association["Condition"] == "WithAddress"
    assert association["Properties"]["NetworkInterfaceId"] == "HubInterface"
    assert association["Properties"]["AllocationId"][2] == "HubAddressInYourVpc.AllocationId"


def test_nothing_depends_on_what_another_condition_leaves_out() -> None:
    """CloudFormation then creates neither, "regardless of their own conditions":
    docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-condition.html
    """
    resources = yaml.load(STACK.read_text(), Loader=Tagged)["Resources"]
    for name, resource in resources.items():
        needs = resource.get("DependsOn", [])
        for each in [needs] if isinstance(needs, str) else needs:
            implied = {None, "NewNetwork"} if each == "InternetAttachment" else {None}
            condition = resources[each].get("Condition")
            assert condition in implied, (name, each)
            if condition:
                assert resource["Condition"] in {"NewNetwork", "WithNat", "WithoutNat"}, name
