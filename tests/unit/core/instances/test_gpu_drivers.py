"""Which NVIDIA driver supports which GPU: `ec2spawner.core.instances.gpu_drivers`."""

from __future__ import annotations

import pytest

from ec2spawner.core.instances.gpu_drivers import (
    ARCHITECTURES,
    DRIVER_SUPPORT,
    SHARES,
    Driver,
    KernelModules,
    branch,
    unsupported,
    unsupported_gpus,
)
from ec2spawner.data import gpu_models, instance_types

OPEN, PROPRIETARY = KernelModules.OPEN, KernelModules.PROPRIETARY


@pytest.mark.parametrize(
    ("gpu", "driver", "supports"),
    [
        ("V100", Driver(595, OPEN), False),  # the Deep Learning AMI of 2026
        ("V100", Driver(590, PROPRIETARY), False),
        ("V100", Driver(580, OPEN), False),
        ("V100", Driver(580, PROPRIETARY), True),
        ("V100", Driver(580), True),
        ("V100", Driver(590), False),
        ("V100", Driver(None, OPEN), False),
        ("T4", Driver(None, OPEN), True),
        ("M60", Driver(570, PROPRIETARY), True),
        ("T4", Driver(595, OPEN), True),
        ("T4", Driver(595, PROPRIETARY), True),
        ("A10G", Driver(450), True),
        ("L4", Driver(515), False),
        ("H100", Driver(595, OPEN), True),
        ("B200", Driver(580, OPEN), True),
        ("B200", Driver(580, PROPRIETARY), False),
        ("B200", Driver(550, OPEN), False),
        ("a GPU of tomorrow", Driver(595, OPEN), True),
        ("", Driver(595, OPEN), True),
    ],
)
def test_which_driver_supports_which_gpu(gpu: str, driver: Driver, supports: bool) -> None:
    assert (not unsupported(gpu, driver)) is supports


@pytest.mark.parametrize(
    ("driver", "supports"),
    [
        (Driver(595, OPEN), False),  # the Deep Learning AMI of 2026
        (Driver(570, PROPRIETARY), False),
        (Driver(570, grid=True), True),
        (Driver(535, grid=True), False),
    ],
)
def test_a_share_of_a_gpu_needs_the_grid_driver(driver: Driver, supports: bool) -> None:
    said = unsupported("L4", driver, 0.125)
    assert (not said) is supports
    assert supports or "GRID" in said
    assert (SHARES not in unsupported_gpus(driver)) is supports
    assert not unsupported("L4", driver), "whole GPUs work with either"


def test_the_gpu_of_g7_needs_a_newer_driver_than_its_architecture() -> None:
    assert "branch 595 or newer" in unsupported("RTX PRO 4500", Driver(580, OPEN))
    assert not unsupported("RTX PRO 4500", Driver(595, OPEN))


def test_the_reason_names_the_driver_that_is_needed() -> None:
    reason = unsupported("V100", Driver(595, OPEN))
    assert "branch 595, open kernel modules" in reason
    assert "V100 (Volta)" in reason
    assert "branch 580 or older with proprietary kernel modules" in reason
    assert "branch 520 or newer" in unsupported("L4", Driver(515))


def test_every_gpu_that_ec2_offers_has_an_architecture_and_each_one_its_drivers() -> None:
    offered = {facts.gpu for facts in instance_types().values()} - {""}
    offered |= {model.ec2_name for model in gpu_models()} - {""}
    assert offered <= ARCHITECTURES.keys()
    assert set(ARCHITECTURES.values()) == DRIVER_SUPPORT.keys()


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("595.91.07", 595),
        ("550.163", 550),
        (" 1005.1.2\n", 1005),
        ("595", None),
        ("595.x", None),
        ("", None),
        ("9" * 10_000, None),
    ],
)
def test_a_version_names_its_branch(version: str, expected: int | None) -> None:
    assert branch(version) == expected
