"""Instances get users of their own only where these can run Python and reach their folder."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2spawner.embedded.runtime.user_isolation import can_work_in

TREE = Path(__file__).resolve().parents[3]
SYSTEM_PYTHON = Path(f"/usr/bin/python3.{sys.version_info.minor}")
SOMEONE = 60000

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not SYSTEM_PYTHON.exists(),
    reason=f"needs root, and {SYSTEM_PYTHON}, which every user can run",
)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Not pytest's own, which is closed to other users."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def python(open_folder: Path) -> str:
    """A Python with the hub's packages that every user can run."""
    packages = os.pathsep.join([str(TREE), sysconfig.get_path("purelib")])
    program = open_folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {SYSTEM_PYTHON} "$@"\n')
    program.chmod(0o755)
    return str(program)


def test_a_folder_below_an_inaccessible_one_is_detected(open_folder: Path, python: str) -> None:
    instances = open_folder / "demo" / "instances"
    instances.mkdir(parents=True)
    if not can_work_in(instances, SOMEONE, python):
        pytest.skip("other users cannot read this checkout or its packages")

    instances.parent.chmod(0o700)

    assert not can_work_in(instances, SOMEONE, python)


def test_a_python_that_other_users_cannot_run_is_detected(open_folder: Path, python: str) -> None:
    Path(python).chmod(0o700)
    assert not can_work_in(open_folder, SOMEONE, python)
