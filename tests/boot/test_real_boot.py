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
from tests.boot import image_recipe, real_instance
from tests.boot.real_instance import RealInstance, Vpc
from tests.integration.agent.lease_on_instance import API_TOKEN, LEASE_TOKEN, StubHub
from tests.jupyter_by_hand import Jupyter, Kernel, printed
from tests.own_wheels import make_wheel

pytestmark = pytest.mark.slow(seconds=75)

HUB = "http://172.31.0.1:8081/hub/api"
FIRST_BOOT_SECONDS = 400.0
"""With the installation, on a machine that is busy."""
BOOT_SECONDS = 180.0
UNIT = "ec2spawner-agent.service"

Launch = Callable[..., RealInstance]


def package(wheel: Path) -> str:
    return f"ec2spawner[notebook] @ file:///srv/{wheel.name}"


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    """In place of PyTorch, which has a gigabyte."""
    return make_wheel(tmp_path / "wheels", "torch", "")


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
            "JUPYTERHUB_OAUTH_ACCESS_SCOPES": '["access:servers!user=ada"]',
            "JUPYTERHUB_OAUTH_CALLBACK_URL": "/user/ada/oauth_callback",
            "JUPYTERHUB_OAUTH_SCOPES": '["access:servers!user=ada"]',
            "JUPYTERHUB_SERVER_NAME": "",
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


@pytest.mark.nightly(
    guard="tests/integration/agent/test_user_data_on_instance.py::test_user_data_starts_the_agent"
)
async def test_an_instance_from_its_launch_to_its_end(
    launch: Launch, hub: StubHub, wheel: Path
) -> None:
    instance = launch(user_data(hub.url, package(wheel)))
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
        lambda: [*instance.disk.glob("home/ubuntu/.ec2spawner/python3.*/bin/pip")],
        BOOT_SECONDS,
        "pip",
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
    hub.start_anew()
    instance.start()
    await instance.until(lambda: hub.event("ready"), BOOT_SECONDS, "a notebook after the start")
    assert len(hub.claims) == 2
    assert hub.claims[0].key != hub.claims[1].key
    assert instance.console.count("this image has no ec2spawner-agent") == 1
    assert instance.run(where, user="ubuntu").startswith("/home/ubuntu/.ec2spawner/")

    # After a reboot, another key gets no lease.
    await instance.reboot()
    hub.events.clear()
    await instance.until(lambda: len(hub.claims) == 3, BOOT_SECONDS, "a claim after the reboot")
    what = "the hub's refusal"
    await instance.until(lambda: "a second key" in instance.console, BOOT_SECONDS, what)
    assert not hub.event("ready")


@pytest.mark.long
async def test_the_image_of_the_recipe_serves_notebooks(
    launch: Launch, hub: StubHub, vpc: Vpc, wheel: Path, torch: Path
) -> None:
    builder = launch("")
    for file in (wheel, torch):
        shutil.copy(file, builder.disk / "srv")
    builder.start()
    await builder.until(builder.has_booted, BOOT_SECONDS, "the instance that becomes the image")
    image_recipe.lock_lists(builder)
    said = image_recipe.run(
        builder, PACKAGE=package(wheel), TORCH=f"torch @ file:///srv/{torch.name}"
    )
    assert "waiting for the lock of apt's lists" in said
    first = image_recipe.digests(builder.disk)
    image_recipe.run(builder, PACKAGE=package(wheel), TORCH=f"torch @ file:///srv/{torch.name}")
    assert image_recipe.digests(builder.disk) == first
    image_recipe.leave_traces(builder.disk)
    image_recipe.run(builder, "clean")
    await builder.stop()
    assert image_recipe.traces(builder.disk) == {"etc/machine-id": "", "var/log/auth.log": ""}

    # An instance of it has all that it needs.
    hub.grant = lease(hub)
    instance = launch(user_data(hub.url), await builder.make_image())
    instance.start()
    await instance.until(lambda: hub.event("ready"), BOOT_SECONDS, "a notebook")
    assert "the image is as its recipe" in instance.console
    assert instance.run("systemctl is-system-running --wait") == "running"
    states = instance.run("systemctl is-enabled ec2spawner-readahead apt-daily.timer || true")
    assert states.split() == ["enabled", "masked"]
    assert instance.run("command -v tini mount.nfs4").split() == [
        "/usr/bin/tini",
        "/usr/sbin/mount.nfs4",
    ]
    assert "rpcbind" not in instance.run("systemctl list-units --state=active --plain")
    url = f"http://{real_instance.ADDRESS}:8888/user/ada/"
    async with Jupyter(url, API_TOKEN, vpc.connector()) as ada:
        assert (await ada.status())["agent_connected"]
        kernel = Kernel(ada, await ada.start_notebook("a.ipynb"))
        assert "42" in printed(await kernel.run("import ec2spawner; print(6 * 7)"))
        kernel = Kernel(ada, await ada.start_notebook("b.ipynb", "pytorch"))
        said = printed(await kernel.run("import torch; print(torch.__file__)"))
        assert said.startswith("/opt/torch-kernel/")
        # What the user installs for this kernel is in the home.
        said = printed(await kernel.run("%pip install -q --no-deps --ignore-installed idna"))
        assert "rror" not in said
        said = printed(await kernel.run("import idna; print(idna.__file__)"))
        assert said.startswith("/home/ubuntu/.ec2spawner/kernels/pytorch/")

    # The hub knows the lease no more: the agent powers off.
    hub.lease_status = 410
    hub.notify_changed()
    await instance.until_off()


@pytest.mark.nightly(
    guard="tests/integration/agent/test_user_data_on_instance.py::"
    "test_a_failed_installation_is_reported_in_one_line_and_powers_off"
)
async def test_a_failed_installation_says_why_on_the_console_and_powers_off(
    launch: Launch, hub: StubHub
) -> None:
    instance = launch(user_data(hub.url, "no-such-package==1.0"))
    instance.start()
    await instance.until_off(BOOT_SECONDS)
    [line] = boot_log.last_lines(instance.console, 1)
    assert line.startswith("ec2spawner: installing no-such-package==1.0 failed: ERROR: No matching")
    assert not hub.claims


@pytest.mark.nightly(
    guard="tests/integration/agent/test_user_data_on_instance.py::"
    "test_an_instance_that_no_hub_answers_powers_off"
)
async def test_an_instance_that_no_hub_answers_powers_off(launch: Launch, hub: StubHub) -> None:
    """Its agent hangs before it says anything. Half an hour has passed since the boot."""
    instance = launch(user_data(hub.url).replace("OnBootSec=1800", "OnBootSec=1"))
    put_agent(instance, "exec sleep infinity")
    instance.start()
    await instance.until_off(BOOT_SECONDS)
    [line] = boot_log.last_lines(instance.console, 1)
    assert line == "ec2spawner: no hub has answered this instance since its boot; it powers off"


@pytest.mark.nightly(
    guard="tests/integration/agent/test_user_data_on_instance.py::test_the_unit_of_the_agent"
)
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
