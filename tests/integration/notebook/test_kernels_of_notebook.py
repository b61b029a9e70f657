"""Which kernel messages are work, by the messages that kernels and JupyterLab really send."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ec2spawner.notebook.kernels import CALLBACK_SECONDS, KernelWatch

NOW = datetime(2026, 11, 3, 14, 0, tzinfo=UTC)


class Provisioner:
    pid = 100


class Stream:
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
        watch.look()
        return watch

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def say(self, state: str, kind: str, message_id: str = "m1", **parent: Any) -> None:
        self.send("status", {"msg_type": kind, "msg_id": message_id, **parent}, state)

    def send(self, kind: str, parent: dict[str, Any], state: str) -> None:
        content = {"execution_state": state}
        parts = [{"msg_type": kind}, parent, {}, content]
        self.stream.receive(
            [b"topic", b"<IDS|MSG>", b"signature", *(json.dumps(part).encode() for part in parts)]
        )


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


def test_an_execution_is_work_and_its_end_is_the_last_activity(kernel: Kernel) -> None:
    watch = kernel.watch()
    kernel.say("busy", "execute_request")
    assert watch.look() == "busy"
    kernel.later(60)
    kernel.say("idle", "execute_request")
    assert watch.look() == "idle"
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
    assert watch.look() == "idle"
    kernel.say("idle", kind)
    assert watch.look() == "idle"
    assert watch.last_activity == NOW


def test_a_debugger_that_greets_does_not_end_a_running_cell(kernel: Kernel) -> None:
    watch = kernel.watch()
    kernel.say("busy", "execute_request", "cell")
    kernel.say("busy", "debug_request", "hello")
    kernel.say("idle", "debug_request", "hello")
    assert watch.look() == "busy"


def test_a_widgets_long_callback_is_work(kernel: Kernel) -> None:
    watch = kernel.watch()
    kernel.say("busy", "comm_msg")
    assert watch.look() == "idle"
    kernel.later(CALLBACK_SECONDS.total_seconds())
    assert watch.look() == "busy"
    kernel.say("idle", "comm_msg")
    assert watch.look() == "idle"
    assert watch.last_activity == kernel.now


def test_subshells_run_side_by_side(kernel: Kernel) -> None:
    watch = kernel.watch()
    kernel.say("busy", "execute_request", "main")
    kernel.say("busy", "execute_request", "other", subshell_id="s1")
    kernel.say("idle", "execute_request", "other", subshell_id="s1")
    assert watch.look() == "busy"
    kernel.say("idle", "execute_request", "main")
    assert watch.look() == "idle"


def test_a_restart_ends_what_ran(kernel: Kernel) -> None:
    watch = kernel.watch()
    kernel.say("busy", "execute_request")
    assert watch.look() == "busy"
    kernel.provisioner.pid = 200
    assert watch.look() == "idle"


def test_an_execution_from_before_we_listened_is_seen_after_a_moment(kernel: Kernel) -> None:
    kernel.execution_state = "busy"
    watch = kernel.watch()
    assert watch.look() == "idle"
    kernel.later(CALLBACK_SECONDS.total_seconds())
    assert watch.look() == "busy"
    kernel.execution_state = "idle"
    assert watch.look() == "idle"


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
    assert watch.look() == shown


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
def test_what_is_no_message_is_no_work(kernel: Kernel, frames: list[bytes]) -> None:
    watch = kernel.watch()
    kernel.stream.receive(frames)
    assert watch.look() == "idle"
