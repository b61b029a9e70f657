"""The Packer file refers to what there is; `tests/boot` runs its script."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path
from typing import Any

import hcl2
import pytest

from ec2spawner.aws.compute.images import DRIVER_TAG
from ec2spawner.config.entries.image import DEEP_LEARNING_AMI
from ec2spawner.core.instances.gpu_drivers import (
    Driver,
    KernelModules,
    driver_of_image,
    unsupported,
)

ROOT = Path(__file__).resolve().parents[3]
AMI = ROOT / "configs/ami"


def unquoted(value: Any) -> Any:
    """python-hcl2 leaves quotes around names and texts."""
    if isinstance(value, dict):
        return {key.strip('"'): unquoted(each) for key, each in value.items()}
    if isinstance(value, list):
        return [unquoted(each) for each in value]
    return value.strip('"') if isinstance(value, str) else value


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    with (AMI / "notebook.pkr.hcl").open() as file:
        found: dict[str, Any] = unquoted(hcl2.load(file))
    return found


def test_the_image_starts_from_what_the_hub_would_boot(recipe: dict[str, Any]) -> None:
    [base] = [each["base"] for each in recipe["variable"] if "base" in each]
    assert base["default"] == DEEP_LEARNING_AMI.format(architecture="x86_64")


def test_every_variable_is_declared_and_used(recipe: dict[str, Any]) -> None:
    text = (AMI / "notebook.pkr.hcl").read_text()
    declared = {name for each in recipe["variable"] for name in each}
    assert declared == set(re.findall(r"\bvar\.(\w+)", text))
    assert set(re.findall(r"\blocal\.(\w+)", text)) == {
        name for each in recipe["locals"] for name in each if not name.startswith("__")
    }


def test_the_build_uses_a_source_and_scripts_that_exist(recipe: dict[str, Any]) -> None:
    [build] = recipe["build"]
    sources = {
        f"source.{kind}.{name}"
        for each in recipe["source"]
        for kind in each
        for name in each[kind]
        if not kind.startswith("__")
    }
    assert set(build["sources"]) == sources
    scripts = {
        step["shell"]["script"].replace("${path.root}", str(AMI))
        for step in build["provisioner"]
        if "shell" in step
    }
    assert scripts
    assert all(Path(script).exists() for script in scripts)


def test_packer_logs_in_through_session_manager_and_cleans_up_last(
    recipe: dict[str, Any],
) -> None:
    [source] = recipe["source"]
    assert source["amazon-ebs"]["notebook"]["ssh_interface"] == "session_manager"
    assert "clean" in recipe["build"][0]["provisioner"][-1]["shell"]["execute_command"]


def test_the_image_gets_the_tag_that_the_check_reads(recipe: dict[str, Any]) -> None:
    assert f"Key={DRIVER_TAG}," in (AMI / "notebook.pkr.hcl").read_text()


def run(function: str, programs: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """One function of the recipe, with these programs before the machine's own."""
    script = (AMI / "provision.sh").read_text()
    called = [
        *re.findall(r"^say\(\) \{.*\}$", script, re.M),
        *(
            re.search(rf"^{name}\(\) \{{$.*?^\}}$", script, re.M | re.S).group()
            for name in ("apt", "apt_update", function)
        ),
    ]
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join([*called, function])],
        env={"PATH": f"{programs}:/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def add_program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The programs of an image that has iptables, and an archive that has everything."""
    add_program(tmp_path, "apt-get", f'echo "$@" >>{tmp_path}/apt.log')
    add_program(
        tmp_path, "dpkg-query", 'case "$*" in *iptables) echo installed ;; *) exit 1 ;; esac'
    )
    add_program(
        tmp_path, "curl", 'for file; do [ "$last" = --output ] && echo deb >$file; last=$file; done'
    )
    (tmp_path / "apt.log").touch()
    return tmp_path


def test_the_image_gets_what_the_agent_needs_and_ubuntus_has_not(image: Path) -> None:
    """The programs that the agent names when they are missing."""
    assert run("install_system_packages", image).returncode == 0
    [update, install] = (image / "apt.log").read_text().splitlines()
    assert update.endswith(" update")
    assert install.endswith(" install --yes --no-install-recommends nfs-common tini")
    add_program(image, "dpkg-query", "echo installed")
    assert run("install_system_packages", image).returncode == 0
    assert len((image / "apt.log").read_text().splitlines()) == 2, "it installs nothing twice"


def test_packages_of_no_archive_are_installed_by_their_digest(image: Path) -> None:
    digest = hashlib.sha256(b"deb\n").hexdigest()
    address = "https://example.org/1.21.0/mount-s3-1.21.0-x86_64.deb"
    said = run("install_debs", image, DEBS=f"{address}#sha256={digest}")
    assert said.returncode == 0, said.stderr
    assert (image / "apt.log").read_text().rstrip().endswith("/mount-s3-1.21.0-x86_64.deb")


@pytest.mark.parametrize("digest", ["", f"#sha256={'0' * 64}"])
def test_a_package_without_its_digest_is_not_installed(image: Path, digest: str) -> None:
    assert run("install_debs", image, DEBS=f"https://example.org/a.deb{digest}").returncode != 0
    assert (image / "apt.log").read_text() == ""


@pytest.mark.parametrize("grid", [False, True], ids=["", "GRID"])
@pytest.mark.parametrize(
    ("license_text", "modules"),
    [("Dual MIT/GPL", "open"), ("NVIDIA", "proprietary"), ("", None)],
)
def test_the_hub_knows_the_driver_by_the_tag(
    tmp_path: Path, license_text: str, modules: str | None, grid: bool
) -> None:
    """A GRID driver too, without which no share of a GPU is bought."""
    modinfo = tmp_path / "modinfo"
    modinfo.write_text(
        f'#!/bin/sh\ncase $2 in version) echo 595.91.07 ;; *) echo "{license_text}" ;; esac\n'
    )
    modinfo.chmod(0o755)
    if grid:
        (tmp_path / "nvidia-gridd").symlink_to(modinfo)
    said = run("nvidia_driver", tmp_path).stdout.strip()
    assert said.startswith("595.91.07")
    driver = driver_of_image(said, "mine")
    assert driver == Driver(595, KernelModules(modules) if modules else None, grid)
    assert (unsupported("L4", driver, 0.5) == "") is grid
