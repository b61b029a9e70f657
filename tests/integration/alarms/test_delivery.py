"""Alarms reach a mail server, a webhook and an SNS topic, once each, also when these fail first."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest

from ec2spawner.alarms import delivery as alarm_delivery
from ec2spawner.alarms.delivery import Delivery
from ec2spawner.alarms.destination import Destination, NotDelivered
from ec2spawner.alarms.destinations import destinations
from ec2spawner.check.finding import State
from ec2spawner.check.steps.alarms import check_alarms, untested_alarms
from ec2spawner.config import Options, validate_options
from ec2spawner.core.alarms.alarm import Alarm, AlarmRules, Kind
from ec2spawner.core.backoff import Backoff
from ec2spawner.provisioner.alarms.outbox import Outbox
from ec2spawner.provisioner.runtime.clock import Clock
from ec2spawner.provisioner.store.store import Store
from tests.harness import free_ports

from .services import aws, mail_server, webhook

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
TIMEOUT = 30.0
SECRETS = ("Hunter2", "t0ken")


def alarm(number: int = 1, kind: Kind = Kind.LEAK) -> Alarm:
    title = f"A volume was left over: vol-{number}"
    return Alarm(kind, f"vol-{number}", "", title, "It cost <money> & time.", NOW)


async def test_a_chat_gets_no_mention_and_no_link_of_a_users_making() -> None:
    """Through Apprise's own plugin for Mattermost, which sends Markdown."""
    with webhook() as hook:
        [chat] = destinations(
            options_of(f"mmost://127.0.0.1:{hook.port}/3ccdd113474722377935511fc85d3dd4")
        )
        title = "Run 7 of ann failed: @channel [pay](http://evil.com)"
        await chat.send(replace(alarm(), title=title, body="@all http://evil.com " + "x" * 9000))
        await until(lambda: hook.calls)
    text = json.dumps(hook.calls, ensure_ascii=False)
    assert "Run 7 of ann failed" in text
    assert not re.search(r"@(channel|all)|http://|\]\(", text)
    assert len(text) < 6000


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await asyncio.sleep(0.01)


def options_of(*to: str, endpoint_url: str = "") -> Options:
    written = {
        "region": "us-east-1",
        "subnets": ["subnet-1"],
        "hub_name": "lab",
        "alarms": list(to),
        "endpoint_url": endpoint_url,
    }
    return validate_options(written, cleanup_servers=False)


@asynccontextmanager
async def hub(folder: Path, to: Sequence[Destination]) -> AsyncIterator[Outbox]:
    """What a hub does with alarms, until it stops."""
    store = await Store.open(f"sqlite:///{folder / 'store.sqlite'}", now=NOW)
    outbox = Outbox(store, AlarmRules(per_hour=3), [each.name for each in to])
    await outbox.load(NOW)
    clock = Clock(lambda: datetime.now(UTC).replace(year=NOW.year, month=NOW.month, day=NOW.day))
    delivery = Delivery(outbox, to, clock, Backoff(first=0.02, longest=0.05))
    task = asyncio.create_task(delivery.run())
    try:
        yield outbox
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.write_behind.drain()
        await store.close()


async def delivered(outbox: Outbox) -> None:
    """Return once nothing waits, in memory and in the store, which follows."""
    await until(lambda: not any(outbox._waiting.values()))
    async with asyncio.timeout(TIMEOUT):
        while await outbox._store.alarms.undelivered():
            await asyncio.sleep(0.01)


class Queue:
    """An SQS queue that is subscribed to a topic."""

    def __init__(self, endpoint: str, topic: str) -> None:
        def client(service: str) -> Any:
            return boto3.client(service, region_name="us-east-1", endpoint_url=endpoint)

        self._sqs, sns = client("sqs"), client("sns")
        self.url = self._sqs.create_queue(QueueName=topic)["QueueUrl"]
        self.topic: str = sns.create_topic(Name=topic)["TopicArn"]
        sns.subscribe(
            TopicArn=self.topic,
            Protocol="sqs",
            Endpoint=f"arn:aws:sqs:us-east-1:123456789012:{topic}",
        )

    def messages(self) -> list[Any]:
        """All that have arrived; they stay in the queue."""
        found = self._sqs.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=10, VisibilityTimeout=0
        )
        return [json.loads(each["Body"]) for each in found.get("Messages", [])]


async def test_each_destination_receives_an_alarm_once_though_each_fails_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, "ec2spawner")
    [later] = free_ports(1)
    with mail_server() as mail, webhook() as hook, aws() as endpoint:
        queue = await asyncio.to_thread(Queue, endpoint, "alarms")
        mail.failures = hook.failures = 2
        to = destinations(
            options_of(mail.url, hook.url, queue.topic, endpoint_url=f"http://127.0.0.1:{later}")
        )
        async with hub(tmp_path, to) as outbox:
            await outbox.add([alarm()])
            await until(lambda: any("sns #3 did not accept" in m for m in caplog.messages))
            with aws(later):
                await delivered(outbox)
                await outbox.add([alarm()])  # again in the next minute
                await delivered(outbox)
        [mailed], [call] = mail.mails, hook.calls
        [message] = await asyncio.to_thread(queue.messages)
    assert (mail.refused, hook.refused) == (2, 2)
    assert "[lab] A volume was left over: vol-1" in mailed
    assert call["title"] == "[lab] A volume was left over: vol-1"
    assert call["message"] == "It cost <money> & time."
    assert call["type"] == "warning"
    assert message["Subject"] == "[lab] A volume was left over: vol-1"
    assert "It cost <money> & time." in message["Message"]
    logged = [r.getMessage() for r in caplog.records if r.name.startswith("ec2spawner")]
    assert not [text for text in logged if any(secret in text for secret in SECRETS)]
    printed = capfd.readouterr()
    assert not any(secret in printed.out + printed.err for secret in SECRETS)


async def test_a_slow_answer_is_awaited_and_the_message_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alarm_delivery, "TIMEOUT", 0.05)
    with webhook() as hook:
        hook.answers.clear()
        async with hub(tmp_path, destinations(options_of(hook.url))) as outbox:
            await outbox.add([alarm()])
            await until(lambda: [w for w in outbox._waiting["json #1"] if w.attempts > 2])
            hook.answers.set()
            await delivered(outbox)
        assert len(hook.calls) == 1


async def test_a_late_refusal_is_followed_by_another_message() -> None:
    with webhook() as hook:
        hook.failures = 1
        hook.answers.clear()
        [destination] = destinations(options_of(hook.url))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await destination.send(alarm())
        hook.answers.set()
        await until(lambda: hook.refused)
        async with asyncio.timeout(TIMEOUT):
            while not hook.calls:
                with suppress(NotDelivered):  # that of the first, if it is still waited for
                    await destination.send(alarm())
        assert len(hook.calls) == 1


async def test_what_waits_behind_a_hung_message_is_not_sent_after_its_timeout() -> None:
    """It may have been given up by then, and is sent anew otherwise."""
    with webhook() as hook:
        hook.answers.clear()
        [destination] = destinations(options_of(hook.url))
        hung = asyncio.create_task(destination.send(alarm(1)))
        await until(lambda: hook.calls)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await destination.send(alarm(2))
        hook.answers.set()
        await hung
        await destination.send(alarm(3))
        assert [call["title"][-5:] for call in hook.calls] == ["vol-1", "vol-3"]


async def test_nothing_is_kept_of_a_message_that_is_given_up() -> None:
    """It is sent anew if it is raised once more, though the first call continues."""
    with webhook() as hook:
        hook.answers.clear()
        [destination] = destinations(options_of(hook.url))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await destination.send(alarm())
        await until(lambda: hook.calls)
        destination.forget(alarm())
        hook.answers.set()
        await destination.send(alarm())
        assert len(hook.calls) == 2


async def test_the_check_sends_a_message_to_each_destination() -> None:
    [nobody] = free_ports(1)
    with webhook() as hook:
        dead = f"json://ops:Hunter2-s3cret@127.0.0.1:{nobody}/"
        findings = await check_alarms(options_of(hook.url, dead), NOW)
        assert [each.state for each in findings] == [State.OK, State.FAILED]
        assert [each.name for each in findings] == ["alarms to json #1", "alarms to json #2"]
        assert len(hook.calls) == 1
    assert not any(secret in str(findings) for secret in SECRETS)
    assert [each.state for each in untested_alarms(options_of(dead))] == [State.UNPROVED]
    assert untested_alarms(options_of()) == []


async def test_a_restart_of_the_hub_neither_loses_nor_repeats(tmp_path: Path) -> None:
    with mail_server() as mail, webhook() as hook:
        hook.failures = 10_000
        to = destinations(options_of(mail.url, hook.url))
        async with hub(tmp_path, to) as outbox:
            await outbox.add([alarm()])
            await until(lambda: mail.mails and hook.refused)
        hook.failures = 0
        async with hub(tmp_path, to) as outbox:
            await outbox.add([alarm()])
            await delivered(outbox)
        assert len(mail.mails) == len(hook.calls) == 1


async def test_a_flood_is_bounded_and_its_rest_is_one_message(tmp_path: Path) -> None:
    with webhook() as hook:
        async with hub(tmp_path, destinations(options_of(hook.url))) as outbox:
            await outbox.add([alarm(number) for number in range(50)])
            await outbox.upkeep(NOW.replace(hour=13))
            await outbox.upkeep(NOW.replace(hour=14))
            await delivered(outbox)
        assert len(hook.calls) == 4
        assert "47 more" in hook.calls[-1]["title"]


async def test_the_log_says_why_without_what_the_url_consists_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with webhook() as hook:
        hook.failures = 10_000
        async with hub(tmp_path, destinations(options_of(hook.url))) as outbox:
            await outbox.add([alarm()])
            await until(lambda: hook.refused > 3)
    said = [r.getMessage() for r in caplog.records if r.name == "ec2spawner.alarms.delivery"]
    assert len(said) == 1, "once, and not at each attempt"
    assert "json #1" in said[0]
    assert "500" in said[0]


async def test_what_was_refused_for_days_is_given_up(tmp_path: Path) -> None:
    choosy = Choosy()
    async with hub(tmp_path, [choosy]) as outbox:
        await outbox.add([replace(alarm(1), at=NOW - timedelta(days=4)), alarm(2)])
        await delivered(outbox)
    assert choosy.accepted == ["vol-2"]
    assert choosy.forgotten == ["vol-1"]


class Stuck:
    """A destination that never answers."""

    name = "stuck #1"

    def __init__(self) -> None:
        self.asked = 0

    async def send(self, alarm: Alarm) -> None:
        self.asked += 1
        await asyncio.Event().wait()

    def forget(self, alarm: Alarm) -> None:
        pass


class Choosy:
    """A destination that never accepts one of the messages."""

    name = "choosy #2"

    def __init__(self, error: Exception | None = None) -> None:
        self.accepted: list[str] = []
        self.forgotten: list[str] = []
        self.error = error or NotDelivered("too long")

    async def send(self, alarm: Alarm) -> None:
        if alarm.subject == "vol-1":
            raise self.error
        self.accepted.append(alarm.subject)

    def forget(self, alarm: Alarm) -> None:
        self.forgotten.append(alarm.subject)


async def test_neither_a_dead_destination_nor_a_refused_message_delays_the_others(
    tmp_path: Path,
) -> None:
    stuck, choosy = Stuck(), Choosy()
    async with hub(tmp_path, [stuck, choosy]) as outbox:
        await outbox.add([alarm(1), alarm(2), alarm(3)])
        await until(lambda: len(choosy.accepted) == 2)
        assert stuck.asked == 1


async def test_an_error_of_a_library_does_not_delay_the_others_and_is_logged_by_name_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    choosy = Choosy(RuntimeError("https://user:s3cret@example.org"))
    async with hub(tmp_path, [choosy]) as outbox:
        await outbox.add([alarm(1), alarm(2)])
        await until(lambda: choosy.accepted == ["vol-2"])
    assert "RuntimeError" in caplog.text
    assert "s3cret" not in caplog.text
