"""What a GPU model can do, by its datasheet, and what share of it a healthy one reaches. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ..data import GpuModel, gpu_models
from .figures import FigureName

HEALTHY: Final[Mapping[FigureName, float]] = {
    # Of the link's raw rate. With 16 lanes a healthy GPU reaches some 80 %: 12 GB/s on PCIe 3 and
    # 25 GB/s on PCIe 4 (github.com/ZaidQureshi/bam/issues/54). A host that gives it 8 lanes halves
    # that, which is how such a machine is built and no fault of this one.
    "to_gpu": 0.3,
    "from_gpu": 0.3,
    # Copies inside reach 75 to 90 % of the peak; memory with ECC switched on is at the lower end.
    "memory": 0.6,
    # A T4 at its 70 W reaches 37 % of its FP16 peak, and is healthy
    # (forums.developer.nvidia.com/t/about-gpu-peak-performance/264462); others reach more.
    "fp32": 0.25,
    "fp16": 0.25,
}
"""Below this share of the peak a figure counts as slow. A false alarm costs trust, so these are
low: what is below them is far from anything that is healthy."""

MEMORY_TOLERANCE: Final = 0.12
"""The share by which the driver may report less memory than the model has: it reserves some, and
ECC takes up to a sixteenth of a GDDR GPU's."""

_GB_S_PER_LANE: Final[Mapping[int, float]] = {3: 0.985, 4: 1.969, 5: 3.938}
"""PCIe's rate after its 128b/130b encoding, by generation."""


def find_model(
    name: str, memory_mib: float, models: Iterable[GpuModel] | None = None
) -> GpuModel | None:
    """The model of this name and about this memory in MiB; None for an unknown one.

    Both A100s have one name, and a slice or a fraction of a GPU has the name of the whole.
    """
    words = _words(name)
    if "mig" in words:
        return None
    found: list[tuple[int, float, GpuModel]] = []
    for model in gpu_models() if models is None else models:
        own = {word for word in _words(model.model) if not re.fullmatch(r"\d+gb", word)}
        off = memory_mib / 1024 / model.memory_gib - 1
        if own <= words and -MEMORY_TOLERANCE < off < 0.02:
            found.append((-len(own), abs(off), model))
    return min(found, key=lambda each: each[:2])[2] if found else None


def peaks(model: GpuModel) -> dict[FigureName, float]:
    """The datasheet's figures, in their units; unknown ones are absent."""
    lane = _GB_S_PER_LANE.get(model.pcie_generation or 0)
    link = lane * model.pcie_lanes if lane and model.pcie_lanes else None
    known: dict[FigureName, float | None] = {
        "to_gpu": link,
        "from_gpu": link,
        "memory": model.bandwidth_gb_s,
        "fp32": model.fp32_tflops,
        "fp16": model.fp16_tflops,
    }
    return {name: peak for name, peak in known.items() if peak}


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))
