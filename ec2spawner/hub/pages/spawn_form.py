"""The spawn page: profiles as cards, each with what it is and what it costs.

Works by keyboard and without JavaScript: a card is a radio button's label, what belongs to the
chosen card is shown by CSS, and the form is JupyterHub's own. What the form sends is checked in
`core.profiles.choices`, where REST and stored options go too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ...core.text import durations
from ...wire import Market
from . import profile_card_text
from .jinja_environment import environment
from .profile_card import Bounds, Card, initial_card
from .stop_notice import StopNotice


@dataclass(frozen=True, slots=True)
class HomeSize:
    """What may be chosen for the home, in GiB."""

    least: int
    """What the home has already, where there is one: it never shrinks."""
    most: int
    now: int
    """What it gets where nothing is chosen."""


@dataclass(frozen=True, slots=True)
class SpawnForm:
    """What the page shows besides the cards. Sentences are plain text."""

    region: str
    now: datetime
    chosen: Mapping[str, object] = field(default_factory=dict)
    """User options to begin with: those of the last start, or of a link."""
    linked: bool = False
    """They are a link's that this hub did not make, so that nothing has started yet though
    somebody may think so."""
    notice: StopNotice | None = None
    """How the last server ended."""
    home: str = ""
    """What becomes of one's files."""
    keeps_home: bool = False
    """Files outlive the machine."""
    kept: str = ""
    """What is kept of the last server."""
    home_size: HomeSize | None = None
    """None where there is no choice of it."""
    interruptions: str = ""
    """Where the words on interruptions are from, and of when."""
    contact: str = "an admin of this JupyterHub"
    """Whom to ask when there is no card."""


@dataclass(frozen=True, slots=True)
class PriceNote:
    """Where a market's prices are from and how old they are, as the page says it once."""

    market: str
    source: str
    age_seconds: float | None


def render_spawn_form(cards: Sequence[Card], form: SpawnForm) -> str:
    """The HTML between JupyterHub's `<form>` tags. Everything given is escaped."""
    selected = initial_card(cards, str(form.chosen.get("profile", "")))
    # What was chosen of a profile that is closed now was not chosen of the default.
    chosen = form.chosen if form.chosen.get("profile", selected) == selected else {}
    picked = {card.slug: _picked(card, chosen if card.slug == selected else {}) for card in cards}
    return environment.get_template("ec2spawner/form.html").render(
        cards=cards,
        form=form,
        selected=selected,
        notes=price_notes(cards),
        text=profile_card_text,
        picked=picked,
        all_open=bool(cards and chosen) and _has_all(picked[selected], chosen),
    )


def price_notes(cards: Sequence[Card]) -> tuple[PriceNote, ...]:
    """Where the prices of all cards are from; of one source the oldest age counts."""
    ages: dict[tuple[Market, str], float | None] = {}
    for card in cards:
        for seen in card.offers:
            if not seen.source or seen.offer.paid:
                continue
            key = seen.offer.market, seen.source
            known = [age for age in (ages.get(key), seen.age_seconds) if age is not None]
            ages[key] = max(known, default=None)
    markets = list(Market)
    ordered = sorted(ages.items(), key=lambda entry: (markets.index(entry[0][0]), entry[0][1]))
    return tuple(PriceNote(market, source, age) for (market, source), age in ordered)


@dataclass(frozen=True, slots=True)
class Picked:
    """What the panel of a card begins with."""

    market: str
    max_usd_per_hour: str = ""
    disk_gib: str = ""
    idle_seconds: int | None = None


def _picked(card: Card, chosen: Mapping[str, object]) -> Picked:
    """Stored or linked choices as far as the card still allows them."""
    market, disk = str(chosen.get("market", "")), str(chosen.get("disk_gib", ""))
    try:
        idle: int | None = round(durations.seconds(chosen.get("idle")))
    except durations.NotADuration:
        idle = None
    limit = str(chosen.get("max_usd_per_hour", ""))
    is_size = disk.isdecimal() and len(disk) <= 10  # Python refuses to read thousands of digits
    return Picked(
        market=market if market in card.ways else card.market,
        max_usd_per_hour=limit if re.fullmatch(r"[0-9.]{1,12}", limit) else "",
        disk_gib=disk if is_size and _is_within(int(disk), card.disk_bounds) else "",
        idle_seconds=idle if idle is not None and _is_within(idle, card.idle_bounds) else None,
    )


def _is_within(value: float, bounds: Bounds | None) -> bool:
    return bounds is not None and bounds.min <= value <= bounds.max


def _has_all(picked: Picked, chosen: Mapping[str, object]) -> bool:
    """Whether the card is open for everything that was chosen."""
    return (
        chosen.get("market", picked.market) == picked.market
        and ("disk_gib" not in chosen or picked.disk_gib != "")
        and ("idle" not in chosen or picked.idle_seconds is not None)
    )
