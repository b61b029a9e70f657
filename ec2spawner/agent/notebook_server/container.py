"""The notebook server in a container of its own: engine, pull, command, removal.

The agent stays outside, as root. It gives the container the user's home and the other mounts, its
socket, the host's network and all GPUs, and runs the server as the notebook user, who cannot become
root in it. A container is new at each start and is deleted with the server; what persists is in the
home.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..command import run
from ..memory_protection import expendable
from ..settings import NotebookUser
from . import ecr
from .errors import NotebookError
from .pulled_images import IMAGE_ID, PulledImages

log = logging.getLogger(__name__)

NAME: Final = "ec2spawner-notebook"

PULL_SECONDS: Final = 1800.0
"""Seconds for a pull: an image with CUDA and PyTorch has 10 GB, and `ready_timeout` is shorter."""

CONFINED: Final = ("--security-opt=no-new-privileges", "--cap-drop=ALL")
"""Root in a container shares the instance's network, memory and kernel with the agent. The notebook
user has no capabilities, and gets none by `sudo` or a file's; devices of GPUs need none."""

NERDCTL_INIT: Final = "tini"
"""Program that nerdctl runs for `--init`, and does not start without ("Init process flags" in its
command reference). docker and podman bring their own. Deep Learning AMIs have nerdctl, no tini."""

_NO_INIT: Final = (
    "this machine's image has nerdctl without tini, which it needs to start a container. Please "
    "tell an admin: install the package tini in the AMI, or docker"
)

REMOVE_SECONDS: Final = 30.0

REMOVE_IMAGE_SECONDS: Final = 120.0
"""Seconds to remove an image of 10 GB."""

EXTENSION_SECONDS: Final = (3.0, 10.0)
"""From a listening server to its extension's connection: it connects while the server starts, so
on a slow machine both take longer. At least and at most."""

NO_EXTENSION: Final = (
    "Its container image has no ec2spawner[notebook] that connects: no cost, GPU use and countdown "
    "in JupyterLab, and the idle stop sees programs that use CPU or GPU, not cells"
)

_OF_THE_CLIENT: Final = re.compile(
    r"(?:LD|DOCKER|PODMAN|NERDCTL|BUILDAH|CNI|NETAVARK|STORAGE|XDG)_|CONTAINERS_(?:CONF|STORAGE|"
    r"REGISTRIES)|(?:CONTAINERD_\w+|CONTAINER_(?:HOST|CONNECTION|SSHKEY)|GODEBUG|GOTRACEBACK|"
    r"GOMAXPROCS|GOMEMLIMIT|GOGC|REGISTRY_AUTH_FILE|PATH|HOME|TMPDIR)$"
)
"""Variables that the engine's client would obey itself."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A container engine, as a command."""

    command: tuple[str, ...]
    """Such as `docker`, or `nerdctl --snapshotter soci`."""

    @property
    def name(self) -> str:
        """Such as `docker`."""
        return Path(self.command[0]).name

    def gpus(self, nodes: Sequence[Path]) -> list[str]:
        """Options that give a container all GPUs, by NVIDIA's container toolkit; `nodes` are
        theirs, see `gpu_nodes`."""
        if self.name == "podman":  # its runtime knows the devices of the CDI
            return ["--device=nvidia.com/gpu=all"]
        return ["--gpus=all", *(f"--device={node}" for node in nodes)]


def find_engine(wanted: str) -> Engine:
    """The engine that the image wants, or the first that it has and that works.

    Those that load an image lazily come first. Raises `NotebookError`.
    """
    if wanted:
        return _wanted_engine(tuple(shlex.split(wanted)), wanted)
    has_nerdctl, has_init = _has("nerdctl"), _has(NERDCTL_INIT)
    if has_nerdctl and has_init and _has("soci-snapshotter-grpc"):
        return Engine(("nerdctl", "--snapshotter", "soci"))
    for name in ("docker", "podman", *(["nerdctl"] if has_init else [])):
        if _has(name):
            return Engine((name,))
    if has_nerdctl:
        raise NotebookError(f"the server runs in a container, and {_NO_INIT}")
    raise NotebookError(
        "the server runs in a container, and this machine's image has no container engine. Please "
        "tell an admin: the AMI needs docker, podman, or nerdctl with tini"
    )


def _wanted_engine(command: tuple[str, ...], wanted: str) -> Engine:
    if not command or not _has(command[0]):
        raise NotebookError(
            f"EC2SPAWNER_CONTAINER_ENGINE={wanted!r}: this image has no such program. Please "
            "tell an admin"
        )
    engine = Engine(command)
    if engine.name == "nerdctl" and not _has(NERDCTL_INIT):
        raise NotebookError(f"EC2SPAWNER_CONTAINER_ENGINE={wanted!r}: {_NO_INIT}")
    return engine


def _has(program: str) -> bool:
    return shutil.which(program) is not None


@dataclass(frozen=True, slots=True)
class Container:
    """The container of one lease."""

    engine: Engine
    image: str
    """A reference, with a tag or a digest."""
    user: NotebookUser
    volumes: tuple[tuple[Path, str, bool], ...]
    """(folder here, path in the container, whether it is read-only)."""
    gpu_nodes: tuple[Path, ...]
    """Empty without a GPU."""
    pulled: PulledImages

    async def pull(self) -> None:
        """Get the newest image of the tag, or the one of the digest if it is not here.

        Raises `NotebookError`.
        """
        before = await self._image_id()
        if "@" in self.image and before:
            return
        await self._log_in()
        status, output = await run(
            *self.engine.command, "pull", "--quiet", self.image, seconds=PULL_SECONDS
        )
        if status == 0:
            if (now := await self._image_id()) != before:
                await asyncio.to_thread(self.pulled.add, now)
            return
        if before:
            log.warning("%s was not pulled, an older one is used: %s", self.image, output)
            return
        raise NotebookError(
            f"the container image {self.image} could not be pulled: {output}. Please tell an admin"
        )

    async def prune(self) -> None:
        """Remove images that the agent pulled before and this container does not use."""
        if used := await self._image_id():
            await self.pulled.prune(used, self._remove_image)

    async def _image_id(self) -> str:
        """Of the image that is here; empty for none."""
        command = (*self.engine.command, "image", "inspect", "--format={{.Id}}", self.image)
        status, output = await run(*command, seconds=30.0)
        # With the id comes what the engine warns of.
        ids = [line for line in output.splitlines() if IMAGE_ID.fullmatch(line)]
        return ids[-1] if status == 0 and ids else ""

    async def _remove_image(self, image_id: str) -> bool:
        """Whether it is gone: one that another container uses stays."""
        argv = (*self.engine.command, "image", "rm", image_id)
        status, output = await run(*argv, seconds=REMOVE_IMAGE_SECONDS)
        if status == 0 or re.search("no such image|not known", output, re.IGNORECASE):
            return True
        log.warning("the image %s was not removed: %s", image_id, output)
        return False

    async def _log_in(self) -> None:
        registry = ecr.registry_of(self.image)
        if registry is None:
            return
        password = await ecr.password(registry)
        login = ("login", "--username", ecr.USER, "--password-stdin", registry.host)
        process = await asyncio.create_subprocess_exec(
            *expendable(*self.engine.command, *login),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(60.0):
                _, errors = await process.communicate(password.encode())
        except BaseException:
            if process.returncode is None:
                process.kill()
            raise
        if process.returncode != 0:
            said = errors.decode(errors="replace").strip()[-300:]
            raise NotebookError(f"no login at {registry.host}: {said}. Please tell an admin")

    def start_command(
        self, argv: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        """The client's command line and what its environment needs besides its own.

        Values, which may be secrets, are in the environment: anyone can read a command line. Only
        those that the client itself would obey are not.
        """
        passed = {k: v for k, v in environment.items() if not _OF_THE_CLIENT.match(k)}
        written = {k: v for k, v in environment.items() if _OF_THE_CLIENT.match(k)}
        written["HOME"] = str(self.user.home)
        options = [
            "--rm",
            "--init",
            f"--name={NAME}",
            "--pull=never",
            "--network=host",
            "--ipc=host",  # PyTorch's data loaders pass tensors through shared memory
            "--log-driver=none",
            *CONFINED,
            f"--user={self.user.uid}:{self.user.gid}",
            *(f"--group-add={group}" for group in self.user.groups if group != self.user.gid),
            f"--workdir={self.user.home}",
            *(self.engine.gpus(self.gpu_nodes) if self.gpu_nodes else ()),
            *(f"--volume={here}:{there}{':ro' if ro else ''}" for here, there, ro in self.volumes),
            *(f"--env={name}" for name in passed),
            *(f"--env={name}={value}" for name, value in written.items()),
        ]
        return [*self.engine.command, "run", *options, self.image, *argv], passed

    async def remove(self) -> None:
        """Delete the container with everything in it; none is no error."""
        argv = (*self.engine.command, "rm", "--force", NAME)
        status, output = await run(*argv, seconds=REMOVE_SECONDS)
        if status != 0 and "no such container" not in output.lower():
            log.error("the container was not removed: %s", output)
