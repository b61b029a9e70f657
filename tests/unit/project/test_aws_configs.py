"""What `configs/aws` has for a hub's machine, before judges that we did not write."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.project.test_docs import load_config

ROOT = Path(__file__).resolve().parents[3]
AWS = ROOT / "configs/aws"
CLOUD_INIT = AWS / "cloud-init.yaml"
UNITS = sorted(AWS.glob("*.service"))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def cloud_config() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(CLOUD_INIT.read_text())
    return found


def written_files() -> dict[str, str]:
    return {each["path"]: each["content"] for each in cloud_config()["write_files"]}


@pytest.mark.skipif(not shutil.which("cloud-init"), reason="cloud-init is NOT installed")
def test_cloud_init_takes_the_file() -> None:
    done = run("cloud-init", "schema", "--config-file", str(CLOUD_INIT))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Valid" in done.stdout


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is NOT installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_units(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    # The programs are not installed here.
    copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.M))
    done = run("systemd-analyze", "verify", "--man=no", str(copy))
    said = [line for line in done.stderr.splitlines() if unit.name in line]
    assert not said


def test_as_hub_passes_credentials_on_and_shows_them_to_nobody(tmp_path: Path) -> None:
    """A stand-in for systemd, which reads the files as root."""
    systemd_run = tmp_path / "systemd-run"
    systemd_run.write_text(
        """#!/bin/bash
        printf '%s\\n' "$@"
        for each in "$@"; do
            file=${each#--property=EnvironmentFile=}
            if [[ $file != "$each" && -e $file ]]; then stat -c %a "$file"; cat "$file"; fi
        done
        exit 3
        """
    )
    systemd_run.chmod(0o755)
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCY+="
    done = subprocess.run(
        ["bash", AWS / "as-hub", "ec2spawner", "check", "--fix"],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "TMPDIR": str(tmp_path),
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_EC2_METADATA_DISABLED": "true",
            "HOME": "/root",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    arguments, _, files = done.stdout.partition("--fix\n")
    assert done.returncode == 3
    assert secret not in arguments
    access, *passed = files.splitlines()
    assert access == "600"
    assert set(passed) == {
        f"AWS_SECRET_ACCESS_KEY={secret}",
        "AWS_EC2_METADATA_DISABLED=true",
    }
    assert [each.name for each in tmp_path.iterdir()] == ["systemd-run"]


def scripts() -> list[Path]:
    found = [file for file in (ROOT / "configs").rglob("*") if file.is_file()]
    return sorted(f for f in found if f.read_bytes().startswith(b"#!/bin/bash"))


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.name)
def test_shellcheck_finds_nothing_in_scripts(script: Path) -> None:
    done = run("shellcheck", str(script))
    assert done.returncode == 0, done.stdout


def test_cloud_init_writes_the_update_hub_that_the_package_installs() -> None:
    assert written_files()["/usr/local/sbin/update-hub"] == (AWS / "update-hub").read_text()


@pytest.mark.parametrize(
    "package",
    [
        "ec2spawner==2",
        "ec2spawner[postgresql]==2",
        "ec2spawner[a,b] @ https://e.org/e.whl#sha256=0",
    ],
)
def test_instances_install_the_hubs_package_with_the_extra_of_theirs(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = re.findall(r'environ\["(\w+)"\]', (AWS / "jupyterhub_config.py").read_text())
    for name in given:
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HUB_PACKAGE", package)
    config = load_config(AWS / "jupyterhub_config.py")
    rest = package.removeprefix("ec2spawner").removeprefix("[postgresql]").removeprefix("[a,b]")
    assert config["EC2Spawner"]["agent_package"] == f"ec2spawner[notebook]{rest}"


def test_the_hubs_configuration_reads_what_cloud_init_writes() -> None:
    written = written_files()["/etc/ec2spawner/hub.env"]
    given = set(re.findall(r"^(\w+)=", written, flags=re.M))
    used = "".join(file.read_text() for file in [AWS / "jupyterhub_config.py", *scripts()])
    assert {name for name in given if name not in used} == set()
    secrets = {"HUB_USER_PASSWORD", "HUB_ADMIN_PASSWORD"}
    read = set(re.findall(r'environ\["(\w+)"\]', (AWS / "jupyterhub_config.py").read_text()))
    assert read <= given | secrets


def test_no_secret_is_in_user_data() -> None:
    text = CLOUD_INIT.read_text()
    assert not re.search(r"PASSWORD|TOKEN|SECRET", text)


def test_the_proxy_runs_on_node_18() -> None:
    """Ubuntu 24.04 has no newer one."""
    import json

    lock = json.loads((AWS / "proxy/package-lock.json").read_text())
    engines = lock["packages"]["node_modules/configurable-http-proxy"]["engines"]["node"]
    assert engines.replace(" ", "") == ">=18"
