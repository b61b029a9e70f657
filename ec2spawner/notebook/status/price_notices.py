"""Notices of what the server costs. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ...wire import Cost, Credit, NotebookStatus, Notice, PriceChange, Sentence, sentence
from ...wire.sentences import Code

TITLES: dict[str, Code] = {"start": "price-started", "move": "price-moved", "rise": "price-rose"}

REASONS: dict[str, Code] = {
    "free-hour": "not-charged",
    "earlier-end": "ended-earlier",
    "correction": "price-corrected",
}

NOTABLE_RATIO = 1.5
"""From here on, how many times as much it is says more than the two prices."""

NOTABLE_USD = 0.01
"""The panel shows smaller amounts that are not charged; they are no reason to interrupt anybody."""


def price_notices(status: NotebookStatus) -> Iterator[Notice]:
    """That the server does not cost what its user saw last, and that today's amount has fallen."""
    cost = status.cost
    if cost is None or status.stop is not None or status.interruption_at is not None:
        return
    if cost.price_change is not None:
        yield _of_change(cost.price_change, cost)
    yield from map(_of_credit, (each for each in cost.credits if each.usd >= NOTABLE_USD))


def _of_change(change: PriceChange, cost: Cost) -> Notice:
    is_more = change.now.usd_per_hour > change.before.usd_per_hour
    return Notice(
        id=f"price-{change.why}-{change.at.timestamp():.0f}",
        kind="price",
        level="warning" if is_more else "info",
        title=_title(change),
        details=list(_details(change, cost) if is_more else ()),
        actions=["continue", "panel"] if is_more else ["panel"],
    )


def _title(change: PriceChange) -> Sentence:
    before, now = change.before, change.now
    prices = {"now": now.usd_per_hour, "before": before.usd_per_hour}
    markets = {"market": now.market.value, "before_market": before.market.value}
    return sentence(TITLES[change.why], **prices, **markets)


def _details(change: PriceChange, cost: Cost) -> Iterator[Sentence]:
    """Short: JupyterLab cuts a toast after 140 characters, title included."""
    on_demand, before = cost.on_demand_usd_per_hour, change.before.usd_per_hour
    if change.why == "rise" and on_demand is not None:
        yield sentence("price-on-demand", usd_per_hour=on_demand)
    elif before > 0 and change.now.usd_per_hour >= NOTABLE_RATIO * before:
        yield sentence("price-times", times=round(change.now.usd_per_hour / before, 1))
    yield sentence("pay-less")


def _of_credit(credit: Credit) -> Notice:
    return Notice(
        id=f"credit-{credit.why}-{credit.at.timestamp():.0f}",
        kind="credit",
        level="info",
        title=sentence("today-is-less", usd=credit.usd),
        details=[sentence(REASONS[credit.why])],
        actions=["panel"],
    )
