"""How much work a machine does for its price. Pure: figures of GPUs in, T4s of work out.

An hourly price alone misleads: a GPU at twice the price that does its work in a third of the time
is the cheaper one. So machines are compared by *T4s of work*. One GPU is worth

    sqrt(FP16 TFLOPS / a T4's  x  memory bandwidth / a T4's)

of them: large matrix products are bound by the first, inference and most small layers by the
second, and the geometric mean favours neither. Real work lies between the two ratios; which one
it is nearer to depends on the model, so this is a rule of thumb and no benchmark.

Several GPUs of one machine are worth n ** 0.774 of one, since they wait for each other: eight do
about five times the work. A fraction of a GPU is worth its share.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

T4_FP16_TFLOPS = 65.0
"""Dense FP16 of a T4's tensor cores: NVIDIA's T4 datasheet."""

T4_BANDWIDTH_GB_S = 320.0
"""Memory bandwidth of a T4: NVIDIA's product page (its datasheet says 300)."""

SCALING = 0.774
"""log(5) / log(8): eight GPUs of one machine do about five times the work of one."""


@dataclass(frozen=True, slots=True)
class Value:
    """What a machine's GPUs do, and what that costs."""

    t4s: float
    """Work per time, in that of a T4."""
    usd_per_t4_hour: float | None
    """What a T4's hour of work costs here; None while the price is unknown."""


@dataclass(frozen=True, slots=True)
class Several:
    """Several GPUs against one of them."""

    times_the_work: float
    times_the_price: float | None
    """None where no machine with one of them has a known price."""


def t4s_of_gpu(fp16_tflops: float | None, bandwidth_gb_s: float | None) -> float | None:
    """T4s of work of one whole GPU; None where a figure is unknown."""
    if not fp16_tflops or not bandwidth_gb_s:
        return None
    return sqrt(fp16_tflops / T4_FP16_TFLOPS * (bandwidth_gb_s / T4_BANDWIDTH_GB_S))


def scaled(t4s: float, gpu_count: int, partition: float = 1.0) -> float:
    """T4s of work of a machine's GPUs, from those of one whole GPU.

    `partition` below 1 is the share of one GPU; EC2 then counts 0 GPUs.
    """
    if 0 < partition < 1:
        return t4s * partition
    return t4s * times_the_work(gpu_count)


def times_the_work(gpu_count: int) -> float:
    """How many times the work of one GPU several do together: 1 for 1, about 5 for 8."""
    return float(gpu_count**SCALING)


def value(t4s: float | None, usd_per_hour: float | None) -> Value | None:
    """What a machine's work costs; None where nobody knows how much it does."""
    if not t4s:
        return None
    return Value(t4s, None if usd_per_hour is None else usd_per_hour / t4s)


def several(
    gpu_count: int, usd_per_hour: float | None, usd_per_hour_of_one: float | None
) -> Several | None:
    """Several GPUs against one, at prices of the same market; None for a single GPU."""
    if gpu_count < 2:
        return None
    known = usd_per_hour is not None and usd_per_hour_of_one
    price = usd_per_hour / usd_per_hour_of_one if known else None  # type: ignore[operator]
    return Several(times_the_work(gpu_count), price)
