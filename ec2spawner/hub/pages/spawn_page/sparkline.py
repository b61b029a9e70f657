"""The coordinates of a small line that shows a price over the last days. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 140
HEIGHT = 36
MARGIN = 3.0
"""Above and below, so that no stroke is clipped."""


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Coordinates within `WIDTH` x `HEIGHT`."""

    strokes: tuple[str, ...]
    """`points` of SVG polylines; more than one if some samples are unknown."""
    reference_y: float | None
    """Y of the dotted line; None without a reference."""


def sparkline(samples: Sequence[float | None], reference: float | None) -> Sparkline | None:
    """The line, from 0 at the bottom to the highest of samples and reference; None without any.

    From 0, so that the distance to the reference is the saving and small changes look small.
    """
    known = [sample for sample in samples if sample is not None]
    if not known:
        return None
    top = max([*known, reference or 0.0]) or 1.0
    step = WIDTH / max(len(samples) - 1, 1)
    strokes: list[list[str]] = [[]]
    for index, sample in enumerate(samples):
        if sample is None:
            strokes.append([])
        else:
            strokes[-1].append(f"{index * step:.1f},{_y(sample, top):.1f}")
    return Sparkline(
        # A single sample is drawn as a short dash.
        strokes=tuple(" ".join(s if len(s) > 1 else _dash(s[0])) for s in strokes if s),
        reference_y=None if reference is None else round(_y(reference, top), 1),
    )


def _y(usd: float, top: float) -> float:
    return MARGIN + (HEIGHT - 2 * MARGIN) * (1 - usd / top)


def _dash(point: str) -> list[str]:
    x, y = point.split(",")
    return [f"{max(float(x) - 2, 0):.1f},{y}", f"{min(float(x) + 2, WIDTH):.1f},{y}"]
