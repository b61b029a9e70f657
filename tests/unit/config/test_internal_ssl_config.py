"""What a hub with `internal_ssl` needs in addition, as `ec2spawner check` reports it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyterhub.app import JupyterHub

from ec2spawner.check.hub_config import load

RIGHT = {
    "c.JupyterHub.spawner_class": '"ec2"',
    "c.JupyterHub.cleanup_servers": "False",
    "c.JupyterHub.internal_ssl": "True",
    "c.JupyterHub.hub_ip": '""',
    "c.JupyterHub.hub_connect_url": '"https://10.0.0.5:8081"',
    "c.JupyterHub.trusted_alt_names": '["IP:10.0.0.5"]',
    "c.EC2Spawner.region": '"us-east-1"',
    "c.EC2Spawner.subnets": '["subnet-0a1b2c3d"]',
    "c.EC2Spawner.hub_api_url": '"https://hub.example.org/hub/api"',
    "c.EC2Spawner.profile_list": '[{"display_name": "T4", "gpu": "T4"}]',
}


@pytest.fixture(autouse=True)
def _one_application() -> Iterator[None]:
    JupyterHub.clear_instance()
    yield
    JupyterHub.clear_instance()


def written(folder: Path, **changes: str | None) -> Path:
    said = RIGHT | {name.replace("__", "."): text for name, text in changes.items()}
    file = folder / "jupyterhub_config.py"
    file.write_text("".join(f"{name} = {text}\n" for name, text in said.items() if text))
    return file


def test_internal_ssl_can_be_configured(tmp_path: Path) -> None:
    assert load(written(tmp_path)).api_url == "https://hub.example.org/hub/api"


@pytest.mark.parametrize(
    ("option", "text", "named", "fix"),
    [
        ("c.EC2Spawner.hub_api_url", None, "c.EC2Spawner.hub_api_url", "public name of the hub"),
        (
            "c.EC2Spawner.hub_api_url",
            '"https://10.0.0.5:8081/hub/api"',
            "c.EC2Spawner.hub_api_url",
            "public name of the hub",
        ),
        (
            "c.JupyterHub.trusted_alt_names",
            None,
            "c.JupyterHub.trusted_alt_names",
            '["IP:10.0.0.5"]',
        ),
        (
            "c.JupyterHub.hub_connect_url",
            '"http://10.0.0.5:8081"',
            "c.JupyterHub.hub_connect_url",
            '"https://10.0.0.5:8081"',
        ),
        (
            "c.JupyterHub.hub_connect_url",
            '"https://127.0.0.1:8081"',
            "c.JupyterHub.hub_connect_url",
            "private address of the hub",
        ),
        (
            "c.JupyterHub.recreate_internal_certs",
            "True",
            "c.JupyterHub.recreate_internal_certs",
            "stop all servers",
        ),
    ],
)
def test_settings_that_break_every_start_are_reported_first(
    tmp_path: Path, option: str, text: str | None, named: str, fix: str
) -> None:
    [finding] = load(written(tmp_path, **{option: text})).findings
    assert named in repr(finding)
    assert fix in repr(finding)
