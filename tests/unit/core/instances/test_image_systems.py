"""What an image's name says about its Python and its user."""

from __future__ import annotations

import pytest

from ec2spawner.core.instances.image_systems import image_system

DLAMI = "Deep Learning Base OSS Nvidia Driver GPU AMI ({}) 20261101"


@pytest.mark.parametrize(
    ("name", "python", "user", "has_python", "works"),
    [
        (DLAMI.format("Ubuntu 24.04"), (3, 12), "ubuntu", True, True),
        (DLAMI.format("Ubuntu 22.04"), (3, 10), "ubuntu", False, True),
        (DLAMI.format("Amazon Linux 2023"), (3, 9), "ec2-user", False, True),
        (DLAMI.format("Amazon Linux 2"), (3, 7), "ec2-user", False, False),
        (
            "Deep Learning AMI GPU PyTorch 1.13 (Ubuntu 20.04) 20230103",
            (3, 8),
            "ubuntu",
            False,
            False,
        ),
        (
            "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20261101",
            (3, 12),
            "ubuntu",
            True,
            True,
        ),
        ("al2023-ami-2023.9.20261101.0-kernel-6.12-x86_64", (3, 9), "ec2-user", False, True),
        ("amzn2-ami-kernel-5.10-hvm-2.0.20261101-x86_64-gp2", (3, 7), "ec2-user", False, False),
        (
            "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
            (3, 10),
            "ubuntu",
            False,
            True,
        ),
    ],
)
def test_aws_names_its_images_after_their_systems(
    name: str, python: tuple[int, int], user: str, has_python: bool, works: bool
) -> None:
    system = image_system(name)
    assert system is not None
    assert (system.python, system.user) == (python, user)
    assert (system.has_python, system.works) == (has_python, works)


def test_the_first_text_that_names_a_system_counts() -> None:
    system = image_system("notebooks-42", "made from Amazon Linux 2023")
    assert system is not None
    assert system.name == "Amazon Linux 2023"
    assert image_system("notebooks-42", "") is None
