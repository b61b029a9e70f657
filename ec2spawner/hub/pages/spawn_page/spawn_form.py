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

from ....core.text import durations
from ....wire import Market
from ..jinja_environment import environment
from . import profile_card_text
from .asleep import Asleep, Expired
from .limit_notices import limit_notices
from .profile_card import Bounds, Card, initial_card
from .stop_notice import StopNotice


@dataclass(frozen=True, slots=True)
class HomeSize:
    """Sizes to choose from for the home, in GiB."""

    least: int
    """At least the current size of an existing home: it never shrinks."""
    most: int
    now: int
    """The size if the user chooses none."""


@dataclass(frozen=True, slots=True)
class SpawnForm:
    """What the page shows besides the cards. All texts are plain text."""

    region: str
    now: datetime
    chosen: Mapping[str, object] = field(default_factory=dict)
    """Initial user options: those of the last start, or of a link."""
    linked: bool = False
    """They come from a link that this hub did not sign, so nothing has started yet."""
    notice: StopNotice | None = None
    """Why and when the last server stopped."""
    owner: str = ""
    """Name of the server's owner, where somebody else reads the page."""
    home: str = ""
    """What happens to the user's files at a stop."""
    keeps_home: bool = False
    """The home outlives the instance."""
    kept: str = ""
    """What is retained of the last server, or for this one."""
    may_begin_afresh: bool = False
    """Something is retained of the last server, which the user can give up."""
    begins_as_copy: bool = False
    """The home is yet to be copied from the default server's; the user can choose an empty one."""
    home_size: HomeSize | None = None
    """None if the user cannot choose it."""
    asleep: Asleep | None = None
    """What sleeps of the last server; None if nothing does."""
    expired: Expired | None = None
    """What slept of it for too long."""
    interruptions: str = ""
    """Source, date and age of the interruption rates."""
    contact: str = "an admin of this JupyterHub"
    """Whom to ask if there is no card."""
    payers: Sequence[tuple[str, str]] | None = None
    """Who may pay, the default first, each with its label; a single one is no choice. None is the
    user."""


@dataclass(frozen=True, slots=True)
class PriceNote:
    """Source and age of a market's prices; the page shows each once."""

    market: str
    source: str
    age_seconds: float | None


def render_spawn_form(cards: Sequence[Card], form: SpawnForm) -> str:
    """The HTML between JupyterHub's `<form>` tags. Everything given is escaped."""
    selected = initial_card(cards, str(form.chosen.get("profile", "")))
    # Choices for a profile that is closed now do not apply to the default profile.
    chosen = form.chosen if form.chosen.get("profile", selected) == selected else {}
    picked = {card.slug: _picked(card, chosen if card.slug == selected else {}) for card in cards}
    return environment.get_template("ec2spawner/form.html").render(
        cards=cards,
        form=form,
        selected=selected,
        notes=price_notes(cards),
        # The same for each: a price is known of a kind of thing, or is not.
        beside=next((card.beside.name for card in cards), ""),
        text=profile_card_text,
        notices_of_limits=limit_notices(cards, form.payers or ()),
        picked=picked,
        all_open=bool(cards and chosen) and _has_all(picked[selected], chosen),
    )


def price_notes(cards: Sequence[Card]) -> tuple[PriceNote, ...]:
    """The sources of all prices on the cards, each with its oldest age."""
    ages: dict[tuple[Market, str], float | None] = {}
    for card in cards:
        for seen in card.offers:
            if not seen.source or seen.offer.paid or seen.offer.reservation:
                continue
            key = seen.offer.market, seen.source
            known = [age for age in (ages.get(key), seen.age_seconds) if age is not None]
            ages[key] = max(known, default=None)
    markets = list(Market)
    ordered = sorted(ages.items(), key=lambda entry: (markets.index(entry[0][0]), entry[0][1]))
    return tuple(PriceNote(market, source, age) for (market, source), age in ordered)


@dataclass(frozen=True, slots=True)
class Picked:
    """The initial values of a card's panel."""

    market: str
    max_usd_per_hour: str = ""
    disk_gib: str = ""
    idle_seconds: int | None = None


def _picked(card: Card, chosen: Mapping[str, object]) -> Picked:
    """Stored or linked choices, as far as the card still allows them."""
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
    """Whether the card allows everything that was chosen."""
    return (
        chosen.get("market", picked.market) == picked.market
        and ("disk_gib" not in chosen or picked.disk_gib != "")
        and ("idle" not in chosen or picked.idle_seconds is not None)
    )
