"""How much memory there is, as the machine and the control groups say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ec2spawner.sleep.bounds.memory import UNKNOWN, Memory, memory

MACHINE = "MemTotal:  8000 kB\nMemFree: 10 kB\nMemAvailable:  4000 kB\nHugePages_Total: 0\n"
V1, V2 = "3:cpu,memory:/docker/a\n0::/\n", "0::/user.slice/notebook.service\n"


def tree(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("", {}, (4000, 8000)),
        (V2, {"user.slice/notebook.service/memory.max": "max"}, (4000, 8000)),
        (
            V2,
            {
                "user.slice/memory.max": str(3000 << 10),
                "user.slice/memory.current": str(2000 << 10),
                "user.slice/memory.stat": f"anon 1\ninactive_file {500 << 10}\n",
            },
            (1500, 3000),
        ),
        # A container sees its own group as the first one.
        (
            V1,
            {
                "memory/memory.limit_in_bytes": str(2000 << 10),
                "memory/memory.usage_in_bytes": str(2500 << 10),
            },
            (0, 2000),
        ),
        (
            V1,
            {
                "memory/docker/a/memory.limit_in_bytes": "9223372036854771712",
                "memory/docker/a/memory.usage_in_bytes": "1",
            },
            (4000, 8000),
        ),
    ],
)
def test_the_narrowest_bound_counts(
    tmp_path: Path, group: str, files: Mapping[str, str], expected: tuple[int, int]
) -> None:
    proc = tree(tmp_path / "proc", {"meminfo": MACHINE, "self/cgroup": group})
    found = memory(proc, tree(tmp_path / "groups", files))
    assert found == Memory(*(number << 10 for number in expected))


def test_what_is_not_known_is_no_bound(tmp_path: Path) -> None:
    assert memory(tmp_path, tmp_path).available == UNKNOWN


def test_the_reserve_is_a_tenth_and_at_least_half_a_gigabyte() -> None:
    assert Memory(8 << 30, 100 << 30).beyond_reserve < 0
    assert Memory(11 << 30, 100 << 30).beyond_reserve == 1 << 30
    assert Memory(1 << 30, 1 << 30).beyond_reserve == 512 << 20
