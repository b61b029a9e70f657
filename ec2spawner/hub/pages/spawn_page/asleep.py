"""The card above the profiles where a session of the user sleeps: what comes back, and on what.

Names and reasons come from the instance: they are shortened here and escaped by the template. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ....core.pricing.money import digits
from ....core.text.durations import approximate
from ....core.text.sizes import in_words
from ....core.text.untrusted import visible
from ....provisioner.model.sleeping_session import EXPIRY_SHOWN, SleepingSession
from ....wire import LostVariable, SavedKernel, SavedSession, SavedVariable, Trigger
from .lost_variables import why_incomplete, why_lost
from .profile_card import Card
from .session_asleep import SessionAsleep

MAX_NAME: Final = 40
"""Characters of a variable's or notebook's name."""

MIN_NAMED_BYTES: Final = 10**6
"""The size of a smaller variable is not worth a word."""

EXPIRES_SOON: Final = timedelta(days=3)

LOST_SHOWN: Final = 4
"""Variables that do not come back, before the rest is folded."""

OTHERS_SHOWN: Final = 6
"""Profiles to continue on, before the rest is folded."""

TRIGGERS: Final[dict[Trigger, str]] = {
    "idle": "Nobody used it",
    "limit": "It had reached a limit",
    "user": "You put it to sleep",
    "interruption": "AWS reclaimed its machine",
    "hardware": "It was to continue on other hardware",
}

MIN_SHOWN_SECONDS: Final = 1.0
"""A shorter time for the variables is not worth a word."""


@dataclass(frozen=True, slots=True)
class Back:
    """One variable that comes back. Plain text."""

    name: str
    size: str
    """Such as `900 MB (GPU)`; empty where it is small."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Variables that do not come back for one reason. Plain text."""

    names: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class AsleepKernel:
    """One notebook or console. Plain text."""

    name: str
    comes_back: str
    """Such as `12 variables, 3.1 GB, 10 proved`."""
    values_of: datetime | None = None
    """When they were saved, where that is before the session."""
    largest: tuple[Back, ...] = ()
    more: int = 0
    """Variables that come back and are not named."""
    why_incomplete: str = ""
    """Why nothing of it comes back, or not all."""
    lost: tuple[Lost, ...] = ()
    lost_folded: tuple[Lost, ...] = ()
    lost_more: int = 0
    """Variables that do not come back and are in `lost_folded`, or not named."""
    lost_unnamed: int = 0
    changed: tuple[str, ...] = ()
    """Names of variables that come back changed."""
    changed_more: int = 0


@dataclass(frozen=True, slots=True)
class WakeChoice:
    """A profile to wake the session on."""

    slug: str
    name: str
    price: str
    """Such as `$0.16/h`, or why there is none: `sold out`."""
    is_available: bool
    """False where it is sold out as far as is known; it may still be tried."""
    can_start: bool
    """False where no start of it is accepted now."""
    does_not_fit: str = ""
    """What of the session does not fit, in a sentence without a full stop; empty for nothing."""


@dataclass(frozen=True, slots=True)
class Asleep:
    """What the card shows. Instants are UTC; all texts are plain text."""

    since: datetime
    why: str
    """Without a full stop."""
    kept_until: datetime
    expires_soon: bool
    keep_price: str
    """Such as `$0.01 a day`; empty while the price is unknown."""
    kernels: tuple[AsleepKernel, ...]
    kernels_unnamed: int
    wake: WakeChoice | None
    """On the profile of the last start; None where the user may not start it any more."""
    wake_takes: str
    """Such as `about 50 seconds, then 8 seconds for your variables`; empty where unknown."""
    others: tuple[WakeChoice, ...]
    others_folded: tuple[WakeChoice, ...]


@dataclass(frozen=True, slots=True)
class Expired:
    """A session that nobody has woken in time."""

    slept_at: datetime
    expired_at: datetime


def expired(last: SleepingSession | None, now: datetime) -> Expired | None:
    """That the session saved last of a server has expired, for as long as that is news."""
    if last is None or last.woken_at is not None:
        return None
    if not last.expires_at <= now < last.expires_at + EXPIRY_SHOWN:
        return None
    return Expired(last.session.slept_at, last.expires_at)


def asleep(
    found: SessionAsleep, cards: Sequence[Card], now: datetime, last_market: str = ""
) -> Asleep:
    """The card of a session that sleeps; `last_market` is the market chosen for its start."""
    session = found.session
    own = next((card for card in cards if card.slug == found.profile), None)
    rest = [_wake_choice(card, session, "") for card in cards if card is not own]
    # What can be had comes first; the cards' own order otherwise, as the admin wrote it.
    others = sorted(rest, key=lambda choice: not (choice.is_available and choice.can_start))
    market = last_market if own and last_market in own.ways else ""
    return Asleep(
        since=session.slept_at,
        why=found.reason or TRIGGERS[session.trigger],
        kept_until=found.expires_at,
        expires_soon=found.expires_at - now < EXPIRES_SOON,
        keep_price=_per_day(found.usd_per_day),
        kernels=tuple(map(_kernel, session.kernels)),
        kernels_unnamed=max(session.kernel_count - len(session.kernels), 0),
        wake=_wake_choice(own, session, market) if own else None,
        wake_takes=_takes(own, session) if own else "",
        others=tuple(others[:OTHERS_SHOWN]),
        others_folded=tuple(others[OTHERS_SHOWN:]),
    )


def _per_day(usd: float | None) -> str:
    if usd is None:
        return ""
    return "less than $0.01 a day" if usd < 0.01 else f"${max(usd, 0.01):.2f} a day"


def _takes(card: Card, session: SavedSession) -> str:
    """The usual start, then reading the variables: as long as writing them took, because a volume
    reads as fast as it writes."""
    if card.usual_start_seconds is None:
        return ""
    start = f"about {approximate(card.usual_start_seconds)}"
    if session.seconds < MIN_SHOWN_SECONDS:
        return start
    return f"{start}, then {approximate(session.seconds)} for your variables"


# --- hardware --------------------------------------------------------------------------------


def _wake_choice(card: Card, session: SavedSession, way: str) -> WakeChoice:
    first = card.first(way)
    known = card.usd_per_hour(first)
    is_available = first is not None and first.mark is None
    if card.unusable:
        price = "not usable"
    elif first is None:
        price = "not offered"
    elif not is_available:
        price = "sold out"
    else:
        price = "price unknown" if known is None else f"${digits(known)}/h"
    return WakeChoice(
        slug=card.slug,
        name=card.name,
        price=price,
        is_available=is_available,
        can_start=not (card.cannot_start or card.unusable or first is None),
        does_not_fit=does_not_fit(
            session, card.hardware.gpu_memory_bytes, card.hardware.memory_gib
        ),
    )


def does_not_fit(session: SavedSession, gpu_memory_bytes: int, memory_gib: float) -> str:
    """What of a session does not fit into a machine, in a sentence without a full stop.

    What was in GPU memory and was not saved is not known.
    """
    on_gpu = sum(kernel.gpu_bytes for kernel in session.kernels)
    if session.size_bytes > memory_gib * 2**30 > 0:
        return f"{in_words(session.size_bytes)} do not fit in its {memory_gib:g} GiB of memory"
    if on_gpu and not gpu_memory_bytes:
        return f"no GPU: {in_words(on_gpu)} from the GPU come back in main memory"
    if on_gpu > gpu_memory_bytes:
        return f"{in_words(on_gpu)} were on the GPU; this one has {in_words(gpu_memory_bytes)}"
    return ""


# --- what comes back -------------------------------------------------------------------------


def _kernel(kernel: SavedKernel) -> AsleepKernel:
    lost = kernel.lost
    return AsleepKernel(
        name=_short(kernel.path) if kernel.path else f"Console ({_short(kernel.kernel_name)})",
        comes_back=_count(kernel),
        values_of=kernel.values_of,
        largest=tuple(Back(_short(each.name), _size(each)) for each in kernel.largest),
        more=max(kernel.variables - len(kernel.largest), 0),
        why_incomplete=why_incomplete(kernel.code),
        lost=_by_reason(lost[:LOST_SHOWN]),
        lost_folded=_by_reason(lost[LOST_SHOWN:]),
        lost_more=max(kernel.lost_count, len(lost)) - len(lost[:LOST_SHOWN]),
        lost_unnamed=max(kernel.lost_count - len(lost), 0),
        changed=tuple(_short(each.name) for each in kernel.changed[:LOST_SHOWN]),
        changed_more=max(kernel.changed_count - LOST_SHOWN, 0),
    )


def _size(variable: SavedVariable) -> str:
    size = in_words(variable.size_bytes) if variable.size_bytes >= MIN_NAMED_BYTES else ""
    return " ".join(filter(None, (size, "(GPU)" if variable.gpu else "")))


def _count(kernel: SavedKernel) -> str:
    if not kernel.variables:
        return "nothing" if kernel.code else "no variables"
    word = "variable" if kernel.variables == 1 else "variables"
    proved = "not proved" if not kernel.proved else f"{kernel.proved} proved"
    proved = "proved" if kernel.proved >= kernel.variables else proved
    return f"{kernel.variables} {word}, {in_words(kernel.size_bytes)}, {proved}"


def _by_reason(lost: Sequence[LostVariable]) -> tuple[Lost, ...]:
    names: dict[str, list[str]] = {}
    for each in lost:
        names.setdefault(why_lost(each), []).append(_short(each.name))
    return tuple(Lost(tuple(found), why) for why, found in names.items())


def _short(name: str) -> str:
    """Shortened at its beginning: the end of a path is what distinguishes it."""
    shown = visible(name)
    return shown if len(shown) <= MAX_NAME else f"…{shown[1 - MAX_NAME :]}"
