"""`c.EC2Spawner.alarms`: what is refused, and that no message repeats a secret."""

from __future__ import annotations

from typing import Any

import pytest
from traitlets.config import Config
from traitlets.config.loader import DeferredConfigString

from ec2spawner.config import ConfigError, Options, validate_options
from ec2spawner.config.traits import OptionTraits
from ec2spawner.core.alarms.alarm import Kind
from ec2spawner.core.alarms.weekly import Schedule
from ec2spawner.hub.startup import settings_of

SECRET = "Hunter2-s3cret"
WEBHOOK = f"json://ops:{SECRET}@alarms.example.org/gpu"
TOPIC = "arn:aws:sns:eu-central-1:123456789012:gpu-hub"


def options(alarms: Any) -> Options:
    written = {"region": "us-east-1", "subnets": ["subnet-1"], "alarms": alarms}
    return validate_options(written, cleanup_servers=False)


def test_nothing_is_sent_by_default() -> None:
    assert options([]).alarms.destinations() == {}
    assert settings_of(options([])).alarm_destinations == ()


def test_a_list_is_short_for_a_dict_with_destinations() -> None:
    assert options([WEBHOOK, TOPIC]).alarms == options({"to": [WEBHOOK, TOPIC]}).alarms
    assert options([WEBHOOK, TOPIC]).alarms.destinations() == {"json #1": WEBHOOK, "sns #2": TOPIC}


@pytest.mark.parametrize("written", [[TOPIC], {"to": {"topic": TOPIC}}, WEBHOOK])
def test_the_command_line_takes_them_as_well(written: Any) -> None:
    """Also what is wrong: `validate_options` refuses it without repeating it."""
    text = written if isinstance(written, str) else repr(written)
    config = Config(OptionTraits={"alarms": DeferredConfigString(text)})
    assert OptionTraits(config=config).alarms == written


def test_an_admin_may_name_destinations() -> None:
    """The order then means nothing: what waits for one goes to no other."""
    named = {"Ops mail": WEBHOOK, "topic": TOPIC}
    assert options({"to": named}).alarms.destinations() == named


def test_thresholds_become_seconds_and_percent() -> None:
    written = {"to": [TOPIC], "kinds": ["leak"], "idle_gpu": "2h", "quota_used": 75}
    rules = settings_of(options(written)).alarms
    assert rules.kinds == {Kind.LEAK, Kind.SUMMARY}
    assert rules.idle_gpu == 7200
    assert rules.quota_used == 75
    assert rules.summary is None
    written = {"to": [TOPIC], "summary": "Mon 08:00"}
    assert settings_of(options(written)).alarms.summary == Schedule(weekday=0, minute=480)


@pytest.mark.parametrize(
    ("alarms", "said"),
    [
        ([f"slak://{SECRET}/x"], "did you mean slack"),
        ([TOPIC, f"slack://{SECRET}"], r"to\[1\].*does not accept this URL for \"slack\""),
        ([SECRET], "neither an Apprise URL nor the ARN"),
        ([f"arn:aws:sns:us-east-1:{SECRET}"], "neither an Apprise URL nor the ARN"),
        (WEBHOOK, "neither a list nor a dict"),
        ({"to": WEBHOOK}, "neither a list nor a dict"),
        ({"to": {"": WEBHOOK}}, "name 1 of"),
        ({"to": {"a": TOPIC, "sns #2": WEBHOOK}}, "name 2 of"),
        ({"to": {WEBHOOK: "chat"}}, "name 1 of"),
        ({"to": {"chat": "slack://x"}}, r"to\[\"chat\"\].*does not accept"),
        ({"to": {"chat": 5}}, r"to\[\"chat\"\] is no text"),
        ([WEBHOOK, 5], r"to\[1\] is no text"),
        ([WEBHOOK] * 21, "more than 20"),
        ({"to": [WEBHOOK], "kinds": ["limits"]}, "did you mean limit"),
        ({"to": [WEBHOOK], "idle_gpu": "soon"}, "no duration"),
        ({"to": [WEBHOOK], "quota_used": 0}, "alarms.quota_used"),
        ({"to": [WEBHOOK], "summary": "Monday 8"}, "no time of day"),
        ({"to": [WEBHOOK], "summary": "Monday 08:00"}, "no day"),
        ({"to": [WEBHOOK], "summary": "Sun 24:00"}, "next day"),
        ({"to": [WEBHOOK], "kinds": ["summary"]}, "no kind"),
        ({"to": [WEBHOOK], "too": [WEBHOOK]}, "no such option"),
    ],
)
def test_what_cannot_work_is_refused_without_its_secrets(
    alarms: Any, said: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        options(alarms)
    printed = capfd.readouterr()
    # pytest listens to Apprise's logger itself, which leads nowhere else.
    logged = [each.getMessage() for each in caplog.records if each.name != "apprise"]
    for text in (str(refused.value), *logged, printed.out, printed.err):
        assert SECRET not in text


def test_options_do_not_show_secrets() -> None:
    assert SECRET not in repr(options([WEBHOOK]))


def test_without_apprise_the_fix_is_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "apprise", None)
    with pytest.raises(ConfigError, match=r"ec2spawner\[alarms\]"):
        options([WEBHOOK])
    assert options([TOPIC]).alarms.destinations(), "a topic needs no Apprise"
