"""What was measured, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

FigureName = Literal["to_gpu", "from_gpu", "memory", "fp32", "fp16"]

LABELS: Final[dict[FigureName, str]] = {
    "to_gpu": "copy to the GPU",
    "from_gpu": "copy from the GPU",
    "memory": "its memory",
    "fp32": "matrix product, FP32",
    "fp16": "matrix product, FP16",
}

UNITS: Final[dict[FigureName, str]] = {
    "to_gpu": "GB/s",
    "from_gpu": "GB/s",
    "memory": "GB/s",
    "fp32": "TFLOPS",
    "fp16": "TFLOPS",
}

MAX_USE: Final = 10.0
"""Percent of a GPU that others may use before its figures are inconclusive: a desktop or a waiting
kernel uses less."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure. GB are 10**9 bytes; `memory` counts what is read and what is written."""

    name: FigureName
    value: float | None
    """In `UNITS`; None where it was not measured."""
    why_not: str = ""
    """For people: why it was not."""


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """One GPU and its measured figures."""

    index: int
    name: str
    """As the driver calls it."""
    memory_mib: float
    figures: tuple[Figure, ...] = ()
    broken: str = ""
    """For people: what shows that this GPU is broken; empty where nothing does."""
    problem: str = ""
    """For people: why it could not be measured, without a fault of its own."""
    used_by_others_percent: float | None = None
    """None if the driver does not report it."""


@dataclass(frozen=True, slots=True)
class Figures:
    """All GPUs of a machine."""

    gpus: tuple[GpuFigures, ...] = ()
    problem: str = ""
    """For people: why nothing at all could be measured."""
