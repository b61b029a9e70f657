"""What is retained of a stopped server, what it costs and until when, and what would lose it."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.instances.retention_rules import AfterStop, Kept, disk_usd_per_month
from ...core.pricing.money import digits, price_words
from ...core.profiles.choices import MARKETS_OF
from ...core.text.durations import approximate
from ...provisioner.provisioner import Provisioner
from ...wire import Market


def retained_text(provisioner: Provisioner, user: str, server: str) -> str:
    """For the spawn page; empty if nothing is retained."""
    kept = provisioner.retained(user, server)
    return " ".join(_sentence(each, _usd_per_hour(provisioner, each)) for each in kept)


def _sentence(kept: Kept, usd_per_hour: float | None) -> str:
    until = f"{kept.until:%H:%M} UTC on {kept.until:%d %B}"
    if kept.then == "linger":
        price = "its usual price"
        if usd_per_hour:
            price = f"about {price_words(usd_per_hour)} (an estimate)"
        return (
            f"Your last machine keeps running until {until}: start {kept.profile_name} with the "
            f"same choices to use it again within seconds. Until then it costs this hub {price}. "
            "Any other choice terminates it."
        )
    month = digits(disk_usd_per_month(kept.disk_gib))
    return (
        f"Your last machine is stopped, and its disk is kept until {until}: start "
        f"{kept.profile_name} with the same choices to continue with it. With any other choice, "
        "and after that time, everything outside your home is lost. The disk costs "
        f"about ${month} a month (an estimate)."
    )


def _usd_per_hour(provisioner: Provisioner, kept: Kept) -> float | None:
    instance = provisioner.instance(kept.instance_id)
    price = provisioner.market.prices.price_of(instance) if instance else None
    return price.usd_per_hour if price else None


def after_stop_text(after: AfterStop, markets: Sequence[str]) -> str:
    """For a card: what happens to its instance after a stop; empty if it is terminated."""
    lasts = approximate(after.seconds)
    if after.then == "linger":
        return f"the machine keeps running for {lasts} so that you can restart quickly"
    if after.then == "stop" and not any(
        Market.ON_DEMAND in MARKETS_OF[market] for market in markets
    ):
        return "the machine is deleted: AWS keeps no disk of a spot machine"
    if after.then == "stop":
        spot = any(market != "on-demand" for market in markets)
        return f"the disk is kept for {lasts}" + ("; not that of a spot machine" if spot else "")
    return ""
