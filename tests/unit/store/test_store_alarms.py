"""Alarms in the store: once each, and until every destination has confirmed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ec2spawner.core.alarms.alarm import Alarm, Kind
from ec2spawner.core.alarms.grouping import Raised
from ec2spawner.provisioner.model.alarm_delivery import AlarmDelivery
from ec2spawner.provisioner.store.store import Store
from tests.stored import NOW

ALARM = Alarm(Kind.LEAK, "vol-1", "", "A volume was left over: vol-1", "It is gone.", NOW)
BOTH = ("mailto #1", "sns #2")


async def test_an_alarm_waits_for_each_destination_across_a_restart(url: str) -> None:
    first = await Store.open(url, now=NOW)
    assert await first.alarms.add([ALARM], 10, BOTH) == (Raised(ALARM),)
    delivered = AlarmDelivery(ALARM, "sns #2", attempts=1)
    await first.alarms.save_delivery(delivered, NOW)
    tried = AlarmDelivery(ALARM, "mailto #1", 2, NOW + timedelta(minutes=1))
    await first.alarms.save_delivery(tried, None)
    await first.close()
    second = await Store.open(url, now=NOW)
    try:
        assert await second.alarms.undelivered() == (tried,)
    finally:
        await second.close()


async def test_the_same_alarm_is_stored_once(store: Store) -> None:
    again = replace(ALARM, title="in other words", at=NOW + timedelta(days=40))
    other = replace(ALARM, subject="vol-2")
    assert len(await store.alarms.add([ALARM, ALARM, other], 10, BOTH)) == 2
    assert await store.alarms.add([again], 10, BOTH) == ()
    assert len(await store.alarms.undelivered()) == 4


async def test_an_alarm_that_was_delivered_is_not_raised_again(store: Store) -> None:
    await store.alarms.add([ALARM], 10, ["sns #2"])
    await store.alarms.save_delivery(AlarmDelivery(ALARM, "sns #2", 1), NOW)
    assert await store.alarms.add([ALARM], 10, ["sns #2"]) == ()
    assert await store.alarms.undelivered() == ()


async def test_too_many_in_an_hour_have_no_delivery_also_over_several_writes(store: Store) -> None:
    for number in range(5):
        await store.alarms.add([replace(ALARM, subject=f"vol-{number}")], 2, ["sns #2"])
    assert len(await store.alarms.undelivered()) == 2
    assert [each.grouped for each in await store.alarms.since(NOW)] == [False] * 2 + [True] * 3
    later = replace(ALARM, subject="vol-9", at=NOW + timedelta(hours=1))
    assert await store.alarms.add([later], 2, ["sns #2"]) == (Raised(later),)


async def test_old_alarms_are_forgotten_with_their_deliveries(store: Store) -> None:
    young = replace(ALARM, subject="vol-2", at=NOW + timedelta(days=1))
    await store.alarms.add([ALARM, young], 10, BOTH)
    await store.alarms.forget(NOW + timedelta(hours=1))
    assert [each.alarm for each in await store.alarms.since(NOW)] == [young]
    assert {each.alarm for each in await store.alarms.undelivered()} == {young}
