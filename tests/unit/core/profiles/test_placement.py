"""Which instance types can be close together: as EC2 says it of each."""

from __future__ import annotations

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from ec2spawner.core.profiles.placement import fits_cluster_placement


def test_it_is_what_ec2_says_of_its_types() -> None:
    described = {
        name: "cluster" in facts["PlacementGroupInfo"]["SupportedStrategies"]
        for name, facts in INSTANCE_TYPES.items()
    }
    assert len(described) > 1000
    assert {name: fits_cluster_placement(name) for name in described} == described


@pytest.mark.parametrize(
    ("name", "fits"), [("p6-b300.48xlarge", True), ("t5.large", False), ("m9i-flex.large", False)]
)
def test_families_that_are_newer(name: str, fits: bool) -> None:
    assert fits_cluster_placement(name) is fits
