"""Amounts and sentences that all forms of a report share. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from ..aws.billing.cost_explorer import KEPT
from ..core.ledger.cost_lines import CostLine
from ..core.ledger.exact import NANO
from .contents import EXPIRES_SOON, Report
from .discount_use import DiscountUse

ESTIMATE: Final = (
    "Estimates in USD: measured time at the prices that EC2 and the AWS price list stated then, "
    "before credits and tax."
)

CENT: Final = NANO // 100


def usd(nano_usd: int) -> str:
    """`1,234.56`; what is not zero never looks like it."""
    if 0 < abs(nano_usd) < CENT // 2:
        return "<0.01" if nano_usd > 0 else ">-0.01"
    return f"{round(nano_usd / NANO, 2) + 0.0:,.2f}"


def amount(nano_usd: int, unknown: int) -> str:
    """An amount of which parts may be unknown: then it is a lower bound, or nothing is known."""
    if not unknown:
        return usd(nano_usd)
    return f"≥ {usd(nano_usd)}" if nano_usd else "unknown"


def exact(nano_usd: int) -> float:
    """USD for programs, to the last of nine decimals."""
    return round(nano_usd / NANO, 9)


def percent(part: int, whole: int) -> str:
    """`12 %`; empty for a part of nothing."""
    return f"{round(100 * part / whole)} %" if whole else ""


def period(report: Report) -> str:
    """`2026-11-01 to 2026-11-30 (Europe/Berlin)`."""
    scope = report.scope
    return f"{scope.since} to {scope.until} ({scope.time_zone})"


def cut(report: Report) -> str:
    """Why it does not begin on the first of the month; empty where it does, or somebody chose."""
    if not report.scope.is_cut:
        return ""
    return (
        f"From {report.scope.since} on, because Cost Explorer knows single instances for "
        f"{KEPT.days} days only. An earlier day needs --from, and --bill with an export."
    )


def named(key: Sequence[str]) -> list[str]:
    """A key with a dash for what belongs to nothing, such as the user of overhead."""
    return [each or "–" for each in key]


def amounts(line: CostLine) -> list[str]:
    """The cells of a line, as people read them."""
    return [
        amount(line.nano_usd, line.unknown),
        usd(line.used),
        usd(line.idle),
        usd(line.overhead),
        usd(line.saved),
        f"{line.hours:,.1f}",
        f"{line.gpu_hours:,.1f}",
    ]


def summary(total: CostLine) -> str:
    """What the period cost, and for what."""
    if not total.nano_usd:
        return "The cost is unknown." if total.unknown else "Nothing was spent."
    shares = ((total.used, "used"), (total.idle, "idle"), (total.overhead, "overhead"))
    parts = [f"{usd(part)} {name} ({percent(part, total.nano_usd)})" for part, name in shares]
    said = f"{amount(total.nano_usd, total.unknown)} USD: {', '.join(parts)}."
    if total.saved > 0:
        said += f" Spot and discounts saved {usd(total.saved)} USD against on-demand prices."
    return said


def unknown_prices(total: CostLine) -> str:
    """What it means that prices are unknown; empty where none is."""
    if not total.unknown:
        return ""
    entries = "one entry" if total.unknown == 1 else f"{total.unknown:,} entries"
    return f"The price of {entries} could not be read: amounts marked ≥ are lower bounds."


def discount_sentences(uses: Iterable[DiscountUse], now: datetime) -> Iterator[tuple[str, str]]:
    """For each discount its name, and what became of it."""
    for each in uses:
        discount = each.discount
        name = f"{discount.count} × {discount.instance_type}"
        if discount.zone:
            name += f" in {discount.zone}"
        yield (
            name,
            " ".join(
                filter(None, [_use(each), _begin(each, now), _expiry(each, now), one_more(each)])
            ),
        )


def _use(each: DiscountUse) -> str:
    if not each.covered:
        return "Did not hold in this period."
    said = (
        f"Covered {_hours(each.covered)} for {usd(each.paid_nano_usd)} USD: "
        f"{_hours(each.used)} used ({percent(each.used, each.covered)}), "
        f"{_hours(each.unused)} unused."
    )
    if each.replaced_nano_usd is not None and each.used:
        said += f" The used time costs {usd(each.replaced_nano_usd)} USD on demand."
    return said


def _begin(each: DiscountUse, now: datetime) -> str:
    since = each.discount.since
    if since is None:
        return ""
    return f"{'Began' if since <= now else 'Begins'} on {since:%Y-%m-%d}."


def _expiry(each: DiscountUse, now: datetime) -> str:
    until = each.discount.until
    if until is None:
        return ""
    if until <= now:
        return f"Expired on {until:%Y-%m-%d}."
    soon = ", soon" if until - now <= EXPIRES_SOON else ""
    return f"Expires on {until:%Y-%m-%d}{soon}."


def one_more(each: DiscountUse) -> str:
    """The arithmetic of buying one more of a discount; empty where it did not hold."""
    if not each.covered:
        return ""
    price = each.discount.usd_per_hour
    hours = _hours(each.covered // each.discount.count)
    paid = f"One more: {price:g} USD/h × {hours} = {usd(each.one_more_nano_usd)} USD"
    saves = each.one_more_saves_nano_usd
    if each.beyond_nano_usd is None or saves is None:
        return f"{paid}; what it would have replaced is unknown."
    verdict = f"{usd(saves)} USD saved" if saves > 0 else f"{usd(-saves)} USD lost"
    replaced = f"{_hours(each.beyond)} on demand = {usd(each.beyond_nano_usd)} USD"
    return f"{paid}, instead of {replaced}: {verdict}."


def _hours(microseconds: int) -> str:
    return f"{microseconds / 3.6e9:,.1f} h"
