"""Which instance types show EBS volumes by their serial, and how many they take."""

from __future__ import annotations

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from ec2spawner import data
from ec2spawner.core.profiles.ebs_volumes import is_xen, why_no_volumes


def test_the_types_on_xen_are_those_of_ec2s_table() -> None:
    """By name: they are known before EC2 has answered, and there will be no new ones."""
    of_table = {name for name, kind in INSTANCE_TYPES.items() if kind.get("Hypervisor") == "xen"}
    assert {name for name in INSTANCE_TYPES if is_xen(name)} == of_table
    # Of regions that the table does not show.
    assert all(map(is_xen, ["p3.2xlarge", "p2.xlarge", "g3.4xlarge", "g3s.xlarge", "f1.2xlarge"]))
    assert not any(
        map(is_xen, ["p3dn.24xlarge", "i3.metal", "i3en.large", "x2idn.metal", "g5.xlarge"])
    )


def test_no_bundled_type_is_on_xen() -> None:
    assert not [name for name in data.instance_types() if is_xen(name)]


@pytest.mark.parametrize(
    ("volumes", "refused"), [(0, ""), (8, ""), (9, "at most 9 EBS volumes to g5.48xlarge")]
)
def test_the_disk_of_the_instance_counts_as_well(volumes: int, refused: str) -> None:
    said = why_no_volumes("g5.48xlarge", 9, volumes)
    assert refused in said
    assert bool(refused) == bool(said)


def test_an_unknown_limit_refuses_nothing() -> None:
    assert why_no_volumes("g9x.xlarge", None, 11) == ""


def test_a_type_on_xen_serves_a_server_without_volumes() -> None:
    assert why_no_volumes("t2.micro", 40, 0) == ""
    assert "Nitro" in why_no_volumes("t2.micro", 40, 1)
