"""What is retained of a stopped server, what it costs and until when, and what would lose it."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.instances.retention_rules import AfterStop, Kept
from ....core.ledger.charges import NO_PRICE, Rate, rate
from ....core.pricing.money import digits, price_words
from ....core.profiles.choices import MARKETS_OF
from ....core.text.durations import approximate
from ....provisioner.provisioner import Provisioner
from ....wire import Market


def retained_text(provisioner: Provisioner, user: str, server: str) -> str:
    """For the spawn page; empty if nothing is retained."""
    kept = provisioner.retained(user, server)
    return " ".join(_sentence(provisioner, each) for each in kept)


def _sentence(provisioner: Provisioner, kept: Kept) -> str:
    until = f"{kept.until:%H:%M} UTC on {kept.until:%d %B}"
    segment = provisioner.overview.retained_segment(kept)
    if kept.is_ahead:
        return (
            f"A machine waits for you until {until}: start {kept.profile_name} with its default "
            "choices to have it within seconds."
        )
    if kept.then == "linger":
        price = _price(rate(segment, provisioner.now()) if segment else NO_PRICE)
        return (
            f"Your last machine keeps running until {until}: start {kept.profile_name} with the "
            f"same choices to use it again within seconds. Until then it costs this hub {price}. "
            "Any other choice terminates it."
        )
    month = segment.disk_usd_per_month if segment else None
    price = (
        " What its disks cost is not known."
        if month is None
        else f" Its disks cost about ${digits(month)} a month (an estimate)."
    )
    return (
        f"Your last machine is stopped, and its disk is kept until {until}: start "
        f"{kept.profile_name} with the same choices to continue with it. With any other choice, "
        "and after that time, everything outside your home is "
        f"lost.{price}"
    )


def _price(found: Rate) -> str:
    """`about $0.53/h (an estimate)`, or what of it is known."""
    if not found.known_usd_per_hour:
        return "its usual price"
    words = price_words(found.known_usd_per_hour)
    if not found.unknown_prices_of:
        return f"about {words} (an estimate)"
    names = " and ".join(f"of its {each.value}" for each in found.unknown_prices_of)
    return f"at least {words} (an estimate; the price {names} is not known)"


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
