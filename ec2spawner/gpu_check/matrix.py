"""Matrix products by whichever library for it is installed: PyTorch, or else CuPy."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any, Final

from .figures import Figure, FigureName

SIDES: Final = (8192, 4096, 2048)
"""Of the square matrices; the largest that fits is used. Smaller ones do not fill a large GPU."""

FREE_SHARE: Final = 4
"""Three matrices take at most a quarter of the free memory; the library needs some too."""

BYTES: Final[dict[FigureName, int]] = {"fp32": 4, "fp16": 2}

NO_LIBRARY: Final = "neither PyTorch nor CuPy is installed in this Python"


class NotMeasured(Exception):
    """Why a product was not measured, for people."""


def matrix_products(index: int, seconds: float) -> tuple[Figure, ...]:
    """FP32 (never TF32) and dense FP16 of a GPU, in TFLOPS."""
    names: tuple[FigureName, ...] = ("fp32", "fp16")
    return tuple(_product(name, index, seconds) for name in names)


def _product(name: FigureName, index: int, seconds: float) -> Figure:
    try:
        return Figure(name, _tflops(name, index, seconds))
    except NotMeasured as error:
        return Figure(name, None, str(error))
    except Exception as error:  # a library built for another GPU, memory that others took, ...
        if "out of memory" in str(error).lower() or type(error).__name__.startswith("OutOfMemory"):
            return Figure(name, None, "not enough of the GPU's memory is free")
        said = (str(error).splitlines() or [""])[0][:200]
        return Figure(name, None, f"{type(error).__name__}: {said}")


def _tflops(name: FigureName, index: int, seconds: float) -> float:
    if importlib.util.find_spec("torch") is not None:
        side, multiply, synchronize, tidy = _torch(name, index)
    elif importlib.util.find_spec("cupy") is not None:
        side, multiply, synchronize, tidy = _cupy(name, index)
    else:
        raise NotMeasured(NO_LIBRARY)
    try:
        multiply()
        synchronize()
        fastest, deadline = float("inf"), time.monotonic() + seconds
        while True:
            start = time.perf_counter()
            multiply()
            synchronize()
            fastest = min(fastest, time.perf_counter() - start)
            if time.monotonic() >= deadline:
                return 2 * side**3 / fastest / 1e12
    finally:
        tidy()


def _side(name: FigureName, free_bytes: int) -> int:
    for side in SIDES:
        if 3 * side**2 * BYTES[name] <= free_bytes / FREE_SHARE:
            return side
    raise NotMeasured("not enough of the GPU's memory is free")


_Backend = tuple[int, Callable[[], object], Callable[[], object], Callable[[], object]]
"""(side of the matrices, multiply, wait, release the memory)"""


def _torch(name: FigureName, index: int) -> _Backend:
    import torch

    if not torch.cuda.is_available():
        raise NotMeasured("this PyTorch is built without CUDA, or for another driver")
    torch.backends.cuda.matmul.allow_tf32 = False
    device = f"cuda:{index}"
    side = _side(name, torch.cuda.mem_get_info(index)[0])
    kind = torch.float32 if name == "fp32" else torch.float16
    a, b = (torch.randn(side, side, device=device, dtype=kind) for _ in range(2))
    c = torch.empty(side, side, device=device, dtype=kind)

    def multiply() -> Any:
        return torch.matmul(a, b, out=c)

    return side, multiply, lambda: torch.cuda.synchronize(index), torch.cuda.empty_cache


def _cupy(name: FigureName, index: int) -> _Backend:
    import cupy

    device = cupy.cuda.Device(index)
    device.use()
    side = _side(name, cupy.cuda.runtime.memGetInfo()[0])
    kind = cupy.float32 if name == "fp32" else cupy.float16
    # CuPy uses TF32 only with CUPY_TF32, which `command.NO_TF32` turns off.
    a, b = (cupy.random.rand(side, side, dtype=cupy.float32).astype(kind) for _ in range(2))
    c = cupy.empty((side, side), dtype=kind)

    def multiply() -> Any:
        return cupy.matmul(a, b, out=c)

    return side, multiply, device.synchronize, cupy.get_default_memory_pool().free_all_blocks
