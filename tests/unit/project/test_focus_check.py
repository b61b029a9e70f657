"""The check of the FOCUS export, where it cannot run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "focus" / "validate.sh"


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_without_a_new_python_it_is_skipped_on_a_laptop_and_fails_in_ci(
    tmp_path: Path, ci: str, status: int
) -> None:
    for name in ("python3", "python3.12", "python3.13", "python3.14"):
        stub = tmp_path / name
        stub.write_text("#!/bin/sh\nexit 1\n")
        stub.chmod(0o755)
    ended = subprocess.run(
        [SCRIPT],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "CI": ci},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == status, ended.stdout + ended.stderr
    assert "Python 3.12" in ended.stdout + ended.stderr
