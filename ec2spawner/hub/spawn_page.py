"""The spawn page: profiles as cards, each with what it is and what it costs.

Works by keyboard and without JavaScript: a card is a radio button's label, what belongs to the
chosen card is shown by CSS, and the form is JupyterHub's own. What the form sends is checked in
`core.choices`, where REST and stored options go too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..core import durations
from ..wire import Market
from . import card_text
from .cards import Card, marked_card

TEMPLATES = Path(__file__).parent / "templates"
"""For `JupyterHub.template_paths`: our `spawn.html` and `spawn_pending.html` extend its own."""

CHOICES = ("market", "disk_gib", "idle")
"""Options that belong to one card. Each card has fields of its own, such as `market.t4`, so that
a page without a script sends them all and we know which ones count."""


@dataclass(frozen=True, slots=True)
class SpawnForm:
    """What the page shows besides the cards. Sentences are plain text."""

    region: str
    now: datetime
    chosen: Mapping[str, object] = field(default_factory=dict)
    """User options to begin with: those of the last start, or of a link."""
    linked: bool = False
    """They are a link's, so that nothing has started yet though somebody may think so."""
    notice: str | None = None
    """How the last server ended."""
    home: str = ""
    """What becomes of one's files."""
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
    selected = marked_card(cards, str(form.chosen.get("profile", "")))
    return _environment.get_template("ec2spawner/form.html").render(
        cards=cards,
        form=form,
        selected=selected,
        notes=price_notes(cards),
        text=card_text,
        picked=lambda card: _picked(card, form.chosen if card.slug == selected else {}),
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
    disk_gib: str = ""
    idle_seconds: int | None = None


def _picked(card: Card, chosen: Mapping[str, object]) -> Picked:
    """Stored or linked choices as far as the card still allows them."""
    market, disk = str(chosen.get("market", "")), str(chosen.get("disk_gib", ""))
    try:
        idle: int | None = round(durations.seconds(chosen.get("idle")))
    except durations.NotADuration:
        idle = None
    bounds = card.disk_bounds
    fits = bounds and disk.isdecimal() and bounds.min <= int(disk) <= bounds.max
    return Picked(
        market=market if market in card.ways else card.market,
        disk_gib=disk if fits else "",
        idle_seconds=idle if idle in dict(card_text.idle_choices(card)) else None,
    )


# --- what comes back -------------------------------------------------------------------------


def read_form(form_data: Mapping[str, Sequence[object]]) -> dict[str, object]:
    """User options from what the browser posted, for `Spawner.options_from_form`.

    The fields of cards that were not chosen are left out, and so is what was left empty. Nothing
    else is judged here: a field sent twice stays a list, to be refused with the rest.
    """
    options: dict[str, object] = {}
    profile = [value for value in form_data.get("profile", ()) if value != ""]
    for name, values in form_data.items():
        option, dot, slug = name.partition(".")
        if dot and option in CHOICES:
            if [slug] != profile:
                continue
            name = option
        given = [value for value in values if value != ""]
        if given:
            before = options.get(name, [])
            every = [*(before if isinstance(before, list) else [before]), *given]
            options[name] = every[0] if len(every) == 1 else every
    return options


def read_link(query: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """What a link to the spawn page chooses: `opt-profile=t4&opt-market=on-demand`.

    The prefix is JupyterHub's, and may be left out. All that is no option of ours is ignored.
    """
    options: dict[str, object] = {}
    for name in ("profile", *CHOICES):
        given = query.get(f"opt-{name}") or query.get(name)
        if given and given[0]:
            options[name] = given[0]
    return options


_environment = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters["duration"] = card_text.duration_words
