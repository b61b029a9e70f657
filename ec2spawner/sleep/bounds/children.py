"""Work in a forked child, which may hang, exit, crash or fill its memory without this process.

One child works through many tasks and reports each on a pipe. When it is late or ends, the task it
was at has failed, and a new child continues with the next one. A child shares the memory of this
process as it was, so nothing is copied; it has none of the other threads, and cannot use a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from . import own_json

PR_SET_PDEATHSIG: Final = 1
"""From <linux/prctl.h>."""
MEMORY_BYTES: Final = 1 << 30
"""Address space of a child beyond what it begins with: what allocates without end gets an error
long before the kernel is out of memory."""
READ_BYTES: Final = 1 << 16

Task = TypeVar("Task")


class Died(Exception):
    """The child ended in the middle of a task: how."""


class Hung(Exception):
    """The task took longer than its limit, and its child was killed."""


def run(
    tasks: Sequence[Task],
    work: Callable[[Task], Any],
    limit: Callable[[Task], float],
    memory_bytes: Callable[[Task], int] = lambda _: 0,
    prepare: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Task, Any]]:
    """Each task with what `work` returned for it, as JSON, or with Died or Hung.

    `limit`: seconds for a task, asked when it begins; `memory_bytes`: what a task may need beyond
    `MEMORY_BYTES`; `prepare`: called once in each child. What `work` prints is dropped.
    """
    waiting = list(tasks)
    while waiting:
        try:
            child = _Child(waiting, work, max(map(memory_bytes, waiting)), prepare)
        except OSError as why:  # no memory for another process
            yield waiting.pop(0), Died(f"no process could be started: {why.strerror}")
            continue
        try:
            while waiting:
                try:
                    result = child.result(limit(waiting[0]))
                except (Died, Hung) as failed:
                    yield waiting.pop(0), failed
                    break
                yield waiting.pop(0), result
        finally:
            child.end()


class _Child:
    def __init__(
        self,
        tasks: Sequence[Any],
        work: Callable[[Any], Any],
        memory: int,
        prepare: Callable[[], None],
    ) -> None:
        prctl, parent = ctypes.CDLL(None).prctl, os.getpid()
        self._answers = b""
        with warnings.catch_warnings():
            # Python 3.12 warns of a fork beside other threads: see the docstring of this module.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pipe, writing = os.pipe()
            try:
                with _without_hooks():
                    self._id = os.fork()
            except OSError:
                os.close(self._pipe)
                os.close(writing)
                raise
        if self._id == 0:
            try:
                prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
                if os.getppid() == parent:
                    _prepare(memory)
                    prepare()
                    _work(tasks, work, writing)
            finally:
                os._exit(1)
        os.close(writing)

    def result(self, seconds: float) -> Any:
        """The answer to the next task. Raises Hung, Died."""
        until = time.monotonic() + seconds
        while b"\n" not in self._answers:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._pipe], [], [], min(left, 0.5))[0]:
                if left <= 0:
                    raise Hung
                continue
            more = os.read(self._pipe, READ_BYTES)
            if not more:
                raise Died(self._how(until))
            self._answers += more
        line, _, self._answers = self._answers.partition(b"\n")
        try:
            return own_json.loads(line)
        except ValueError:
            raise Died("its answer was not understood") from None

    def end(self) -> None:
        """Kill it, and what it has started."""
        if self._id:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._id, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._id, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._id, 0)
            self._id = 0
        os.close(self._pipe)

    def _how(self, until: float) -> str:
        """How it ended. It has closed its pipe, which it may have done without ending."""
        while time.monotonic() < until:
            try:
                found, status = os.waitpid(self._id, os.WNOHANG)
            except ChildProcessError:
                return "its process ended"
            if found:
                self._id = 0
                if os.WIFSIGNALED(status):
                    number = os.WTERMSIG(status)
                    return f"its process was ended by {signal.Signals(number).name}"
                return f"its process exited with status {os.WEXITSTATUS(status)}"
            time.sleep(0.01)
        return "its process closed its pipe"


@contextlib.contextmanager
def _without_hooks() -> Iterator[None]:
    """A child of a fork within has no function that traces or profiles: it would be called there
    for what is no work of the user's."""
    trace, profile = sys.gettrace(), sys.getprofile()
    parent = os.getpid()
    sys.settrace(None)
    sys.setprofile(None)
    try:
        yield
    finally:
        if os.getpid() == parent:
            sys.settrace(trace)
            sys.setprofile(profile)


def _work(tasks: Sequence[Any], work: Callable[[Any], Any], writing: int) -> NoReturn:
    """In the child. It ends without any cleanup: that is the parent's."""
    try:
        for task in tasks:
            answer = own_json.dumps(work(task)).encode() + b"\n"
            while answer:
                answer = answer[os.write(writing, answer) :]
        os._exit(0)
    finally:
        os._exit(1)


def _prepare(memory: int) -> None:
    """Separate the child from the kernel's terminal, signals, output and memory."""
    os.setsid()
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    # A destructor that ran here would act for the parent: on a file, a connection, a GPU.
    gc.disable()
    gc.freeze()
    gc.callbacks.clear()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        bound = pages * resource.getpagesize() + MEMORY_BYTES + memory
        resource.setrlimit(resource.RLIMIT_AS, (bound, resource.RLIM_INFINITY))
    with contextlib.suppress(OSError):
        # Where memory ends regardless, the kernel's process is not the one to be killed.
        Path("/proc/self/oom_score_adj").write_text("1000")
