"""A notebook server in a container of a real engine: podman, where it can run containers.

The image is empty, and the engine adds this machine's programs to every container: building an
image would need a registry.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2spawner.wire import Stop
from tests.harness import Notebook
from tests.integration.agent.lease_on_instance import (
    API_TOKEN,
    PYTHON,
    REPOSITORY,
    SMALL_SERVER,
    Machine,
    StubHub,
    until,
)
from tests.jupyter_by_hand import Jupyter

IMAGE = "localhost/ec2spawner-test-empty:latest"

FOLDERS = ("bin", "dev", "etc", "home", "lib", "lib64", "proc", "run", "sbin", "sys", "tmp", "usr")


@pytest.fixture
def notebook() -> Notebook:
    return "jupyterlab"


def engine_config(folder: Path) -> Path:
    """This machine's programs in every container, and limits that need no more rights than ours."""
    system = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"]
    programs = [*system, sys.base_prefix, sys.prefix, str(REPOSITORY)]
    volumes = [f"{path}:{path}:ro" for path in dict.fromkeys(programs) if Path(path).exists()]
    config = folder / "containers.conf"
    config.write_text(
        f"""[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
cgroupns = "host"
volumes = {json.dumps(volumes)}
[engine]
cgroup_manager = "cgroupfs"
{'runtime = "runc"' if shutil.which("runc") else ""}
"""
    )
    return config


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine's configuration file, with the image in its store."""
    if shutil.which("podman") is None or os.geteuid() != 0:
        pytest.skip("needs podman and root")
    folder = tmp_path_factory.mktemp("containers")
    config = engine_config(folder)
    root = folder / "root"
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
    environment = {**os.environ, "CONTAINERS_CONF": str(config)}
    tar = subprocess.run(["tar", "-C", root, "-c", "."], capture_output=True, check=True).stdout
    subprocess.run(["podman", "import", "-", IMAGE], input=tar, check=True, env=environment)
    probe = subprocess.run(
        ["podman", "run", "--rm", "--network=host", IMAGE, "true"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    if probe.returncode != 0:
        pytest.skip(f"podman cannot run containers here: {probe.stderr.strip()}")
    return config


NAMES = ("--filter=name=ec2spawner", "--format={{.Names}}")


def podman(*arguments: str) -> list[str]:
    """The words that a command of the engine prints."""
    command = ["podman", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def remove_containers() -> None:
    """The engine's store is the machine's: what one test leaves there, the next would find.

    Of a container whose monitor was killed, podman first notices only that it cannot be stopped.
    """
    for _ in range(2):
        for name in podman("ps", "--all", *NAMES):
            subprocess.run(["podman", "rm", "--force", name], capture_output=True, check=False)


@pytest.fixture
def with_podman(machine: Machine, containers: Path) -> Iterator[Machine]:
    """An instance, not booted yet, whose agent finds podman and the image."""
    machine.environment |= {
        "CONTAINERS_CONF": str(containers),
        "EC2SPAWNER_CONTAINER_ENGINE": "podman",
    }
    remove_containers()
    yield machine
    remove_containers()


async def test_a_server_runs_in_a_new_container_with_the_users_home(
    with_podman: Machine, hub: StubHub
) -> None:
    with_podman.home.mkdir()
    (with_podman.home / "notes.txt").write_text("kept")
    await with_podman.boot()
    lease = with_podman.lease(
        container=IMAGE, command=[str(PYTHON.parent / "jupyterhub-singleuser"), "--allow-root"]
    )
    of_the_image = {
        "PATH": f"{PYTHON.parent}:/usr/bin:/bin",
        "PYTHONPATH": str(REPOSITORY),
        "JUPYTER_CONFIG_PATH": str(REPOSITORY / "jupyter-config"),
    }
    hub.give(lease.model_copy(update={"environment": lease.environment | of_the_image}))
    await until(lambda: hub.event("ready") or hub.event("failed"), what="ready")
    assert hub.event("failed") is None, hub.event("failed")
    assert IMAGE in hub.event("notebook").message
    assert hub.event("ready").message == ""
    async with Jupyter(with_podman.base_url, API_TOKEN) as ada:
        assert (await ada.call("GET", "api/contents/notes.txt"))[0] == 200
        runtime = with_podman.root / "run" / "jupyter"
        assert list(runtime.glob("jpserver-*.json")), "not in the home, which may be full"
        await until(lambda: hub.heartbeats, what="a heartbeat")
        # The extension in the container speaks with the agent outside.
        assert (await ada.status())["agent_connected"]
        file = {"type": "file", "format": "text", "content": "from inside"}
        assert (await ada.call("PUT", "api/contents/new.txt", json=file))[0] == 201
    (name,) = await asyncio.to_thread(podman, "ps", "--all", *NAMES)
    command = await asyncio.to_thread(podman, "inspect", "--format={{.Config.CreateCommand}}", name)
    assert API_TOKEN not in " ".join(command)
    # Of its first process; all others inherit both.
    (pid,) = await asyncio.to_thread(podman, "inspect", "--format={{.State.Pid}}", name)
    status = Path(f"/proc/{pid}/status").read_text()
    rights = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert (rights["NoNewPrivs"], int(rights["CapBnd"], 16)) == ("1", 0)
    hub.stop = Stop(reason="user", message="You stopped it.")
    hub.notify_changed()
    await until(lambda: hub.event("stopped"), what="stopped")
    assert await asyncio.to_thread(podman, "ps", "--all", *NAMES) == []
    assert (with_podman.home / "new.txt").read_text() == "from inside"


async def test_an_image_without_the_extension_is_noted_with_the_start(
    with_podman: Machine, hub: StubHub
) -> None:
    with_podman.home.mkdir()
    await with_podman.boot()
    (with_podman.home / "server.py").write_text(SMALL_SERVER)
    hub.give(
        with_podman.lease(container=IMAGE, command=["python3", str(with_podman.home / "server.py")])
    )
    await until(lambda: hub.event("ready") or hub.event("failed"), what="ready")
    assert hub.event("failed") is None, hub.event("failed")
    assert "ec2spawner[notebook]" in hub.event("ready").message


async def test_an_image_that_cannot_be_pulled_is_the_reason_of_the_failure(
    with_podman: Machine, hub: StubHub
) -> None:
    await with_podman.boot()
    hub.give(with_podman.lease(container="127.0.0.1:9/nothing/here:latest"))
    await until(lambda: hub.event("failed"), what="failed")
    assert "127.0.0.1:9/nothing/here:latest" in hub.event("failed").message
    assert "could not be pulled" in hub.event("failed").message


ENGINE = f"""#!/bin/sh
# Runs commands without a container, and never finishes to remove an image.
case "$1 $2" in
    "image inspect") echo {"b" * 64} ;;
    "image rm") >"$0.removes"; exec sleep 600 ;;
    "run "*)
        until [ "$1" = {IMAGE} ]; do shift; done
        shift
        echo $$ >"$0.pid"
        exec "$@"
        ;;
esac
"""


async def test_the_end_of_a_server_is_seen_while_images_are_removed(
    machine: Machine, hub: StubHub
) -> None:
    engine = machine.root / "engine"
    engine.write_text(ENGINE)
    engine.chmod(0o755)
    machine.environment["EC2SPAWNER_CONTAINER_ENGINE"] = str(engine)
    machine.environment["EC2SPAWNER_STATE_DIR"] = str(machine.root / "state")
    (machine.root / "state").mkdir()
    (machine.root / "state" / "pulled-images").write_text("a" * 64)
    machine.home.mkdir()
    (machine.home / "server.py").write_text(SMALL_SERVER)
    await machine.boot()
    server = [str(PYTHON), str(machine.home / "server.py")]
    hub.give(machine.lease(container=IMAGE, command=server))
    await until(lambda: hub.event("ready"), what="ready")
    await until(lambda: engine.with_name("engine.removes").exists(), what="a removal")
    os.kill(int(engine.with_name("engine.pid").read_text()), signal.SIGKILL)
    await until(lambda: hub.event("stopped"), what="stopped")
