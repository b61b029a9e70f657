"""`cost.track`, `cost.epochs` and `cost.now`, over the agent's real socket and without one."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from ec2spawner import cost
from ec2spawner.agent.notebook_server.local_socket import MAX_CONNECTIONS
from ec2spawner.agent_socket import SOCKET
from ec2spawner.cost import agent as agent_line
from ec2spawner.cost.agent import NO_RESPONSE, NOT_OURS, NOT_YET, read
from ec2spawner.wire import WorkersCost
from tests.stub_agent_socket import StubAgentSocket, stub_agent_socket
from tests.stub_agent_socket import cost as reported

STANDALONE = f"(cost unknown: {NOT_OURS})"


@pytest.fixture(autouse=True)
def standalone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a script finds it anywhere; nothing was asked before."""
    monkeypatch.delenv(SOCKET, raising=False)
    monkeypatch.setattr(agent_line, "_last", ("", 0.0, agent_line.Reading()))


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubAgentSocket]:
    """A spot instance at 3.60 USD/hour: a tenth of a cent each second."""
    monkeypatch.setattr(agent_line, "FRESH", 0.0)
    monkeypatch.setattr(agent_line, "TIMEOUT", 20.0)
    with stub_agent_socket(reported()) as running:
        monkeypatch.setenv(SOCKET, running.path)
        yield running


class Moved:
    """The clock of the module, which a test moves."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Moved:
    moved = Moved()
    monkeypatch.setattr(agent_line, "clock", moved)
    return moved


# --- a block ---


def test_a_block_reports_its_cost_time_and_price(
    agent: StubAgentSocket, ahead: Moved, capsys: pytest.CaptureFixture[str]
) -> None:
    with cost.track("preparing") as block:
        ahead.ahead += 83
    assert block.usd == pytest.approx(0.083, abs=1e-3)
    assert block.seconds == pytest.approx(83, abs=1)
    assert block.estimate
    said = capsys.readouterr().out
    assert said == "preparing: $0.083 in 1 min 23 s (estimate in USD; $3.60/h, spot)\n"


def test_a_price_change_counts_from_then_on(agent: StubAgentSocket, ahead: Moved) -> None:
    """Half an hour at 3.60, half an hour at 7.20: the total shows it, the last rate does not."""
    begun = datetime.now(UTC)
    with cost.track(quiet=True) as block:
        ahead.ahead += 3600
        agent.say(reported(1.0 + 1.8 + 3.6, 7.2, as_of=begun + timedelta(seconds=3600)))
    assert block.usd == pytest.approx(5.4, abs=0.01)


def test_the_first_minute_costs_work_what_its_time_costs(
    agent: StubAgentSocket, ahead: Moved
) -> None:
    """The bill counts it whole from the start: `as_of` is its end."""
    agent.say(reported(0.06, 3.6, as_of=datetime.now(UTC) + timedelta(seconds=60)))
    before = cost.now()
    with cost.track(quiet=True) as block:
        ahead.ahead += 30
    after = cost.now()
    assert before is not None
    assert after is not None
    assert before.usd == after.usd == 0.06
    assert block.usd == pytest.approx(0.03, abs=1e-3)


def test_the_workers_of_a_cluster_are_part_of_what_a_block_costs(
    agent: StubAgentSocket, ahead: Moved
) -> None:
    workers = WorkersCost(count=2, running=2, usd=1.0, usd_per_hour=7.2, as_of=datetime.now(UTC))
    agent.say(reported(2.0, 3.6, workers=workers))
    with cost.track(quiet=True) as block:
        ahead.ahead += 1000
    assert block.usd == pytest.approx(3.0, abs=0.01)
    now = cost.now()
    assert now is not None
    assert (now.usd, now.workers_usd) == (
        pytest.approx(6.0, abs=0.02),
        pytest.approx(3.0, abs=0.01),
    )
    assert (now.usd_per_hour, now.workers_usd_per_hour, now.workers) == (10.8, 7.2, 2)


def test_without_the_agent_the_last_rate_is_used(agent: StubAgentSocket, ahead: Moved) -> None:
    with cost.track(quiet=True) as block:
        ahead.ahead += 1000
        os.environ[SOCKET] = "/nowhere"
    assert block.usd == pytest.approx(1.0, abs=0.01)


def test_a_price_learned_during_the_block_counts(agent: StubAgentSocket, ahead: Moved) -> None:
    agent.say(reported(None, None))
    with cost.track(quiet=True) as block:
        ahead.ahead += 1000
        agent.say(reported(9.0, 3.6))
    assert block.usd == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("says", "why"),
    [(reported(None, None), "the price of this machine is not known"), (None, NOT_YET)],
)
def test_unknown_costs_are_shown_as_unknown(
    agent: StubAgentSocket, capsys: pytest.CaptureFixture[str], says: None, why: str
) -> None:
    agent.say(says)
    with cost.track("work") as block:
        pass
    said = capsys.readouterr().out
    assert block.usd is None
    assert re.fullmatch(rf"work: \d+ ms \(cost unknown: {why}\)\n", said), said
    assert "0.0" not in said


def test_standalone_reports_the_time_and_why_the_cost_is_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cost.now() is None
    with cost.track("work"):
        time.sleep(0.11)
    for _ in cost.epochs(range(2)):
        time.sleep(0.01)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.endswith(STANDALONE) for line in lines)
    assert re.match(r"work: 0\.1\d s ", lines[0])
    assert re.match(r"epoch 1 of 2: \d+ ms; \d+ ms left, until \d\d:\d\d UTC ", lines[1])
    assert re.match(r"2 epochs: \d+ ms; \d+ ms each ", lines[2])


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_propagates_and_the_cost_is_reported(
    capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    with pytest.raises(type(error)) as raised, cost.track("work"):
        raise error
    assert raised.value is error
    assert f"ms, ended by {type(error).__name__} (cost unknown" in capsys.readouterr().out


def test_nested_blocks_are_indented_and_threads_start_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work() -> None:
        with cost.track("thread"):
            pass

    with cost.track("outer"):
        with cost.track("inner"):
            pass
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    with cost.track("next"):
        pass
    names = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["  inner", "thread", "outer", "next"]


async def test_tasks_do_not_indent_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    async def work(name: str, seconds: float) -> None:
        with cost.track(name):
            await asyncio.sleep(seconds)

    await asyncio.gather(work("a", 0.02), work("b", 0.01))
    names = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["b", "a"]


async def test_a_decorator_measures_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    @cost.track("fit")
    def fit(n: int) -> int:
        return fit(n - 1) + 1 if n else 0

    @cost.track()
    async def load() -> str:
        await asyncio.sleep(0.11)
        return "loaded"

    @cost.track()
    def batches() -> Iterator[int]:
        yield from (1, 2)

    assert (fit(2), await load(), list(batches())) == (2, "loaded", [1, 2])
    lines = capsys.readouterr().out.splitlines()
    names = [line.split(":")[0] for line in lines]
    assert names == ["    fit", "  fit", "fit", "load", "batches"]
    assert re.match(r"load: 0\.1\d s ", lines[3])
    with pytest.raises(TypeError, match="parentheses"):
        cost.track(fit)  # type: ignore[arg-type]


def test_output_follows_redirected_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    taken, given = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(taken), cost.track("taken"):
        pass
    with cost.track("given", file=given):
        pass
    assert taken.getvalue().startswith("taken: ")
    assert given.getvalue().startswith("given: ")
    assert capsys.readouterr().out == ""


def test_a_broken_output_breaks_nothing() -> None:
    closed = io.StringIO()
    closed.close()
    with cost.track("work", file=closed) as block:
        pass
    assert block.seconds is not None
    assert list(cost.epochs(range(2), file=closed)) == [0, 1]


# --- epochs ---


def test_epochs_report_their_cost_the_total_and_the_forecast(
    agent: StubAgentSocket, ahead: Moved, capsys: pytest.CaptureFixture[str]
) -> None:
    for epoch in cost.epochs(range(4)):
        ahead.ahead += 200 if epoch == 0 else 100
    lines = capsys.readouterr().out.splitlines()
    remark = "(estimate in USD; $3.60/h, spot)"
    first, second, _, fourth, all_ = lines
    assert re.fullmatch(
        r"epoch 1 of 4: \$0\.20 in 3 min 20 s; so far \$0\.20; forecast \$0\.80; "
        r"10 min \d s left, until (\d\d \w+ )?\d\d:\d\d UTC " + re.escape(remark),
        first,
    ), first
    assert "epoch 2 of 4: $0.10 in 1 min 40 s; so far $0.30; forecast $0.50; " in second
    assert fourth == f"epoch 4 of 4: $0.10 in 1 min 40 s; so far $0.50 {remark}"
    assert all_ == f"4 epochs: $0.50 in 8 min 20 s; $0.13 each {remark}"


def test_epochs_without_a_length_have_no_forecast_unless_it_is_given(
    capsys: pytest.CaptureFixture[str], ahead: Moved
) -> None:
    def endless() -> Iterator[int]:
        number = 0
        while True:
            yield (number := number + 1)

    class Streams:
        def __iter__(self) -> Iterator[int]:
            return iter([1])

        def __len__(self) -> int:
            raise NotImplementedError("a dataset that streams")

    for epoch in cost.epochs(endless()):
        ahead.ahead += 10
        if epoch == 3:
            break
    assert list(cost.epochs(Streams(), name="pass")) == [1]
    for _ in cost.epochs(iter(range(2)), total=3):
        ahead.ahead += 10
    said = capsys.readouterr().out
    assert said.count(" left, until ") == 2
    assert "epoch 2: 10.0 s (" in said
    assert "2 epochs: 30.0 s, left in epoch 3 (" in said
    assert "epoch 1 of 3: 10.0 s; 20.0 s left" in said
    assert "2 of 3 epochs: 20.0 s; 10.0 s each (" in said


def test_a_loop_ended_by_an_exception_reports_its_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    def train() -> None:
        for epoch in cost.epochs(range(5)):
            if epoch == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train()
    assert "2 of 5 epochs: " in capsys.readouterr().out.splitlines()[-1]


def test_quick_epochs_are_reported_seldom(capsys: pytest.CaptureFixture[str]) -> None:
    assert sum(cost.epochs(range(5000))) == sum(range(5000))
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("epoch 1 of 5000: ")
    assert last.startswith("5000 epochs: ")


def test_an_empty_loop_is_reported_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(cost.epochs([])) == []
    assert capsys.readouterr().out.startswith("0 epochs: ")


# --- now ---


def test_now_extrapolates_from_the_hubs_last_figure(agent: StubAgentSocket, ahead: Moved) -> None:
    agent.say(reported(1.0, 3.6, today_usd=2.0, month_usd=9.0, saved_usd=0.7, price_source="EC2"))
    ahead.ahead += 50
    now = cost.now()
    assert now is not None
    assert (now.usd, now.today_usd, now.month_usd) == (
        pytest.approx(1.05, abs=1e-3),
        pytest.approx(2.05, abs=1e-3),
        pytest.approx(9.05, abs=1e-3),
    )
    assert (now.usd_per_hour, now.market, now.estimate) == (3.6, "spot", True)
    assert (now.saved_usd, now.price_source) == (0.7, "EC2")
    with pytest.raises(AttributeError):
        now.usd = 0  # type: ignore[misc]


def test_now_has_none_for_unknown_figures(agent: StubAgentSocket) -> None:
    agent.say(reported(None, 0.5))
    now = cost.now()
    assert now is not None
    assert (now.usd, now.usd_per_hour, now.today_usd) == (None, 0.5, None)


def test_a_response_is_cached_for_a_second(
    agent: StubAgentSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_line, "FRESH", 60.0)
    first = read()
    agent.say(reported(5.0))
    assert read() is first
    monkeypatch.setattr(agent_line, "_last", ("", 0.0, first))
    assert read().cost is not None
    assert read() is not first


# --- agents that are not well ---


@pytest.fixture
def mute(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """An agent's socket that accepts and says nothing."""
    path = str(tmp_path_factory.mktemp("m") / "s")
    monkeypatch.setenv(SOCKET, path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        listening.setblocking(False)
        yield listening


def callers(listening: socket.socket) -> int:
    """How many connections were made to it."""
    number = 0
    with suppress(BlockingIOError):
        while True:
            listening.accept()[0].close()
            number += 1
    return number


def test_a_hanging_agent_is_queried_once(
    mute: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_line, "SILENT", 3600.0)
    began = time.monotonic()
    assert read().why == NO_RESPONSE
    assert time.monotonic() - began > 0.8 * agent_line.TIMEOUT
    assert list(cost.epochs(range(100), quiet=True)) == list(range(100))
    assert cost.now() is None
    assert callers(mute) == 1


@pytest.mark.parametrize(
    "line",
    [b"hello\n", b"[]\n", b'"x"\n', b'{"cost": 3}\n', b'{"cost": {"usd": "lots"}}\n', b"\xff\n"],
)
def test_an_agent_with_malformed_responses_is_ignored(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    path = str(tmp_path_factory.mktemp("n") / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()

        def answer() -> None:
            caller, _ = listening.accept()
            with caller:
                caller.sendall(line)

        thread = threading.Thread(target=answer)
        thread.start()
        monkeypatch.setenv(SOCKET, path)
        assert read() == agent_line.Reading(why=NO_RESPONSE)
        thread.join()


def test_a_missing_agent_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOCKET, "/nowhere/agent.sock")
    monkeypatch.setattr(agent_line, "TIMEOUT", 3600.0)
    assert read().why == NO_RESPONSE


FORKED = """
import os, sys, time
from ec2spawner import cost
from ec2spawner.cost import agent
from ec2spawner.wire import Cost

agent.TIMEOUT = 20.0
begin = time.time() + 0.5
children = []
for number in range(20):
    child = os.fork()
    if child == 0:
        time.sleep(max(begin - time.time(), 0))
        with cost.track("script"):
            pass
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"""


def test_twenty_scripts_at_once_all_learn_their_cost(agent: StubAgentSocket) -> None:
    """And a permanent connection, as the extension's, is kept."""
    with socket.socket(socket.AF_UNIX) as extension:
        extension.connect(agent.path)
        extension.sendall(b'{"type": "observation", "at": "2026-11-20T12:00:00Z"}\n')
        program = [sys.executable, "-c", FORKED]
        said = subprocess.run(program, capture_output=True, text=True, timeout=300, check=True)
        lines = said.stdout.splitlines()
        assert len(lines) == 20 > MAX_CONNECTIONS
        assert [line for line in lines if "$3.60/h" not in line] == []
        agent.say(reported(77.0))
        extension.settimeout(5)
        heard = b""
        while b"77.0" not in heard:
            heard += extension.recv(1 << 20)
