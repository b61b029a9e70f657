"""Figures -> what is expected of each, and one line about the machine. Pure.

The worst of a machine's GPUs is the machine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from .expectation import HEALTHY, find_model, peaks
from .figures import LABELS, MAX_USE, UNITS, FigureName, Figures, GpuFigures

State = Literal["broken", "slow", "unmeasured", "busy", "unknown", "fine"]

WORST_FIRST: Final[tuple[State, ...]] = ("broken", "slow", "unmeasured", "busy", "unknown", "fine")

EXIT_STATUS: Final[dict[State, int]] = {
    "fine": 0,
    "unknown": 0,
    "slow": 1,
    "broken": 1,
    "busy": 2,
    "unmeasured": 2,
}

ANOTHER_MACHINE: Final = (
    "Stop this server and start it again on another machine; if the hub keeps yours after a stop, "
    'choose "Begin afresh".'
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A figure beside what the GPU's datasheet says."""

    name: FigureName
    value: float | None
    why_not: str
    peak: float | None
    """The datasheet's; None where it is not known."""

    @property
    def share(self) -> float | None:
        """Of the peak."""
        return None if self.value is None or not self.peak else self.value / self.peak

    @property
    def is_slow(self) -> bool:
        """Whether the figure is below its threshold; False without a datasheet."""
        return self.share is not None and self.share < HEALTHY[self.name]


@dataclass(frozen=True, slots=True)
class JudgedGpu:
    """One GPU: its figures beside the datasheet's, and the verdict."""

    gpu: GpuFigures
    state: State
    figures: tuple[Judged, ...]

    @property
    def label(self) -> str:
        """Index and model, for people."""
        return f"GPU {self.gpu.index} ({self.gpu.name})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of the machine: that of its worst GPU."""

    state: State
    line: str
    """For people."""
    gpus: tuple[JudgedGpu, ...] = ()

    @property
    def exit_status(self) -> int:
        """0 healthy or unknown model, 1 slow or broken, 2 not measurable."""
        return EXIT_STATUS[self.state]


def judge(figures: Figures) -> Verdict:
    """Compare measured figures with the datasheets; pure."""
    if not figures.gpus:
        why = figures.problem or "The NVIDIA driver shows no GPU."
        return Verdict("unmeasured", f"Could not be measured. {why}")
    gpus = tuple(_judge_gpu(gpu) for gpu in figures.gpus)
    state = min((gpu.state for gpu in gpus), key=WORST_FIRST.index)
    return Verdict(state, _line(state, gpus), gpus)


def _judge_gpu(gpu: GpuFigures) -> JudgedGpu:
    model = find_model(gpu.name, gpu.memory_mib)
    known = peaks(model) if model is not None else {}
    figures = tuple(
        Judged(each.name, each.value, each.why_not, known.get(each.name)) for each in gpu.figures
    )
    return JudgedGpu(gpu, _state(gpu, figures), figures)


def _state(gpu: GpuFigures, figures: tuple[Judged, ...]) -> State:
    if gpu.broken:
        return "broken"  # whatever else it does: no use by others flips a bit
    if gpu.problem or all(figure.value is None for figure in figures):
        return "unmeasured"
    if gpu.used_by_others_percent is not None and gpu.used_by_others_percent > MAX_USE:
        return "busy"
    if any(figure.is_slow for figure in figures):
        return "slow"
    if all(figure.share is None for figure in figures):
        return "unknown"
    return "fine"


def _line(state: State, gpus: tuple[JudgedGpu, ...]) -> str:
    """About the first GPU in this state, and how many more are in it."""
    alike = [gpu for gpu in gpus if gpu.state == state]
    first = alike[0]
    more = f" The same holds for {len(alike) - 1} more." if len(alike) > 1 else ""
    match state:
        case "broken":
            return (
                f"Broken: {first.label}: {first.gpu.broken}.{more} Trust no result of this "
                f"machine. {ANOTHER_MACHINE}"
            )
        case "slow":
            return (
                f"Slower than it should be: {first.label}: {_slowness(first)}.{more} "
                f"{ANOTHER_MACHINE} If that one is as slow, tell your admin."
            )
        case "unmeasured":
            why = first.gpu.problem or "No figure could be measured."
            return f"Could not be measured: {first.label}. {why}{more}"
        case "busy":
            use = first.gpu.used_by_others_percent or 0.0
            return (
                f"These figures cannot be compared: other programs used {use:.0f} % of "
                f"{first.label} meanwhile.{more} Stop them, or wait for them, and measure again."
            )
        case "unknown":
            return f"The speed of {first.gpu.name} is not known here: judge by the figures."
        case "fine":
            return f"As fast as it should be: {_counted(gpus)}."


def _slowness(gpu: JudgedGpu) -> str:
    slow = [figure for figure in gpu.figures if figure.is_slow]
    return ", ".join(
        f"{LABELS[each.name]} {each.value:.3g} {UNITS[each.name]}, "
        f"{100 * (each.share or 0):.0f} % of the {each.peak:.4g} on its datasheet"
        for each in slow
    )


def _counted(gpus: tuple[JudgedGpu, ...]) -> str:
    names = {gpu.gpu.name for gpu in gpus}
    if len(names) > 1 or len(gpus) == 1:
        return ", ".join(gpu.gpu.name for gpu in gpus)
    return f"{len(gpus)} × {gpus[0].gpu.name}"
