"""A stand-in for NVIDIA's CUDA driver, built here: `cuda.c` says what steers it."""

from __future__ import annotations

from pathlib import Path

from tests.c_library import build

SOURCE = Path(__file__).with_name("cuda.c")


class FakeCuda:
    """The library in a folder."""

    def __init__(self, folder: Path) -> None:
        """Builds it. Raises `RuntimeError` where there is no C compiler."""
        self.folder = folder
        build(SOURCE, folder / "libcuda.so.1")

    def environment(self, **steered: object) -> dict[str, str]:
        """What a program needs to take this library for NVIDIA's, by `cuda.c`'s names."""
        given = {f"FAKE_CUDA_{name.upper()}": str(value) for name, value in steered.items()}
        return {"LD_LIBRARY_PATH": str(self.folder)} | given
