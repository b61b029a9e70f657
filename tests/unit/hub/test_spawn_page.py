"""The spawn page says what each profile costs, and nothing that is unknown."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.instances.scheduled_events import ScheduledEvent
from ec2spawner.core.offers.launch_errors import ErrorClass
from ec2spawner.core.offers.purchase import Offer
from ec2spawner.core.offers.sold_out import Mark
from ec2spawner.core.pricing.beside import Beside
from ec2spawner.core.pricing.gpu_value import Several, Value
from ec2spawner.core.pricing.price_history import Pace, Steadiness
from ec2spawner.core.profiles.profiles import Hardware
from ec2spawner.core.sleep.rules import SleepRules
from ec2spawner.hub.api.user import profiles_json
from ec2spawner.hub.pages.jinja_environment import TEMPLATES
from ec2spawner.hub.pages.spawn_page import scheduled_notice
from ec2spawner.hub.pages.spawn_page.affordable_cards import payer_label
from ec2spawner.hub.pages.spawn_page.profile_card import (
    Bounds,
    Card,
    Elsewhere,
    Line,
    OfferSeen,
    initial_card,
)
from ec2spawner.hub.pages.spawn_page.profile_card_text import badge, usd
from ec2spawner.hub.pages.spawn_page.sparkline import HEIGHT, WIDTH, sparkline
from ec2spawner.hub.pages.spawn_page.spawn_form import HomeSize, SpawnForm, render_spawn_form
from ec2spawner.hub.pages.spawn_page.stop_notice import StopNotice
from ec2spawner.hub.spawn.user_options import read_form, read_link
from ec2spawner.wire import Market

from .hub_html import hub_html

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
SPOT_SOURCE = "EC2 spot price history"
LIST_SOURCE = "the AWS price list"


# --- cards by hand ---------------------------------------------------------------------------


def spot(
    price: float | None, *, out: Sequence[str] = (), band: int | None = None, **mark: Any
) -> list[OfferSeen]:
    return offers(Market.SPOT, price, out=out, band=band, source=SPOT_SOURCE, age=40, **mark)


def on_demand(price: float | None, *, out: Sequence[str] = (), **words: Any) -> list[OfferSeen]:
    return offers(Market.ON_DEMAND, price, out=out, band=0, source=LIST_SOURCE, age=None, **words)


def offers(
    market: Market,
    price: float | None,
    *,
    out: Sequence[str],
    band: int | None,
    source: str,
    age: float | None,
    why: ErrorClass = ErrorClass.OFFER,
    minutes: float = 2,
    paid: bool = False,
    reservation: str = "",
    block_until: datetime | None = None,
) -> list[OfferSeen]:
    """The same in every zone, but for those where it is sold out."""
    since = NOW - timedelta(minutes=minutes)
    mark = Mark(why, "InsufficientInstanceCapacity", since, since + timedelta(minutes=3))
    return [
        OfferSeen(
            offer=Offer(
                market,
                "g4dn.xlarge",
                zone,
                price,
                band,
                paid,
                reservation,
                is_block=block_until is not None,
                until=block_until,
            ),
            source=source if price is not None else "",
            age_seconds=age if price is not None else None,
            mark=mark if zone in out else None,
        )
        for zone in ZONES
    ]


T4 = Card(
    slug="t4",
    name="T4, 16 GB",
    gpu="T4",
    hardware=Hardware("1 × T4, 16 GB", vcpus=4, memory_gib=16.0, scratch_gb=125),
    markets=("spot-first",),
    offers=(*spot(0.19, band=4), *on_demand(0.526)),
    value=Value(1.0, 0.19),
    usual_start_seconds=45,
    idle_seconds=3600,
)
CPU = Card(
    slug="cpu",
    name="No GPU",
    hardware=Hardware("", vcpus=4, memory_gib=16.0, scratch_gb=0),
    market="on-demand",
    markets=("on-demand",),
)
WITH_CHOICES = replace(
    T4,
    markets=("spot-first", "on-demand"),
    disk_gib=100,
    disk_bounds=Bounds(50, 500),
    idle_bounds=Bounds(900, 14400),
)
WEEK = Line(
    instance_type="g4dn.xlarge",
    zone="us-east-1b",
    start=NOW - timedelta(days=7),
    interval_seconds=10800,
    usd_per_hour=(None, 0.18, 0.19, 0.19),
    steadiness=Steadiness(Pace.STEADY, NOW - timedelta(days=6), 6.0, 2),
)


class Page(HTMLParser):
    """What a browser makes of the form: its text, its elements and its fields."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: dict[str, dict[str, str | None]] = {}
        self.radios: list[dict[str, str | None]] = []
        self.fields: dict[str, dict[str, str | None]] = {}
        self.options: dict[str, list[dict[str, str | None]]] = {}
        self.labels_for: list[str | None] = []
        self.ids: list[str] = []
        self.named: list[str | None] = []
        self.buttons: list[dict[str, str | None]] = []
        self._words: list[str] = []
        self._in_style = False
        self._select = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        found = dict(attrs)
        self._in_style = tag == "style"
        if found.get("type") == "radio":
            self.radios.append(found)
        elif tag in {"input", "select"} and "name" in found:
            self.fields[str(found["name"])] = found
        if tag == "select":
            self._select = str(found["name"])
        if tag == "option":
            self.options.setdefault(self._select, []).append(found)
        if tag == "label" and "for" in found:
            self.labels_for.append(found["for"])
        if found.get("id"):
            self.ids.append(str(found["id"]))
            self.attributes[str(found["id"])] = found
        if tag == "button":
            self.buttons.append(found)
        if tag == "svg":
            self.named.append(found.get("aria-label"))

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if not self._in_style:
            self._words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self._words).split())

    def selected(self, field: str) -> list[str | None]:
        return [option["value"] for option in self.options[field] if "selected" in option]


def form(*cards: Card, **words: Any) -> str:
    return render_spawn_form(cards, SpawnForm(region="us-east-1", now=NOW, **words))


def page(*cards: Card, **words: Any) -> Page:
    return Page(form(*cards, **words))


def card_of(*seen: Sequence[OfferSeen], **changes: Any) -> Card:
    return Card(
        slug="x",
        name="X",
        hardware=Hardware("", 0, 0, 0),
        offers=tuple(each for some in seen for each in some),
        **changes,
    )


def said_by(card: Card) -> str:
    """The card alone, without the page's other words."""
    after = page(card).text.split(" cost extra. Profile ")[1]
    return re.split(" X (?=Cheap|Safe)", after)[0]


# --- cards -----------------------------------------------------------------------------------


def test_a_card_says_that_an_instance_waits() -> None:
    text = page(replace(T4, ready_at_once=True)).text
    assert "125 GB scratch · ready at once" in text
    assert "starts in about" not in text


def test_a_card_shows_its_hardware_and_price() -> None:
    text = page(T4).text
    assert "T4, 16 GB" in text
    assert "4 vCPUs · 16 GiB memory · 125 GB scratch · starts in about 45 seconds" in text
    assert "Value: 1.0 T4 of work, $0.19 per T4-hour" in text
    assert "$0.19/h spot −64 % on-demand $0.53 often interrupted" in text
    assert (
        "Prices are in USD per hour for us-east-1: spot from EC2 spot price history, "
        "checked 40 seconds ago; on-demand from the AWS price list." in text
    )


def test_prices_are_those_of_the_notebook_with_disk_and_address() -> None:
    card = replace(T4, beside=Beside(0.075, 0.025), markets=("spot-first", "on-demand"))
    shown = page(card)
    assert "$0.29/h spot −54 % on-demand $0.63" in shown.text
    assert "instance $0.19/h + its disk and public address $0.10/h" in shown.text
    assert "spot, about $0.29/h; on-demand $0.63/h if sold out" in shown.text
    assert "Prices include the machine's own disk and public address;" in shown.text
    private = page(replace(card, beside=Beside(0.1))).text
    assert "instance $0.19/h + its disk $0.10/h" in private
    assert "Prices include the machine's own disk; the disk of your home costs extra." in private
    assert "address" not in private, "instances of this hub have none"
    public = page(replace(card, beside=Beside(address_usd_per_hour=0.005))).text
    assert "Prices include the machine's own public address; disks cost extra." in public
    assert "Disks cost extra." in page(T4).text


def test_what_another_disk_costs_is_said_where_it_is_chosen() -> None:
    card = replace(T4, disk_gib=100, disk_bounds=Bounds(50, 500))
    assert "Each 100 GiB" not in page(card).text
    shown = page(replace(card, disk_usd_per_hour=0.011)).text
    assert "Each 100 GiB costs $0.011/h; prices are with 100 GiB." in shown


def test_each_card_is_a_radio_button_with_its_label() -> None:
    shown = page(T4, CPU)
    assert [radio["value"] for radio in shown.radios] == ["t4", "cpu"]
    assert all(radio["name"] == "profile" for radio in shown.radios)
    assert shown.labels_for == [radio["id"] for radio in shown.radios]
    for radio in shown.radios:
        described = f"{radio['aria-labelledby']} {radio['aria-describedby']}".split()
        assert set(described) <= set(shown.ids)


def test_exactly_one_card_is_selected() -> None:
    def checked(shown: Page) -> list[str | None]:
        return [radio["value"] for radio in shown.radios if "checked" in radio]

    assert checked(page(T4, CPU)) == ["t4"]
    assert checked(page(T4, replace(CPU, default=True))) == ["cpu"]
    assert checked(page(T4, replace(CPU, default=True), chosen={"profile": "t4"})) == ["t4"]
    assert checked(page(T4, CPU, chosen={"profile": "gone"})) == ["t4"]


@given(
    slugs=st.lists(st.sampled_from("abcdef"), min_size=1, unique=True),
    defaults=st.sets(st.sampled_from("abcdef")),
    wanted=st.sampled_from("abcdefg"),
)
def test_the_initially_selected_card_exists(
    slugs: list[str], defaults: set[str], wanted: str
) -> None:
    cards = [replace(T4, slug=slug, default=slug in defaults) for slug in slugs]
    found = initial_card(cards, wanted)
    assert found in slugs
    assert found == wanted or wanted not in slugs


def test_the_page_works_without_javascript() -> None:
    assert not {"script", "button", "iframe"} & set(page(T4, WITH_CHOICES).elements)


@pytest.mark.parametrize(
    ("market", "spot_price", "list_price", "says"),
    [
        ("spot-first", 0.19, 0.526, "$0.19/h spot −64 % on-demand $0.53"),
        ("spot-first", 0.60, 0.526, "$0.60/h spot on-demand $0.53"),
        ("spot-first", 0.19, None, "$0.19/h spot on-demand price unknown"),
        ("spot-first", None, None, "price unknown on-demand price unknown"),
        ("spot-only", 0.19, 0.526, "$0.19/h spot −64 % on-demand $0.53"),
        ("spot-only", None, 0.526, "spot price unknown on-demand $0.53"),
        ("on-demand", 0.19, 0.526, "$0.53/h on-demand not interrupted"),
        ("on-demand", 0.19, None, "price unknown not interrupted"),
    ],
)
def test_a_price_in_words(
    market: str, spot_price: float | None, list_price: float | None, says: str
) -> None:
    card = card_of(spot(spot_price), on_demand(list_price), market=market)
    assert said_by(card) == f"X {says}"


def test_the_price_of_the_first_market_is_large() -> None:
    """Offers come ranked: a spot price above on-demand, or an unknown one, comes later."""
    dear = card_of(on_demand(0.526), spot(0.60))
    assert said_by(dear) == "X $0.53/h on-demand spot $0.60"
    unknown = card_of(on_demand(0.526), spot(None))
    assert said_by(unknown) == "X $0.53/h on-demand spot price unknown"


def test_places_of_a_reservation_say_so_at_the_price_that_they_cost_their_user() -> None:
    place = on_demand(0.526, paid=True, reservation="cr-1")
    assert said_by(card_of(place, spot(0.19))) == (
        "X $0.53/h on-demand, in reserved capacity spot $0.19"
    )
    until = datetime(2026, 11, 27, 10, 50, tzinfo=UTC)
    block = on_demand(0.4, paid=True, reservation="cr-1", block_until=until)
    assert said_by(card_of(block, spot(0.19))) == (
        "X $0.40/h in a Capacity Block, until 27 November, 10:50 UTC spot $0.19"
    )
    later = on_demand(0.526, reservation="cr-1")
    assert said_by(card_of(spot(0.19), later)).startswith("X $0.19/h spot")
    assert LIST_SOURCE not in page(card_of(place)).text


def test_discounted_offers_say_so_without_another_source() -> None:
    card = card_of(on_demand(0.30, paid=True), spot(0.35))
    assert said_by(card) == "X $0.30/h on-demand, already paid for spot $0.35"
    assert LIST_SOURCE not in page(card).text


# --- sold out --------------------------------------------------------------------------------


def test_some_zones_are_sold_out() -> None:
    card = card_of(spot(0.19, out=ZONES[:2]), on_demand(0.526))
    text = said_by(card)
    assert "$0.19/h spot −64 %" in text
    assert text.endswith("on-demand $0.53 spot sold out in 2 of 3 zones, 2 minutes ago")
    assert badge(card) == ""


def test_spot_is_sold_out_so_on_demand_is_the_price() -> None:
    card = card_of(spot(0.19, out=ZONES), on_demand(0.526))
    assert said_by(card) == (
        "X spot sold out $0.53/h on-demand spot sold out in 3 of 3 zones, 2 minutes ago"
    )
    assert "Spot is sold out now, so this is on-demand." in page(card).text
    assert "Spot is sold out now" not in page(T4).text


def test_a_sold_out_card_can_still_be_chosen() -> None:
    card = card_of(spot(0.19, out=ZONES), on_demand(0.526, out=ZONES, minutes=1))
    shown = page(card)
    assert "X sold out $0.19/h spot" in shown.text
    assert "spot and on-demand sold out in 3 of 3 zones, 1 minute ago" in shown.text
    assert "Sold out when last checked. You can still try." in shown.text
    assert "disabled" not in shown.radios[0]
    assert "ec2-sold-out" in form(card).split("</style>")[1]
    assert "ec2-sold-out" not in form(T4).split("</style>")[1]


def test_only_an_available_price_is_large() -> None:
    def figure(card: Card) -> str:
        found = re.search('class="(ec2-figure[^"]*)"', form(card).split("</style>")[1])
        assert found
        return found[1]

    assert figure(card_of(spot(0.19, out=ZONES[:2]), on_demand(0.526))) == "ec2-figure"
    gone = card_of(spot(0.19, out=ZONES), on_demand(0.526, out=ZONES))
    assert figure(gone) == "ec2-figure ec2-unavailable"
    assert figure(card_of(spot(None))) == "ec2-figure ec2-unavailable"


def test_an_unused_market_is_not_reported_as_missing() -> None:
    only_spot = card_of(spot(0.19), on_demand(0.526, out=ZONES), market="spot-only")
    assert "sold out" not in said_by(only_spot)
    no_spot = card_of(spot(0.19, out=ZONES), on_demand(0.526), market="on-demand")
    assert "sold out" not in said_by(no_spot)
    assert badge(card_of(spot(0.19, out=ZONES), market="spot-only")) == "spot sold out"


def test_a_quota_is_not_shown_as_a_shortage() -> None:
    card = card_of(spot(0.19, out=ZONES, why=ErrorClass.QUOTA), on_demand(0.526))
    assert said_by(card) == (
        "X spot quota reached $0.53/h on-demand spot quota of this account used up, 2 minutes ago"
    )


@pytest.mark.parametrize(
    ("why", "badge_said", "warned"),
    [
        (ErrorClass.PLAN, "not in AWS plan", "ask an admin for AWS's paid plan"),
        (ErrorClass.VERIFICATION, "not verified yet", "your start will wait"),
    ],
)
def test_what_the_account_may_not_start_is_not_shown_as_sold_out(
    why: ErrorClass, badge_said: str, warned: str
) -> None:
    card = card_of(spot(0.19, out=ZONES, why=why), on_demand(0.526, out=ZONES, why=why))
    assert badge(card) == badge_said
    assert "sold out" not in said_by(card)
    shown = page(card)
    assert "sold out when last checked" not in shown.text.lower()
    assert warned in shown.text


def test_a_gpu_that_the_image_cannot_use_is_not_shown_as_sold_out() -> None:
    why = ErrorClass.UNUSABLE
    card = card_of(spot(0.19, out=ZONES, why=why), on_demand(0.526, out=ZONES, why=why))
    assert said_by(card) == (
        "X not usable $0.19/h spot −64 % on-demand $0.53 the image has no driver for this GPU"
    )
    shown = page(card)
    assert "ask an admin for another image" in shown.text
    assert "sold out when last checked" not in shown.text.lower()
    sold_out = card_of(spot(0.19, out=ZONES), on_demand(0.526, out=ZONES, why=why))
    assert badge(sold_out) == "sold out"


def test_a_type_without_any_zone_says_so() -> None:
    shown = page(card_of())
    assert "not offered this hub's zones do not offer it" in shown.text
    assert "disabled" not in shown.radios[0]


@given(out=st.lists(st.sets(st.sampled_from(ZONES)), min_size=2, max_size=2))
def test_the_first_offer_is_sold_out_only_if_all_are(
    out: list[set[str]],
) -> None:
    card = card_of(spot(0.19, out=sorted(out[0])), on_demand(0.526, out=sorted(out[1])))
    first = card.first()
    assert first is not None
    everything = all(zones == set(ZONES) for zones in out)
    assert (first.mark is not None) is everything is card.nothing_left()
    assert (badge(card) == "sold out") is everything


# --- another zone ----------------------------------------------------------------------------


def bound(*here: OfferSeen, **changes: Any) -> Card:
    """A card of somebody whose files are in the first zone; the third has spot at 0.29."""
    [there] = [seen for seen in spot(0.29) if seen.offer.zone == ZONES[2]]
    elsewhere = Elsewhere(ZONES[0], ZONES[2], (there,), "Estimates: 3 minutes.")
    return replace(WITH_CHOICES, offers=here, elsewhere=elsewhere, **changes)


def test_a_dearer_home_zone_is_shown_with_both_prices_and_the_move() -> None:
    shown = page(bound(*spot(0.49)[:1]))
    assert "Your files are in us-east-1a: $0.49/h there; $0.29/h in us-east-1c." in shown.text
    move = shown.fields["move_home.t4"]
    assert (move["type"], move["value"]) == ("checkbox", "us-east-1c")
    assert "checked" not in move, "only the user chooses it"
    assert "Move my files to us-east-1c first: $0.29/h Estimates: 3 minutes." in shown.text
    assert "spot, about $0.29/h; on-demand, price unknown if sold out, after moving" in shown.text
    assert "move_home.t4" not in page(WITH_CHOICES).fields
    posted = {"profile": ["t4"], "move_home.t4": ["us-east-1c"], "move_home.x": ["us-east-1b"]}
    assert read_form(posted) == {"profile": "t4", "move_home": "us-east-1c"}


@pytest.mark.parametrize(
    ("here", "says"),
    [
        (spot(0.49, out=ZONES)[:1], "us-east-1a, where this is sold out; $0.29/h in us-east-1c"),
        (spot(None)[:1], "us-east-1a: price unknown there; $0.29/h in us-east-1c"),
        ([], "us-east-1a, which does not offer this machine; $0.29/h in us-east-1c"),
    ],
)
def test_a_home_zone_without_the_type_names_another_zone(here: list[OfferSeen], says: str) -> None:
    assert f"Your files are in {says}." in page(bound(*here)).text


# --- seven days ------------------------------------------------------------------------------


def test_the_price_line_has_alternative_text() -> None:
    shown = page(replace(T4, line=WEEK))
    [label] = shown.named
    assert label == (
        "Spot price of seven days in us-east-1b: between $0.18 and $0.19 per hour; "
        "dotted: on-demand, $0.53"
    )
    assert "steady for 6 days" in shown.text
    assert page(T4).named == []


def test_unknown_prices_are_a_gap_in_the_line() -> None:
    drawn = sparkline([0.2, 0.2, None, 0.3], 0.5)
    assert drawn is not None
    assert [len(stroke.split()) for stroke in drawn.strokes] == [2, 2]
    assert sparkline([None, None], 0.5) is None
    assert sparkline([], 0.5) is None


@given(
    samples=st.lists(st.none() | st.floats(min_value=0.001, max_value=200), max_size=60),
    reference=st.none() | st.floats(min_value=0.001, max_value=200),
)
def test_the_price_line_stays_in_its_frame(
    samples: list[float | None], reference: float | None
) -> None:
    drawn = sparkline(samples, reference)
    if drawn is None:
        assert not [sample for sample in samples if sample is not None]
        return
    points = [point.split(",") for stroke in drawn.strokes for point in stroke.split()]
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in points)
    if reference is not None:
        assert 0 <= (drawn.reference_y or 0) <= HEIGHT


def test_points_below_the_dotted_line_are_cheaper() -> None:
    drawn = sparkline([0.2, 0.2], 0.5)
    assert drawn is not None
    assert drawn.reference_y is not None
    assert float(drawn.strokes[0].split()[0].split(",")[1]) > drawn.reference_y


# --- value -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "several", "says"),
    [
        (Value(1.42, 0.2958), None, "Value: 1.4 T4s of work, $0.30 per T4-hour"),
        (Value(24.2, 0.09), None, "Value: 24 T4s of work, $0.090 per T4-hour"),
        (Value(1.42, None), None, "Value: 1.4 T4s of work $"),
        (None, None, "Value not known: no figures for this GPU"),
        (None, Several(5.0, 8.04), "About 5 times one V100, at 8 times its price"),
        (None, Several(2.924, 7.44), "About 2.9 times one V100, at 7.4 times its price"),
        (None, Several(5.0, None), "About 5 times one V100 $"),
    ],
)
def test_value_in_words(value: Value | None, several: Several | None, says: str) -> None:
    card = card_of(spot(0.19), gpu="V100", value=value, several=several)
    assert says in said_by(card)


def test_without_a_gpu_there_is_no_value() -> None:
    assert "Value" not in said_by(card_of(spot(0.19)))


# --- the choices of a card -------------------------------------------------------------------


def test_choices_stand_beside_the_start_button_in_plain_words() -> None:
    shown = page(WITH_CHOICES)
    assert [option["value"] for option in shown.options["market.t4"]] == ["spot-first", "on-demand"]
    assert "Cheap: spot first Safe: on-demand" in shown.text
    assert (
        "May be interrupted; on-demand if sold out. About $0.19 per hour An estimate" in shown.text
    )
    assert "Not interrupted. About $0.53 per hour An estimate" in shown.text
    disk = shown.fields["disk_gib.t4"]
    assert (disk["min"], disk["max"], disk["placeholder"], disk["value"]) == (
        "50",
        "500",
        "100",
        "",
    )
    idle = [option["value"] for option in shown.options["idle.t4"]]
    assert idle == ["", "900", "1200", "1800", "2700", "7200", "10800", "14400"]
    assert "Stop when idle for 1 hour (default)" in shown.text


def test_each_disk_field_is_labelled() -> None:
    shown = page(WITH_CHOICES, home_size=HomeSize(20, 500, 50), keeps_home=True)
    assert {"disk_gib.t4", "home_gib.t4"} <= set(shown.fields)
    assert "Disk of the machine, 50 to 500 GiB" in shown.text
    assert "Disk of your home, 20 to 500 GiB" in shown.text


def test_an_empty_home_can_be_chosen_instead_of_a_copy() -> None:
    assert "replace_home" not in page(T4).fields
    copied = page(T4, begins_as_copy=True, home="They begin as a copy.")
    assert copied.fields["replace_home"]["value"] == "empty"
    assert "checked" not in copied.fields["replace_home"]
    assert read_form({"profile": ["t4"], "replace_home": ["empty"]})["replace_home"] == "empty"


def test_without_choices_there_is_only_the_price_limit() -> None:
    shown = page(T4, CPU)
    assert set(shown.fields) == {"max_usd_per_hour.t4", "max_usd_per_hour.cpu"}
    assert "Cheap: spot first May be interrupted; on-demand if sold out." in shown.text
    assert "Stops when idle for 1 hour" in shown.text


def test_the_last_choices_are_preselected() -> None:
    chosen = {"profile": "t4", "market": "on-demand", "disk_gib": 200, "idle": "15m"}
    chosen["max_usd_per_hour"] = "0.30"
    shown = page(WITH_CHOICES, replace(WITH_CHOICES, slug="other"), chosen=chosen)
    assert shown.selected("market.t4") == ["on-demand"]
    assert shown.selected("market.other") == ["spot-first"]
    assert shown.fields["disk_gib.t4"]["value"] == "200"
    assert shown.fields["max_usd_per_hour.t4"]["value"] == "0.30"
    assert shown.fields["disk_gib.other"]["value"] == ""
    assert shown.selected("idle.t4") == ["900"]
    assert shown.selected("idle.other") == []


@pytest.mark.parametrize(
    "chosen",
    [
        {"market": "spot-only", "disk_gib": 5000, "idle": "9h"},
        {"market": ["on-demand"], "disk_gib": "a lot", "idle": {"x": 1}},
        {"market": None, "disk_gib": -1, "idle": float("nan")},
        {"disk_gib": "9" * 5000, "idle": "9" * 5000},
    ],
)
def test_choices_no_longer_permitted_are_dropped(chosen: dict[str, object]) -> None:
    shown = page(WITH_CHOICES, chosen={"profile": "t4"} | chosen)
    assert shown.selected("market.t4") == ["spot-first"]
    assert shown.fields["disk_gib.t4"]["value"] == ""
    assert shown.selected("idle.t4") == []


def test_choices_of_a_removed_profile_do_not_become_defaults() -> None:
    """Or somebody pays for a disk and a market that they never chose for this machine."""
    chosen = {"profile": "a100", "market": "on-demand", "disk_gib": 200, "idle": "15m"}
    shown = page(WITH_CHOICES, chosen=chosen)
    assert shown.selected("market.t4") == ["spot-first"]
    assert shown.fields["disk_gib.t4"]["value"] == ""
    assert shown.selected("idle.t4") == []


def test_an_idle_time_set_by_rest_is_listed_among_the_usual_ones() -> None:
    shown = page(WITH_CHOICES, chosen={"profile": "t4", "idle": "50m"})
    assert shown.selected("idle.t4") == ["3000"]
    assert "50 minutes" in shown.text


@pytest.mark.parametrize(
    "chosen",
    [
        {"profile": "a100"},
        {"profile": "t4", "market": "spot-only"},
        {"market": "on-demand", "disk_gib": "5000"},
        {"profile": "t4", "idle": "9h"},
    ],
)
def test_a_link_beyond_the_bounds_says_so(chosen: dict[str, object]) -> None:
    text = page(WITH_CHOICES, chosen=chosen, linked=True).text
    assert "you cannot use all of its choices" in text


def test_a_link_that_chose_has_started_nothing() -> None:
    linked = page(WITH_CHOICES, chosen={"profile": "t4", "market": "on-demand"}, linked=True)
    assert "Nothing has started yet: press Start" in linked.text
    assert linked.selected("market.t4") == ["on-demand"]
    assert "Nothing has started yet" not in page(WITH_CHOICES).text


# --- the page around the cards ---------------------------------------------------------------


def test_prices_not_known_yet() -> None:
    text = page(card_of(spot(None), on_demand(None))).text
    assert "The prices for us-east-1 are not known yet." in text
    assert "$" not in text.split("What these figures")[0]


def test_the_oldest_age_is_shown_and_each_source_once() -> None:
    old = [replace(seen, age_seconds=900.0) for seen in spot(0.5)]
    other = [replace(seen, source="a table of 2026-07-20") for seen in on_demand(1.0)]
    text = page(T4, card_of(old, other)).text
    assert text.count(SPOT_SOURCE) == text.count(LIST_SOURCE) == 1
    assert "spot from EC2 spot price history, checked 15 minutes ago" in text
    assert "on-demand from a table of 2026-07-20; on-demand from the AWS price list." in text


def test_only_what_is_left_of_a_server_can_be_given_up() -> None:
    assert 'name="afresh"' in form(T4, kept="Your last machine.", may_begin_afresh=True)
    shown = form(T4, kept="A machine waits for you.")
    assert "A machine waits for you." in shown
    assert 'name="afresh"' not in shown


def test_how_the_last_server_ended() -> None:
    at = datetime(2026, 11, 20, 14, 50, tzinfo=UTC)
    shown = page(T4, notice=StopNotice(at, "It was idle for 1 hour", "Your files are kept."))
    assert "stopped at 14:50 UTC on 20 November. It was idle for 1 hour." in shown.text
    assert "last server" not in page(T4).text


def test_without_a_profile_the_page_names_whom_to_ask() -> None:
    empty = page(contact="gpu-help@example.org")
    assert "Ask gpu-help@example.org" in empty.text
    assert not empty.radios


def test_thirty_profiles_each_have_their_own_panel() -> None:
    cards = [replace(WITH_CHOICES, slug=f"p{n}", name=f"Profile {n}") for n in range(30)]
    shown = page(*cards)
    assert len(shown.radios) == 30
    assert len(set(shown.ids)) == len(shown.ids)
    ids = [f"ec2-profile-{n}" for n in range(1, 31)]
    in_order = [each for id_ in ids for each in (id_, f"{id_}-chosen")]
    assert [each for each in shown.ids if each in in_order] == in_order, "each follows its card"


@given(st.text(min_size=1))
def test_user_supplied_text_is_escaped(text: str) -> None:
    around = {"home": "x", "contact": "x", "interruptions": "x"}
    plain = replace(WITH_CHOICES, description="x", line=WEEK)
    hostile = f"{text}<script>alert(1)</script>\"' onclick=x"
    card = replace(
        plain,
        slug=hostile,
        name=hostile,
        description=hostile,
        gpu=hostile,
        line=replace(WEEK, zone=hostile),
        offers=tuple(replace(seen, source=hostile) for seen in plain.offers),
    )
    clean = page(plain, notice=StopNotice(NOW, "x", "x"), **around)
    shown = page(
        card,
        notice=StopNotice(NOW, hostile, hostile),
        **dict.fromkeys(around, hostile),
        chosen={"disk_gib": hostile},
    )
    assert "script" not in shown.elements
    assert set(shown.elements) <= set(clean.elements)
    assert set(shown.radios[0]) == set(clean.radios[0])


# --- the hub's own pages ---------------------------------------------------------------------


def hub_page(name: str, **context: Any) -> Page:
    return Page(hub_html(name, **context))


def person(name: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, escaped_name="escaped", json_escaped_name="", spawner=None)


def spawn_page(*cards: Card) -> Page:
    return hub_page(
        "spawn.html",
        user=person("ann"),
        for_user=person("ann"),
        no_spawner_check=True,
        url="/hub/spawn?_xsrf=1",
        spawner_options_form=form(*cards),
    )


def test_the_form_is_in_jupyterhubs_page_with_a_start_button() -> None:
    shown = spawn_page(T4)
    posted = shown.attributes["spawn_form"]
    assert (posted["action"], posted["method"]) == ("/hub/spawn?_xsrf=1", "post")
    assert [each["type"] for each in shown.buttons if each.get("type") == "submit"] == ["submit"]
    assert [radio["value"] for radio in shown.radios] == ["t4"]
    assert shown.text.count("Choose your GPU") == 2, "heading and title"
    assert "You are starting a server for" not in shown.text


@pytest.mark.parametrize(
    ("seen", "market", "says"),
    [
        ((*spot(0.19), *on_demand(0.526)), "spot-first", "spot, about $0.19/h; on-demand $0.53/h"),
        ((*spot(0.19), *on_demand(0.526)), "spot-only", "spot, about $0.19/h"),
        (
            (*spot(0.19), *on_demand(0.526)[:2], *on_demand(0.752)[2:]),
            "spot-first",
            "spot, about $0.19/h; on-demand up to $0.75/h if sold out",
        ),
        (spot(0.19), "spot-wait", "spot, about $0.19/h; waits if sold out"),
        (spot(0.19, out=ZONES), "spot-wait", "sold out when last checked; waits"),
        ((*on_demand(0.526), *spot(0.60)), "spot-first", "on-demand, about $0.53/h"),
        ((*spot(0.19, out=ZONES), *on_demand(0.526)), "spot-first", "on-demand, about $0.53/h"),
        ((*spot(0.19), *on_demand(0.526)), "on-demand", "on-demand, about $0.53/h"),
        ((*spot(None), *on_demand(None)), "spot-first", "spot, price unknown; on-demand, price"),
        (on_demand(0.526, out=ZONES), "on-demand", "sold out when last checked"),
        ((), "on-demand", "not offered here"),
    ],
)
def test_the_start_button_names_the_choice_and_its_price(
    seen: Sequence[OfferSeen], market: str, says: str
) -> None:
    card = replace(T4, offers=tuple(seen), market=market, markets=())
    assert f"Start T4, 16 GB {says}" in spawn_page(card).text


def test_the_spawn_page_shows_the_error_and_the_user_started_for() -> None:
    shown = hub_page(
        "spawn.html",
        user=person("ann"),
        for_user=person("<b>ben</b>"),
        no_spawner_check=True,
        error_message="profile: <i>none</i>",
        spawner_options_form="",
    )
    assert "You are starting a server for <b>ben</b>, not for yourself." in shown.text
    assert "profile: <i>none</i>" in shown.text


def test_the_progress_page_knows_whose_start_it_shows() -> None:
    hostile = "\"><script>alert('1')</script>"
    shown = hub_page(
        "spawn_pending.html",
        user=person(hostile),
        no_spawner_check=True,
        spawner=SimpleNamespace(name=hostile, user=person(hostile)),
        progress_url="/hub/api/users/x/server/progress?_xsrf=1",
    )
    start = shown.attributes["ec2-progress"]
    assert start["data-user"] == start["data-server"] == hostile
    assert start["data-progress-url"] == "/hub/api/users/x/server/progress?_xsrf=1"
    assert str(start["data-spawn-url"]).startswith("/hub/spawn/escaped/%22%3E%3Cscript%3E")
    plain = hub_page(
        "spawn_pending.html",
        user=person("ann"),
        no_spawner_check=True,
        spawner=SimpleNamespace(name="", user=person("ann")),
        progress_url="",
    )
    assert plain.attributes["ec2-progress"]["data-spawn-url"] == "/hub/spawn/escaped"
    assert plain.elements.count("script") == shown.elements.count("script")


def test_without_scripts_the_progress_page_reloads_itself() -> None:
    html = hub_html(
        "spawn_pending.html",
        user=person("ann"),
        no_spawner_check=True,
        spawner=SimpleNamespace(name="", user=person("ann")),
        progress_url="",
    )
    of_no_script = "".join(re.findall(r"<noscript>(.*?)</noscript>", html, re.DOTALL))
    assert '<meta http-equiv="refresh" content="4">' in of_no_script
    assert "This page reloads every few seconds" in of_no_script


def test_a_server_under_check_has_a_page_that_follows_no_start() -> None:
    hostile = "\"><script>alert('1')</script>"
    shown = hub_page(
        "spawn_pending.html",
        user=person(hostile),
        no_spawner_check=True,
        spawner=SimpleNamespace(name=hostile, user=person(hostile), pending="check"),
        progress_url="/hub/api/users/x/server/progress?_xsrf=1",
    )
    check = shown.attributes["ec2-checking"]
    assert check["data-user"] == check["data-server"] == hostile
    assert "ec2-progress" not in shown.attributes
    assert "checking whether your server still runs" in shown.text


def test_the_page_of_a_stop_says_what_it_waits_for() -> None:
    progress = "writing files to disk, 1.1 GB left"

    def shown(progress: str) -> str:
        stopping = SimpleNamespace(stop_progress=progress)
        context = {"user": person("ann"), "spawner": stopping, "no_spawner_check": True}
        return hub_page("stop_pending.html", **context).text

    assert f"It is still {progress}." in shown(progress)
    assert "Your server is stopping" in shown("")
    assert "costs money" not in shown("")


def test_the_page_of_a_stopped_server_says_how_it_ended() -> None:
    at = datetime(2026, 11, 20, 14, 50, tzinfo=UTC)
    notice = StopNotice(at, "<b>It was idle</b>", "Your files are kept.")
    user = person("ann")
    user.spawners = {"": SimpleNamespace(stop_notice=notice)}
    context = {"user": user, "server_name": "", "spawn_url": "/", "no_spawner_check": True}
    shown = hub_page("not_running.html", **context).text
    assert "stopped at 14:50 UTC on 20 November. <b>It was idle</b>. Your files are kept." in shown
    user.spawners = {"": SimpleNamespace(stop_notice=None)}
    assert "was stopped" not in hub_page("not_running.html", **context).text


RESUME = SleepRules(save_seconds=300.0, after_interruption="resume")
STOPS = SleepRules(save_seconds=300.0, after_interruption="stop")


@pytest.mark.parametrize(
    ("code", "sleep", "said"),
    [
        (
            "instance-retirement",
            RESUME,
            "AWS stops the machine of this server from 09:00 UTC on 03",
        ),
        ("system-reboot", STOPS, "Ten minutes before that, this server is saved and stopped."),
        ("system-maintenance", RESUME, "AWS maintains the host of this server's machine"),
    ],
)
def test_the_home_page_says_what_aws_has_announced_of_a_machine(
    code: Any, sleep: SleepRules, said: str
) -> None:
    event = ScheduledEvent(code, datetime(2026, 12, 3, 9, tzinfo=UTC))
    notice = scheduled_notice.notice_of(event, sleep)
    known = {"name": "", "active": True, "pending": None, "stop_notice": None}
    server = SimpleNamespace(**known, scheduled_notice=notice, ready=True, last_activity=None)
    user = person("ann")
    user.all_spawners = lambda **_: []
    context = {"user": user, "default_server": server, "url": "/user/ann"}
    shown = hub_page("home.html", no_spawner_check=True, **context).text
    assert said in " ".join(shown.split())
    assert ("Continue on…" in shown) is (code != "system-maintenance")
    server.active = False
    assert "AWS" not in hub_page("home.html", no_spawner_check=True, **context).text


def test_the_home_page_of_a_sleeping_session_leads_to_its_wake() -> None:
    at = datetime(2026, 11, 20, 14, 50, tzinfo=UTC)
    notice = StopNotice(at, "<b>It</b>", "Your files and variables are kept.", asleep=True)

    def home(notice: StopNotice | None, named: StopNotice | None = None, **server: object) -> Page:
        known = {"name": "", "active": False, "pending": None, "stop_notice": notice}
        known["scheduled_notice"] = None
        user = person("ann")
        # JupyterHub's record of a server that has not run since the hub's start.
        other: dict[str, Any] = {"name": "train-x1", "display_name": "My train", "active": False}
        other |= {"pending": None, "ready": False, "last_activity": None}
        user.all_spawners = lambda **_: [SimpleNamespace(**other)]
        user.spawners = {"train-x1": SimpleNamespace(**other, stop_notice=named)}
        user.server_url = "/user/ann/{}/".format
        context = {"user": user, "default_server": SimpleNamespace(**known | server)}
        return hub_page(
            "home.html",
            url="/hub/spawn/ann",
            no_spawner_check=True,
            allow_named_servers=True,
            named_server_limit_per_user=0,
            **context,
        )

    shown = home(notice)
    assert "Your session has been asleep since 14:50 UTC on 20 November. <b>It</b>." in shown.text
    assert "Wake it" in shown.text
    assert "asleep" not in home(None).text
    assert "server “My train” has been asleep since" in home(None, named=notice).text
    assert "asleep" not in home(replace(notice, asleep=False)).text
    assert "asleep" not in home(notice, active=True).text


def test_text_from_the_hub_is_never_inserted_as_html() -> None:
    for script in (TEMPLATES / "ec2spawner").glob("*.js"):
        source = script.read_text(encoding="utf-8")
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", ".html(", "document.write"):
            assert way not in source, f"{way} in {script.name}"


# --- what comes back -------------------------------------------------------------------------


def test_the_form_comes_back_as_user_options() -> None:
    assert read_form({"profile": ["t4"]}) == {"profile": "t4"}
    assert read_form({}) == {}
    assert read_form({"profile": [""]}) == {}


def test_only_fields_of_the_selected_card_count() -> None:
    posted = {
        "profile": ["t4"],
        "market.t4": ["on-demand"],
        "disk_gib.t4": ["200"],
        "idle.t4": [""],
        "market.cpu": ["spot-only"],
        "disk_gib.cpu": ["1"],
    }
    assert read_form(posted) == {"profile": "t4", "market": "on-demand", "disk_gib": "200"}
    assert read_form({"market.t4": ["on-demand"]}) == {}


def test_malformed_values_are_passed_on_to_be_refused() -> None:
    assert read_form({"profile": ["t4", "cpu"]}) == {"profile": ["t4", "cpu"]}
    assert read_form({"profile": ["t4"], "root": ["yes"]}) == {"profile": "t4", "root": "yes"}
    assert read_form({"profile": ["t4"], "root.t4": ["yes"]}) == {"profile": "t4", "root.t4": "yes"}
    twice = {"profile": ["t4"], "market": ["spot-only"], "market.t4": ["on-demand"]}
    assert read_form(twice)["market"] == ["spot-only", "on-demand"]


def test_a_link_preselects_its_choice() -> None:
    linked = {"opt-profile": ["t4"], "opt-market": ["on-demand"], "_xsrf": ["x"], "utm": ["y"]}
    assert read_link(linked) == {"profile": "t4", "market": "on-demand"}
    assert read_link({"profile": ["t4"], "disk_gib": ["200"]}) == {
        "profile": "t4",
        "disk_gib": "200",
    }
    assert read_link({"_xsrf": ["x"], "profile": [""]}) == {}


# --- words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "says"),
    [(0.0789, "0.079"), (0.19, "0.19"), (1.0, "1.00"), (24.48, "24.48"), (113.2, "113")],
)
def test_amounts_in_words(amount: float, says: str) -> None:
    assert usd(amount) == says


# --- limits and payers -----------------------------------------------------------------------

PAYERS = (("group:lab", "Group lab"), ("user:ann", "Yourself"))


LIMIT = "The limit of $5 per month of ann: $4.90 is used. Ask an admin to raise it."


def refused(card: Card, *payers: str, **changes: Any) -> Card:
    """The card, for whose start a limit of these payers leaves too little."""
    limits = {payer: LIMIT.replace("ann", payer) for payer in payers}
    return replace(
        card, refusals=dict.fromkeys(payers, "too little"), limits_reached=limits, **changes
    )


def test_a_limit_is_said_once_for_all_cards_with_what_can_still_start() -> None:
    poor = [refused(T4, "user:ann", slug=f"poor{n}", cannot_start=True) for n in range(5)]
    seen = page(*poor, replace(T4, name="Small"), payers=[("user:ann", "Yourself")])
    assert seen.text.count("$4.90 is used") == 1
    assert "You can still start: Small ($0.19/h). The others cost more" in seen.text
    assert "too little" not in seen.text
    assert "ec2-limits" in str(seen.radios[0]["aria-describedby"])
    assert "disabled" in seen.radios[0]
    nothing = page(*poor, payers=[("user:ann", "Yourself")])
    assert "What is left pays for none of the profiles." in nothing.text


def test_each_payer_has_the_notice_of_their_own_limits() -> None:
    card = refused(T4, "group:lab")
    seen = page(card, payers=PAYERS)
    assert "Charged to Group lab The limit of $5 per month of group:lab" in seen.text
    assert "disabled" not in seen.radios[0], "the other one can pay"
    assert json.loads(seen.radios[0]["data-refusing"] or "") == ["group:lab"]


def test_what_nobody_can_pay_is_disabled_and_says_why() -> None:
    why = "Its price is not known yet"
    poor = replace(T4, slug="poor", refusals={"user:ann": why}, cannot_start=True)
    seen = page(poor, T4, payers=[("user:ann", "Yourself")])
    disabled, enabled = seen.radios
    assert "disabled" in disabled
    assert "checked" not in disabled
    assert "checked" in enabled, "the first that can be started is selected"
    assert f"{disabled['id']}-limit" in str(disabled["aria-describedby"])
    assert why in seen.text


def test_what_one_payer_cannot_pay_says_which_and_can_be_chosen() -> None:
    card = replace(T4, refusals={"group:lab": "Its price is not known yet"})
    seen = page(card, payers=PAYERS)
    assert "disabled" not in seen.radios[0]
    assert "Not charged to Group lab: Its price is not known" in seen.text
    assert json.loads(seen.radios[0]["data-refusing"] or "") == ["group:lab"]


def test_the_api_names_payers_and_their_refusals_alike() -> None:
    card = replace(T4, refusals={"user:ann/7": "$0 is left"})
    names = {"group:lab": "group:lab", "user:ann/7": "user:ann"}
    answer = json.loads(profiles_json("us-east-1", [card], NOW, names))
    assert answer["payers"] == ["group:lab", "user:ann"]
    assert answer["profiles"][0]["refusals"] == {"user:ann": "$0 is left"}


def test_the_api_names_the_date_of_interruption_rates() -> None:
    answer = json.loads(profiles_json("us-east-1", [T4], NOW, {}))
    assert date.fromisoformat(answer["interruptions_of"]) <= NOW.date()


def test_a_user_with_several_payers_chooses_one() -> None:
    seen = page(T4, payers=PAYERS, chosen={"payer": "user:ann"})
    assert [each["value"] for each in seen.options["payer"]] == ["group:lab", "user:ann"]
    [chosen] = [each for each in seen.options["payer"] if "selected" in each]
    assert chosen["value"] == "user:ann"
    assert "payer" not in page(T4, payers=PAYERS[:1]).fields


def test_a_user_for_whom_nobody_may_pay_reads_whom_to_ask() -> None:
    assert "gpu-help@example.org" in page(T4, payers=[], contact="gpu-help@example.org").text


def test_without_a_card_that_can_be_started_none_is_checked() -> None:
    poor = replace(T4, refusals={"user:ann": "no"}, cannot_start=True)
    assert initial_card([poor], "t4") == "t4"
    assert "checked" not in page(poor, payers=PAYERS[1:]).radios[0]


def test_names_of_payers_are_written_as_they_are() -> None:
    assert payer_label("group:NLP lab", "ann") == "Group NLP lab"
    assert payer_label("project:user:ann", "ann") == "Project user:ann"
    assert payer_label("user:ann", "ann") == "Yourself"
