"""Images: by id, by name, by SSM parameter; over real HTTP, and as no emulator answers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.calls.client import Client
from ec2spawner.aws.compute import images
from ec2spawner.config import Options
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.image import Image, ImageQuery
from ec2spawner.provisioner.model.cloud.launch import LaunchRequest, LaunchSpec
from ec2spawner.wire import Market

from .embedded_ec2 import Embedded
from .scripted_ec2 import HANG, Reply, ScriptedEC2, error, ok

NAME = "Deep Learning*Ubuntu 24.04*"

SPEC = LaunchSpec(
    instance_types=("g5.xlarge",),
    subnets=("subnet-a",),
    image_id="ami-0a1b2c3d",
    markets=(Market.SPOT,),
    disk_gib=100,
)
SUBNETS = ok(
    "<subnetSet><item><subnetId>subnet-a</subnetId>"
    "<availabilityZone>us-east-1a</availabilityZone></item></subnetSet>"
)


def assert_is_deep_learning_ami(image: Image, embedded: Embedded) -> None:
    assert image.image_id == embedded.image_id
    assert image.name.startswith("Deep Learning")
    assert image.architecture == "x86_64"
    assert image.root_device == "/dev/sda1"
    assert image.root_gib == 75
    assert image.created_at is not None
    assert image.created_at.tzinfo is UTC


# --- found -----------------------------------------------------------------------------------


async def test_by_id(embedded: Embedded, embedded_cloud: EC2Cloud) -> None:
    image = await embedded_cloud.find_image(ImageQuery(image_id=embedded.image_id))
    assert_is_deep_learning_ami(image, embedded)


async def test_by_name_and_owner(embedded: Embedded, embedded_cloud: EC2Cloud) -> None:
    image = await embedded_cloud.find_image(ImageQuery(name=NAME, owners=("amazon",)))
    assert_is_deep_learning_ami(image, embedded)


async def test_the_default_is_the_newest_deep_learning_ami(
    embedded: Embedded, embedded_cloud: EC2Cloud
) -> None:
    options = Options.model_validate({"region": embedded.region, "subnets": ["subnet-1"]})
    image = await embedded_cloud.find_image(options.image.query(options.architecture))
    assert_is_deep_learning_ami(image, embedded)


@pytest.fixture
def own_parameters(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub may read the account's parameters below /images."""
    statement = {
        "Effect": "Allow",
        "Action": "ssm:GetParameter",
        "Resource": "arn:aws:ssm:*:*:parameter/images/*",
    }
    for variable, value in embedded.key_of("demo", statement).items():
        monkeypatch.setenv(variable, value)


@pytest.mark.usefixtures("own_parameters")
async def test_by_a_custom_parameter(embedded: Embedded, embedded_cloud: EC2Cloud) -> None:
    embedded.client("ssm").put_parameter(
        Name="/images/notebooks", Value=embedded.image_id, Type="String"
    )
    image = await embedded_cloud.find_image(ImageQuery(parameter="/images/notebooks"))
    assert_is_deep_learning_ami(image, embedded)


# --- not found -------------------------------------------------------------------------------


async def refusal(cloud: EC2Cloud, query: ImageQuery) -> CloudError:
    with pytest.raises(CloudError) as refused:
        await cloud.find_image(query)
    assert not refused.value.retryable
    return refused.value


@pytest.mark.usefixtures("own_parameters")
@pytest.mark.parametrize(
    ("query", "says"),
    [
        (ImageQuery(image_id="ami-00000000000000000"), "ami-00000000000000000"),
        (ImageQuery(name="nothing-*", owners=("self",)), "'nothing-*' owned by self for x86_64"),
        (ImageQuery(name=NAME, owners=("999999999999",)), "owned by 999999999999"),
        (ImageQuery(name=NAME, owners=("amazon",), architecture="arm64"), "for arm64"),
        (ImageQuery(parameter="/images/none"), "SSM parameter /images/none does not exist"),
    ],
)
async def test_a_missing_image_is_named_in_the_error(
    embedded_cloud: EC2Cloud, query: ImageQuery, says: str
) -> None:
    refused = await refusal(embedded_cloud, query)
    assert refused.code == "InvalidAMIID.NotFound"
    assert says in refused.message


@pytest.mark.usefixtures("own_parameters")
async def test_a_parameter_that_holds_something_else_is_refused(
    embedded: Embedded, embedded_cloud: EC2Cloud
) -> None:
    embedded.client("ssm").put_parameter(Name="/images/json", Value='{"a": 1}', Type="String")
    refused = await refusal(embedded_cloud, ImageQuery(parameter="/images/json"))
    assert "SSM parameter /images/json holds no image's id" in refused.message


# --- as no emulator answers ------------------------------------------------------------------


def image(image_id: str, created: str, **fields: str) -> str:
    words = {
        "imageId": image_id,
        "creationDate": created,
        "architecture": "x86_64",
        "imageState": "available",
        "rootDeviceName": "/dev/sda1",
        **fields,
    }
    return "<item>" + "".join(f"<{k}>{v}</{k}>" for k, v in words.items()) + "</item>"


def listing(*described: str, token: str = "") -> Reply:
    following = f"<nextToken>{token}</nextToken>" if token else ""
    return ok(f"<imagesSet>{''.join(described)}</imagesSet>{following}")


async def test_the_newest_of_all_pages_counts(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will(
        "DescribeImages",
        listing(image("ami-2", "2026-10-01T00:00:00.000Z"), token="more"),
        listing(
            image("ami-3", "2026-11-01T08:30:00.000Z"),
            image("ami-1", "2025-12-31T00:00:00.000Z"),
            image("ami-4", "2026-12-01T00:00:00.000Z", rootDeviceName=""),
        ),
    )
    found = await cloud.find_image(ImageQuery(name="lab-*", owners=("self",)))
    assert found.image_id == "ami-3"
    assert found.created_at == datetime(2026, 11, 1, 8, 30, tzinfo=UTC)
    call = ec2.calls[0]
    filters = {call[f"Filter.{n}.Name"]: call[f"Filter.{n}.Value.1"] for n in (1, 2, 3)}
    assert filters == {"name": "lab-*", "architecture": "x86_64", "state": "available"}
    assert call["Owner.1"] == "self"


async def test_an_image_that_is_not_available_is_refused(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("DescribeImages", listing(image("ami-1", "", imageState="pending")))
    refused = await refusal(cloud, ImageQuery(image_id="ami-1"))
    assert refused.message == "image ami-1 is pending"


async def test_an_image_of_another_architecture_is_refused(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("DescribeImages", listing(image("ami-1", "", architecture="arm64")))
    refused = await refusal(cloud, ImageQuery(image_id="ami-1"))
    assert refused.code == "InvalidAMIID.NotFound"
    assert refused.message == "image ami-1 is for arm64, not for x86_64"


async def test_a_launch_does_not_repeat_the_image_lookup(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    request = LaunchRequest("token", Market.SPOT, 1, SPEC, {}, (("g5.xlarge", "subnet-a"),))
    ec2.will("DescribeImages", listing(image(SPEC.image_id, "", rootDeviceName="/dev/xvda")))
    ec2.will("DescribeSubnets", SUBNETS)
    ec2.will("CreateLaunchTemplate", ok())
    ec2.will("CreateFleet", ok("<errorSet/><fleetInstanceSet/>"))
    await cloud.find_image(ImageQuery(image_id=SPEC.image_id))
    await cloud.launch(request)
    assert len(ec2.made("DescribeImages")) == 1
    [template] = ec2.made("CreateLaunchTemplate")
    assert "/dev/xvda" in template.values()


async def test_an_endless_search_is_an_error(
    ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "SEARCH_SECONDS", 0.2)
    ec2.will("DescribeImages", HANG)
    client = Client("us-east-1", ec2.url)
    with pytest.raises(CloudError, match=r"'\*' owned by amazon are too many to list") as failed:
        await images.find_image(client, ImageQuery(name="*", owners=("amazon",)))
    assert failed.value.retryable
    await client.close()


async def test_a_missing_permission_is_reported_as_such(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("DescribeImages", error("UnauthorizedOperation", "not you", 403))
    refused = await refusal(cloud, ImageQuery(image_id="ami-1"))
    assert refused.code == "UnauthorizedOperation"
