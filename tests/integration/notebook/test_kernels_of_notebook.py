"""Which kernel messages are work, by the messages that kernels and JupyterLab really send."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import zmq
from zmq.eventloop.zmqstream import ZMQStream

from ec2spawner.notebook.kernels.kernel_watch import CALLBACK_SECONDS, KernelWatch, KernelWatches
from ec2spawner.notebook.observer import Observer

NOW = datetime(2026, 11, 3, 14, 0, tzinfo=UTC)


class Provisioner:
    pid = 100


class Stream:
    socket = SimpleNamespace()
    receive: Callable[[list[bytes]], None]

    def on_recv(self, receive: Callable[[list[bytes]], None]) -> None:
        self.receive = receive

    def closed(self) -> bool:
        return False

    def close(self) -> None: ...


class Kernel:
    """A kernel manager as far as a watch looks at it, speaking the messaging protocol."""

    def __init__(self) -> None:
        self.execution_state = "idle"
        self.provisioner = Provisioner()
        self.ports = [1, 2, 3]
        self.stream = Stream()
        self.now = NOW
        self.changes = 0

    def connect_iopub(self) -> Stream:
        return self.stream

    def watch(self) -> KernelWatch:
        def changed() -> None:
            self.changes += 1

        watch = KernelWatch(self, lambda: self.now, changed)
        watch.check()
        return watch

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def say(self, state: str, kind: str, message_id: str = "m1", **parent: Any) -> None:
        self.send("status", {"msg_type": kind, "msg_id": message_id, **parent}, state)

    def send(self, kind: str, parent: dict[str, Any], state: str) -> None:
        self.stream.receive(message(kind, parent, state))


def message(kind: str, parent: dict[str, Any], state: str) -> list[bytes]:
    parts = [{"msg_type": kind}, parent, {}, {"execution_state": state}]
    return [b"topic", b"<IDS|MSG>", b"signature", *(json.dumps(part).encode() for part in parts)]


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


def test_an_execution_is_activity_and_so_is_its_end(kernel: Kernel) -> None:
    watch = kernel.watch()
    kernel.say("busy", "execute_request")
    assert watch.check() == "busy"
    kernel.later(60)
    kernel.say("idle", "execute_request")
    assert watch.check() == "idle"
    assert watch.last_activity == kernel.now
    assert kernel.changes == 2


@pytest.mark.parametrize(
    "kind",
    ["kernel_info_request", "comm_info_request", "debug_request", "history_request", "comm_open"],
)
def test_a_tab_that_connects_is_not_activity(kernel: Kernel, kind: str) -> None:
    watch = kernel.watch()
    kernel.later(60)
    kernel.say("busy", kind)
    assert watch.check() == "idle"
    kernel.say("idle", kind)
    assert watch.check() == "idle"
    assert watch.last_activity == NOW


def test_a_debugger_handshake_does_not_end_a_running_cell(kernel: Kernel) -> None:
    watch = kernel.watch()
    kernel.say("busy", "execute_request", "cell")
    kernel.say("busy", "debug_request", "hello")
    kernel.say("idle", "debug_request", "hello")
    assert watch.check() == "busy"


@pytest.mark.parametrize("state", ["starting", "restarting", "autorestarting"])
def test_a_kernel_that_never_becomes_ready_is_idle_since_its_start(
    kernel: Kernel, state: str
) -> None:
    watch = kernel.watch()
    kernel.later(7200)
    kernel.execution_state = state
    assert watch.check() == "starting"
    started = kernel.now
    assert watch.last_activity == started, "starting it is activity"
    kernel.later(120)
    assert watch.check() == "starting"
    kernel.later(1)
    assert watch.check() == "idle"
    assert watch.last_activity == started
    kernel.later(7200)
    kernel.execution_state = "idle"
    assert (watch.check(), watch.last_activity) == ("idle", started)
    kernel.execution_state = state
    assert watch.check() == "starting", "another start has a time of its own"


def test_a_long_widget_callback_is_activity(kernel: Kernel) -> None:
    watch = kernel.watch()
    kernel.say("busy", "comm_msg")
    assert watch.check() == "idle"
    kernel.later(CALLBACK_SECONDS.total_seconds())
    assert watch.check() == "busy"
    kernel.say("idle", "comm_msg")
    assert watch.check() == "idle"
    assert watch.last_activity == kernel.now


def test_subshells_run_side_by_side(kernel: Kernel) -> None:
    watch = kernel.watch()
    kernel.say("busy", "execute_request", "main")
    kernel.say("busy", "execute_request", "other", subshell_id="s1")
    kernel.say("idle", "execute_request", "other", subshell_id="s1")
    assert watch.check() == "busy"
    kernel.say("idle", "execute_request", "main")
    assert watch.check() == "idle"


def test_a_restart_ends_running_executions(kernel: Kernel) -> None:
    watch = kernel.watch()
    kernel.say("busy", "execute_request")
    assert watch.check() == "busy"
    kernel.provisioner.pid = 200
    assert watch.check() == "idle"


def test_an_execution_begun_before_we_listened_is_detected(kernel: Kernel) -> None:
    kernel.execution_state = "busy"
    watch = kernel.watch()
    assert watch.check() == "idle"
    assert watch.runs_anything(), "what saves its variables waits for it"
    kernel.later(CALLBACK_SECONDS.total_seconds())
    assert watch.check() == "busy"
    kernel.execution_state = "idle"
    assert watch.check() == "idle"
    assert not watch.runs_anything()


def test_a_kernel_that_has_only_just_started_is_busy_with_its_first_cell() -> None:
    started = Kernel()
    started.execution_state = "busy"
    manager: Any = SimpleNamespace(list_kernel_ids=lambda: ["k"], get_kernel=lambda _: started)
    watches = KernelWatches(manager, lambda: NOW, lambda: None)
    assert watches.is_busy("k")
    assert not watches.is_busy("gone")


async def test_the_end_of_a_cell_that_prints_faster_than_we_read_is_not_lost(
    kernel: Kernel,
) -> None:
    with zmq.Context() as context, context.socket(zmq.PUB) as iopub:
        iopub.linger = 0
        port = iopub.bind_to_random_port("tcp://127.0.0.1")

        def connect_iopub() -> ZMQStream:
            socket = context.socket(zmq.SUB)
            socket.subscribe(b"")
            socket.connect(f"tcp://127.0.0.1:{port}")
            return ZMQStream(socket)

        kernel.connect_iopub = connect_iopub  # type: ignore[method-assign, assignment]
        watch = kernel.watch()
        parent = {"msg_type": "execute_request", "msg_id": "m1"}
        async with asyncio.timeout(90):
            while watch.check() != "busy":
                iopub.send_multipart(message("status", parent, "busy"))
                await asyncio.sleep(0.05)
        for number in range(10_000):
            iopub.send_multipart(message("stream", parent, "x" * 3000))
            if number % 200 == 0:
                # As blocking as a busy event loop: nothing is read meanwhile.
                time.sleep(0.005)  # noqa: ASYNC251
        time.sleep(0.3)  # noqa: ASYNC251
        iopub.send_multipart(message("status", parent, "idle"))
        async with asyncio.timeout(90):
            while watch.check() != "idle":
                await asyncio.sleep(0.05)
        watch.close()


@pytest.mark.parametrize(
    ("own", "shown"),
    [
        ("starting", "starting"),
        ("restarting", "starting"),
        ("autorestarting", "starting"),
        ("dead", "unknown"),
        ("unheard of", "unknown"),
    ],
)
def test_other_states(kernel: Kernel, own: str, shown: str) -> None:
    watch = kernel.watch()
    kernel.execution_state = own
    assert watch.check() == shown


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"x"],
        [b"<IDS|MSG>"],
        [b"<IDS|MSG>", b"", b'"status"', b"{}", b"{}", b"{}"],
        [b"<IDS|MSG>", b"", b'{"msg_type": "status"}', b"[]", b"{}", b"{}"],
        [b"<IDS|MSG>", b"", b'{"msg_type": "status"}', b"{", b"{}", b"{}"],
        [
            b"<IDS|MSG>",
            b"",
            b'{"msg_type": "status"}',
            b'{"msg_type": "execute_request", "subshell_id": []}',
            b"{}",
            b'{"execution_state": "busy"}',
        ],
    ],
)
def test_malformed_messages_are_no_activity(kernel: Kernel, frames: list[bytes]) -> None:
    watch = kernel.watch()
    kernel.stream.receive(frames)
    assert watch.check() == "idle"


async def test_kernels_are_tracked_without_notebook_names(kernel: Kernel) -> None:
    class Kernels:
        def list_kernel_ids(self) -> list[str]:
            return ["k1"]

        def get_kernel(self, kernel_id: str) -> Kernel:
            return kernel

    class Sessions:
        async def list_sessions(self) -> list[Any]:
            raise RuntimeError("database is locked")

    server: Any = SimpleNamespace(
        kernel_manager=Kernels(),
        session_manager=Sessions(),
        web_app=SimpleNamespace(settings={}),
    )
    seen = await Observer(server).observe()
    assert [(each.id, each.name) for each in seen.kernels] == [("k1", "")]
