"""Processes of an instance are ended, those that start meanwhile too."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from ec2spawner.embedded.runtime import processes
from ec2spawner.embedded.runtime.processes import INSTANCE_VARIABLE, Mark

MARK = Mark(INSTANCE_VARIABLE, f"i-{uuid4().hex[:17]}")


def started(directory: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {MARK.name: MARK.value}
    return subprocess.Popen(("sleep", "100"), cwd=directory, env=environment)


def test_a_process_that_starts_while_another_is_ended_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the child of a shell that forks between the scan and the signal."""
    first, others = started(tmp_path), [started(Path("/"))]
    scan = processes.find

    def find(*marks: Mark) -> list[int]:
        found = scan(*marks)
        if len(others) == 1:
            others.append(started(tmp_path))
        return found

    monkeypatch.setattr(processes, "find", find)
    elsewhere = others[0]
    try:
        assert processes.end_holders(tmp_path, MARK) == 2
        assert first.poll() is not None
        assert others[1].poll() is not None
        assert elsewhere.poll() is None, "it has nothing open there"
    finally:
        assert processes.end((MARK,), 5.0) == 0
        for each in (first, *others):
            each.wait(5)
