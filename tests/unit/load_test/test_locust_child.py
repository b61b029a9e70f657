"""How the process ends that locust runs in, and what the command says of it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from ec2spawner.load_test import run
from ec2spawner.load_test.arrival import Arrival
from ec2spawner.load_test.settings import Settings

NOWHERE = "http://127.0.0.1:9/"


def test_a_killed_child_is_reported_with_the_last_lines_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "POLL", 0.01)
    settings = Settings(url=NOWHERE, folder=str(tmp_path))
    others = set(psutil.Process().children())

    def kill_the_child() -> str:
        for child in set(psutil.Process().children()) - others:
            child.kill()
        (tmp_path / run.LOG).write_text("1\n2\n3\n4\n5\nout of memory\n")
        return ""

    reason = run.run(settings, "hunter2", Arrival(1, 1.0), "", kill_the_child)
    assert reason == "locust ended with status -9 / 2 / 3 / 4 / 5 / out of memory"
