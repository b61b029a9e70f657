"""The spawn page: profiles as cards, each with what it is and what it costs.

Works by keyboard and without JavaScript: a card is a radio button's label, and the form is
JupyterHub's own. What the form sends is checked in `core.profiles.apply_user_options`, where
REST and stored options go too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"
"""For `JupyterHub.template_paths`: our `spawn.html` and `spawn_pending.html` extend its own."""


@dataclass(frozen=True, slots=True)
class Card:
    """One profile, as a person sees it. Prices in USD/hour; None is unknown, never 0."""

    slug: str
    name: str
    description: str = ""
    gpu_text: str = ""
    """Such as `1 × T4, 16 GB`; empty without a GPU."""
    vcpus: int = 0
    memory_gib: float = 0
    scratch_gb: int = 0
    market: str = "spot-first"
    """`spot-first`, `spot-only` or `on-demand`."""
    spot_usd_per_hour: float | None = None
    on_demand_usd_per_hour: float | None = None
    price_source: str = ""
    """Where the prices are from, such as `EC2's spot price history`."""
    price_age_seconds: float | None = None
    """How long ago they were read; None where the source says its own date."""
    usual_start_seconds: float | None = None
    """How long a start of this profile usually takes; None before anyone knows."""
    idle_stop_seconds: float = 0.0
    """Idle for this long, it is stopped; 0 is never."""
    selected: bool = False

    @property
    def price(self) -> Price:
        return Price.of(self)

    @property
    def facts(self) -> tuple[str, ...]:
        """What the machine is, in few words."""
        # A card called "T4, 16 GB" need not say "1 × T4, 16 GB" again.
        in_name = self.gpu_text.removeprefix("1 × ") in self.name
        facts = [] if in_name else [self.gpu_text]
        if self.vcpus:
            facts.append("1 vCPU" if self.vcpus == 1 else f"{self.vcpus} vCPUs")
        if self.memory_gib:
            facts.append(f"{self.memory_gib:g} GiB memory")
        if self.scratch_gb:
            scratch = self.scratch_gb
            large = scratch >= 1000
            facts.append(f"{scratch / 1000:g} TB scratch" if large else f"{scratch} GB scratch")
        return tuple(facts)

    @property
    def habits(self) -> tuple[str, ...]:
        """What it does by itself, in few words."""
        habits = []
        if self.usual_start_seconds is not None:
            habits.append(f"starts in about {duration_words(self.usual_start_seconds)}")
        if self.idle_stop_seconds:
            habits.append(f"stops after {duration_words(self.idle_stop_seconds)} without work")
        return tuple(habits)


@dataclass(frozen=True, slots=True)
class Price:
    """A card's price in words: the figure that counts, and what to hold beside it."""

    usd: str
    """Such as `0.19`, in USD/hour; empty while unknown."""
    market: str
    """`spot` or `on-demand`: whose figure it is."""
    saving: str = ""
    """Against on-demand, such as `−64 %`; empty for none."""
    beside: str = ""

    @classmethod
    def of(cls, card: Card) -> Price:
        spot, on_demand = card.spot_usd_per_hour, card.on_demand_usd_per_hour
        if card.market == "on-demand":
            return cls(usd(on_demand), "on-demand", beside="not interrupted")
        if spot is None and on_demand is None:
            return cls("", "spot")
        on_demand_text = f"on-demand ${usd(on_demand)}" if on_demand else "on-demand price unknown"
        if spot is None:
            if card.market == "spot-only":
                return cls("", "spot", beside=on_demand_text)
            return cls(usd(on_demand), "on-demand", beside="spot price unknown")
        saving = round(100 * (1 - spot / on_demand)) if on_demand else 0
        if saving >= 1:
            return cls(usd(spot), "spot", f"−{saving} %", beside=on_demand_text)
        return cls(usd(spot), "spot", beside=on_demand_text)


@dataclass(frozen=True, slots=True)
class PriceNote:
    """Where prices are from and how old they are, as the page says it."""

    source: str
    age_seconds: float | None


def render_spawn_form(
    cards: Sequence[Card],
    *,
    region: str,
    notice: str | None = None,
    home: str = "",
    contact: str = "an admin of this JupyterHub",
) -> str:
    """The HTML between JupyterHub's `<form>` tags.

    `notice` says how the last server ended, `home` what becomes of one's files, both in a
    sentence; `contact` is whom to ask when there is no card. Everything given is escaped. The
    first card is selected where none is.
    """
    selected = next((card.slug for card in cards if card.selected), None)
    return _environment.get_template("ec2spawner/form.html").render(
        cards=cards,
        selected=selected or (cards[0].slug if cards else ""),
        region=region,
        notice=notice,
        home=home,
        contact=contact,
        common_notes=common_notes(cards),
    )


def common_notes(cards: Sequence[Card]) -> dict[str, PriceNote]:
    """Where prices are from, by market, to be said once; empty where a market has two sources.

    One source for all markets stands under the empty name.
    """
    notes: dict[str, set[PriceNote]] = {}
    for card in cards:
        if card.price_source:
            note = PriceNote(card.price_source, card.price_age_seconds)
            notes.setdefault(card.price.market, set()).add(note)
    if len(set().union(*notes.values())) == 1:
        return {"": notes.popitem()[1].pop()}
    if any(len(found) > 1 for found in notes.values()):
        return {}
    return {market: found.pop() for market, found in sorted(notes.items(), reverse=True)}


def read_form(form_data: Mapping[str, Sequence[object]]) -> dict[str, object]:
    """User options from what the browser posted, for `Spawner.options_from_form`.

    Nothing is judged here. A field left empty is left out; a field sent twice stays a list, to
    be refused with the rest of what is wrong.
    """
    options: dict[str, object] = {}
    for field, values in form_data.items():
        given = [value for value in values if value != ""]
        if given:
            options[field] = given[0] if len(given) == 1 else given
    return options


def usd(amount: float | None) -> str:
    """`0.083`, `0.19`, `24.48`, `113`: three digits where it is cheap, no cents where dear."""
    if amount is None:
        return ""
    if amount < 0.1:
        return f"{amount:.3f}"
    return f"{amount:.2f}" if amount < 100 else f"{amount:.0f}"


def duration_words(seconds: float) -> str:
    """`40 seconds`, `2 minutes`, `1 hour`, `3 days`: one unit, as one says it."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * length or (seconds >= length and seconds % length == 0):
            return _counted(seconds / length, unit)
    return _counted(seconds, "second")


def _counted(number: float, unit: str) -> str:
    # 90 minutes are "1.5 hours", and 89 seconds are not "1.48 minutes".
    text = f"{round(number * 2) / 2 if unit in ('hour', 'day') else round(number):g}"
    return f"{text} {unit}" if text == "1" else f"{text} {unit}s"


_environment = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters["duration"] = duration_words
