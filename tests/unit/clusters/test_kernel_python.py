"""Which Python of the image a kernel of the home extends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ec2spawner.clusters.kernel_python import image_python


def python_in(prefix: Path) -> str:
    """Make a Python there; its site-packages."""
    packages = prefix / "lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (prefix / "bin").mkdir()
    (prefix / "bin/python").touch()
    return str(packages)


def test_the_image_is_where_the_further_packages_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, image, other = (python_in(tmp_path / name) for name in ("home", "image", "other"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "path", ["", home, "/nowhere/lib/python3.11/site-packages"])
    assert image_python() == ""
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), home, image, other])
    assert image_python() == str(tmp_path / "image/bin/python")
