"""A machine that `configs/aws/cloud-init.yaml` has made a hub: upgraded, and replaced."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TREE = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.slow(seconds=80)

NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc")


def cannot() -> str:
    """Why this machine cannot run the set-up in namespaces; empty if it can."""
    missing = [
        name for name in ("curl", "ip", "losetup", "openssl", "setpriv") if not shutil.which(name)
    ]
    if missing:
        return f"there is no {', '.join(missing)}"
    tried = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip()


def run_in_namespaces(module: str, folder: Path) -> Any:
    """What the module, run as a program with this folder, prints as JSON."""
    done = subprocess.run(
        [*NAMESPACES, sys.executable, "-m", module, str(folder)],
        capture_output=True,
        text=True,
        cwd=TREE,
        env={**os.environ, "PYTHONPATH": str(TREE)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    reason = cannot()
    if reason:
        pytest.skip(f"the set-up of a hub's machine was NOT run: {reason}")
    found: dict[str, Any] = run_in_namespaces(
        "tests.integration.hub.hub_machine", tmp_path_factory.mktemp("machine")
    )
    return found


def test_a_user_logs_in_over_tls_and_may_choose(machine: dict[str, Any]) -> None:
    assert machine["url"] == "https://localhost/hub/spawn"
    assert machine["status"] == 200, machine["page"]
    assert "T4, 16 GB" in machine["page"]
    assert machine["admin_with_users_password"] == 403


def test_another_wheel_of_the_same_version_is_installed(machine: dict[str, Any]) -> None:
    assert machine["reinstalled"]


def test_update_hub_installs_extras_too(machine: dict[str, Any]) -> None:
    assert machine["has_the_extra"]


def test_update_hub_is_replaced_by_that_of_the_package(machine: dict[str, Any]) -> None:
    """cloud-init writes it at the first boot only."""
    assert machine["update_hub_is_the_packages"]


def test_a_failed_update_leaves_nothing_behind(machine: dict[str, Any]) -> None:
    """The first boot tries again for an hour."""
    assert machine["left_by_a_failed_update"] == []


def test_the_set_up_may_be_repeated(machine: dict[str, Any]) -> None:
    assert machine["unchanged"]


def test_the_proxy_restarts_only_for_what_it_reads(machine: dict[str, Any]) -> None:
    """A restart disconnects browsers."""
    proxy, hub = (
        f"systemctl restart {each}.service" for each in ("jupyterhub-proxy", "jupyterhub")
    )
    assert {proxy, hub} <= set(machine["asked_first"])
    assert hub in machine["asked_again"]
    assert proxy not in machine["asked_again"]
    assert proxy in machine["asked_for_a_certificate"]


def test_an_upgrade_of_a_library_restarts_the_hub_and_not_the_proxy(
    machine: dict[str, Any],
) -> None:
    assert machine["restarted_after_an_upgrade"] == ["jupyterhub.service", "ssh.service"]


def test_a_replaced_machine_has_what_its_admin_had_made(machine: dict[str, Any]) -> None:
    assert machine["has_the_package"]
    replaced = machine["replaced"]
    assert len(replaced["survived"]) == 4
    assert replaced["key_readable"]
    assert replaced["state_of"] == "jupyterhub"
    assert replaced["installed_again"]


def test_secrets_are_for_those_who_need_them(machine: dict[str, Any]) -> None:
    assert machine["modes"] == {
        "/srv/jupyterhub": "jupyterhub 750",
        "/srv/jupyterhub/ec2spawner.sqlite": "jupyterhub 600",
        "/etc/jupyterhub/secrets.env": "root 600",
        "/etc/jupyterhub/tls/key.pem": "root 640",
    }
    assert machine["proxy_environment"] == ["CONFIGPROXY_AUTH_TOKEN"]


def test_the_certificate_is_of_this_machine_and_no_authority(machine: dict[str, Any]) -> None:
    assert "DNS:localhost" in machine["certificate"]
    assert "CA:FALSE" in machine["certificate"]
