"""How a container of the notebook server is started, and from which registry it comes."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from ec2spawner.agent.notebook_server.container import Container, Engine, find_engine
from ec2spawner.agent.notebook_server.ecr import Registry, password, registry_of
from ec2spawner.agent.notebook_server.errors import NotebookError
from ec2spawner.agent.settings import NotebookUser

HOME = Path("/home/ubuntu")
USER = NotebookUser("ubuntu", 1000, 1001, (1001, 4), HOME, "/bin/bash")


def container(engine: Engine | None = None, *, has_gpu: bool = False) -> Container:
    return Container(
        engine=engine or Engine(("docker",)),
        image="quay.io/jupyter/base-notebook:2026-11-16",
        user=USER,
        volumes=((HOME, str(HOME), False), (Path("/mnt/x"), "/data/x", True)),
        has_gpu=has_gpu,
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


@pytest.mark.parametrize(
    ("engine", "option"),
    [
        (("docker",), "--gpus=all"),
        (("nerdctl", "--snapshotter", "soci"), "--gpus=all"),
        (("/usr/bin/podman",), "--device=nvidia.com/gpu=all"),
    ],
)
def test_gpus_are_given_in_the_engines_words(engine: tuple[str, ...], option: str) -> None:
    with_gpu, _ = container(Engine(engine), has_gpu=True).start_command(["x"], {})
    without, _ = container(Engine(engine)).start_command(["x"], {})
    assert with_gpu[: len(engine)] == list(engine)
    assert option in with_gpu
    assert option not in without


def test_the_wanted_engine_or_the_first_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotebookError, match="no container engine"):
        find_engine("")
    for name, first in (
        ("podman", ("podman",)),
        ("docker", ("docker",)),
        ("nerdctl", ("docker",)),
        ("soci-snapshotter-grpc", ("nerdctl", "--snapshotter", "soci")),
    ):
        program = tmp_path / name
        program.touch()
        program.chmod(0o755)
        assert find_engine("").command == first
    assert find_engine("podman --log-level=error").command == ("podman", "--log-level=error")
    with pytest.raises(NotebookError, match="EC2SPAWNER_CONTAINER_ENGINE"):
        find_engine("crictl")


def test_private_registries_of_amazon_are_known() -> None:
    host = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
    assert registry_of(f"{host}/lab:1") == Registry(host, "123456789012", "eu-central-1")
    china = "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn"
    assert registry_of(f"{china}/lab@sha256:0") == Registry(china, "123456789012", "cn-north-1")
    for other in ("quay.io/jupyter/lab:1", "public.ecr.aws/x/y:1", f"evil.example/{host}/lab:1"):
        assert registry_of(other) is None


async def test_a_password_comes_from_the_aws_cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    with pytest.raises(NotebookError, match=r"AccessDenied.*PullOnly"):
        await password(registry)
