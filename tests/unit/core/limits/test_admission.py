"""Which starts can afford their first hour: no order of starts exceeds a limit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.cost_rows import HUB
from ec2spawner.core.limits.admission import (
    Account,
    Grant,
    Obstacle,
    OfferPrice,
    Refusal,
    decide,
    nano,
    reservation,
)
from ec2spawner.core.limits.bounds import GPU_HOUR, NANO, Bounds, Kind
from ec2spawner.core.limits.scopes import scopes_of
from ec2spawner.core.limits.standing import Standing
from ec2spawner.core.limits.words import (
    limit_words,
    reached_words,
    refusal_words,
    short_refusal,
    stop_words,
)


@dataclass
class Ledger:
    """Scopes that admitted starts count against: nothing is spent yet, all is reserved."""

    bounds: dict[str, Bounds]
    granted: list[tuple[tuple[str, ...], float, float]] = field(default_factory=list)

    def account(self, scope: str) -> Account:
        mine = [(usd, gpus) for scopes, usd, gpus in self.granted if scope in scopes]
        held = [reservation(usd, gpus, 3600) for usd, gpus in mine]
        bounds = self.bounds.get(scope, Bounds())
        kinds = (Kind.MONTH, Kind.WINDOW, Kind.CREDIT, Kind.GPU_HOURS)
        limits = [(kind, bounds.limit(kind)) for kind in kinds]
        return Account(
            scope,
            bounds,
            tuple(Standing(scope, kind, limit, 0) for kind, limit in limits if limit is not None),
            servers=len(mine),
            rate=sum(nano(usd) for usd, _ in mine),
            reserved=sum(usd for usd, _ in held),
            reserved_gpu=sum(gpu for _, gpu in held),
        )

    def start(self, user: str, payer: str, *offers: OfferPrice) -> Grant | Refusal:
        scopes = scopes_of(user, payer)
        found = decide([self.account(scope) for scope in scopes], offers)
        if isinstance(found, Grant):
            most = [o.usd_per_hour or 0.0 for o in offers]
            paid = max(most, default=0.0)
            if found.max_usd_per_hour is not None:
                paid = found.max_usd_per_hour
            self.granted.append((scopes, paid, found.gpus))
        return found


prices = st.one_of(st.none(), st.integers(1, 500).map(lambda cents: cents / 100))
offers = st.lists(st.builds(OfferPrice, prices, st.sampled_from([0.0, 0.5, 1.0, 4.0])), max_size=4)
bounds = st.builds(
    Bounds,
    usd_per_month=st.one_of(st.none(), st.integers(0, 2000).map(lambda cents: cents / 100)),
    usd_per_hour=st.one_of(st.none(), st.integers(0, 2000).map(lambda cents: cents / 100)),
    gpu_hours_per_month=st.one_of(st.none(), st.integers(0, 12)),
    servers=st.one_of(st.none(), st.integers(0, 5)),
)
starts = st.lists(
    st.tuples(st.sampled_from(["ann", "ben"]), st.sampled_from(["", "group:lab"]), offers),
    max_size=30,
)


@given(starts, bounds, bounds, bounds, bounds)
def test_no_sequence_of_starts_exceeds_any_limit(
    asked: list[tuple[str, str, list[OfferPrice]]],
    ann: Bounds,
    ben: Bounds,
    lab: Bounds,
    hub: Bounds,
) -> None:
    ledger = Ledger({"user:ann": ann, "user:ben": ben, "group:lab": lab, HUB: hub})
    for user, payer, of_start in asked:
        ledger.start(user, payer, *of_start)
    for scope, of_scope in ledger.bounds.items():
        account = ledger.account(scope)
        assert account.servers <= (of_scope.servers if of_scope.servers is not None else 99)
        for limit, held in (
            (of_scope.limit(Kind.MONTH), account.reserved),
            (of_scope.limit(Kind.RATE), account.rate),
            (of_scope.limit(Kind.GPU_HOURS), account.reserved_gpu),
        ):
            assert limit is None or held <= limit


@pytest.mark.parametrize(
    "bound",
    [
        Bounds(usd_per_month=1.6),
        Bounds(usd_per_hour=1.6),
        Bounds(usd_per_window=1.6, window_days=7),
        Bounds(credit_usd=1.6),
        Bounds(gpu_hours_per_month=3),
        Bounds(servers=3),
    ],
)
def test_of_fifty_starts_a_limit_for_three_admits_three(bound: Bounds) -> None:
    ledger = Ledger({"user:ann": bound})
    found = [ledger.start("ann", "", OfferPrice(0.526, 1)) for _ in range(50)]
    assert sum(isinstance(each, Grant) for each in found) == 3


def test_two_limits_that_bind_different_people_each_admit_their_own() -> None:
    ledger = Ledger({"user:ann": Bounds(usd_per_month=1.1), "group:lab": Bounds(servers=3)})
    found = {
        (number, user): ledger.start(user, payer, OfferPrice(0.5, 1))
        for number in range(25)
        for user, payer in (("ann", ""), ("ben", "group:lab"))
    }
    admitted = [user for (_, user), each in found.items() if isinstance(each, Grant)]
    assert sorted(admitted) == ["ann"] * 2 + ["ben"] * 3


def test_offers_that_are_too_expensive_are_excluded_from_what_a_start_may_buy() -> None:
    ledger = Ledger({HUB: Bounds(usd_per_month=0.6)})
    spot, on_demand, unknown = OfferPrice(0.2), OfferPrice(0.5), OfferPrice(None)
    first = ledger.start("ann", "", spot, on_demand, unknown)
    assert first == Grant(max_usd_per_hour=0.5, gpus=0.0)
    refused = ledger.start("ann", "", spot, on_demand)
    assert isinstance(refused, Refusal)
    assert (refused.scope, refused.left, refused.needed) == (HUB, NANO // 10, NANO // 5)


@given(bounds, bounds, offers)
def test_a_grant_allows_exactly_the_offers_that_are_affordable_by_themselves(
    ann: Bounds, hub: Bounds, of_start: list[OfferPrice]
) -> None:
    accounts = [Ledger({"user:ann": ann, HUB: hub}).account(x) for x in ("user:ann", HUB)]
    found = decide(accounts, of_start)
    if isinstance(found, Grant):
        by_itself = [isinstance(decide(accounts, [each]), Grant) for each in of_start]
        assert [found.allows(each) for each in of_start] == by_itself


def test_gpu_hours_exclude_offers_with_too_many_gpus() -> None:
    standing = Standing(HUB, Kind.GPU_HOURS, 2 * GPU_HOUR, 0)
    account = Account(HUB, Bounds(gpu_hours_per_month=2), (standing,))
    one, eight = OfferPrice(1.0, 1), OfferPrice(5.0, 8)
    found = decide([account], [one, eight])
    assert isinstance(found, Grant)
    assert [found.allows(each) for each in (one, eight)] == [True, False]


def test_a_shorter_run_needs_less() -> None:
    account = Account(HUB, Bounds(credit_usd=1), (Standing(HUB, Kind.CREDIT, NANO, 0),))
    assert isinstance(decide([account], [OfferPrice(2.0)]), Refusal)
    assert isinstance(decide([account], [OfferPrice(2.0)], seconds=1800), Grant)


def test_an_unknown_price_is_no_way_around_a_limit_of_money() -> None:
    limited = Account(HUB, Bounds(usd_per_hour=1))
    for of_start in ([], [OfferPrice(None)]):
        refused = decide([limited], of_start)
        assert isinstance(refused, Refusal)
        assert refused.obstacle is Obstacle.UNKNOWN_PRICE
    assert decide([Account(HUB, Bounds(servers=1))], []) == Grant(None, 0.0)
    standing = Standing(HUB, Kind.GPU_HOURS, GPU_HOUR, 0)
    hours = Account(HUB, Bounds(gpu_hours_per_month=1), (standing,))
    assert isinstance(decide([hours], []), Refusal), "nor are unknown GPUs one of GPU-hours"


def test_gpu_hours_that_are_used_up_still_allow_a_server_without_gpus() -> None:
    standing = Standing(HUB, Kind.GPU_HOURS, GPU_HOUR, GPU_HOUR)
    account = Account(HUB, Bounds(gpu_hours_per_month=1), (standing,))
    assert isinstance(decide([account], [OfferPrice(0.5, 0)]), Grant)
    assert isinstance(decide([account], [OfferPrice(0.5, 1)]), Refusal)


def test_a_refusal_says_what_is_left_until_when_and_who_can_raise_it() -> None:
    bounds = Bounds(usd_per_month=200)
    ledger = Ledger({"user:ann": bounds})
    for _ in range(2):
        refused = ledger.start("ann", "", OfferPrice(150.0))
    assert isinstance(refused, Refusal)
    words = refusal_words(refused, "gpu-help@example.org", bounds)
    for part in ("$200 per month", "ann", "$50", "$150", "gpu-help@example.org"):
        assert part in words
    assert "$50" in short_refusal(refused)
    hours = Refusal("group:NLP", Obstacle.LIMIT, Kind.GPU_HOURS, GPU_HOUR, GPU_HOUR // 2, GPU_HOUR)
    assert short_refusal(hours) == "0.5 GPU-hours left of the limit of group NLP"
    hub = Bounds(usd_per_window=5, window_days=7)
    assert limit_words(HUB, Kind.WINDOW, 5 * NANO, hub) == "$5 in 7 days of this hub"


@pytest.mark.parametrize(
    ("kind", "left", "needed", "words"),
    [
        (Kind.GPU_HOURS, int(0.97 * GPU_HOUR), GPU_HOUR, ("0.9 GPU-hours is", "1 GPU-hour.")),
        (Kind.GPU_HOURS, GPU_HOUR // 50, GPU_HOUR // 8, ("0.02 GPU-hours is", "0.2 GPU-hours.")),
        (Kind.MONTH, 531_600_000, 534_000_000, ("$0.53 is", "$0.54.")),
        (Kind.MONTH, 1_999_000_000, 2_000_000_000, ("$1.99 is", "$2.")),
        (Kind.MONTH, 2_340_000, 2_360_000, ("$0.0023 is", "$0.0024.")),
        (Kind.MONTH, 9_999_999, 10_000_000, ("$0.0099 is", "$0.01.")),
        (Kind.RATE, 999_999_999, 1_000_000_001, ("$0.99 per hour is", "$1.01 per hour.")),
    ],
)
def test_a_refusal_never_reads_as_if_enough_were_left(
    kind: Kind, left: int, needed: int, words: tuple[str, str]
) -> None:
    refused = Refusal("user:ann", Obstacle.LIMIT, kind, 2000 * GPU_HOUR, left, needed)
    said = refusal_words(refused, "an admin")
    assert all(part in said for part in words), said


@pytest.mark.parametrize(
    ("kind", "scope", "words"),
    [
        (
            Kind.MONTH,
            "user:ann",
            "month of ann: $3 is used, $1 is left. More is available on 1 Dec",
        ),
        (Kind.RATE, "user:ann", "$3 per hour is used, $1 per hour is left. More"),
        (Kind.MONTH, HUB, "The limit per month of this hub leaves too little. More"),
        (Kind.SERVERS, "user:ann", "is reached. Stop another server first, or ask gpu-help"),
    ],
)
def test_a_limit_that_is_reached_says_what_is_used_until_when_and_whom_to_ask(
    kind: Kind, scope: str, words: str
) -> None:
    limit = 4 if kind is Kind.SERVERS else 4 * NANO
    left = 0 if kind is Kind.SERVERS else NANO
    day = date(2026, 12, 1)
    refused = Refusal(scope, Obstacle.LIMIT, kind, limit, left, 2 * NANO, renews=day)
    said = reached_words(refused, "gpu-help@example.org")
    assert words in said
    assert "gpu-help@example.org to raise it." in said
    unknown = Refusal(scope, Obstacle.UNKNOWN_PRICE)
    assert reached_words(unknown, "") == "", "no limit is reached"


def test_a_limit_that_homes_use_up_is_called_that() -> None:
    limit = 10 * NANO
    refused = Refusal(
        "user:ann", Obstacle.LIMIT, Kind.MONTH, limit, 0, NANO, is_filled_by_storage=True
    )
    by_servers = replace(refused, is_filled_by_storage=False)
    assert "homes" in refusal_words(refused, "an admin")
    assert "homes" not in refusal_words(by_servers, "an admin")
    by_homes = Standing("user:ann", Kind.MONTH, limit, limit, storage=limit)
    with_servers = replace(by_homes, storage=limit - 1)
    assert "homes" in stop_words(by_homes, Bounds(usd_per_month=10))
    assert "homes" not in stop_words(with_servers, Bounds(usd_per_month=10))


def test_users_do_not_see_what_the_hub_has_spent() -> None:
    for kind in (Kind.MONTH, Kind.RATE, Kind.SERVERS):
        refused = Refusal(HUB, Obstacle.LIMIT, kind, 777 * NANO, 333 * NANO, NANO)
        for words in (refusal_words(refused, "an admin"), short_refusal(refused)):
            assert "this hub" in words
            assert "777" not in words
            assert "333" not in words
    standing = Standing(HUB, Kind.MONTH, 777 * NANO, 777 * NANO)
    assert "777" not in stop_words(standing, Bounds(usd_per_month=777))
