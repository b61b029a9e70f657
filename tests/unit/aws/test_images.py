"""Which image a configuration means, and which driver an image says it has."""

from __future__ import annotations

from typing import Any

import pytest

from ec2spawner.aws.compute.images import driver_of
from ec2spawner.config import Options
from ec2spawner.config.traits import OptionTraits
from ec2spawner.provisioner.model.cloud.image import ImageQuery

BASE = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"


def query(**words: Any) -> ImageQuery:
    options = Options.model_validate({"region": "us-east-1", "subnets": ["subnet-1"], **words})
    return options.image.query(options.architecture)


def test_the_newest_deep_learning_ami_of_the_region_by_default() -> None:
    assert query() == ImageQuery(parameter=BASE)


def test_the_default_follows_the_architecture() -> None:
    arm = query(architecture="arm64")
    assert arm == ImageQuery(parameter=BASE.replace("x86_64", "arm64"), architecture="arm64")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ami-0a1b2c3d", ImageQuery(image_id="ami-0a1b2c3d")),
        (" ami-0a1b2c3d ", ImageQuery(image_id="ami-0a1b2c3d")),
        ({"id": "ami-0a1b2c3d"}, ImageQuery(image_id="ami-0a1b2c3d")),
        ("/my/image", ImageQuery(parameter="/my/image")),
        ({"parameter": "/my/{architecture}"}, ImageQuery(parameter="/my/x86_64")),
        ({"name": "notebooks-*"}, ImageQuery(name="notebooks-*", owners=("self",))),
        (
            {"name": "lab-*", "owners": ["self", "111122223333"]},
            ImageQuery(name="lab-*", owners=("self", "111122223333")),
        ),
    ],
)
def test_the_ways_to_name_an_image(written: object, meant: ImageQuery) -> None:
    assert query(image=written) == meant


def test_a_text_and_a_dict_are_both_taken_from_a_configuration_file() -> None:
    for written in ("ami-0a1b2c3d", {"name": "notebooks-*"}):
        assert OptionTraits(image=written).image == written


@pytest.mark.parametrize(
    ("image", "driver"),
    [
        ({"Tags": [{"Key": "nvidia-driver", "Value": "595.91.07"}]}, "595.91.07"),
        ({"Description": "Supported EC2 instances: G4dn. NVIDIA driver 570.133.20"}, "570.133.20"),
        ({"Description": "NVIDIA Driver with CUDA 12.8, version 570.124.06."}, "570.124.06"),
        ({"Name": "notebooks-nvidia-driver-535.183"}, "535.183"),
        # What Amazon's own images say, in which no driver's version is.
        ({"Name": "Deep Learning OSS Nvidia Driver AMI (Amazon Linux 2) Version 78.2"}, ""),
        ({"Name": "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20261006"}, ""),
        ({"Description": "kernel 6.17.0-1017-aws, 10.0.100.200"}, ""),
        ({}, ""),
    ],
)
def test_the_driver_version_is_read_from_the_image(image: dict[str, Any], driver: str) -> None:
    assert driver_of(image) == driver
