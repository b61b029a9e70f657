"""What a machine's work costs: sourced figures only, and none where there are none."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner import data
from ec2spawner.core.pricing.gpu_value import scaled, several, t4s_of_gpu, times_the_work, value
from ec2spawner.hub.pages.spawn_page.profile_card_builder import t4s_of

figures = st.floats(min_value=0.1, max_value=1e5)
prices = st.floats(min_value=0.001, max_value=1000)
counts = st.integers(min_value=1, max_value=16)


def t4s(instance_type: str) -> float:
    found = t4s_of(data.instance_types()[instance_type])
    assert found is not None
    return found


# --- the definition --------------------------------------------------------------------------


def test_a_t4_does_one_t4_of_work() -> None:
    assert t4s("g4dn.xlarge") == 1.0


@pytest.mark.parametrize(
    ("instance_type", "expected"),
    [
        # sqrt(70 / 65 x 600 / 320), sqrt(362.05 / 65 x 864 / 320), sqrt(121 / 65 x 300 / 320)
        ("g5.xlarge", 1.42),
        ("g6e.xlarge", 3.88),
        ("g6.xlarge", 1.32),
    ],
)
def test_a_gpu_by_its_datasheet(instance_type: str, expected: float) -> None:
    assert t4s(instance_type) == pytest.approx(expected, abs=0.01)


def test_both_a100s_share_a_name_and_differ_in_memory() -> None:
    assert t4s("p4de.24xlarge") > 1.1 * t4s("p4d.24xlarge")


def test_an_eighth_of_a_gpu_does_an_eighth_of_its_work() -> None:
    assert t4s("g6f.large") == pytest.approx(t4s("g6.xlarge") / 8)


def test_eight_gpus_do_about_five_times_the_work_of_one() -> None:
    assert times_the_work(8) == pytest.approx(5, abs=0.01)
    assert t4s("g6.48xlarge") == pytest.approx(5 * t4s("g6.xlarge"), rel=0.01)


@pytest.mark.parametrize("instance_type", ["g5g.xlarge", "g7e.2xlarge", "m5.xlarge"])
def test_without_sourced_figures_it_is_unknown(instance_type: str) -> None:
    assert t4s_of(data.instance_types()[instance_type]) is None


def test_every_gpu_with_figures_is_found_by_ec2s_name_and_memory() -> None:
    """As EC2 describes its own types: a row that no type finds would never be shown."""
    named = {model.model for model in data.gpu_models() if model.ec2_name}
    found = {
        model.model
        for kind in data.instance_types().values()
        if kind.gpu
        and (model := data.gpu_model(kind.gpu, kind.gpu_memory_mib / (kind.gpu_partition or 1)))
    }
    assert found == named


def test_a_gpu_of_another_memory_is_not_taken_for_it() -> None:
    assert data.gpu_model("T4", 16384)
    assert data.gpu_model("T4", 8192) is None
    assert data.gpu_model("", 16384) is None


# --- decisions -------------------------------------------------------------------------------


@given(fp16=figures, bandwidth=figures, more=st.floats(min_value=1.01, max_value=100))
def test_more_of_either_is_more_work(fp16: float, bandwidth: float, more: float) -> None:
    base = t4s_of_gpu(fp16, bandwidth) or inf
    assert (t4s_of_gpu(fp16 * more, bandwidth) or 0) > base
    assert t4s_of_gpu(fp16 * more, bandwidth) == pytest.approx(t4s_of_gpu(fp16, bandwidth * more))


@given(known=figures, unknown=st.sampled_from([None, 0.0]))
def test_one_figure_is_not_enough(known: float, unknown: float | None) -> None:
    assert t4s_of_gpu(known, unknown) is None
    assert t4s_of_gpu(unknown, known) is None


@given(one=figures, fewer=counts, more=counts)
def test_more_gpus_do_more_work_and_never_more_than_their_number(
    one: float, fewer: int, more: int
) -> None:
    assert scaled(one, fewer) <= fewer * one * (1 + 1e-9)
    assert (scaled(one, fewer) < scaled(one, more)) is (fewer < more)


@given(work=figures, usd=prices)
def test_the_price_of_work(work: float, usd: float) -> None:
    found = value(work, usd)
    assert found is not None
    assert found.usd_per_t4_hour is not None
    assert found.usd_per_t4_hour * work == pytest.approx(usd)


def test_what_is_unknown_stays_unknown() -> None:
    assert value(None, 1.0) is None
    found = value(2.0, None)
    assert found is not None
    assert found.usd_per_t4_hour is None


@given(count=counts, usd=st.none() | prices, of_one=st.none() | prices)
def test_several_against_one(count: int, usd: float | None, of_one: float | None) -> None:
    found = several(count, usd, of_one)
    assert (found is None) is (count == 1)
    if found is not None:
        known = usd is not None and of_one is not None
        assert (found.times_the_price is not None) is known
        assert found.times_the_work < count
