"""A stand-in for NVIDIA's library, built here: `nvml.c` says what its state file may hold."""

from __future__ import annotations

from pathlib import Path

from tests.c_library import build

SOURCE = Path(__file__).with_name("nvml.c")


class FakeNvml:
    """The library in a folder, and the state that steers it, which may change while it is used."""

    def __init__(self, folder: Path) -> None:
        """Builds it. Raises `RuntimeError` where there is no C compiler."""
        self.folder = folder
        self.state = folder / "state"
        self.say("")
        build(SOURCE, folder / "libnvidia-ml.so.1")

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to take this library for NVIDIA's."""
        return {"LD_LIBRARY_PATH": str(self.folder), "EC2SPAWNER_FAKE_NVML": str(self.state)}

    def say(self, state: str) -> None:
        """What the GPUs do from now on. A reader sees the old state or the new one."""
        new = self.state.with_suffix(".new")
        new.write_text(state)
        new.replace(self.state)
