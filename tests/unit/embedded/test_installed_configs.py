"""Where the embedded EC2 finds files of `configs/`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2spawner.embedded.installed_configs import INSTALLED, config_file, installed_file


def test_in_the_source_tree_they_are_those_of_the_tree() -> None:
    assert config_file("iam-policy.json").parts[-2:] == ("configs", "iam-policy.json")


def test_installed_ones_are_where_pip_put_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Debian's own Python: `sys.prefix` is /usr, and pip installs to /usr/local."""
    local = tmp_path / "usr/local"
    packages = local / "lib/python3.11/dist-packages"
    info = packages / "ec2spawner-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ec2spawner\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"../../../{INSTALLED}/iam-policy.json,,\n")
    monkeypatch.syspath_prepend(str(packages))
    assert installed_file("iam-policy.json") == local / INSTALLED / "iam-policy.json"
    with pytest.raises(FileNotFoundError, match="pip"):
        installed_file("demo/jupyterhub_config.py")
