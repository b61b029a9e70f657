"""From figures to the one line about a machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ec2spawner.data import gpu_models
from ec2spawner.gpu_check.expectation import HEALTHY, find_model, peaks
from ec2spawner.gpu_check.figures import LABELS, MAX_USE, UNITS, Figure, Figures, GpuFigures
from ec2spawner.gpu_check.report import as_json, from_json, print_report
from ec2spawner.gpu_check.verdict import EXIT_STATUS, WORST_FIRST, judge

T4_MIB = 14_913
"""What the driver shows of a T4's 16 GiB with ECC switched on."""


def figures(share: float, model: str = "T4", names: list[str] | None = None) -> tuple[Figure, ...]:
    """Each figure that is expected of a model, at this share of its peak."""
    [known] = [each for each in gpu_models() if each.model == model]
    return tuple(
        Figure(name, share * peak)
        for name, peak in peaks(known).items()
        if names is None or name in names
    )


T4 = GpuFigures(0, "Tesla T4", T4_MIB, figures(0.8))


def machine(*gpus: GpuFigures) -> Figures:
    return Figures(tuple(replace(gpu, index=at) for at, gpu in enumerate(gpus)))


@pytest.mark.parametrize(
    ("name", "memory_mib", "model"),
    [
        ("Tesla T4", T4_MIB, "T4"),
        ("Tesla T4", 15_109, "T4"),
        ("NVIDIA A10G", 22_515, "A10G"),
        ("NVIDIA L4", 22_478, "L4"),
        ("NVIDIA L40S", 45_372, "L40S"),
        ("Tesla V100-SXM2-16GB", 16_144, "V100 16GB"),
        ("Tesla V100-SXM2-32GB", 32_500, "V100 32GB"),
        ("NVIDIA A100-SXM4-40GB", 40_326, "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", 81_038, "A100 80GB"),
        ("NVIDIA H100 80GB HBM3", 81_079, "H100 80GB"),
        ("NVIDIA H200", 143_156, "H200"),
        ("NVIDIA B200", 182_632, "B200"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_250, None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4_864, None),
        ("NVIDIA A100-SXM4-40GB MIG 7g.40gb", 40_192, None),
        ("NVIDIA L4-3Q", 2_800, None),
        ("NVIDIA T4G", 14_910, "T4G"),
        ("NVIDIA GeForce RTX 4090", 24_217, None),
        ("", 0, None),
    ],
)
def test_a_gpu_is_recognized_by_name_and_memory(
    name: str, memory_mib: float, model: str | None
) -> None:
    found = find_model(name, memory_mib)
    if "RTX PRO 6000" in name:
        assert found is not None
        return
    assert (found.model if found else None) == model


def test_pcie_links_have_the_rate_of_their_generation() -> None:
    rates = {each.model: peaks(each).get("to_gpu") for each in gpu_models()}
    assert rates["T4"] == pytest.approx(15.75, rel=0.01)
    assert rates["A10G"] == pytest.approx(31.5, rel=0.01)
    assert rates["H200"] == pytest.approx(63.0, rel=0.01)
    assert rates["GB200"] is None, "its link is another one"
    assert rates["H100 80GB"] is None, "the number of its lanes is unknown"


def test_a_healthy_instance_reaches_its_expected_figures() -> None:
    verdict = judge(machine(T4, T4))
    assert (verdict.state, verdict.exit_status) == ("fine", 0)
    assert verdict.line == "As fast as it should be: 2 × Tesla T4."


def test_a_t4_limited_by_its_70_watts_is_healthy() -> None:
    held = (*figures(0.78, names=["to_gpu", "from_gpu", "memory"]), Figure("fp16", 24.0))
    assert judge(machine(replace(T4, figures=held))).state == "fine"


def test_a_link_of_eight_lanes_is_no_fault_and_one_of_four_is() -> None:
    def linked(share: float) -> str:
        link = figures(share, names=["to_gpu", "from_gpu"])
        return judge(machine(replace(T4, figures=link))).state

    assert [linked(0.4), linked(0.2)] == ["fine", "slow"]


def test_a_slow_figure_is_named_with_its_deviation_and_a_fix() -> None:
    slow = (*figures(0.8, names=["to_gpu", "from_gpu"]), Figure("memory", 96.0))
    verdict = judge(machine(T4, replace(T4, figures=slow)))
    assert (verdict.state, verdict.exit_status) == ("slow", 1)
    assert verdict.line.startswith(
        "Slower than it should be: GPU 1 (Tesla T4): its memory 96 GB/s, "
        "30 % of the 320 on its datasheet. Stop this server and start it again"
    )


def test_a_broken_gpu_outweighs_all_even_when_shared() -> None:
    broken = replace(T4, broken="1 bit came back other", used_by_others_percent=99)
    verdict = judge(machine(T4, broken, replace(T4, figures=figures(0.01))))
    assert (verdict.state, verdict.exit_status) == ("broken", 1)
    assert "GPU 1 (Tesla T4): 1 bit came back other." in verdict.line
    assert "Trust no result" in verdict.line


def test_no_figure_of_a_shared_gpu_is_called_slow() -> None:
    busy = replace(T4, figures=figures(0.01), used_by_others_percent=85)
    verdict = judge(machine(busy))
    assert (verdict.state, verdict.exit_status) == ("busy", 2)
    assert "other programs used 85 % of GPU 0 (Tesla T4)" in verdict.line
    quiet = replace(busy, used_by_others_percent=MAX_USE)
    assert judge(machine(quiet)).state == "slow"


def test_an_unknown_model_has_no_expectations() -> None:
    verdict = judge(machine(replace(T4, name="NVIDIA Z9")))
    assert (verdict.state, verdict.exit_status) == ("unknown", 0)
    assert "NVIDIA Z9" in verdict.line


def test_unmeasured_figures_are_reported() -> None:
    nothing = judge(Figures(problem="The NVIDIA driver shows no GPU."))
    assert (nothing.state, nothing.exit_status) == ("unmeasured", 2)
    assert nothing.line == "Could not be measured. The NVIDIA driver shows no GPU."
    full = judge(machine(replace(T4, figures=(), problem="The GPU's memory is full.")))
    assert full.exit_status == 2
    assert "GPU 0 (Tesla T4). The GPU's memory is full." in full.line
    nowhere = replace(T4, figures=(Figure("fp16", None, "no PyTorch"),))
    assert judge(machine(nowhere)).state == "unmeasured"


# --- for all figures --------------------------------------------------------------------------

positive = st.floats(0.001, 1e6)
a_figure = st.builds(
    Figure, st.sampled_from(list(LABELS)), st.none() | positive, st.sampled_from(["", "no room"])
)
a_gpu = st.builds(
    GpuFigures,
    index=st.integers(0, 15),
    name=st.sampled_from(["Tesla T4", "NVIDIA A10G", "NVIDIA A100-SXM4-40GB", "[/red] Z9", ""]),
    memory_mib=st.sampled_from([0.0, T4_MIB, 22_515, 40_326]),
    figures=st.lists(a_figure, max_size=5, unique_by=lambda each: each.name).map(tuple),
    broken=st.sampled_from(["", "", "a bit came back other"]),
    problem=st.sampled_from(["", "", "The GPU's memory is full."]),
    used_by_others_percent=st.none() | st.floats(0, 100),
)
a_machine = st.builds(
    Figures, st.lists(a_gpu, max_size=4).map(tuple), st.sampled_from(["", "no driver"])
)


@given(a_machine)
def test_the_verdict_of_the_instance_is_that_of_its_worst_gpu(measured: Figures) -> None:
    verdict = judge(measured)
    assert verdict.exit_status == EXIT_STATUS[verdict.state]
    assert "\n" not in verdict.line
    assert len(verdict.line) < 1000
    if measured.gpus:
        each = [judge(Figures((gpu,))).state for gpu in measured.gpus]
        assert verdict.state == min(each, key=WORST_FIRST.index)
        assert (verdict.state == "broken") == any(gpu.broken for gpu in measured.gpus)


@given(a_gpu, st.floats(1, 1000))
def test_a_faster_gpu_is_never_judged_slower(gpu: GpuFigures, times: float) -> None:
    faster = tuple(replace(f, value=f.value and f.value * times) for f in gpu.figures)
    before, after = judge(machine(gpu)), judge(machine(replace(gpu, figures=faster)))
    assert after.state == before.state or (before.state, after.state) == ("slow", "fine")


@given(a_machine)
def test_a_report_survives_a_round_trip_and_is_shown_as_text(measured: Figures) -> None:
    verdict = judge(measured)
    line = as_json(measured, verdict)
    assert "\n" not in line
    assert judge(from_json(line)) == verdict
    console = Console(width=400, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    print_report(judge(from_json(line)), console)
    assert verdict.line in console.export_text()


@pytest.mark.parametrize("line", ["", "{", "[]", "null", '{"gpus": [{}], "problem": ""}'])
def test_a_malformed_report_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        from_json(line)


def test_every_figure_has_a_label() -> None:
    assert LABELS.keys() == UNITS.keys() == HEALTHY.keys()
    assert all(0 < share < 1 for share in HEALTHY.values())
