"""Launch keys: equal for what is interchangeable, and hashed once."""

from __future__ import annotations

from dataclasses import replace

from ec2spawner.provisioner.model.launch_key import base_key_of, base_of, launch_key_of
from tests.unit.provisioner.world import SPEC


def test_the_launch_base_excludes_types_and_zones() -> None:
    for choice in ({"instance_types": ("g5.xlarge",)}, {"subnets": ("subnet-c",)}, {"markets": ()}):
        other = replace(SPEC, **choice)
        assert base_key_of(other) == base_key_of(SPEC)
        assert launch_key_of(other) != launch_key_of(SPEC)
    assert base_key_of(replace(SPEC, image_id="ami-2")) != base_key_of(SPEC)
    assert base_of(launch_key_of(SPEC)) == base_key_of(SPEC)


def test_a_class_on_one_profile_computes_one_hash() -> None:
    """A thousand leases that wait are a thousand keys in each pass."""
    assert base_key_of(replace(SPEC)) is base_key_of(replace(SPEC))
    assert launch_key_of(replace(SPEC)) is launch_key_of(replace(SPEC))
