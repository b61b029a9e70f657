"""The hub imports this room inside its running event loop: it must cost next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "slow"),
    [
        ("ec2spawner.aws", {"boto3", "botocore"}),
        ("ec2spawner.aws.identity", {"boto3", "botocore"}),
        ("ec2spawner.provisioner.store.store", {"alembic", "boto3", "botocore"}),
    ],
)
def test_slow_imports_happen_later_in_a_thread(module: str, slow: set[str]) -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split()
    assert module in loaded
    assert not slow & set(loaded)
