"""The notebook server's process: warm-up, start, readiness, end."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from ...core.text.server_log import last_words
from ...telemetry import Processes
from ..memory_protection import expendable
from ..settings import NotebookUser
from . import prewarmed
from .certificates import NotebookCertificates
from .container import Container
from .errors import NotebookError
from .runtime_dir import RUNTIME_DIR

log = logging.getLogger(__name__)

POLL_SECONDS = 0.025
"""Between two checks whether the server listens: adds to the time of every start."""

LISTENING_SECONDS = 300.0
"""Timeout for the server to listen; on a cold disk that takes a minute."""

GRACE_SECONDS = 10.0
"""From SIGTERM to SIGKILL for the server: Jupyter Server gives its kernels five seconds."""

LEFTOVER_SECONDS = 2.0
"""The same for processes that outlive the server: jobs of terminals, daemons."""

DAEMON_SECONDS = 10.0
"""The same for daemons that served a mount: they may still upload the last closed file."""

LOG_TAIL_BYTES = 64 * 2**10
"""Read from the end of the log to find why the server ended: a traceback has some kilobytes."""

MAX_LOG_BYTES = 8 * 2**20

CHECK_SECONDS = 2.0
"""Timeout of one check whether the server listens."""

CHECK_TIMEOUT = aiohttp.ClientTimeout(total=CHECK_SECONDS)

PR_SET_CHILD_SUBREAPER = 36

NOT_FOR_NOTEBOOKS = ("EC2SPAWNER_", "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "SUDO_")
SIMULATED_GPU = "EC2SPAWNER_SIMULATED_GPU"
"""Passed on: `%gpu_check` says that there is no GPU to measure."""


CUDA_PROGRAMS = Path("/usr/local/cuda/bin")
"""nvcc and its like, where the image has the CUDA toolkit."""

NOTEBOOK_DEFAULTS = Path(__file__).parents[2] / "notebook" / "defaults"
"""Our defaults for JupyterLab's settings; the user's settings override them."""


def become_subreaper() -> None:
    """Become the parent of orphaned descendants, so that the agent sees every user process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        log.warning("cannot become subreaper: %s", os.strerror(ctypes.get_errno()))


def base_environment(
    user: NotebookUser, environment: Mapping[str, str], runtime_dir: Path | None = None
) -> dict[str, str]:
    """The notebook's environment before a lease: the agent's, without the agent's own variables."""
    inherited = {
        name: value
        for name, value in environment.items()
        if name == SIMULATED_GPU or not name.startswith(NOT_FOR_NOTEBOOKS)
    }
    # As in an activated environment, so that `!pip` and terminals use the notebook's.
    path = [str(Path(sys.executable).parent), inherited.get("PATH") or os.defpath]
    if CUDA_PROGRAMS.is_dir():  # images add it in login shells only
        path.append(str(CUDA_PROGRAMS))
    config = [*filter(None, [inherited.get("JUPYTER_CONFIG_PATH")]), str(NOTEBOOK_DEFAULTS)]
    return inherited | {
        "HOME": str(user.home),
        "USER": user.name,
        "LOGNAME": user.name,
        "SHELL": user.shell,
        "LANG": inherited.get("LANG") or "C.UTF-8",
        "PATH": os.pathsep.join(path),
        "JUPYTER_CONFIG_PATH": os.pathsep.join(config),
        **({RUNTIME_DIR: str(runtime_dir)} if runtime_dir else {}),
    }


class NotebookProcess:
    """One notebook server. `warm_up`, `start`, `until_listening`, then `stop`."""

    def __init__(self, user: NotebookUser, log_file: Path, environment: Mapping[str, str]) -> None:
        """`environment`: the server's, before a lease extends it."""
        self._user = user
        self._environment = dict(environment)
        self.name = "notebook server"
        """Of what runs, for people: that of a worker is another."""
        self._log_file = log_file
        self._process: asyncio.subprocess.Process | None = None
        self._link: socket.socket | None = None
        self._warming: asyncio.Task[None] | None = None
        self._container: Container | None = None
        self._zombies: set[int] = set()
        self.processes = Processes(os.getpid(), uid=None if user.uid == os.geteuid() else user.uid)
        """The server, its kernels, terminals and everything they started."""

    async def warm_up(self) -> None:
        """Start the prewarmed process, which imports while the agent claims."""
        with contextlib.suppress(OSError):
            os.truncate(self._log_file, 0)  # the log of an earlier lease
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._link = ours
        argv = [sys.executable, "-P", "-m", prewarmed.__name__, str(theirs.fileno())]
        try:
            with theirs:
                self._process = await self._execute(
                    argv, self._environment, pass_fds=(theirs.fileno(),)
                )
        except OSError as error:
            log.warning("no prewarmed notebook (%s): the start will be cold", error)
        self._warming = asyncio.create_task(_log_when_warm(ours), name="warming")

    async def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Become the server: the lease's command, with its environment over the image's.

        Raises `NotebookError`.
        """
        argv = list(command)
        if self._user.uid == 0 and Path(argv[0]).name == prewarmed.SERVER:
            argv.append("--allow-root")
        complete = self._environment | dict(environment)
        link = await self._take_link()
        if link is None or Path(argv[0]).name != prewarmed.SERVER or not self._is_waiting():
            await self._dismiss(link)
            await self._start_cold(argv, complete)
            return
        order = json.dumps({"argv": argv, "environment": complete}).encode()
        try:
            with link:
                await send_whole(link, order)
        except OSError as error:
            log.warning("the prewarmed notebook has ended (%s): cold start", error)
            await self._dismiss(None)
            await self._start_cold(argv, complete)

    async def start_in(
        self, container: Container, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """Start the lease's command in a container, with the image's environment below the
        lease's. Raises `NotebookError`."""
        await self._dismiss(await self._take_link())
        await container.remove()  # left over by an agent that was killed
        argv, values = container.start_command(command, environment)
        self._container = container
        try:
            self._process = await self._execute(argv, os.environ | values, as_agent=True)
        except OSError as error:
            raise NotebookError(f"{argv[0]} cannot be started: {error}") from error

    async def _take_link(self) -> socket.socket | None:
        """The socket to the prewarmed notebook, which is used once."""
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        link, self._link = self._link, None
        return link

    @property
    def runtime_dir(self) -> Path | None:
        """Jupyter's, outside the home; None where it is in the home."""
        folder = self._environment.get(RUNTIME_DIR)
        return Path(folder) if folder else None

    @property
    def server_pid(self) -> int | None:
        """Process id of the server, or of the prewarmed process; None without either, and for a
        server in a container: our process is the engine's client then."""
        if self._process is None or self._container is not None:
            return None
        return self._process.pid

    def _is_waiting(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def _dismiss(self, link: socket.socket | None) -> None:
        """End the prewarmed process: it is not needed."""
        if link is not None:
            link.close()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _start_cold(self, argv: list[str], environment: dict[str, str]) -> None:
        program = prewarmed.find_program(argv[0], environment)
        try:
            self._process = await self._execute(
                [program, *argv[1:]], environment, cwd=environment["HOME"]
            )
        except OSError as error:
            raise NotebookError(f"{argv[0]} cannot be started: {error}") from error

    async def _execute(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        cwd: str = "/",
        pass_fds: tuple[int, ...] = (),
        as_agent: bool = False,
    ) -> asyncio.subprocess.Process:
        """A new process in a session of its own, as the notebook user or as the agent's."""
        as_agent = as_agent or self._user.is_agent
        output = await asyncio.to_thread(_open_log, self._log_file)
        try:
            return await asyncio.create_subprocess_exec(
                *expendable(*argv),
                env=dict(environment),
                cwd=cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=pass_fds,
                umask=0o022,
                user=None if as_agent else self._user.uid,
                group=None if as_agent else self._user.gid,
                extra_groups=None if as_agent else list(self._user.groups),
            )
        finally:
            os.close(output)

    async def until_listening(
        self,
        url: str,
        http: aiohttp.ClientSession,
        certificates: NotebookCertificates | None = None,
    ) -> None:
        """Return when `url` responds; with certificates, when the server presents its own.

        Raises `NotebookError` if the server ends before that.
        """
        deadline = time.monotonic() + LISTENING_SECONDS
        while time.monotonic() < deadline:
            if self._process is None or self._process.returncode is not None:
                raise NotebookError(await self.how_it_ended())
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                if certificates is not None:
                    listens = await _shows(url, certificates)
                else:
                    listens = await _answers(url, http)
                if listens:
                    return
            await asyncio.sleep(POLL_SECONDS)
        raise NotebookError(
            f"the {self.name} did not listen after {LISTENING_SECONDS:.0f} s. "
            f"Its last words: {await asyncio.to_thread(self.last_words)}"
        )

    async def wait(self) -> None:
        """Return when the server has ended."""
        if self._process is not None:
            await self._process.wait()

    async def how_it_ended(self) -> str:
        """Signal or exit status, and the end of the log, for the user whose start failed."""
        status = self._process.returncode if self._process else None
        if status is None:
            return f"the {self.name} has not been started"
        if status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        else:
            how = f"ended by itself with status {status}"
        words = await asyncio.to_thread(self.last_words)
        return f"The {self.name} {how}. Its last words: {words}"

    def last_words(self) -> str:
        """The end of the server's log in one line. Blocks for up to 150 ms."""
        try:
            with self._log_file.open("rb") as file:
                file.seek(max(os.fstat(file.fileno()).st_size - LOG_TAIL_BYTES, 0))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return last_words(text)

    def bound_log(self) -> None:
        """Empty the log when it exceeds `MAX_LOG_BYTES`, so that it cannot fill the disk."""
        with contextlib.suppress(OSError):
            if self._log_file.stat().st_size > MAX_LOG_BYTES:
                # The server appends, so it continues at the new end.
                os.truncate(self._log_file, 0)

    def tidy(self) -> None:
        """Reap orphans that have ended. Blocks briefly."""
        ours = {self._process.pid} if self._process else set()
        zombies = {
            each.pid
            for each in self.processes.list()
            if each.state == "Z" and each.parent == os.getpid()
        } - ours
        # A zombie that was there the last time too is not one that asyncio is about to reap.
        for pid in zombies & self._zombies:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._zombies = zombies

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """End the server and all processes of the user: SIGTERM, then SIGKILL. Idempotent."""
        if (link := await self._take_link()) is not None:
            link.close()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._process.wait()
        if self._container is not None:
            await self._container.remove()
        await self._end_remaining(signal.SIGTERM, min(grace, LEFTOVER_SECONDS))
        if not await self._end_remaining(signal.SIGKILL, 5.0):
            log.error("some processes of the user cannot be ended")

    def spare_daemons(self) -> None:
        """Exclude the agent's current descendants, except the notebook, from `stop`.

        They serve mounts: a home whose TLS tunnel has ended cannot be flushed. Blocks briefly.
        """
        self.processes.spare_all_but(self._process.pid if self._process else None)

    async def end_daemons(self) -> None:
        """End the daemons that served the mounts, which are unmounted by now."""
        self.processes.spared.clear()
        await self._end_remaining(signal.SIGTERM, DAEMON_SECONDS)
        await self._end_remaining(signal.SIGKILL, LEFTOVER_SECONDS)

    async def _end_remaining(self, number: signal.Signals, seconds: float) -> bool:
        """Signal every remaining process, including new ones; True if none remains."""
        deadline = time.monotonic() + seconds
        signalled: set[int] = set()
        while True:
            remaining = await asyncio.to_thread(self._tidy_and_list)
            if not remaining:
                return True
            for pid in remaining - signalled:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            signalled |= remaining
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(0.05)

    def _tidy_and_list(self) -> set[int]:
        self.tidy()
        return {each.pid for each in self.processes.list() if each.state != "Z"}


async def _log_when_warm(link: socket.socket) -> None:
    began = time.monotonic()
    with contextlib.suppress(OSError):
        if await asyncio.get_running_loop().sock_recv(link, 64):
            log.info("the prewarmed notebook is warm after %.1f s", time.monotonic() - began)


async def send_whole(link: socket.socket, order: bytes) -> None:
    """Send the order and its end, and read what the other side has sent; `link` can be closed then.

    Linux resets a Unix socket that is closed with unread data, such as the report of the prewarmed
    process that it is warm: that process would fail instead of reading the end of the order. Once
    receiving is shut down, nothing more can arrive. Raises `OSError`.
    """
    await asyncio.get_running_loop().sock_sendall(link, order)
    link.shutdown(socket.SHUT_RDWR)
    while link.recv(64):
        pass


async def _answers(url: str, http: aiohttp.ClientSession) -> bool:
    async with http.get(url, timeout=CHECK_TIMEOUT, allow_redirects=False) as answer:
        return answer.status < 500


async def _shows(url: str, certificates: NotebookCertificates) -> bool:
    """Whether the server listens. It serves only hub and proxy, so its certificate is enough."""
    address = urlsplit(url)
    # The certificate itself is compared, not its chain.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    async with asyncio.timeout(CHECK_SECONDS):
        _, writer = await asyncio.open_connection(address.hostname, address.port, ssl=context)
    try:
        return certificates.is_shown_by(writer.get_extra_info("ssl_object"))
    finally:
        writer.transport.abort()


def _open_log(path: Path) -> int:
    """Open the log, or /dev/null if it cannot be written, as on a full disk."""
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        log.error("the notebook has no log: %s", error)
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
