"""`cost.on_interruption`, over the agent's real socket and without one."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from ec2spawner import cost
from ec2spawner.agent_socket import SOCKET
from ec2spawner.cost import interruption
from ec2spawner.cost.agent import NO_RESPONSE, NOT_YET, Reading
from ec2spawner.cost.interruption import MAX_FUNCTIONS
from ec2spawner.cost.notice import Notice
from tests.stub_agent_socket import StubAgentSocket, stub_agent_socket

SECONDS = 20.0
"""For what takes milliseconds, on a busy machine."""

NOTHING = Reading(why=NOT_YET)
SILENT = Reading(why=NO_RESPONSE)


@pytest.fixture(autouse=True)
def watch(monkeypatch: pytest.MonkeyPatch) -> interruption._Watch:
    """Nothing is registered."""
    monkeypatch.delenv(SOCKET, raising=False)
    watch = interruption._Watch()
    monkeypatch.setattr(interruption, "_watch", watch)
    return watch


@pytest.fixture
def called(watch: interruption._Watch) -> queue.Queue[float]:
    calls: queue.Queue[float] = queue.Queue()
    cost.on_interruption(calls.put)
    return calls


def reading(seconds: float = 100, trigger: str = "interruption") -> Reading:
    return Reading(why=NOT_YET, notice=Notice(trigger, time.time() + seconds))


def calls_of(watch: interruption._Watch, called: queue.Queue[float], *seen: Reading) -> int:
    """How often a function is called in the course of these readings."""
    for each in seen:
        watch.see(each)
    for thread in threading.enumerate():
        if thread.name == "ec2spawner-on-interruption":
            thread.join(SECONDS)
    return called.qsize()


@pytest.mark.parametrize(
    ("seen", "calls"),
    [
        ([NOTHING, NOTHING], 0),
        ([NOTHING, reading(), reading(), reading()], 1),
        ([reading(), NOTHING, reading()], 2),
        ([reading(), SILENT, reading()], 1),
        ([reading(trigger="user"), reading(trigger="idle")], 0),
        ([reading(trigger="user"), reading()], 1),
    ],
)
def test_once_for_each_notice(
    watch: interruption._Watch, called: queue.Queue[float], seen: list[Reading], calls: int
) -> None:
    assert calls_of(watch, called, *seen) == calls


def test_the_seconds_left_are_never_negative(
    watch: interruption._Watch, called: queue.Queue[float]
) -> None:
    watch.see(reading(100))
    assert 90 < called.get(timeout=SECONDS) <= 100
    watch.see(NOTHING)
    watch.see(reading(-5))
    assert called.get(timeout=SECONDS) == 0


def test_what_raises_or_hangs_harms_nothing(
    watch: interruption._Watch, capfd: pytest.CaptureFixture[str]
) -> None:
    ended, reached = threading.Event(), queue.Queue[float]()

    @cost.on_interruption
    def hangs(seconds: float) -> None:
        ended.wait(SECONDS)

    @cost.on_interruption
    def exits(seconds: float) -> None:
        raise SystemExit("not now")

    cost.on_interruption(reached.put)
    watch.see(reading())
    assert reached.get(timeout=SECONDS)
    ended.set()
    assert calls_of(watch, reached, NOTHING, reading()) == 1
    assert "not now" in capfd.readouterr().err


def test_a_cell_that_is_run_again_registers_once(watch: interruption._Watch) -> None:
    calls: queue.Queue[str] = queue.Queue()

    def cell(number: int) -> None:
        @cost.on_interruption
        def save(seconds: float) -> None:
            calls.put(f"save {number}")

        cost.on_interruption(lambda seconds: calls.put("another"))

    cell(1)
    cell(2)
    watch.see(reading())
    found = sorted(calls.get(timeout=SECONDS) for _ in range(3))
    assert found == ["another", "another", "save 2"]


def test_the_number_of_functions_is_bounded() -> None:
    for _ in range(MAX_FUNCTIONS):
        cost.on_interruption(lambda seconds: None)
    with pytest.raises(ValueError, match="at most 32"):
        cost.on_interruption(lambda seconds: None)
    with pytest.raises(TypeError):
        cost.on_interruption(3)  # type: ignore[type-var]


def test_without_an_agent_no_thread_runs(called: queue.Queue[float]) -> None:
    assert not [each for each in threading.enumerate() if each.name == "ec2spawner-interruption"]


# --- over the agent's socket ---


@pytest.fixture
def agent() -> Iterator[StubAgentSocket]:
    with stub_agent_socket(None) as running:
        yield running


PROGRAM = """
import sys, threading
from ec2spawner import cost
from ec2spawner.cost import agent
agent.TIMEOUT = 20.0
called = threading.Event()
@cost.on_interruption
def save(seconds):
    print(f"{seconds:.0f}", flush=True)
    called.set()
print("ready", flush=True)
called.wait(60)
"""


def test_in_a_script(agent: StubAgentSocket) -> None:
    """A notice that comes later is seen; the thread does not keep the script from ending."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={SOCKET: agent.path},
        stdout=subprocess.PIPE,
        text=True,
    ) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "ready\n"
        agent.announce(interruption_at=datetime.now(UTC) + timedelta(seconds=100))
        assert 80 < int(script.stdout.readline()) <= 100
        assert script.wait(SECONDS) == 0
