"""Alarms about what the hub shares: spot interruptions, prices, quotas, discounts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from ...wire import Market
from ..offers.quotas import QUOTAS, ListedQuota, listed_quota, listed_quota_of_class
from ..pricing.discounts import Discount
from ..pricing.price_history import WEEK, PricePoint, price_at, sampled
from ..text.durations import approximate, in_words
from ..text.untrusted import visible
from .alarm import Alarm, AlarmRules, Kind

NAMED: Final = 10
"""Things that one message names; the rest is counted."""

SAMPLES: Final = 7 * 8
"""Of a week's price: one in three hours."""

MAX_INTERRUPTIONS: Final = 10_000
"""That a hub remembers: the most that a rule can wait for."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """A spot instance that EC2 has reclaimed."""

    instance_id: str
    instance_type: str
    zone: str
    at: datetime
    """UTC."""


def interruption_storm(
    interruptions: Iterable[Interruption],
    rules: AlarmRules,
    reported_at: datetime | None,
    now: datetime,
) -> Alarm | None:
    """Many interruptions within a short time.

    `reported_at` is when the last storm was reported: its interruptions are not counted again.
    """
    since = now - timedelta(seconds=rules.interruptions_within)
    since = max(since, reported_at or since)
    recent = sorted((each for each in interruptions if each.at > since), key=lambda each: each.at)
    if len(recent) < rules.interruptions:
        return None
    within = in_words(rules.interruptions_within)
    offers = Counter((each.instance_type, each.zone) for each in recent).most_common()
    return Alarm(
        Kind.INTERRUPTIONS,
        "hub",
        recent[0].at.isoformat(),
        f"EC2 interrupted {len(recent)} spot instances within {within}",
        f"Reclaimed: {_some(f'{number} of {name} in {zone}' for (name, zone), number in offers)}. "
        "Spot capacity is short: new starts fall back to on-demand where their profile allows it, "
        "at a higher price.",
        now,
    )


@dataclass(frozen=True, slots=True)
class SpotPool:
    """One instance type in one zone, in which instances of the hub run on spot."""

    instance_type: str
    zone: str
    instances: int
    history: Sequence[PricePoint]
    """Of the last seven days, oldest first."""


def price_rise(pool: SpotPool, rules: AlarmRules, now: datetime) -> Alarm | None:
    """A spot price far above its median of the last seven days; once a day."""
    current = price_at(pool.history, now)
    known = [usd for usd in sampled(pool.history, now - WEEK, now, SAMPLES) if usd is not None]
    if current is None or not known:
        return None
    usual = median(known)
    rise = round((current / usual - 1) * 100, 6)  # 0.6 is 50 % more than 0.4
    if rise < rules.price_rise:
        return None
    return Alarm(
        Kind.PRICE,
        f"{pool.instance_type}/{pool.zone}",
        now.date().isoformat(),
        f"The spot price of {pool.instance_type} in {pool.zone} rose by {rise:.0f} %",
        f"It is {current:.4f} USD/hour, and its median of the last 7 days is {usual:.4f}. "
        f"Running there: {pool.instances}. They pay the new price from now on; a restart may "
        "find a cheaper zone or type.",
        now,
    )


@dataclass(frozen=True, slots=True)
class Running:
    """Instances of one market and type that run now."""

    market: Market
    instance_type: str
    vcpus: int
    """Of all of them together."""


@dataclass(frozen=True, slots=True)
class RefusedQuota:
    """A vCPU quota for which EC2 has just refused a launch."""

    market: Market
    quota_class: str
    """See `core.offers.quotas.quota_class`."""
    error: str
    """EC2's code, such as `VcpuLimitExceeded`."""


def quotas_refused(
    refused: Iterable[RefusedQuota],
    running: Iterable[Running],
    listed: Sequence[ListedQuota],
    now: datetime,
) -> Iterator[Alarm]:
    """vCPU quotas that are used up: EC2 has said so, whoever in the account uses them.

    The same alarm as that of `quotas_nearly_used`: one a day for each quota.
    """
    used = _used(running, listed)
    for each in refused:
        quota = listed_quota_of_class(each.market, each.quota_class, listed)
        known = quota or QUOTAS.get((each.market, each.quota_class))
        code = known.code if known else f"{each.market}/{each.quota_class}"
        of = f"{used[code]} of {quota.vcpus:g}" if quota else f"{used[code]}"
        yield _quota_alarm(
            code,
            f"The quota “{known.name if known else code}” is used up",
            f"EC2 refused a launch: {visible(each.error)}. This hub's instances use {of} vCPUs; "
            "what else runs in the account counts, too. Starts fail, or wait.",
            now,
        )


def quotas_nearly_used(
    running: Iterable[Running], listed: Sequence[ListedQuota], rules: AlarmRules, now: datetime
) -> Iterator[Alarm]:
    """vCPU quotas of which this hub alone uses most; once a day for each."""
    by_code: Mapping[str, ListedQuota] = {quota.code: quota for quota in listed}
    for code, vcpus in sorted(_used(running, listed).items()):
        quota = by_code[code]
        if vcpus < quota.vcpus * rules.quota_used / 100:
            continue
        yield _quota_alarm(
            code,
            f"The quota “{quota.name}” is nearly used up",
            f"This hub's instances use {vcpus} of {quota.vcpus:g} vCPUs. Starts beyond it fail, or "
            "wait.",
            now,
        )


def _used(running: Iterable[Running], listed: Sequence[ListedQuota]) -> Counter[str]:
    """vCPUs of this hub's instances, by the quota's code."""
    used: Counter[str] = Counter()
    for each in running:
        if quota := listed_quota(each.market, each.instance_type, listed):
            used[quota.code] += each.vcpus
    return used


def _quota_alarm(code: str, title: str, body: str, now: datetime) -> Alarm:
    fix = f"Request an increase: Service Quotas, ec2, {code}."
    return Alarm(Kind.QUOTA, code, now.date().isoformat(), title, f"{body} {fix}", now)


def discounts_expiring(
    discounts: Iterable[Discount], rules: AlarmRules, now: datetime
) -> Iterator[Alarm]:
    """Discounts whose last day is near; once for each."""
    for discount in discounts:
        if discount.until is None or not discount.count:
            continue
        left = (discount.until - now).total_seconds()
        if not 0 < left <= rules.discount_expires:
            continue
        zone = f" in {discount.zone}" if discount.zone else ""
        yield Alarm(
            Kind.DISCOUNT,
            f"{discount.instance_type}/{discount.zone}/{discount.usd_per_hour:g}",
            discount.until.date().isoformat(),
            f"The discount for {discount.instance_type}{zone} expires in {approximate(left)}",
            f"{discount.count} instances at {discount.usd_per_hour:.4f} USD/hour each, from "
            f"{visible(discount.source)}, until {discount.until:%Y-%m-%d %H:%M} UTC. Afterwards "
            "they pay the on-demand price. Renew it, or remove it from `discounts`.",
            now,
        )


def _some(names: Iterable[str]) -> str:
    """The first names, and how many more."""
    listed = list(names)
    more = f" and {len(listed) - NAMED} more" if len(listed) > NAMED else ""
    return ", ".join(listed[:NAMED]) + more
