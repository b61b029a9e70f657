"""The recipe's script makes an image of a system, twice with the same result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TREE = Path(__file__).resolve().parents[3]
NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc")

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    tried = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"the recipe of the image was NOT run: {tried.stderr.strip()}")
    folder = tmp_path_factory.mktemp("image")
    build = ["wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), "."]
    subprocess.run([sys.executable, "-m", "pip", *build], cwd=TREE, check=True)
    [wheel] = folder.glob("*.whl")
    scratch = folder / "scratch"
    scratch.mkdir()
    machine = [sys.executable, str(Path(__file__).with_name("image_machine.py"))]
    done = subprocess.run(
        [*NAMESPACES, *machine, str(scratch), str(wheel)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_second_run_changes_nothing(image: dict[str, Any]) -> None:
    assert image["changed"] == []


def test_user_data_finds_the_agent(image: dict[str, Any]) -> None:
    assert "--hub-api-url" in image["agent"]


def test_the_manifest_describes_the_image(image: dict[str, Any]) -> None:
    manifest = image["manifest"]
    assert manifest["packages"]["ec2spawner"]
    assert len(manifest["recipe"]) == 64
    assert image["drifted"] == []
    assert any(file.endswith("ec2spawner/agent/agent.py") for file in manifest["files"])
    assert "/etc/systemd/system/ec2spawner-readahead.service" in manifest["files"]


def test_what_a_notebook_reads_first_is_listed(image: dict[str, Any]) -> None:
    assert len(image["hot"]) > 500
    assert any("/jupyterlab/labapp" in file for file in image["hot"])
    assert image["wanted"] == ["ec2spawner-readahead.service"]


def test_nothing_of_the_builder_is_left(image: dict[str, Any]) -> None:
    assert set(image["left"].values()) == {""}
    assert set(image["left"]) == {"etc/machine-id", "var/log/auth.log"}


def test_no_updater_competes_with_the_user(image: dict[str, Any]) -> None:
    assert {"unattended-upgrades.service", "apt-daily.timer"} <= set(image["masked"])
