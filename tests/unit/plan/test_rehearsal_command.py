"""A rehearsal and the removal of one that was killed, by the command's own calls to a small hub."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ec2spawner.plan import command
from ec2spawner.plan.command import _why_not, plan_of, run_plan
from ec2spawner.plan.facts import Facts, Source
from ec2spawner.plan.rehearsal import run
from ec2spawner.plan.rehearsal.command import Target, run_rehearsal, run_removal
from ec2spawner.plan.rehearsal.prediction import Prediction
from ec2spawner.plan.rehearsal.request import Rehearsal
from ec2spawner.plan.rehearsal.users import names
from tests.serving import serving
from tests.unit.plan.test_plan_verdicts import FACTS, T4, wanted

NOW = datetime.now(UTC)
REHEARSAL = Rehearsal(3, "t4", 600.0)
UNPREDICTED = Prediction(None, None, None)
[OVERDUE] = names(NOW - timedelta(minutes=1), "0a9f", 1)
LASTING = names(NOW + timedelta(hours=1), "0a9f", 2)
SOMEBODY = "rehearsal-of-the-choir"


class SmallHub(ThreadingHTTPServer):
    """Users and servers, of which each has an instance that ends with it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.users: set[str] = set()
        self.servers: dict[str, dict[str, Any]] = {}
        """By user: the options of the start."""
        self.begun: list[dict[str, Any]] = []
        """The options of all starts."""
        self.refusal = ""
        """Why servers do not start."""
        self.keeps: set[str] = set()
        """Users that are not deleted, whoever asks."""
        self.shows_instances = True
        """Whether the token has the scope for them."""

    @property
    def target(self) -> Target:
        return Target(f"http://127.0.0.1:{self.server_port}", "an-admins-token")

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        match method, path.removeprefix("/hub/api/").split("/"):
            case "GET", ["users"]:
                return 200, [{"name": user} for user in sorted(self.users)]
            case "POST", ["users"]:
                self.users.update(body["usernames"])
                return 201, []
            case "DELETE", ["users", user]:
                if user in self.keeps:
                    return 400, {"message": "it cannot be deleted"}
                self.users.discard(user)
                return 204, None
            case "POST", ["users", user, "server"]:
                if self.refusal:
                    return 403, {"message": self.refusal}
                self.servers[user] = body
                self.begun.append(body)
                return 201, None
            case "DELETE", ["users", user, "server"]:
                self.servers.pop(user, None)
                return 204, None
            case "GET", ["ec2", "instances"]:
                if not self.shows_instances:
                    return 403, {"message": "this needs the scope custom:ec2spawner:instances"}
                servers = [
                    {"user": user, "instance_id": f"i-{user}", "state": "ready"}
                    for user in self.servers
                ]
                return 200, {"servers": servers, "unassigned": []}
        raise AssertionError((method, path))


class _Handler(BaseHTTPRequestHandler):
    server: SmallHub
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        assert self.headers["Authorization"] == "token an-admins-token"
        address = urlsplit(self.path)
        assert parse_qs(address.query).get("offset", ["0"]) == ["0"]
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length) or "null")
        status, said = self.server.answer(self.command, address.path, body)
        text = b"" if said is None else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the name is the base's

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[SmallHub]:
    with serving(SmallHub()) as server:
        yield server


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "POLL", 0.01)
    monkeypatch.setattr(run, "STOP_TIMEOUT", 20.0)


def rehearse(hub: SmallHub, *, yes: bool = True, as_json: bool = True) -> tuple[int, Any]:
    """The exit status, and what is found; the store of the hub is elsewhere."""
    arguments = Namespace(yes=yes, json=as_json)
    return run_rehearsal(REHEARSAL, UNPREDICTED, hub.target, "sqlite:////nowhere", arguments)


def remove(hub: SmallHub) -> int:
    return run_removal(hub.target, Namespace(yes=True, json=False))


# --- a rehearsal ---


def test_servers_are_started_and_nothing_of_them_is_left(hub: SmallHub) -> None:
    """Nor of an earlier rehearsal whose time is over."""
    hub.users = {OVERDUE, SOMEBODY}
    hub.servers = {OVERDUE: {}, SOMEBODY: {}}
    status, found = rehearse(hub)
    assert status == 0
    assert (found["requested"], found["ready"], found["left"]) == (3, 3, {})
    assert found["usd_lacks"] == "the store could not be read"
    assert hub.begun == [{"profile": "t4", "temporary": REHEARSAL.temporary_seconds}] * 3
    assert hub.users == hub.servers.keys() == {SOMEBODY}


def test_the_result_is_printed_unless_a_program_reads_it(
    hub: SmallHub, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _ = rehearse(hub, as_json=False)
    said = capsys.readouterr().out
    assert status == 0
    assert "Rehearsal: 3 of 3 servers got ready" in said
    assert "Every start succeeded, and nothing is left." in said
    rehearse(hub)
    assert capsys.readouterr().out == ""


def test_servers_that_do_not_start_fail_the_rehearsal(hub: SmallHub) -> None:
    hub.refusal = "The limit of the hub is reached"
    status, found = rehearse(hub)
    assert (status, found["ready"]) == (1, 0)
    [failure] = found["failures"]
    assert (failure["count"], "The limit of the hub" in failure["message"]) == (3, True)
    assert hub.users == set()


def test_two_rehearsals_do_not_run_at_once(
    hub: SmallHub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.users = set(LASTING)
    assert rehearse(hub) == (1, None)
    assert "another rehearsal may take until" in capsys.readouterr().err
    assert (hub.users, hub.begun) == (set(LASTING), [])


def test_nothing_begins_without_consent_or_without_the_scope_to_see_its_end(
    hub: SmallHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rehearse(hub, yes=False) == (3, None)
    hub.shows_instances = False
    assert rehearse(hub) == (1, None)
    assert "custom:ec2spawner:instances" in capsys.readouterr().err
    assert (hub.users, hub.begun) == (set(), [])


# --- the removal of a rehearsal that was killed ---


def test_what_a_killed_rehearsal_has_left_is_removed(
    hub: SmallHub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.users = {*LASTING, OVERDUE, SOMEBODY}
    hub.servers = {LASTING[0]: {}, SOMEBODY: {}}
    assert remove(hub) == 0
    assert "3 of 3 users are removed." in capsys.readouterr().out
    assert hub.users == hub.servers.keys() == {SOMEBODY}
    assert remove(hub) == 0
    assert "No rehearsal has left anything." in capsys.readouterr().out


def test_what_cannot_be_removed_is_named(
    hub: SmallHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "STOP_TIMEOUT", 0.2)
    hub.users = hub.keeps = {OVERDUE}
    assert remove(hub) == 1
    said = capsys.readouterr()
    assert f"not removed: {OVERDUE}: still there after" in said.err
    assert "0 of 1 users are removed." in said.out


# --- whether it begins ---

UNREAD = replace(FACTS, unread={Source.STORE: "no such file"})


def why(facts: Facts, *, number: int, even_if_short: bool = False) -> str:
    rehearsal = replace(REHEARSAL, number=number)
    plan = plan_of(facts, wanted(60), NOW)
    return _why_not(facts, plan, rehearsal, Namespace(even_if_short=even_if_short), NOW)


def test_what_the_plan_calls_short_begins_only_on_request() -> None:
    assert why(FACTS, number=48) == ""
    assert "49 servers cannot start" in why(FACTS, number=49)
    assert why(FACTS, number=49, even_if_short=True) == ""
    assert "no such file" in why(UNREAD, number=48)
    assert "no such file" in why(UNREAD, number=49, even_if_short=True)


@pytest.mark.parametrize("number", [3, 49])
def test_the_command_rehearses_what_is_not_short(
    hub: SmallHub,
    number: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = SimpleNamespace(
        profiles=[T4], region="us-east-1", store_url=f"sqlite:///{tmp_path}/none.sqlite"
    )
    config = SimpleNamespace(options=options, require=lambda *_: options)

    async def read_facts(*_: Any) -> Facts:
        return FACTS

    monkeypatch.setattr(command, "load", lambda *_: config)
    monkeypatch.setattr(command, "read_facts", read_facts)
    arguments = Namespace(
        config="jupyterhub_config.py",
        hub=hub.target.name,
        profile="t4",
        users=None,
        hours=2.0,
        at="",
        rehearse=number,
        timeout=600.0,
        even_if_short=False,
        yes=True,
        json=True,
    )
    status = run_plan(arguments, (), {"JUPYTERHUB_API_TOKEN": hub.target.token})
    said = capsys.readouterr()
    found = json.loads(said.out)
    is_short = number == 49
    assert status == (1 if is_short else 0)
    assert len(hub.begun) == (0 if is_short else number)
    assert ("rehearsal" in found and found["rehearsal"] is not None) is not is_short
    assert ("49 servers cannot start" in said.err) is is_short
    assert hub.users == set()
