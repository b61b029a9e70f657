"""Killed at every change of the disk, or without room on it at any of them, a sleep leaves the one
before it, or itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import json, shutil, sys
from pathlib import Path
from tests.unit.notebook.sleep_in_steps import killed_at, sleep, start

home, second, about = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
stride = int(sys.argv[4])
FIRST = {"a": {"x": 1, "big": "1" * 5000}, "b": {"y": 1}}
base = home / "base" / "sleep"
base.mkdir(parents=True)
sleep(base, FIRST)
points, states = 0, set()
for number in range(1, 10_000, stride):
    root = home / str(number) / "sleep"
    shutil.copytree(base.parent, root.parent)
    if not killed_at(number, root, lambda: sleep(root, second, **about)):
        break
    points += 1
    # The server that starts next may be killed, too.
    again = 1 + number % 7
    killed_at(again, root, lambda: start(root))
    states.add(json.dumps(start(root), sort_keys=True))
    sleep(root, second)
    names = [each.name for each in root.glob("kernels/*/*")]
    assert len(names) == len(second), names
    shutil.rmtree(root.parent)
print(json.dumps({"points": points, "states": [json.loads(each) for each in states]}))
"""

OLD = {"x": 1, "big": "1" * 5000}


def killed(home: Path, second: object, stride: int, **about: object) -> tuple[int, list[dict]]:
    """At how many points it was, and what the next servers had."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, home, json.dumps(second), json.dumps(about), str(stride)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout)
    return said["points"], said["states"]


MORE_POINTS = pytest.mark.nightly(
    guard="tests/unit/notebook/test_killed_sleep.py::test_a_complete_sleep"
)
STRIDES = [
    17,
    pytest.param(7, marks=MORE_POINTS),
    pytest.param(1, marks=pytest.mark.long),
]


@pytest.mark.slow(seconds=5)
@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.long)])
def test_a_complete_sleep(tmp_path: Path, stride: int) -> None:
    new = {"x": 2, "big": "2" * 5000}
    points, states = killed(tmp_path, {"a": new, "b": {"y": 2}}, stride)
    assert points * stride > 30
    assert [each["a"] for each in states].count(OLD) < len(states), "some had come far enough"
    for each in states:
        assert each["a"] in (OLD, new)
        assert each["b"] in ({"y": 1}, {"y": 2})


@pytest.mark.slow(seconds=5)
@pytest.mark.parametrize("stride", STRIDES)
def test_a_sleep_without_room_for_all(tmp_path: Path, stride: int) -> None:
    """The value that it cannot save is the earlier one."""
    new = {"x": 2, "big": "2" * 50_000}
    points, states = killed(tmp_path, {"a": new, "b": {"y": 2}}, stride, max_bytes=8000)
    assert points * stride > 30
    for each in states:
        assert each["a"] in (OLD, {"x": 2, "big": OLD["big"]})
        assert each["b"] in ({"y": 1}, {"y": 2})


@pytest.mark.slow(seconds=5)
@pytest.mark.parametrize("stride", STRIDES)
def test_a_notebook_that_was_renamed_and_one_that_is_busy(tmp_path: Path, stride: int) -> None:
    new = {"x": 2, "big": "2" * 5000}
    points, states = killed(tmp_path, {"new-a": new, "b": {"y": 2}}, stride, stuck=["b"])
    assert points * stride > 20
    for each in states:
        assert each.get("new-a", new) == new
        assert "new-a" in each or each["a"] == OLD
        assert each["b"] == {"y": 1}


# --- a full disk ---

FULL = """
import json, os, shutil, sys
from pathlib import Path
from ec2spawner.sleep import plan
from tests.unit.notebook.sleep_in_steps import sleep, start

home, may_reserve = Path(sys.argv[1]), sys.argv[2] == "reserve"
if not may_reserve:
    plan.RESERVE_BYTES = 0  # another program has written what was to stay free
states = []
for free in range(0, 200_000, 20_000):
    root = home / "sleep"
    sleep(root, {"a": {"x": 1, "big": "1" * 50_000}, "b": {"y": 1}})
    filler = home / "filler"
    with filler.open("wb", buffering=0) as file:
        disk = os.statvfs(home)
        file.write(bytes(max(disk.f_bavail * disk.f_frsize - free, 0)))
    sleep(root, {"a": {"x": 2, "big": "2" * 50_000}, "b": {"y": 2}})
    states.append(start(root))
    assert not list(root.glob("kernels/*/*/*.saving")), list(root.glob("kernels/*/*/*"))
    filler.unlink()
    sleep(root, {"a": {"x": 3, "big": "3"}, "b": {"y": 3}})
    assert start(root) == {"a": {"x": 3, "big": "3"}, "b": {"y": 3}}
    assert len(list(root.glob("kernels/*/*"))) == 2
    shutil.rmtree(root)
print(json.dumps(states))
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"NOT TESTED: mounting needs root: {made.stderr}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


WITHOUT_RESERVE = pytest.mark.nightly(
    guard="tests/unit/notebook/test_killed_sleep.py::test_on_a_full_disk"
)


@pytest.mark.parametrize("reserve", ["reserve", pytest.param("none", marks=WITHOUT_RESERVE)])
def test_on_a_full_disk(small_disk: Path, reserve: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, small_disk, reserve],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    states = json.loads(done.stdout)
    old, new = "1" * 50_000, "2" * 50_000
    assert {each["b"]["y"] for each in states} == {1, 2}
    for each in states:
        assert each["a"] in ({"x": x, "big": big} for x in (1, 2) for big in (old, new))
        assert each["a"]["x"] == 2 or each["a"]["big"] == old, "the small is saved first"
