"""`%%cost` and `%cost` in a real IPython shell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from ec2spawner.agent_socket import SOCKET
from ec2spawner.cost import agent as agent_line
from ec2spawner.wire import WorkersCost
from tests.stub_agent_socket import StubAgentSocket, stub_agent_socket
from tests.stub_agent_socket import cost as reported

HOUR = timedelta(hours=1)

COST = r"(?:less than )?\$[\d.]+ in [\d.]+ m?s \(estimate in USD; \$3\.60/h, spot\)\n"


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubAgentSocket]:
    monkeypatch.setattr(agent_line, "_last", ("", 0.0, agent_line.Reading()))
    monkeypatch.setattr(agent_line, "TIMEOUT", 20.0)
    with stub_agent_socket(reported()) as running:
        monkeypatch.setenv(SOCKET, running.path)
        yield running


@pytest.fixture
def shell(agent: StubAgentSocket) -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "ec2spawner.cost")
    yield shell
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, cell: str) -> Any:
    return shell.run_cell(cell, store_history=True)


def test_a_cell_runs_unchanged_and_reports_its_cost(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(shell, "%%cost training run\nx = 20\nprint(x)\nx + 1")
    assert (result.result, shell.user_ns["x"]) == (21, 20)
    said = capsys.readouterr().out
    assert re.fullmatch(rf"20\nOut\[\d+\]: 21\ntraining run: {COST}", said), said


def test_a_cell_may_await(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "%%cost\nimport asyncio\nawait asyncio.sleep(0.12)\ny = 1")
    assert shell.user_ns["y"] == 1
    assert re.fullmatch(r"\$[\d.]+ in 0\.1\d s \(.*\)\n", capsys.readouterr().out)


@pytest.mark.parametrize(("code", "error"), [("1 / 0", "ZeroDivisionError"), ("if", "SyntaxError")])
def test_an_exception_is_shown_with_its_line_and_the_cost(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], code: str, error: str
) -> None:
    result = run(shell, f"%%cost\nx = 1\n{code}")
    assert type(result.error_in_exec or result.error_before_exec).__name__ == error
    said = capsys.readouterr().out
    assert f"s, ended by {error} (estimate" in said
    assert re.search(r"line 3|----> 3", re.sub(r"\x1b\[[\d;]*m", "", said)), said


def test_it_combines_with_other_magics(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, "%%cost outer\n%%capture taken\nprint('inside')")
    said = capsys.readouterr().out
    assert re.fullmatch(rf"outer: {COST}", said), said
    assert shell.user_ns["taken"].stdout == "inside\n"
    run(shell, "%%cost\nlisted = !echo a\n%xmode Plain")
    assert shell.user_ns["listed"] == ["a"]
    assert re.fullmatch(rf"Exception reporting mode: Plain\n{COST}", capsys.readouterr().out)
    run(shell, "%%cost\nfrom __future__ import annotations\nz = 3")
    assert shell.user_ns["z"] == 3
    assert re.fullmatch(COST, capsys.readouterr().out)
    run(shell, "%%capture taken\nget_ipython().run_cell_magic('cost', 'inner', 'w = 4')")
    assert shell.user_ns["w"] == 4
    assert re.fullmatch(rf"inner: {COST}", shell.user_ns["taken"].stdout)


def test_cells_in_cells_end_in_order(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, "%%cost outer\nget_ipython().run_cell('%%cost inner\\nq = 1')\nNone")
    names = re.findall(r"^ *(\w+): (?:less than )?\$", capsys.readouterr().out, re.MULTILINE)
    assert names == ["inner", "outer"]
    run(shell, "1")
    assert "USD" not in capsys.readouterr().out


def test_cells_without_the_magic_are_unchanged(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, "s = '''\n%%cost\n'''\nlen(s)")
    assert shell.user_ns["s"] == "\n%%cost\n"
    run(shell, "%%costly\npass")
    said = capsys.readouterr()
    assert "USD" not in said.out
    assert "costly" in said.out + said.err


def test_a_line_reports_the_current_cost_or_measures_code(
    shell: InteractiveShell, agent: StubAgentSocket, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shell, "v = %cost sum(range(10))").success
    assert shell.user_ns["v"] == 45
    assert re.fullmatch(rf"sum\(range\(10\)\): {COST}", capsys.readouterr().out)
    run(shell, "%cost k = 5")
    assert shell.user_ns["k"] == 5
    run(shell, "%cost def f(x: int): pass")
    assert shell.user_ns["f"].__annotations__ == {"x": int}, "as the shell compiles, not as we do"
    capsys.readouterr()
    agent.say(reported(2.5, 0.19, saved_usd=1.5, today_usd=4.0, month_usd=80.25))
    agent_line._last = ("", 0.0, agent_line.Reading())
    run(shell, "%cost")
    assert capsys.readouterr().out == (
        "This server has cost $2.50 so far; $0.19/h (spot); $1.50 less than on demand; "
        "all your servers today $4.00; this month $80.25 (estimate in USD)\n"
    )


def test_workers_of_the_cluster_count_and_are_named(
    shell: InteractiveShell, agent: StubAgentSocket, capsys: pytest.CaptureFixture[str]
) -> None:
    workers = WorkersCost(
        count=2, running=2, usd=3.4, usd_per_hour=1.06, as_of=datetime.now(UTC) + HOUR
    )
    agent.say(reported(1.2, 0.53, as_of=datetime.now(UTC) + HOUR, workers=workers))
    agent_line._last = ("", 0.0, agent_line.Reading())
    run(shell, "%cost")
    assert capsys.readouterr().out == (
        "This server has cost $4.60 so far (server $1.20 + workers $3.40); "
        "$0.53/h (spot) + 2 workers $1.06/h (estimate in USD)\n"
    )
    run(shell, "%%cost\nNone")
    assert "(estimate in USD; $0.53/h, spot + 2 workers $1.06/h)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("!true", None),
        ("listed = !echo a", None),
        ("%sx echo a", ["a"]),
        ("first = 1; first + 1", 2),
        ("'{_oh}'.format(_oh=1)", "1"),
        ("# nothing", None),
    ],
)
def test_a_line_of_code_is_understood_as_ipython_does(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], line: str, result: Any
) -> None:
    ran = run(shell, f"%cost {line}")
    assert (ran.success, ran.result) == (True, result)
    assert re.search(rf"^{re.escape(line)}: {COST}", capsys.readouterr().out, re.MULTILINE)
    assert shell.user_ns.get("listed", ["a"]) == ["a"]


@pytest.mark.parametrize(("line", "error"), [("1 / 0", ZeroDivisionError), ("1 +", SyntaxError)])
def test_a_failing_line_reports_its_cost_and_the_error(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], line: str, error: type
) -> None:
    ran = run(shell, f"%cost {line}")
    assert type(ran.error_in_exec) is error
    said = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert f"{line}: " in said
    assert f"s, ended by {error.__name__} (estimate" in said
    assert re.search(rf"1 {re.escape(line)}$|^    {re.escape(line)}$", said, re.MULTILINE), said
    assert "During handling" not in said


@pytest.mark.parametrize(
    ("says", "said"),
    [
        (None, "The cost of this server is unknown: the hub has not sent it yet\n"),
        (
            reported(None, None),
            "The cost of this server so far is unknown: the price of this machine is not known\n",
        ),
        (
            reported(None, 0.5),
            (
                "The cost of this server so far is unknown: a price is not known; "
                "$0.50/h (spot) (estimate in USD)\n"
            ),
        ),
        (
            reported(1.0, 0.5, workers=WorkersCost(count=1, running=1, as_of=datetime.now(UTC))),
            "The cost of this server so far is unknown: the price of a worker is not known\n",
        ),
    ],
)
def test_a_line_says_what_is_unknown(
    shell: InteractiveShell,
    agent: StubAgentSocket,
    capsys: pytest.CaptureFixture[str],
    says: Any,
    said: str,
) -> None:
    agent.say(says)
    run(shell, "%cost")
    assert capsys.readouterr().out == said


def test_loading_twice_reports_once_and_unloading_removes_it(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_line_magic("reload_ext", "ec2spawner.cost")
    shell.run_line_magic("load_ext", "ec2spawner.cost")
    run(shell, "%%cost once\nNone")
    assert capsys.readouterr().out.count("$") == 2, "its cost and its rate"
    shell.run_line_magic("unload_ext", "ec2spawner.cost")
    run(shell, "%%cost\nNone")
    said = capsys.readouterr()
    assert "USD" not in said.out
    assert "cost" in said.out + said.err
