"""A loop that is killed anywhere continues where it was last saved, and ends as if it had not."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

PROGRAM = Path(__file__).with_name("killed_loop.py")
OPERATIONS = 110
"""More than a run of three steps makes."""

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""A process is killed here, not the machine: nothing needs a disk, whose `fsync` takes long."""


def runs(steps: int, *sequences: list[int]) -> list[list[list[str]]]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        ran = subprocess.run(
            [sys.executable, str(PROGRAM), folder, str(steps), json.dumps(sequences)],
            capture_output=True,
            check=True,
            timeout=120,
        )
    found: list[list[list[str]]] = json.loads(ran.stdout)
    return found


def check(steps: int, ran: list[list[str]]) -> None:
    """Each step is done in order; a run repeats at most the step before its predecessor's end."""
    *_, last = ran
    assert json.loads(last[-1]) == [step * step for step in range(steps)]
    expected = 0
    for lines in ran:
        done = [int(line) for line in lines if not line.startswith("[")]
        if not done:
            continue
        assert done[0] in (expected - 1, expected)
        assert done == list(range(done[0], done[0] + len(done)))
        expected = done[-1] + 1
    assert expected == steps


def test_killed_at_every_file_operation() -> None:
    found = runs(3, *([kill] for kill in range(1, OPERATIONS)))
    for ran in found:
        check(3, ran)
    killed = [first for first, _ in found if len(first) < 4]
    assert len(killed) > OPERATIONS / 2, "otherwise this would say nothing"
    assert all(len(first) == 4 for first, _ in found[-3:]), "there are more operations"


@pytest.mark.nightly(
    guard="tests/unit/checkpoint/test_killed_loop.py::test_killed_at_every_file_operation"
)
@settings(max_examples=10)
@given(
    steps=st.integers(0, 5),
    sequences=st.lists(st.lists(st.integers(1, 80), max_size=6), min_size=1, max_size=3),
)
def test_any_sequence_of_kills(steps: int, sequences: list[list[int]]) -> None:
    for ran in runs(steps, *sequences):
        check(steps, ran)


def test_what_was_saved_is_not_done_again() -> None:
    [[first, second]] = runs(6, [60])
    assert int(second[0]) > 0
    assert len(first) + len(second) - 1 <= 7
