"""What the configuration may cost, in USD: estimates from the prices of now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...core.pricing.resource_prices import (
    ADDRESS_USD_PER_HOUR,
    DISK_USD_PER_GIB_MONTH,
    HOURS_PER_MONTH,
)
from ...core.text.durations import in_words
from ...wire import Market
from ..finding import Finding, ok, unproved, warning
from ..topics import Topic


@dataclass(frozen=True, slots=True)
class ProfilePrice:
    """What one server of a profile costs, in USD/hour."""

    profile: str
    cheapest: Mapping[Market, float]
    """Of the profile's instance types in each of its markets; what is unknown is absent."""
    dearest: float | None
    """The highest price at which a server may be bought."""
    idle_stop_seconds: float | None
    """After so long without work it stops; None is never."""
    disk_gib: int
    """Of the instance's own disk, which is billed as long as it exists."""

    def extras(self, *, public_address: bool) -> float:
        """USD/hour beside the instance: its own disk and a public address."""
        disk = self.disk_gib * DISK_USD_PER_GIB_MONTH / HOURS_PER_MONTH
        return disk + (ADDRESS_USD_PER_HOUR if public_address else 0.0)


def judge_idle_hour(price: ProfilePrice, *, public_address: bool) -> Finding:
    """The price of an hour in which nobody works, and how many of them there can be."""
    name = f'an idle hour of "{price.profile}"'
    if not price.cheapest:
        return unproved(Topic.IDLE_HOUR, "its prices are unknown", name=name)
    extra = price.extras(public_address=public_address)
    said = ", ".join(f"USD {usd + extra:.2f} {market}" for market, usd in price.cheapest.items())
    said = f"{said}, with its disk of {price.disk_gib} GiB"
    if price.idle_stop_seconds is None:
        return warning(
            Topic.IDLE_HOUR,
            f"estimate {said}; idle servers never stop",
            'c.EC2Spawner.idle = {"server": "1h"}',
            name=name,
        )
    stop = in_words(price.idle_stop_seconds)
    return ok(Topic.IDLE_HOUR, f"estimate {said}; idle servers stop after {stop}", name=name)


def judge_worst_month(
    prices: Sequence[ProfilePrice], max_servers: int, *, public_address: bool
) -> Finding:
    """All servers of the dearest profile at its highest price, all month.

    `max_servers`: `c.JupyterHub.active_server_limit`, 0 without one.
    """
    known = [
        (price.dearest + price.extras(public_address=public_address), price.profile)
        for price in prices
        if price.dearest is not None
    ]
    if not known:
        return unproved(Topic.WORST_MONTH, "the prices of the profiles are unknown")
    usd, profile = max(known)
    one = f'one server of "{profile}" for USD {usd:.2f} an hour'
    if not max_servers:
        return warning(
            Topic.WORST_MONTH,
            f"estimate: no limit; {one} is USD {usd * HOURS_PER_MONTH:,.0f} a month, and any "
            "number of them may run, up to the account's quotas",
            "c.JupyterHub.active_server_limit = 10 limits servers of all users; an AWS budget "
            "reports what they cost",
        )
    total = usd * HOURS_PER_MONTH * max_servers
    return ok(
        Topic.WORST_MONTH,
        f"estimate USD {total:,.0f}: {max_servers} servers (c.JupyterHub.active_server_limit), "
        f"each as {one}, all {HOURS_PER_MONTH} hours; without homes and traffic",
    )
