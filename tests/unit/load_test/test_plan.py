"""What `ec2spawner load-test` accepts, refuses, and says before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2spawner.cli import parse
from ec2spawner.load_test import command
from ec2spawner.load_test.arrival import Arrival
from ec2spawner.load_test.plan import Plan, PlanRefused, plan_of
from ec2spawner.load_test.price import Price, price_of
from ec2spawner.load_test.run import command as child_command

PASSWORD = {"EC2SPAWNER_LOAD_TEST_PASSWORD": "hunter2"}
TOKEN = {"JUPYTERHUB_API_TOKEN": "0123"}


def plan(*arguments: str, environ: dict[str, str] = PASSWORD, url: str = "http://hub/") -> Plan:
    return plan_of(parse(["load-test", url, *arguments])[0], environ)


@pytest.mark.parametrize(
    ("arguments", "expected", "seconds"),
    [
        ((), Arrival(10, 1.0), 9.0),
        (("--users=40", "--spawn-rate=2"), Arrival(40, 2.0), 19.5),
        (("--users=40", "--over=80"), Arrival(40, 0.5), 78.0),
        (("--users=40", "--at-once"), Arrival(40, 40.0), 0.975),
        (("--users=1",), Arrival(1, 1.0), 0.0),
    ],
)
def test_users_arrive_as_was_asked(
    arguments: tuple[str, ...], expected: Arrival, seconds: float
) -> None:
    found = plan(*arguments).arrival
    assert (found, found.seconds) == (expected, seconds)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--users=0",), "--users must be 1"),
        (("--users=101",), "--max-users=101"),
        (("--over=0",), "--over"),
        (("--spawn-rate=0",), "--spawn-rate"),
        (("--cells=-1",), "--cells: "),
        (("--idle=1e9",), "--idle: "),
        (("--prefix=Über",), "--prefix: "),
        (("--field=x",), "--field=x must be NAME=VALUE"),
        (("--max-usd=0",), "--max-usd"),
        (("--max-usd=nan",), "--max-usd"),
        (("--password-file=/nowhere",), "/nowhere cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_options_name(
    arguments: tuple[str, ...], why: str
) -> None:
    with pytest.raises(PlanRefused, match=why):
        plan(*arguments)


@pytest.mark.parametrize(
    "url", ["hub.example.org", "ftp://hub/", "https://", "https://ann:secret@hub/"]
)
def test_an_address_that_is_no_hub_is_refused(url: str) -> None:
    with pytest.raises(PlanRefused, match="URL: name the hub"):
        plan(url=url)


@pytest.mark.parametrize("url", ["https://h/base", "https://h/base/hub/", "https://h/base/hub?x"])
def test_the_address_of_a_page_is_as_good(url: str) -> None:
    assert plan(url=url).settings.url == "https://h/base/"


def test_secrets_come_from_a_file_or_the_environment_and_are_no_argument(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("abc\n")
    assert plan().settings.login == "password"
    assert plan(environ=TOKEN).settings.login == "token"
    found = plan(f"--token-file={file}")
    assert (found.settings.login, found.secret) == ("token", "abc")
    assert "abc" not in repr(found)
    assert "abc" not in found.settings.model_dump_json()
    assert "abc" not in " ".join(child_command(found.arrival, ""))
    with pytest.raises(PlanRefused, match="--password-file"):
        plan(environ={})
    file.write_text("\n")
    with pytest.raises(PlanRefused, match="is empty"):
        plan(f"--password-file={file}")


def test_users_of_several_workers_have_names_of_their_own() -> None:
    settings = plan("--prefix=nine").settings
    assert [settings.names(), settings.names(1), settings.names(2)] == [
        "nine",
        "nine-w1",
        "nine-w2",
    ]


def profile(slug: str, *prices: float | None, default: bool = False) -> dict[str, object]:
    return {
        "slug": slug,
        "default": default,
        "offers": [{"usd_per_hour": price} for price in prices],
    }


def test_the_price_is_of_the_profile_that_is_started() -> None:
    answer = {
        "profiles": [profile("cpu", 0.05), profile("t4", 0.2, None, 0.53, default=True)],
    }
    assert price_of(answer, "") == Price("t4", 0.2, 0.53)
    assert price_of(answer, "cpu") == Price("cpu", 0.05, 0.05)
    assert price_of(answer, "a100") is None
    assert price_of({"profiles": [profile("t4", None)]}, "t4") is None


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"profiles": 1},
        {"profiles": [1, {"slug": "t4", "offers": "x"}]},
        {"profiles": [{"slug": "t4", "offers": [{"usd_per_hour": "1"}, 2]}]},
    ],
)
def test_an_answer_of_another_form_says_no_price(answer: dict[str, object]) -> None:
    assert price_of(answer, "t4") is None


def test_the_plan_says_what_it_costs() -> None:
    found = plan("--users=40", "--over=60", "--cells=10", "--cell-every=30", "--idle=600")
    words = command.in_words(found, Price("t4", 0.2, 0.5))
    assert words.startswith("40 users (load-0001 and so on): a server each at http://hub/, ")
    assert "started within 58 s and used for 900 s" in words
    assert "$0.200 to $0.500 an hour" in words
    assert "about $5.00 for all of them" in words
    assert command.in_words(plan("--users=1"), None).startswith("1 user (load-0001): a server")
    assert command.in_words(found, None).endswith("The hub says no price.")


def test_a_budget_that_cannot_hold_is_refused() -> None:
    price = Price("t4", 0.2, 0.5)
    tight = plan("--users=40", "--idle=900", "--cells=0", "--max-usd=4")
    with pytest.raises(PlanRefused, match=r"cost \$5\.00, more than --max-usd=4"):
        command.require_price(tight, price)
    with pytest.raises(PlanRefused, match="the hub says no price"):
        command.require_price(tight, None)
    command.require_price(plan("--max-usd=4"), price)
    command.require_price(plan(), None)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/", "http://localhost/", "https://hub/"])
def test_nothing_starts_without_consent_on_any_hub(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "ask_price", lambda *_: Price("t4", 0.2, 0.5))
    monkeypatch.setattr(command, "_run", lambda *_: pytest.fail("the test has run"))
    arguments = parse(["load-test", url, "--users=1"])[0]
    assert command.run_load_test(arguments, PASSWORD) == command.WOULD_RUN
    printed = capsys.readouterr()
    assert "1 user (load-0001)" in printed.out
    assert "add --yes" in printed.err
