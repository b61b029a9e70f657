"""What is offered instead of what is sold out: open, allowed, near, and cheapest first."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.offers.purchase import Offer, ranked
from ec2spawner.core.profiles.choices import MARKETS_OF
from ec2spawner.hub.failure.alternatives import (
    MAX_ALTERNATIVES,
    Alternative,
    Candidate,
    alternatives,
)
from ec2spawner.wire import Market

ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND

words = st.sampled_from(sorted(MARKETS_OF))
offers = st.lists(
    st.builds(
        Offer,
        market=st.sampled_from(Market),
        instance_type=st.sampled_from(["g4dn.xlarge", "g5.xlarge", "m7i.xlarge"]),
        zone=st.sampled_from(ZONES),
        usd_per_hour=st.none() | st.floats(0.05, 100),
        interruption_band=st.none() | st.integers(0, 4),
        paid=st.booleans(),
    ).filter(lambda offer: not offer.paid or offer.market is ON_DEMAND),
    max_size=8,
    unique_by=lambda offer: offer.key,
)


@st.composite
def hubs(draw: st.DrawFn) -> tuple[Candidate, ...]:
    """The profiles that somebody may use, with what is open for each."""
    slugs = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8))
    return tuple(
        Candidate(
            slug=slug,
            name=f"Profile {slug}",
            has_gpu=draw(st.booleans()),
            markets=tuple(draw(st.lists(words, min_size=1, max_size=3, unique=True))),
            offers=ranked(draw(offers)),
        )
        for slug in slugs
    )


def known(alternative: Alternative) -> float:
    return float("inf") if alternative.usd_per_hour is None else alternative.usd_per_hour


@given(hubs(), st.sampled_from("abcdefgh"), st.none() | st.floats(0.05, 100), st.integers(0, 6))
def test_alternatives_are_permitted_sorted_by_price_and_few(
    hub: tuple[Candidate, ...], wanted: str, reference: float | None, most: int
) -> None:
    found = alternatives(hub, wanted, reference, limit=most)
    by_slug = {candidate.slug: candidate for candidate in hub}
    assert len(found) <= most
    assert len({(each.profile, each.market) for each in found}) == len(found)
    for each in found:
        candidate = by_slug[each.profile]
        word = each.user_options["market"]
        assert each.user_options == {"profile": each.profile, "market": word}
        assert word in candidate.markets
        assert each.market in MARKETS_OF[word]
        open_there = [offer for offer in candidate.offers if offer.market is each.market]
        assert each.usd_per_hour in [offer.usd_per_hour for offer in open_there]
    asked = by_slug.get(wanted)

    def group(each: Alternative) -> tuple[bool, bool]:
        other_kind = asked is not None and by_slug[each.profile].has_gpu is not asked.has_gpu
        return each.profile != wanted, other_kind

    groups = [group(each) for each in found]
    assert groups == sorted(groups), "the same profile first, and a GPU before none for a GPU"
    for one in groups:
        prices = [known(each) for each in found if group(each) == one]
        assert prices == sorted(prices)


@given(hubs(), st.sampled_from("abcdefgh"), st.none() | st.floats(10, 100))
def test_an_open_offer_at_a_similar_price_is_always_offered(
    hub: tuple[Candidate, ...], wanted: str, reference: float | None
) -> None:
    can_start = any(
        offer.market in MARKETS_OF[word]
        for candidate in hub
        for word in candidate.markets
        for offer in candidate.offers
    )
    assert bool(alternatives(hub, wanted, reference)) is can_start


def offer(market: Market, usd_per_hour: float | None, zone: str = ZONES[0]) -> Offer:
    return Offer(market, "g5.xlarge", zone, usd_per_hour)


def candidate(
    slug: str, *open_now: Offer, markets: Sequence[str] = ("spot-first",), has_gpu: bool = True
) -> Candidate:
    return Candidate(slug, slug.upper(), has_gpu, tuple(markets), ranked(open_now))


def summary(found: Sequence[Alternative]) -> list[tuple[str, str, float | None]]:
    return [(each.profile, each.market.value, each.usd_per_hour) for each in found]


def test_the_same_gpu_in_the_other_market_comes_first_where_the_profile_leaves_the_choice() -> None:
    t4 = candidate("t4", offer(SPOT, 0.19), offer(ON_DEMAND, 0.53))
    a10g = candidate("a10g", offer(ON_DEMAND, 1.01), markets=("spot-only", "on-demand"))
    found = alternatives([t4, a10g], "a10g", 0.42)
    assert summary(found) == [("a10g", "on-demand", 1.01), ("t4", "spot", 0.19)]
    assert found[0].user_options == {"profile": "a10g", "market": "on-demand"}
    chosen = {"profile": "a10g", "market": "spot-only", "disk_gib": 200, "idle": "30m"}
    chosen["max_usd_per_hour"] = "0.50"  # the price on the button is agreed to by pressing it
    same, other = alternatives([t4, a10g], "a10g", 0.42, chosen=chosen)
    assert same.user_options == {
        "profile": "a10g",
        "market": "on-demand",
        "disk_gib": "200",
        "idle": "30m",
    }, "what was chosen besides the market is kept"
    assert other.user_options == {"profile": "t4", "market": "spot-first"}
    closed = candidate("a10g", offer(ON_DEMAND, 1.01), markets=("spot-only",))
    assert summary(alternatives([t4, closed], "a10g", 0.42)) == [("t4", "spot", 0.19)]


def test_similar_profiles_come_before_cheaper_ones() -> None:
    hub = [
        candidate("cpu", offer(SPOT, 0.08), has_gpu=False),
        candidate("t4", offer(SPOT, 0.19)),
        candidate("l4", offer(SPOT, 0.4)),
        candidate("l40s", offer(SPOT, 0.9)),
        candidate("a100", offer(SPOT, 1.4)),
        candidate("h100", offer(SPOT, 30.0)),
        candidate("a10g"),
    ]
    found = summary(alternatives(hub, "a10g", 0.42))
    assert [slug for slug, _, _ in found] == ["t4", "l4", "l40s", "a100"]
    assert len(found) == MAX_ALTERNATIVES


def test_another_profile_comes_before_the_same_one_twice() -> None:
    both = ("spot-only", "on-demand")
    hub = [
        candidate("t4", offer(SPOT, 0.19), offer(ON_DEMAND, 0.53), markets=both),
        candidate("l4", offer(SPOT, 0.4), offer(ON_DEMAND, 0.8), markets=both),
        candidate("a10g"),
    ]
    found = summary(alternatives(hub, "a10g", 0.5, limit=2))
    assert found == [("t4", "spot", 0.19), ("l4", "spot", 0.4)]


def test_spot_dearer_than_on_demand_is_not_offered_for_spot_first() -> None:
    risen = candidate("t4", offer(SPOT, 0.6), offer(ON_DEMAND, 0.53))
    assert summary(alternatives([risen], "a10g", 0.42)) == [("t4", "on-demand", 0.53)]


def test_much_dearer_offers_are_excluded_except_for_the_same_profile() -> None:
    hub = [
        candidate("h100", offer(SPOT, 17.57)),
        candidate("cpu", offer(SPOT, 0.05), has_gpu=False),
        candidate("t4", offer(ON_DEMAND, 2.0), markets=("spot-first",)),
    ]
    assert summary(alternatives(hub, "t4", 0.13)) == [
        ("t4", "on-demand", 2.0),
        ("cpu", "spot", 0.05),
    ]


def test_another_profile_may_cost_ten_times_as_much_and_no_more() -> None:
    hub = [candidate("h100", offer(SPOT, 5.0)), candidate("h200", offer(SPOT, 5.01))]
    assert summary(alternatives(hub, "t4", 0.5)) == [("h100", "spot", 5.0)]


def test_the_lowest_of_several_prices_is_marked_as_such() -> None:
    zones = [offer(SPOT, usd, zone) for usd, zone in zip((0.2, 0.19, 0.2), ZONES, strict=True)]
    (several,) = alternatives([candidate("t4", *zones)], "a10g", 0.42)
    assert (several.usd_per_hour, several.may_cost_more) == (0.19, True)
    (one,) = alternatives([candidate("t4", zones[0], zones[2])], "a10g", 0.42)
    assert (one.usd_per_hour, one.may_cost_more) == (0.2, False)


def test_an_unknown_price_is_offered_last_and_stays_unknown() -> None:
    hub = [candidate("t4", offer(SPOT, None)), candidate("l4", offer(SPOT, 0.8))]
    found = summary(alternatives(hub, "a10g", None))
    assert found == [("l4", "spot", 0.8), ("t4", "spot", None)]
