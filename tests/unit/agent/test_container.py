"""How a container of the notebook server is started, and from which registry it comes."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ec2spawner.agent import memory_protection
from ec2spawner.agent.notebook_server.container import Container, Engine, find_engine
from ec2spawner.agent.notebook_server.ecr import Registry, password, registry_of
from ec2spawner.agent.notebook_server.errors import NotebookError
from ec2spawner.agent.notebook_server.gpu_nodes import prepare_gpu_nodes
from ec2spawner.agent.notebook_server.process import NotebookProcess
from ec2spawner.agent.notebook_server.pulled_images import PulledImages
from ec2spawner.agent.settings import NotebookUser

HOME = Path("/home/ubuntu")
USER = NotebookUser("ubuntu", 1000, 1001, (1001, 4), HOME, "/bin/bash")


def container(engine: Engine | None = None, gpu_nodes: tuple[Path, ...] = ()) -> Container:
    return Container(
        engine=engine or Engine(("docker",)),
        image="quay.io/jupyter/base-notebook:2026-11-16",
        user=USER,
        volumes=((HOME, str(HOME), False), (Path("/mnt/x"), "/data/x", True)),
        gpu_nodes=gpu_nodes,
        pulled=PulledImages(Path("/nowhere")),
    )


def test_no_value_of_the_lease_is_on_the_command_line() -> None:
    values = {
        "JUPYTERHUB_API_TOKEN": "secret",
        "GOOGLE_API_KEY": "secret",
        "CONTAINER_REGISTRY_TOKEN": "secret",
        "NAME": "value\nof two lines",
    }
    argv, environment = container().start_command(
        ["jupyterhub-singleuser", "--debug"], {**values, "PATH": "/opt/bin"}
    )
    assert argv[-3:] == [container().image, "jupyterhub-singleuser", "--debug"]
    assert environment == values
    assert "secret" not in " ".join(argv)
    assert {"--env=JUPYTERHUB_API_TOKEN", "--env=NAME"} <= set(argv)


@pytest.mark.parametrize(
    "name",
    (
        "PATH HOME LD_PRELOAD DOCKER_HOST CONTAINERS_CONF XDG_RUNTIME_DIR NERDCTL_TOML CNI_PATH "
        "STORAGE_OPTS CONTAINERD_ADDRESS CONTAINER_HOST REGISTRY_AUTH_FILE GODEBUG"
    ).split(),
)
def test_what_the_engine_itself_would_obey_reaches_only_the_container(name: str) -> None:
    argv, environment = container().start_command(["x"], {name: "/evil"})
    assert name not in environment
    value = str(HOME) if name == "HOME" else "/evil"
    assert f"--env={name}={value}" in argv


def test_the_container_has_user_home_mounts_and_network_of_the_instance() -> None:
    argv, _ = container().start_command(["x"], {})
    assert {
        "--user=1000:1001",
        "--group-add=4",
        "--network=host",
        "--workdir=/home/ubuntu",
        "--volume=/home/ubuntu:/home/ubuntu",
        "--volume=/mnt/x:/data/x:ro",
        "--rm",
    } <= set(argv)


@pytest.mark.parametrize("engine", ["docker", "podman", "nerdctl"])
def test_nobody_becomes_root_in_the_container(engine: str) -> None:
    """Also not by `sudo` of the image. GPUs come by devices, not by privileges."""
    argv, _ = container(Engine((engine,)), (Path("/dev/nvidia0"),)).start_command(["x"], {})
    assert {"--security-opt=no-new-privileges", "--cap-drop=ALL"} <= set(argv)
    assert not [each for each in argv if each.startswith(("--cap-add", "--privileged"))]


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        (("docker",), {"--gpus=all", "--device=/dev/nvidia0", "--device=/dev/nvidiactl"}),
        (("nerdctl",), {"--gpus=all", "--device=/dev/nvidia0", "--device=/dev/nvidiactl"}),
        (("/usr/bin/podman",), {"--device=nvidia.com/gpu=all"}),
    ],
)
def test_gpus_are_given_in_the_engines_words(engine: tuple[str, ...], options: set[str]) -> None:
    """By their nodes too, which a reload of systemd would otherwise take away."""
    nodes = (Path("/dev/nvidia0"), Path("/dev/nvidiactl"))
    with_gpu, _ = container(Engine(engine), nodes).start_command(["x"], {})
    without, _ = container(Engine(engine)).start_command(["x"], {})
    assert with_gpu[: len(engine)] == list(engine)
    assert {*with_gpu} - {*without} == options


async def test_systemd_finds_each_node_of_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    links = tmp_path / "char"
    links.mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-nvswitchctl"):
        (tmp_path / name).symlink_to("/dev/null")
    (tmp_path / "nvidia-caps").mkdir()
    names = ("nvidia-uvm", "nvidia0", "nvidiactl")
    nodes = tuple(tmp_path / name for name in names)
    assert await prepare_gpu_nodes(tmp_path / "nvidia0", links) == nodes
    assert await prepare_gpu_nodes(tmp_path / "nvidia0", links) == nodes
    assert (links / "1:3").samefile("/dev/null")
    assert await prepare_gpu_nodes(tmp_path / "nvidia1", links) == ()
    assert await prepare_gpu_nodes(None, links) == ()


ENGINE = """#!/bin/sh
# Has one tag, which `pull` moves to the image that REGISTRY names, and warns at each command.
cd "${0%/*}" || exit
echo "$*" >>commands
echo 'time="2026-11-22" level=warning msg="The cgroupv2 manager is set to systemd"' >&2
case "$1 $2" in
    "pull "*) cp registry tag && cp registry "$(cat registry).image" ;;
    "image inspect") cat tag 2>/dev/null ;;
    "image rm") [ -e "$3.used" ] && echo "$3 is used" && exit 1; rm "$3.image" ;;
esac
"""

BAKED, FIRST, SECOND, THIRD = (each * 64 for each in "abcd")
"""Ids of images."""


async def test_an_image_that_a_newer_one_replaced_is_removed(tmp_path: Path) -> None:
    """Only such that the agent has pulled: BAKED came with the AMI."""
    engine = tmp_path / "engine"
    engine.write_text(ENGINE)
    engine.chmod(0o755)
    (tmp_path / "tag").write_text(f"{BAKED}\n")
    (tmp_path / f"{BAKED}.image").touch()
    # An earlier agent remembered words that are no ids.
    state = tmp_path / "state"
    state.mkdir()
    (state / "pulled-images").write_text("systemd\nsha256:abc\n")

    async def start(registry: str) -> set[str]:
        (tmp_path / "registry").write_text(f"{registry}\n")
        # A new agent, as after a stop of the instance.
        one = replace(container(Engine((str(engine),))), pulled=PulledImages(state))
        await one.pull()
        await one.prune()
        return {each.stem for each in tmp_path.glob("*.image")}

    assert await start(BAKED) == {BAKED}
    assert await start(FIRST) == {BAKED, FIRST}
    (tmp_path / f"{FIRST}.used").touch()
    assert await start(SECOND) == {BAKED, FIRST, SECOND}
    (tmp_path / f"{FIRST}.used").unlink()
    assert await start(THIRD) == {BAKED, THIRD}
    assert await start(BAKED) == {BAKED}
    removed = {
        line.split()[-1]
        for line in (tmp_path / "commands").read_text().splitlines()
        if line.startswith("image rm")
    }
    assert removed == {FIRST, SECOND, THIRD}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Adds programs to an image that has none."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def add(*names: str) -> None:
        for name in names:
            (tmp_path / name).touch()
            (tmp_path / name).chmod(0o755)

    return add


def test_the_wanted_engine_or_the_first_that_is_there(programs: Callable[..., None]) -> None:
    with pytest.raises(NotebookError, match="no container engine"):
        find_engine("")
    for name, first in (
        ("podman", ("podman",)),
        ("docker", ("docker",)),
        ("nerdctl", ("docker",)),
        ("soci-snapshotter-grpc", ("docker",)),
        ("tini", ("nerdctl", "--snapshotter", "soci")),
    ):
        programs(name)
        assert find_engine("").command == first
    assert find_engine("podman --log-level=error").command == ("podman", "--log-level=error")
    with pytest.raises(NotebookError, match="EC2SPAWNER_CONTAINER_ENGINE"):
        find_engine("crictl")


@pytest.mark.parametrize("wanted", ["", "/usr/bin/nerdctl --snapshotter soci"])
def test_nerdctl_without_an_init_is_not_started(
    programs: Callable[..., None], tmp_path: Path, wanted: str
) -> None:
    """It refuses `--init`, at the start of each server."""
    programs("nerdctl", "soci-snapshotter-grpc")
    wanted = wanted.replace("/usr/bin", str(tmp_path))
    with pytest.raises(NotebookError, match="install the package tini in the AMI, or docker"):
        find_engine(wanted)
    programs("tini")
    assert find_engine(wanted).name == "nerdctl"


def test_private_registries_of_amazon_are_known() -> None:
    host = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
    assert registry_of(f"{host}/lab:1") == Registry(host, "123456789012", "eu-central-1")
    china = "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn"
    assert registry_of(f"{china}/lab@sha256:0") == Registry(china, "123456789012", "cn-north-1")
    for host in (
        "123456789012.dkr-ecr.eu-central-1.on.aws",
        "123456789012.dkr-ecr-fips.us-east-1.on.aws",
        "123456789012.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn",
    ):
        assert registry_of(f"{host}/lab:1") == Registry(host, "123456789012", host.split(".")[2])
    for other in ("quay.io/jupyter/lab:1", "public.ecr.aws/x/y:1", f"evil.example/{host}/lab:1"):
        assert registry_of(other) is None


@pytest.mark.parametrize("oom_score", ["0", "-900"])
async def test_a_password_comes_from_the_aws_cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oom_score: str
) -> None:
    """Also where a program executes it that resets what protects the agent."""
    (tmp_path / "score").write_text(oom_score)
    monkeypatch.setattr(memory_protection, "OOM_SCORE", tmp_path / "score")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    registry = Registry("123456789012.dkr.ecr.eu-central-1.amazonaws.com", "1", "eu-central-1")
    with pytest.raises(NotebookError, match="no AWS CLI"):
        await password(registry)
    aws = tmp_path / "aws"
    token = base64.b64encode(b"AWS:" + b"p" * 3000).decode()
    aws.write_text(f"#!/bin/sh\necho {token}\n")
    aws.chmod(0o755)
    assert await password(registry) == "p" * 3000
    aws.write_text("#!/bin/sh\necho AccessDeniedException >&2\nexit 254\n")
    with pytest.raises(NotebookError, match=r"AccessDenied.*ecr:BatchGetImage"):
        await password(registry)


async def test_the_engines_client_is_not_taken_for_the_server(tmp_path: Path) -> None:
    """Its idle server's CPU time is left out by this id, and its processes are named by it."""
    engine = tmp_path / "engine"
    engine.write_text("#!/bin/sh\n[ $1 = run ] && exec sleep 60\n")
    engine.chmod(0o755)
    user = replace(USER, uid=os.getuid(), gid=os.getgid(), groups=(), home=tmp_path)
    notebook = NotebookProcess(user, tmp_path / "log", {"PATH": os.environ["PATH"]})
    await notebook.start_in(container(Engine((str(engine),))), ["jupyterhub-singleuser"], {})
    client = notebook._process
    assert client is not None
    try:
        assert notebook.server_pid is None
    finally:
        client.kill()
        await client.wait()
