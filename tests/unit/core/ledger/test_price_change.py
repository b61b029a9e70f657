"""When the price of a server is reported to its user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ec2spawner.core.ledger.price_change import HourlyPrice, PriceChange, latest_change
from ec2spawner.core.ledger.segments import Segment
from ec2spawner.wire import Market

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND


def course(*prices: float | None, hours: float = 0.1, name: str = "i-1") -> list[Segment]:
    """Spot at these prices one after the other, each for so long; the last one runs."""
    starts = [START + timedelta(hours=hours * number) for number in range(len(prices))]
    ends = [*starts[1:], None]
    return [
        Segment(name, SPOT, price, start, end)
        for price, start, end in zip(prices, starts, ends, strict=True)
    ]


def prices(change: PriceChange | None) -> tuple[str, float, float] | None:
    """What is said."""
    if change is None:
        return None
    return change.why, change.before.usd_per_hour, change.now.usd_per_hour


def test_a_rise_is_reported_from_a_quarter_on_and_once() -> None:
    assert latest_change(course(0.40, 0.49)) is None
    assert prices(latest_change(course(0.40, 0.50))) == ("rise", 0.40, 0.50)
    said = latest_change(course(0.40, 0.50))
    assert latest_change(course(0.40, 0.50, 0.60)) == said, "less than a quarter more than said"
    assert prices(latest_change(course(0.40, 0.50, 0.63))) == ("rise", 0.50, 0.63)


def test_small_steps_add_up() -> None:
    assert prices(latest_change(course(0.40, 0.45, 0.51))) == ("rise", 0.40, 0.51)


def test_a_price_that_goes_up_and_down_is_reported_once() -> None:
    said = latest_change(course(0.40, 0.50))
    assert latest_change(course(0.40, 0.50, 0.45, 0.50)) == said
    assert latest_change(course(0.40, 0.50, 0.40)) is None, "it has fallen back"
    assert latest_change(course(0.40, 0.50, 0.40, 0.50)) == said, "it was said"


def test_after_an_hour_at_a_lower_price_the_next_rise_is_news() -> None:
    change = latest_change(course(0.40, 0.50, 0.40, 0.50, hours=1.0))
    assert prices(change) == ("rise", 0.40, 0.50)
    assert change is not None
    assert change.at == START + timedelta(hours=3)


def test_a_move_is_reported_with_the_price_of_the_instance_before() -> None:
    left = HourlyPrice(0.20, SPOT)
    assert prices(latest_change(course(0.40), left=left)) == ("move", 0.20, 0.40)
    assert prices(latest_change(course(0.10), left=left)) == ("move", 0.20, 0.10)
    assert latest_change(course(0.201), left=left) is None, "nobody would call it another price"
    assert latest_change(course(0.20), left=HourlyPrice(0.20, ON_DEMAND)) is not None


def test_a_rise_after_a_move_is_measured_by_the_price_after_it() -> None:
    left = HourlyPrice(0.20, SPOT)
    assert prices(latest_change(course(0.40, 0.45), left=left)) == ("move", 0.20, 0.40)
    assert prices(latest_change(course(0.40, 0.50), left=left)) == ("rise", 0.40, 0.50)


def test_a_start_is_reported_if_it_was_not_to_be_had_as_shown() -> None:
    asked = HourlyPrice(0.20, SPOT)
    assert latest_change(course(0.20), asked=asked) is None
    assert prices(latest_change(course(0.526), asked=asked)) == ("start", 0.20, 0.526)
    replaced = [*course(0.20), *course(0.60, name="i-2")]
    assert prices(latest_change(replaced, asked=asked)) == ("start", 0.20, 0.60)


def test_an_unknown_price_is_no_change() -> None:
    assert latest_change(course(None)) is None
    assert latest_change(course(None, 0.40), left=HourlyPrice(0.40, SPOT)) is None
    assert prices(latest_change(course(0.40, None, 0.50))) == ("rise", 0.40, 0.50)


def test_a_move_that_costs_more_than_shown_is_said_also_where_it_costs_as_much_as_before() -> None:
    left, asked = HourlyPrice(0.526, SPOT), HourlyPrice(0.20, SPOT)
    change = latest_change(course(0.526), left=left, asked=asked)
    assert prices(change) == ("start", 0.20, 0.526)


def test_a_price_that_is_again_what_it_was_is_no_change() -> None:
    asked = HourlyPrice(0.20, SPOT)
    assert latest_change(course(0.20, 0.40, 0.205)) is None, "nobody would call it another price"
    assert latest_change(course(0.40, 0.205), asked=asked) is None
    assert latest_change(course(0.40, 0.205), left=asked) is None
    assert latest_change(course(0.40, 0.10), left=asked) is None, "it costs no more any longer"
    assert latest_change(course(0.17, 0.195), left=asked) is None
    dip = latest_change(course(0.50, 0.20, 0.50), left=asked)
    assert dip == latest_change(course(0.50), left=asked), "only while it lasts"
    assert latest_change(course(0.20), asked=HourlyPrice(0.20, ON_DEMAND)) is not None
