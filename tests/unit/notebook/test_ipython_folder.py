"""Kernels start in a home that has no room for IPython's profile: `kernels.ipython_folder`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ec2spawner.notebook.kernels.ipython_folder import ensure_ipython_folder
from tests.small_disk import mounted, use_up_bytes, use_up_inodes


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def ipython(home: Path, environ: dict[str, str]) -> str:
    """What IPython prints that runs with these variables."""
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "-c", "print(get_ipython().ipython_dir)"],
        env={**os.environ, "HOME": str(home), **environ},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def profile(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*")}


def test_ipythons_own_profile_is_made(home: Path, tmp_path: Path) -> None:
    environ: dict[str, str] = {}
    ensure_ipython_folder(environ, "/run/jupyter")
    assert environ == {}
    ours = profile(home / ".ipython")
    assert "profile_default/startup/README" in ours
    (tmp_path / "other").mkdir()
    ipython(tmp_path / "other", {})
    assert ours <= profile(tmp_path / "other" / ".ipython"), "IPython makes the same"


def test_a_full_home_has_another_folder(home: Path, tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    with mounted(home):
        (home / "data").mkdir()
        use_up_inodes(home / "data")
        environ: dict[str, str] = {}
        with pytest.raises(OSError, match="No space"):
            ensure_ipython_folder(environ, str(tmp_path / "runtime"))
        folder = str(tmp_path / "runtime" / "ipython")
        assert environ == {"IPYTHONDIR": folder}
        assert ipython(home, environ) == folder


def test_a_full_home_with_a_profile_keeps_it(home: Path) -> None:
    with mounted(home):
        environ: dict[str, str] = {}
        ensure_ipython_folder(environ, "/run/jupyter")
        use_up_bytes(home)
        ensure_ipython_folder(environ, "/run/jupyter")
        assert environ == {}
        assert ipython(home, environ) == str(home / ".ipython")


def test_the_profile_of_a_lease_is_used(home: Path, tmp_path: Path) -> None:
    environ = {"IPYTHONDIR": str(tmp_path / "own")}
    ensure_ipython_folder(environ, "/run/jupyter")
    assert environ == {"IPYTHONDIR": str(tmp_path / "own")}
    assert (tmp_path / "own" / "profile_default" / "pid").is_dir()
    assert not (home / ".ipython").exists()
