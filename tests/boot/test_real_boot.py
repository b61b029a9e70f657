"""User-data and units on a real systemd and a real cloud-init: what shims cannot prove."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ec2spawner.core.text import boot_log
from ec2spawner.hub.spawn.user_data import user_data
from ec2spawner.wire import HomeMount, LeaseGrant
from tests.boot.real_instance import RealInstance
from tests.integration.agent.lease_on_instance import API_TOKEN, LEASE_TOKEN, StubHub

pytestmark = pytest.mark.slow(seconds=90)

HUB = "http://172.31.0.1:8081/hub/api"
FIRST_BOOT_SECONDS = 240.0
"""With the installation, on a machine that is busy."""
BOOT_SECONDS = 90.0
UNIT = "ec2spawner-agent.service"

Launch = Callable[[str], RealInstance]


def lease(hub: StubHub) -> LeaseGrant:
    """A lease of Ada's: a whole notebook, her home on the instance's disk."""
    return LeaseGrant(
        lease_id="lease-1",
        lease_token=LEASE_TOKEN,
        environment={
            "JUPYTERHUB_API_TOKEN": API_TOKEN,
            "JUPYTERHUB_API_URL": hub.url,
            "JUPYTERHUB_BASE_URL": "/",
            "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-ada",
            "JUPYTERHUB_HOST": "",
            "JUPYTERHUB_OAUTH_CALLBACK_URL": "/user/ada/oauth_callback",
            "JUPYTERHUB_SERVICE_PREFIX": "/user/ada/",
            "JUPYTERHUB_USER": "ada",
        },
        command=["jupyterhub-singleuser"],
        base_url="/user/ada/",
        port=8888,
        home=HomeMount(kind="none"),
        idle=hub.idle,
        profile="T4, 16 GB",
    )


async def test_an_instance_from_its_launch_to_its_end(
    launch: Launch, hub: StubHub, wheel: Path
) -> None:
    instance = launch(user_data(hub.url, f"ec2spawner[notebook] @ file:///srv/{wheel.name}"))
    shutil.copy(wheel, instance.disk / "srv")
    hub.grant = lease(hub)

    # The first boot: cloud-init reads the user-data from the metadata service and runs it.
    instance.start()
    await instance.until(lambda: hub.event("ready"), FIRST_BOOT_SECONDS, "a notebook")
    instance.run("cloud-init status --wait")
    result = json.loads(instance.run("cat /run/cloud-init/result.json"))["v1"]
    assert result == {"datasource": "DataSourceEc2", "errors": []}
    assert instance.run("systemctl is-enabled ec2spawner-unclaimed.timer") == "enabled"
    properties = instance.run(f"systemctl show -p LimitNOFILE -p Restart {UNIT}").split()
    assert {*properties} == {"LimitNOFILE=1048576", "Restart=on-failure"}
    # As a user of Ubuntu's image, who can become root.
    assert instance.run("pgrep -u ubuntu python")
    assert instance.run("sudo id -u", user="ubuntu") == "0"
    assert "ec2spawner-agent[" in instance.console, "its output is on the console"

    # The user installs a package: this one comes before the image's.
    [pip] = await instance.until(
        lambda: [*instance.disk.glob("home/ubuntu/.ec2spawner/python3.*/bin/pip")], 30, "pip"
    )
    programs = f"/{pip.parent.relative_to(instance.disk)}"
    instance.run(f"{programs}/pip install -q --no-deps --ignore-installed idna", user="ubuntu")
    where = f"{programs}/python -c 'import idna; print(idna.__file__)'"
    assert instance.run(where, user="ubuntu").startswith("/home/ubuntu/.ec2spawner/")

    # The timer elapses: a hub has answered, so nothing happens.
    instance.run("systemctl start ec2spawner-unclaimed.service")
    assert instance.run(f"systemctl is-active {UNIT}") == "active"

    # Stop and start.
    await instance.stop()
    assert len(hub.claims) == 1
    hub.events.clear()
    instance.start()
    await instance.until(lambda: hub.event("ready"), BOOT_SECONDS, "a notebook after the start")
    assert len(hub.claims) == 2
    assert hub.claims[0].key != hub.claims[1].key
    assert instance.console.count("this image has no ec2spawner-agent") == 1
    assert instance.run(where, user="ubuntu").startswith("/home/ubuntu/.ec2spawner/")

    # Reboot.
    hub.events.clear()
    await instance.reboot()
    await instance.until(lambda: hub.event("ready"), BOOT_SECONDS, "a notebook after the reboot")

    # The hub knows the lease no more: the agent powers off.
    hub.lease_status = 410
    hub.notify_changed()
    await instance.until_off()


async def test_a_failed_installation_says_why_on_the_console_and_powers_off(
    launch: Launch, hub: StubHub
) -> None:
    instance = launch(user_data(hub.url, "no-such-package==1.0"))
    instance.start()
    await instance.until_off(BOOT_SECONDS)
    [line] = boot_log.last_lines(instance.console, 1)
    assert line.startswith("ec2spawner: installing no-such-package==1.0 failed: ERROR: No matching")
    assert not hub.claims


async def test_an_instance_that_no_hub_answers_powers_off(launch: Launch, hub: StubHub) -> None:
    """Its agent hangs before it says anything. Half an hour has passed since the boot."""
    instance = launch(user_data(hub.url).replace("OnBootSec=1800", "OnBootSec=1"))
    put_agent(instance, "exec sleep infinity")
    instance.start()
    await instance.until_off(BOOT_SECONDS)
    [line] = boot_log.last_lines(instance.console, 1)
    assert line == "ec2spawner: no hub has answered this instance since its boot; it powers off"


async def test_an_agent_that_cannot_run_ends_its_instance(launch: Launch, hub: StubHub) -> None:
    instance = launch(user_data(hub.url))
    put_agent(instance, "echo no such user on this instance; exit 2")
    instance.start()
    await instance.until_off(BOOT_SECONDS)
    [line] = boot_log.last_lines(instance.console, 1)
    assert line.startswith(
        "ec2spawner: the agent does not run, this instance powers off: no such u"
    )


def put_agent(instance: RealInstance, script: str) -> None:
    """An agent in the image, that is this shell script."""
    agent = instance.disk / "usr/local/bin/ec2spawner-agent"
    agent.write_text(f"#!/bin/sh\n{script}\n")
    agent.chmod(0o755)
