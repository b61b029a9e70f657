"""An instance that really boots: systemd and cloud-init in a container, with a network of its own.

Two network namespaces stand for the VPC: in one is the instance, in the other are its metadata
service, at the address that it has on EC2, and the hub. Nothing of it is on the machine's own
network.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import hashlib
import os
import re
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from tornado.httpserver import HTTPServer

from ec2spawner.embedded.api.loopback import NoBrowsers
from ec2spawner.embedded.runtime import imds
from ec2spawner.embedded.runtime.identity import IdentitySigner
from ec2spawner.embedded.runtime.instance import SimulatedInstance
from tests import polling

RECIPE = Path(__file__).with_name("make_root.sh")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ec2spawner"
SOURCES = (RECIPE, RECIPE.with_name("archive.sh"))
DIGEST = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()
ROOT = CACHE / f"boot-root-{DIGEST[:12]}"

WHEELS = CACHE / "boot-wheels"

METADATA_ADDRESS = "169.254.169.254"
HUB_ADDRESS = "172.31.0.1"
HUB_PORT = 8081
ADDRESS = "172.31.0.10"
CLONE_NEWNET = 0x40000000

POWER_OFF_SECONDS = 120.0
COMMAND_SECONDS = 300.0
REBOOTS = 133
"""Exit status of systemd-nspawn with `--keep-unit`: whoever started it has to start it again."""
ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def why_not() -> str:
    """Why nothing can boot here; empty if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "only root may boot a container"
    missing = [each for each in ("systemd-nspawn", "ip", "nsenter") if shutil.which(each) is None]
    if missing:
        return f"there is no {' and no '.join(missing)} here: see `make boot`"
    if not (ROOT.is_dir() and WHEELS.is_dir()):
        return "there is no root file system to boot, or no wheels: run `make boot`"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "this kernel has no overlayfs"
    return ""


class Vpc:
    """The two namespaces, connected by a pair of interfaces."""

    def __init__(self) -> None:
        name = f"ec2spawner-{secrets.token_hex(3)}"
        self.outside, self.inside = f"{name}-vpc", f"{name}-i"

    def __enter__(self) -> Vpc:
        for namespace in (self.outside, self.inside):
            _ip("netns", "add", namespace)
        _ip(*f"link add eth0 netns {self.inside} type veth peer vpc netns {self.outside}".split())
        for namespace, device, address in (
            (self.outside, "vpc", f"{METADATA_ADDRESS}/32"),
            (self.outside, "vpc", f"{HUB_ADDRESS}/20"),
            (self.inside, "eth0", f"{ADDRESS}/20"),
        ):
            _ip("-n", namespace, "address", "add", address, "dev", device)
        for namespace, device in (
            (self.outside, "vpc"),
            (self.inside, "lo"),
            (self.inside, "eth0"),
        ):
            _ip("-n", namespace, "link", "set", device, "up")
        _ip("-n", self.inside, "route", "add", "default", "via", HUB_ADDRESS)
        return self

    def __exit__(self, *exception: object) -> None:
        for namespace in (self.inside, self.outside):
            _ip("netns", "delete", namespace)

    def listen(self, address: str, port: int) -> socket.socket:
        """A listening socket outside the instance, which this process may serve."""
        listening = self._in_namespace(self.outside, lambda: socket.create_server((address, port)))
        listening.setblocking(False)
        return listening

    def listen_inside(self, port: int) -> socket.socket:
        """The same on the instance's own loopback."""
        listening = self._in_namespace(
            self.inside, lambda: socket.create_server(("127.0.0.1", port))
        )
        listening.setblocking(False)
        return listening

    def connector(self, trust: ssl.SSLContext | bool = True) -> aiohttp.TCPConnector:
        """Connects from outside the instance, as the hub's proxy does."""

        def make(address: aiohttp.AddrInfoType) -> socket.socket:
            family, kind, protocol, *_ = address
            return self._in_namespace(self.outside, lambda: socket.socket(family, kind, protocol))

        return aiohttp.TCPConnector(socket_factory=make, ssl=trust)

    @staticmethod
    def _in_namespace(namespace: str, make: Callable[[], socket.socket]) -> socket.socket:
        made: list[socket.socket | BaseException] = []

        def work() -> None:
            # Of this thread alone; a socket belongs to the namespace that it was made in.
            with open(f"/run/netns/{namespace}") as file:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            made.append(make())

        def attempt() -> None:
            try:
                work()
            except BaseException as error:
                made.append(error)

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        if isinstance(made[0], BaseException):
            raise made[0]
        return made[0]


@dataclass(frozen=True, slots=True)
class Image:
    """What an instance's disk has at its launch, over the common root."""

    layers: tuple[Path, ...] = ()
    archive: Path | None = None
    """What apt finds, in place of the root's own archive."""


STOCK = Image()
"""The common root alone."""


class RealInstance:
    """One instance: a disk over the common root, and a container while it runs."""

    def __init__(self, folder: Path, vpc: Vpc, user_data: str, image: Image = STOCK) -> None:
        self._folder = folder
        self._image = image
        self._vpc = vpc
        self._container: subprocess.Popen[bytes] | None = None
        self._metadata: HTTPServer | None = None
        self.disk = folder / "disk"
        self._facts = SimulatedInstance(
            instance_id=f"i-{secrets.token_hex(8)}0",
            instance_type="g4dn.xlarge",
            zone="us-east-1a",
            region="us-east-1",
            market="on-demand",
            address=ADDRESS,
            image_id="ami-0123456789abcdef0",
            account="123456789012",
            architecture="x86_64",
            pending_since=datetime.now(UTC),
            user_data=user_data.encode(),
        )

    def launch(self) -> None:
        """A new disk; `start` boots it. What a test puts on it before is in its image."""
        for name in ("upper", "work", "disk"):
            (self._folder / name).mkdir()
        lower = ":".join(map(str, (*self._image.layers, ROOT)))
        layers = (
            f"lowerdir={lower},upperdir={self._folder}/upper,workdir={self._folder}/work,volatile"
        )
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, self.disk], check=True)
        signer = IdentitySigner(self._folder)
        application = imds.metadata_application(self._facts, signer, None)
        self._metadata = HTTPServer(NoBrowsers(application, {METADATA_ADDRESS}))
        self._metadata.add_socket(self._vpc.listen(METADATA_ADDRESS, 80))

    def start(self) -> None:
        """Power it on."""
        archive = self._image.archive
        binds = [f"--bind-ro={archive}:/srv/archive"] if archive is not None else []
        with (self._folder / "console").open("ab") as console:
            self._container = subprocess.Popen(
                [
                    # A container never outlives the tests: it powers off when they are killed.
                    *("setpriv", "--pdeathsig", "TERM", "systemd-nspawn", "--quiet", "--boot"),
                    *("--register=no", "--keep-unit", "--console=read-only", "--machine=instance"),
                    "--resolv-conf=off",
                    "--kill-signal=SIGRTMIN+4",  # to power off, as by a power button
                    *(f"--network-namespace-path=/run/netns/{self._vpc.inside}",),
                    *(f"--bind-ro={WHEELS}:/srv/wheels", *binds, f"--directory={self.disk}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def has_booted(self, times: int = 1) -> bool:
        """Whether it has booted so often, all of cloud-init included."""
        return self.console.count("Reached target cloud-init.target") >= times

    async def stop(self) -> None:
        """As EC2's StopInstances: the power button. It fails the test unless it powers off."""
        assert self._container is not None
        self._container.send_signal(signal.SIGTERM)
        await self.until_off()

    async def until_off(self, seconds: float = POWER_OFF_SECONDS, status: int = 0) -> None:
        """Wait until the instance has powered itself off, in an orderly way."""
        assert self._container is not None
        container = self._container
        await self.until(lambda: container.poll() is not None, seconds, "a power-off")
        assert container.returncode == status

    async def reboot(self) -> None:
        """Reboot it from inside, and come back when it has shut down and starts again.

        The shutdown may end the command before it says that it was done.
        """
        with contextlib.suppress(AssertionError):
            await asyncio.to_thread(self.run, "systemctl reboot")
        await self.until_off(status=REBOOTS)
        self.start()

    async def until(self, condition: Callable[[], Any], seconds: float, what: str) -> Any:
        """Poll until the condition gives something; fails with the end of the console."""
        begun = time.monotonic()
        while not (found := condition()):
            waited = time.monotonic() - begun
            if waited > seconds:
                end = "\n".join(self.console.splitlines()[-60:])
                raise AssertionError(f"not within {seconds:.0f} s: {what}. Its console:\n{end}")
            await asyncio.sleep(polling.pause(waited))
        return found

    @property
    def console(self) -> str:
        """All that was printed, without colours."""
        text = (self._folder / "console").read_text(errors="replace")
        return ESCAPES.sub("", text).replace("\r", "")

    def run(self, command: str, user: str = "root") -> str:
        """The output of a shell command in the running instance. Blocks; fails with its errors."""
        assert self._container is not None
        [init] = psutil.Process(self._container.pid).children()
        within = ["nsenter", f"--target={init.pid}", "--all"]
        done = subprocess.run(
            [*within, "runuser", "--login", user, "--command", command],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    async def terminate(self) -> None:
        """Power off, if it runs, and delete the disk."""
        try:
            if self._container is not None and self._container.poll() is None:
                await self._end(self._container)
        finally:
            if self._metadata is not None:
                self._metadata.stop()
                await self._metadata.close_all_connections()
            if self.disk.is_mount():
                unmount = await asyncio.create_subprocess_exec("umount", self.disk)
                await unmount.wait()

    async def make_image(self) -> Image:
        """Terminate it; an image of its disk."""
        await self.terminate()
        return replace(self._image, layers=(self._folder / "upper", *self._image.layers))

    async def _end(self, container: subprocess.Popen[bytes]) -> None:
        try:
            await self.stop()
        except AssertionError:
            # Its first process ends all others of the container with it.
            with contextlib.suppress(psutil.NoSuchProcess):
                for init in psutil.Process(container.pid).children():
                    init.kill()
            container.wait(30)
            raise


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, stdin=subprocess.DEVNULL)
