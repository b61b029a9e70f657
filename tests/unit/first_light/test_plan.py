"""What first-light starts, and what it may cost."""

from __future__ import annotations

import pytest

from ec2spawner import data
from ec2spawner.first_light import plan

TYPES = data.instance_types()
EVERYWHERE = dict.fromkeys(TYPES, frozenset({"us-east-1a"}))
MODELS = frozenset({"T4", "A10G"})


def test_the_cheapest_instances_without_a_gpu_are_chosen() -> None:
    leg = plan.cpu_leg(TYPES, EVERYWHERE, "x86_64", disk_gib=100, idle_seconds=120)
    assert leg.instance_types
    for name in leg.instance_types:
        kind = TYPES[name]
        assert not kind.gpu
        assert kind.vcpus >= plan.CPU_VCPUS
        assert kind.memory_mib >= plan.CPU_MEMORY_GIB * 1024
        assert not name.startswith(("t2.", "t3.", "t3a.", "t4g.")), "bills CPU credits as well"
        assert (kind.on_demand_usd_per_hour or 0) <= leg.usd_per_hour


def test_the_cheapest_gpu_of_the_models_is_chosen() -> None:
    leg = plan.gpu_leg(TYPES, EVERYWHERE, "x86_64", 100, MODELS)
    assert leg.instance_types[0] == "g4dn.xlarge"
    assert {TYPES[name].gpu for name in leg.instance_types} == {"T4"}
    without_t4 = {name: zones for name, zones in EVERYWHERE.items() if TYPES[name].gpu != "T4"}
    leg = plan.gpu_leg(TYPES, without_t4, "x86_64", 100, MODELS)
    assert {TYPES[name].gpu for name in leg.instance_types} == {"A10G"}


def test_types_that_no_zone_offers_are_refused_with_a_fix() -> None:
    with pytest.raises(plan.NothingToStart, match="subnets of other zones"):
        plan.cpu_leg(TYPES, {}, "x86_64", 100, 120)
    with pytest.raises(plan.NothingToStart, match="--gpu"):
        plan.gpu_leg(TYPES, {}, "x86_64", 100, MODELS)


def test_only_candidates_need_a_price() -> None:
    names = plan.candidates(TYPES, EVERYWHERE, "x86_64", frozenset())
    assert not any(TYPES[name].gpu for name in names)
    assert set(plan.cpu_leg(TYPES, EVERYWHERE, "x86_64", 100, 120).instance_types) <= set(names)
    more = plan.candidates(TYPES, EVERYWHERE, "x86_64", MODELS)
    assert {TYPES[name].gpu for name in more} == {"", *MODELS}


def leg(usd_per_hour: float) -> plan.Leg:
    return plan.Leg(plan.CPU_SLUG, "cpu", ("m5.large",), usd_per_hour, 3600.0, 99)


def test_the_worst_case_counts_disks_and_address() -> None:
    disks = 100 * 0.08 / 730
    assert leg(0.1).usd == pytest.approx(0.1 + disks + 0.005)


def test_a_journey_above_its_cap_is_refused_with_one_that_fits() -> None:
    plan.check_cap([leg(0.5)], 1.0)
    with pytest.raises(plan.OverCap, match=r"--max-usd=1\.6") as refused:
        plan.check_cap([leg(0.5), leg(1.0)], 1.0)
    assert "--gpu" in str(refused.value)
    plan.check_cap([leg(0.5), leg(1.0)], 1.6)


def test_the_idle_limit_is_paid_too() -> None:
    short, long = (plan.cpu_leg(TYPES, EVERYWHERE, "x86_64", 100, each) for each in (60, 3660))
    assert long.usd - short.usd == pytest.approx(long.hourly_usd)
