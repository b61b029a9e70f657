"""Installed or configured, ec2spawner starts with a hub that uses it, and with nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx
import pytest

from tests.forked_command import run_command
from tests.harness import ADMIN_TOKEN, CONFIG, OF_EACH_HUB, Embedded, Hub, end, free_ports, until
from tests.integration.hub.agent_by_hand import browser
from tests.nursery import PROGRAMS

STORE = "ec2spawner.sqlite"

PLAIN_CONFIG = f"""
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.allow_all = True
c.SimpleLocalProcessSpawner.options_form = "<p>a plain form</p>"
c.JupyterHub.services = [{{"name": "test", "api_token": "{ADMIN_TOKEN}"}}]
c.JupyterHub.load_roles = [{{"name": "test", "scopes": ["read:hub"], "services": ["test"]}}]
"""


def environment(directory: Path) -> dict[str, str]:
    """What the demo's configuration needs; its EC2 is a closed port."""
    certificate = directory / "certificate.pem"
    certificate.write_text("-----BEGIN CERTIFICATE-----\n")
    hub, api, proxy = free_ports(3)
    demo = {
        "ec2_endpoint": "http://127.0.0.1:9",
        "region": "us-east-1",
        "subnets": ["subnet-0a1b2c3d"],
        "security_group": "sg-0a1b2c3d",
        "image_id": "ami-0a1b2c3d",
        "certificate": str(certificate),
        "hub_url": f"http://127.0.0.1:{hub}",
        "hub_api_bind_url": f"http://127.0.0.1:{api}",
        "proxy_api_url": f"http://127.0.0.1:{proxy}",
        "data_dir": str(directory),
        **OF_EACH_HUB,
    }
    return os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "EC2SPAWNER_DEMO": json.dumps(demo),
    }


def started_nothing(directory: Path) -> None:
    ours = [path.name for path in directory.rglob("*") if path.name.startswith(STORE)]
    assert ours == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("upgrade-db", "--config", str(CONFIG)),
        ("token", "admin", "--config", str(CONFIG)),
        ("--generate-config", "--config", "new_config.py"),
        ("--config", str(CONFIG), "--show-config"),
    ],
    ids=lambda arguments: next(a for a in arguments if a not in ("--config", str(CONFIG))),
)
async def test_other_commands_start_no_provisioner(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = await run_command(PROGRAMS["jupyterhub"], arguments, environment(tmp_path), tmp_path)
    assert done.status == 0, done.errors
    assert "Traceback" not in done.errors
    started_nothing(tmp_path)
    if "token" in arguments:
        assert len(done.output.strip()) == 32
    if "--generate-config" in arguments:
        assert "c.JupyterHub.spawner_class" in (tmp_path / "new_config.py").read_text()


async def test_hub_with_another_spawner_is_untouched(tmp_path: Path) -> None:
    """No handlers, no pages and no store of ours where another spawner is chosen."""
    config = tmp_path / "jupyterhub_config.py"
    config.write_text(PLAIN_CONFIG)
    port, api_port, proxy_port = free_ports(3)
    hub = Hub(tmp_path, Embedded(tmp_path))
    hub.url = f"http://127.0.0.1:{port}"
    log = tmp_path / "jupyterhub.log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "jupyterhub",
            f"--config={config}",
            f"--JupyterHub.bind_url={hub.url}",
            f"--JupyterHub.hub_bind_url=http://127.0.0.1:{api_port}",
            f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{proxy_port}",
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        async with httpx.AsyncClient(base_url=hub.url, verify=False, timeout=60) as client:

            async def healthy() -> bool:
                assert process.returncode is None, log.read_text()
                try:
                    return (await client.get("/hub/api/")).is_success
                except httpx.TransportError:
                    return False

            await until(healthy, 60, "the hub to answer")
            for path in ("claims", "leases/lease-x/beat"):
                assert (await client.post(f"/hub/api/ec2/{path}", json={})).status_code in {
                    403,
                    404,
                }
                direct = f"http://127.0.0.1:{api_port}/hub/api/ec2/{path}"
                assert (await client.post(direct, json={})).status_code == 404
        async with browser(hub, "ann") as page:
            text = (await page.get("/hub/spawn/ann")).text
        assert "a plain form" in text
        assert "ec2" not in text
        assert "ec2spawner" not in log.read_text()
        started_nothing(tmp_path)
    finally:
        await hub.api.aclose()
        await end(process)
