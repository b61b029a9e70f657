"""A profile means the machines that a person would expect."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner import data
from ec2spawner.core.profiles import profiles

TYPES = data.instance_types()


@dataclass(frozen=True)
class Profile:
    slug: str = "p"
    display_name: str = "P"
    default: bool = False
    gpu: str | None = None
    gpu_count: int = 1
    min_gpu_memory_gb: int = 0
    vcpus: int = 0
    memory_gib: float = 0
    instance_types: tuple[str, ...] = ()


def found(profile: Profile, architecture: str = "x86_64") -> list[str]:
    return [kind.name for kind in profiles.resolve(profile, TYPES, architecture)]


# --- machines --------------------------------------------------------------------------------


def test_a_gpu_selects_the_smallest_types_with_it() -> None:
    assert found(Profile(gpu="T4"))[0] == "g4dn.xlarge"
    assert found(Profile(gpu="t4")) == found(Profile(gpu="T4"))
    assert "g4dn.16xlarge" not in found(Profile(gpu="T4")), "eight times the price of the first"


def test_a_gpu_count_is_exact() -> None:
    assert found(Profile(gpu="T4", gpu_count=4)) == ["g4dn.12xlarge"]
    assert found(Profile(gpu="T4", gpu_count=3)) == []


def test_a_part_of_a_gpu_is_no_gpu() -> None:
    matches = profiles.resolve(Profile(gpu="L4"), TYPES)
    assert matches
    assert all(kind.gpu_partition == 1.0 for kind in matches)


def test_gpu_memory_is_the_vendors_figure() -> None:
    assert found(Profile(gpu="A10G", min_gpu_memory_gb=24))
    assert not found(Profile(gpu="A10G", min_gpu_memory_gb=25))
    assert found(Profile(gpu="A100", gpu_count=8, min_gpu_memory_gb=80)) == ["p4de.24xlarge"]


def test_minimum_cpus_and_memory_apply_with_a_gpu() -> None:
    assert found(Profile(gpu="T4", vcpus=8))[0] == "g4dn.2xlarge"
    assert found(Profile(gpu="T4", memory_gib=60))[0] == "g4dn.4xlarge"


def test_without_a_gpu_general_purpose_types_are_selected() -> None:
    names = found(Profile(vcpus=4, memory_gib=16))
    assert names[0].startswith("m")
    assert all(name.endswith(".xlarge") for name in names)
    assert len(names) == profiles.MAX_TYPES


def test_types_with_hidden_costs_are_used_only_when_named() -> None:
    assert not [name for name in found(Profile(vcpus=2)) if name.startswith("t3")]
    assert found(Profile(instance_types=("t3.large",))) == ["t3.large"]


def test_named_types_keep_their_order() -> None:
    assert found(Profile(instance_types=("g5.xlarge", "g4dn.xlarge"))) == [
        "g5.xlarge",
        "g4dn.xlarge",
    ]


def test_only_types_that_can_run_the_image_are_selected() -> None:
    assert found(Profile(gpu="T4g")) == []
    assert found(Profile(gpu="T4g"), "arm64")
    assert found(Profile(instance_types=("m7g.large", "m7i.large"))) == ["m7i.large"]


wishes = st.builds(
    Profile,
    gpu=st.none() | st.sampled_from(sorted({kind.gpu for kind in TYPES.values() if kind.gpu})),
    gpu_count=st.sampled_from([1, 2, 4, 8]),
    min_gpu_memory_gb=st.integers(0, 200),
    vcpus=st.integers(0, 200),
    memory_gib=st.floats(0, 2000),
)


@given(wishes)
def test_every_match_fits_the_request_at_a_similar_price(wish: Profile) -> None:
    matches = profiles.resolve(wish, TYPES)
    assert len(matches) <= profiles.MAX_TYPES
    prices = [kind.on_demand_usd_per_hour for kind in matches]
    known = [price for price in prices if price is not None]
    assert len(known) in (0, len(prices))
    assert known == sorted(known)
    assert all(price <= profiles.PRICE_FACTOR * known[0] for price in known)
    for kind in matches:
        assert kind.architecture == "x86_64"
        assert kind.vcpus >= wish.vcpus
        assert kind.memory_mib >= wish.memory_gib * 1024
        assert kind.gpu == (wish.gpu or "")
        assert kind.gpu_count == (wish.gpu_count if wish.gpu else 0)


def test_types_of_unknown_price_are_excluded_beside_known_ones() -> None:
    types = {
        "a.large": replace(TYPES["m5.large"], name="a.large"),
        "b.large": replace(TYPES["m5.large"], name="b.large", on_demand_usd_per_hour=None),
    }
    assert [kind.name for kind in profiles.resolve(Profile(vcpus=2), types)] == ["a.large"]
    del types["a.large"]
    assert [kind.name for kind in profiles.resolve(Profile(vcpus=2), types)] == ["b.large"]


# --- words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instance_type", "text"),
    [
        ("g4dn.xlarge", "1 × T4, 16 GB"),
        ("g5.xlarge", "1 × A10G, 24 GB"),
        ("p4d.24xlarge", "8 × A100, 40 GB each"),
        ("g6f.large", "1/8 L4, 3 GB"),
        ("m5.large", ""),
    ],
)
def test_a_gpu_in_words(instance_type: str, text: str) -> None:
    assert profiles.gpu_text(TYPES[instance_type]) == text


def test_a_card_promises_the_minimum_of_its_types() -> None:
    kinds = [TYPES["g4dn.2xlarge"], TYPES["g4dn.xlarge"], TYPES["m5.xlarge"]]
    assert profiles.describe(kinds[:2]) == profiles.Hardware(
        "1 × T4, 16 GB", 4, 16.0, 125, gpu_memory_bytes=16 * 2**30
    )
    assert profiles.describe(kinds).gpu_text == ""
    assert profiles.describe(kinds).scratch_gb == 0


# --- without a choice ------------------------------------------------------------------------


def test_the_default_is_the_first_that_is_marked_or_else_the_first() -> None:
    plain, marked = Profile(slug="plain"), Profile(slug="marked", default=True)
    assert profiles.default_profile([plain, marked, replace(marked, slug="later")]) is marked
    assert profiles.default_profile([plain]) is plain
    assert profiles.default_profile([]) is None
