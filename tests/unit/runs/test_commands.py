"""`ec2spawner run` and `ec2spawner runs`, through the socket of an agent."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from ec2spawner.agent_socket import SOCKET
from ec2spawner.cli import main
from ec2spawner.core.runs.documents import pack, unpack
from ec2spawner.runs.agent_request import HubSilent
from ec2spawner.runs.commands.follow import follow
from ec2spawner.runs.errors import RunError
from ec2spawner.wire import RunsAnswer, RunsRequest, RunSubmission, RunSummary
from ec2spawner.wire.runs import MAX_ARRAY, MAX_DOCUMENT_BYTES, MAX_SHOWN_RUNS
from tests.serving import serving

from .agent_socket import Busy, Refusal, agent, summary

NOW = datetime.now(UTC)
TOKEN = "a-token-of-the-user"


class Hub:
    """Numbers what is submitted from 12 on."""

    def __init__(self) -> None:
        self.asked: list[RunsRequest] = []
        self.runs: list[RunSummary] = []
        self.refusal: str | None = None
        self.busy = 0
        """So many requests come too soon."""
        self.result = ""

    def __call__(self, request: RunsRequest) -> RunsAnswer:
        self.asked.append(request)
        if self.busy:
            self.busy -= 1
            raise Busy
        if self.refusal is not None:
            raise Refusal(self.refusal)
        if request.action == "submit":
            count = len(self.submission.parameters)
            return RunsAnswer(
                runs=[
                    summary(12 + place, path=self.submission.path, array=12 if count > 1 else 0)
                    for place in reversed(range(count))
                ]
            )
        if request.action == "result":
            return RunsAnswer(result=self.result, runs=self.runs)
        if request.number is not None:
            return RunsAnswer(runs=self.array(request.number))
        return RunsAnswer(runs=self.runs[:MAX_SHOWN_RUNS])

    def array(self, number: int) -> list[RunSummary]:
        """By number."""
        run = next((each for each in self.runs if each.number == number), None)
        if run is None:
            raise Refusal(f"you have no run {number}")
        found = [each for each in self.runs if run.array and each.array == run.array]
        return sorted(found or [run], key=lambda each: each.number)

    @property
    def submission(self) -> RunSubmission:
        found = self.asked[0].submission
        assert found is not None
        return found


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    (tmp_path / "train.py").write_text("print('x')\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    made = Hub()
    serving: AbstractContextManager[None] = agent(tmp_path, monkeypatch, made)
    with serving:
        yield made


Output = Callable[[], str]


@pytest.fixture
def out(capsys: pytest.CaptureFixture[str]) -> Output:
    return lambda: capsys.readouterr().out


@pytest.fixture
def err(capsys: pytest.CaptureFixture[str]) -> Output:
    return lambda: capsys.readouterr().err


def test_a_script_is_submitted_with_its_options(hub: Hub, out: Output) -> None:
    options = (
        "-p lr 0.1 -p name a --max-usd 5 --deadline 8h --retries 2 "
        "--max-spot-price 0.5 --wait-until 2h"
    )
    assert main(["run", "train.py", "--profile", "t4", *options.split()]) == 0
    sent = hub.submission
    assert (sent.path, sent.profile) == ("train.py", "t4")
    assert unpack(sent.document) == b"print('x')\n"
    assert (sent.parameters, sent.retries, sent.max_usd) == ([{"lr": 0.1, "name": "a"}], 2, 5)
    assert (sent.max_spot_usd_per_hour, sent.at_once) == (0.5, None)
    assert sent.deadline is not None
    assert sent.wait_until is not None
    assert sent.deadline - sent.wait_until == timedelta(hours=6)
    said = out()
    assert "Run 12 " in said
    assert "~/runs/train-12.log" in said
    assert "ec2spawner runs show 12" in said


def test_a_file_of_parameters_is_an_array(hub: Hub, out: Output, tmp_path: Path) -> None:
    (tmp_path / "grid.csv").write_text("lr\n0.1\n0.2\n")
    asked = ["run", "train.py", "--profile=t4", "-p", "seed", "1", "--params=grid.csv"]
    assert main([*asked, "--at-once=1"]) == 0
    assert hub.submission.parameters == [{"seed": 1, "lr": 0.1}, {"seed": 1, "lr": 0.2}]
    assert hub.submission.at_once == 1
    assert "runs table 12" in out()
    assert main([*asked, "--json"]) == 0
    found = json.loads(out())["runs"]
    assert [(run["number"], run["result_path"]) for run in found] == [
        (12, "runs/train-12.log"),
        (13, "runs/train-13.log"),
    ]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["train.py", "-p", "a b", "1"], "-p a b"),
        (["train.py", "--max-usd=-1"], "--max-usd"),
        (["train.py", "--deadline=soon"], "--deadline soon"),
        (["train.py", "--wait-until=2h", "--deadline=1h"], "--wait-until"),
        (["train.py", "--at-once=2"], "--at-once"),
        (["train.py", "--params=gone.csv"], "--params gone.csv"),
        (["gone.ipynb"], "gone.ipynb"),
        (["/etc/hosts.py"], "home"),
    ],
)
def test_what_cannot_be_names_its_option(
    hub: Hub, err: Output, options: list[str], named: str
) -> None:
    assert main(["run", *options, "--profile", "t4"]) == 2
    assert named in err()
    assert hub.asked == []


def test_a_refusal_and_a_silent_hub_are_said(hub: Hub, err: Output) -> None:
    hub.refusal = "There is no profile t5"
    assert main(["run", "train.py", "--profile", "t5"]) == 1
    assert "there is no profile t5" in err()
    hub.refusal = ""
    assert main(["run", "train.py", "--profile", "t5"]) == 1
    assert "ec2spawner runs" in err()


def test_elsewhere_than_on_a_server_there_are_no_runs(
    hub: Hub, err: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SOCKET)
    assert main(["runs"]) == 1
    assert "terminal" in err()


def test_the_list_has_an_array_in_one_line(hub: Hub, out: Output) -> None:
    hub.runs = [
        summary(15, state="running", cells_done=3, cells_total=12, attempts=1, usd=0.5),
        summary(14, array=12, usd=0.25, attempts=1, state="ended", outcome="failed"),
        summary(13, array=12, usd=None, attempts=1, state="running"),
        summary(12, array=12, attempts=0),
        summary(11, path="\x1b[31mevil.py", state="ended", outcome="cost-cap"),
    ]
    assert main(["runs"]) == 0
    said = out()
    lines = [line.split() for line in said.splitlines()]
    assert [line[0] for line in lines[1:4]] == ["15", "12-14", "11"]
    assert "3 of 12 cells" in said
    assert "at least 0.2500" in said
    assert "\x1b[31mevil" not in said
    assert main(["runs", "--json"]) == 0
    assert [run["number"] for run in json.loads(out())["runs"]] == [15, 14, 13, 12, 11]


def test_an_empty_list_says_how_to_begin(hub: Hub, out: Output) -> None:
    assert main(["runs"]) == 0
    assert "ec2spawner run " in out()


def test_one_run_is_shown(hub: Hub, out: Output, err: Output) -> None:
    hub.runs = [
        summary(
            12,
            state="ended",
            outcome="deadline",
            message="8 hours are over",
            parameters={"lr": 0.1},
            attempts=2,
            retries=5,
            usd=1.5,
            has_result=True,
            delivered=True,
            started_at=NOW - timedelta(hours=8),
            ended_at=NOW,
        )
    ]
    assert main(["runs", "show", "12"]) == 0
    said = out()
    for part in ("8 hours are over", "0.1", "2 of at most 6", "1.5000", "~/runs/train-12.ipynb"):
        assert part in said
    assert main(["runs", "show", "13"]) == 1
    assert "no run 13" in err()


def test_a_run_is_cancelled(hub: Hub, out: Output) -> None:
    hub.runs = [summary(12, state="ended", outcome="cancelled")]
    assert main(["runs", "cancel", "12"]) == 0
    assert hub.asked == [RunsRequest(action="cancel", number=12)]
    assert "12: cancelled" in out()
    assert main(["runs", "cancel", "12", "--array"]) == 0
    assert hub.asked[-1] == RunsRequest(action="cancel", number=12, array=True)


def test_a_result_is_written_where_it_is_wanted(
    hub: Hub, out: Output, err: Output, tmp_path: Path
) -> None:
    assert main(["runs", "result", "12"]) == 1
    assert "no result yet" in err()
    content = b"\x00\xff" + bytes(range(256)) * 20_000
    hub.result = pack([content])
    assert main(["runs", "result", "12", "--to", "so-far.log"]) == 0
    assert (tmp_path / "so-far.log").read_bytes() == content
    assert main(["runs", "result", "12", "--to", "gone/so-far.log"]) == 2
    hub.result = pack([b"epoch 1\n"])
    out()
    assert main(["runs", "result", "12"]) == 0
    assert out() == "epoch 1\n"
    assert main(["runs", "result", "12", "--json"]) == 0
    assert json.loads(out()) == {"number": 12, "result": "epoch 1\n"}


@pytest.mark.parametrize("asked", [["runs", "result", "12"], ["run", "train.py", "--profile=t4"]])
def test_a_busy_hub_is_asked_again_when_it_says_so(hub: Hub, out: Output, asked: list[str]) -> None:
    hub.busy, hub.result = 3, pack([b"epoch 1\n"])
    assert main(asked) == 0
    assert len(hub.asked) == 4
    assert len(set(map(RunsRequest.model_dump_json, hub.asked))) == 1


def test_the_largest_result_arrives(hub: Hub, err: Output) -> None:
    hub.result = "A" * MAX_DOCUMENT_BYTES
    hub.runs = [summary(number, message="x" * 500) for number in range(1, 1001)]
    assert main(["runs", "result", "12"]) == 1
    assert "damaged" in err()


@pytest.mark.parametrize("number", ["12", "14"])
def test_an_array_is_a_table(hub: Hub, out: Output, number: str) -> None:
    hub.runs = [
        summary(15),
        summary(
            14,
            array=12,
            parameters={"lr": 0.2, "name": "=x"},
            usd=0.5,
            attempts=1,
            state="ended",
            outcome="succeeded",
            delivered=True,
        ),
        summary(13, array=12, parameters={"lr": [1]}, usd=0.25, attempts=2),
        summary(12, array=12, parameters={"lr": True}),
    ]
    assert main(["runs", "table", number]) == 0
    said = out()
    assert "3 runs, 0.7500 USD" in said
    assert main(["runs", "table", number, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(out())))
    assert [(row["run"], row["lr"], row["name"], row["usd"]) for row in rows] == [
        ("12", "true", "", ""),
        ("13", "[1]", "", "0.25"),
        ("14", "0.2", "'=x", "0.5"),
    ]
    assert [row["result"] for row in rows] == ["", "", "runs/train-14.ipynb"]


def test_an_array_that_is_not_among_the_newest_runs_is_whole(hub: Hub, out: Output) -> None:
    first, last = 12, 11 + MAX_ARRAY
    array = [
        summary(number, array=first, state="ended", outcome="succeeded", usd=0.5, attempts=1)
        for number in range(last, first - 1, -1)
    ]
    newer = [summary(number) for number in range(last + MAX_SHOWN_RUNS, last, -1)]
    for hub.runs in (array, [*newer, *array]):
        assert main(["runs", "table", "12"]) == 0
        assert f"{MAX_ARRAY} runs, {MAX_ARRAY / 2:.4f} USD" in out()
        assert main(["runs", "table", f"{last}", "--csv"]) == 0
        rows = csv.DictReader(io.StringIO(out()))
        assert [row["run"] for row in rows] == [f"{n}" for n in range(first, last + 1)]
        assert main(["runs", "show", "12", "--json"]) == 0
        assert [run["number"] for run in json.loads(out())["runs"]] == [12]
        assert main(["runs"]) == 0
        assert "Only this server's newest 1000 runs are listed" in out()
    followed = follow(range(first, last + 1), Console(file=io.StringIO()), poll_seconds=0)
    assert [run.number for run in followed] == list(range(first, last + 1))


@pytest.mark.parametrize(
    "asked",
    [["show"], ["list", "3"], ["cancel", "0"], ["show", "1", "--to=x"], ["--csv"], ["--array"]],
)
def test_an_incomplete_request_says_what_to_write(hub: Hub, err: Output, asked: list[str]) -> None:
    assert main(["runs", *asked]) == 2
    assert "ec2spawner runs" in err()
    assert hub.asked == []


def test_waiting_ends_with_the_runs_and_bears_a_silent_hub() -> None:
    ended = summary(12, state="ended", outcome="succeeded", has_result=True, attempts=1, usd=0.5)
    steps: list[RunsAnswer | Exception] = [
        RunsAnswer(runs=[summary(12)]),
        HubSilent("no answer"),
        RunsAnswer(runs=[summary(12, state="running", cells_done=1, cells_total=2, message="[x]")]),
        RunsAnswer(runs=[ended]),
    ]

    def asking(request: RunsRequest) -> RunsAnswer:
        assert request == RunsRequest(number=12)
        step = steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    console = Console(file=io.StringIO(), width=200)
    assert follow([12], console, asking=asking, poll_seconds=0) == [ended]
    assert steps == []
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Run 12 succeeded" in said
    assert "runs/train-12.ipynb" in said


def test_waiting_for_a_run_that_is_gone_ends() -> None:
    console = Console(file=io.StringIO())
    with pytest.raises(RunError):
        follow([12], console, asking=lambda request: RunsAnswer(runs=[summary(11)]), poll_seconds=0)


def test_waiting_has_the_exit_status_of_the_runs(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, out: Output
) -> None:
    for outcome, status in (("succeeded", 0), ("failed", 1)):
        hub.runs = [summary(12, state="ended", outcome=outcome)]
        assert main(["run", "train.py", "--profile", "t4", "--wait"]) == status
    hub.runs = []
    assert main(["run", "train.py", "--profile", "t4", "--wait"]) == 1


# --- with a token of the user, from anywhere ---


class RestHub(ThreadingHTTPServer):
    """The hub's calls of runs, for `TOKEN` only: run 12 of a server, and 13 of one that is gone."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Rest)
        self.asked: list[str] = []
        self.runs = [
            summary(13, server="/deleted/lab", path="b.py"),
            summary(12, path="a.py", state="ended", outcome="cancelled"),
        ]

    def answer(self, method: str, path: str) -> tuple[int, bytes]:
        self.asked.append(f"{method} {path}")
        place = path.removeprefix("/hub/api/ec2/runs")
        if place == "/12/result":
            return 200, b"print('x')\n"
        wanted = [run for run in self.runs if place in ("", f"/{run.number}?array")] or (
            self.runs[1:] if place == "/12" else []
        )
        if not wanted:
            return 404, b'{"status": 404, "message": "you have no run 14"}'
        runs = ",".join(run.model_dump_json() for run in wanted)
        return 200, f'{{"now": "{NOW.isoformat()}", "runs": [{runs}]}}'.encode()


class _Rest(BaseHTTPRequestHandler):
    server: RestHub

    def _answer(self) -> None:
        code, body = self.server.answer(self.command, self.path)
        if self.headers["Authorization"] != f"token {TOKEN}":
            code, body = 403, b'{"message": "Forbidden"}'
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_DELETE = _answer  # noqa: N815 - the name is the base's

    def log_message(self, *_: object) -> None:
        pass


def test_a_users_own_token_shows_the_runs_of_all_servers(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Also on a server, which reaches only its own without it."""
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", TOKEN)
    with serving(RestHub()) as rest:
        named = f"--hub=http://127.0.0.1:{rest.server_port}"
        assert main(["runs", named]) == 0
        said = capsysbinary.readouterr().out.decode()
        assert "lab (deleted)" in said
        assert "default server" in said
        assert main(["runs", "result", "12", named]) == 0
        assert capsysbinary.readouterr().out == b"print('x')\n"
        assert main(["runs", "cancel", "12", named]) == 0
        assert rest.asked[-1] == "DELETE /hub/api/ec2/runs/12"
        assert main(["runs", "show", "14", named]) == 1
        assert b"you have no run 14" in capsysbinary.readouterr().err
        monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "of-this-server")
        assert main(["runs", named]) == 1
    assert hub.asked == []
