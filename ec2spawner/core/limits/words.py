"""Limits in words, for pages, REST and the reason of a stop. Pure."""

from __future__ import annotations

from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Final

from ..ledger.cost_rows import HUB
from .admission import Obstacle, Refusal
from .bounds import GPU_HOUR, NANO, Bounds, Kind
from .standing import Standing

MONTHS: Final = (
    "January February March April May June July August September October November December"
).split()


STORAGE_WORDS: Final = "homes and their snapshots alone, which cost also while no server runs"


def scope_words(scope: str) -> str:
    """`ann`, `group research`, `project nlp`, `this hub`."""
    if scope == HUB:
        return "this hub"
    kind, _, name = scope.partition(":")
    return name if kind == "user" else f"{kind} {name}"


def limit_words(scope: str, kind: Kind, limit: int, bounds: Bounds | None = None) -> str:
    """`$200 per month of ann`."""
    return f"{_amount(kind, limit)}{_period(kind, bounds)} of {scope_words(scope)}"


def amount_words(kind: Kind, amount: int) -> str:
    """`$3.12`, `4 GPU-hours`, `2 servers`: an amount in the unit of a limit."""
    return _amount(kind, amount)


def _amount(kind: Kind, amount: int, rounding: str = ROUND_HALF_EVEN) -> str:
    if kind is Kind.SERVERS:
        return f"{amount} {'server' if amount == 1 else 'servers'}"
    if kind is Kind.GPU_HOURS:
        hours = _shortened(Decimal(amount) / GPU_HOUR, 1, rounding).removesuffix(".0")
        return f"{hours} {'GPU-hour' if hours == '1' else 'GPU-hours'}"
    return f"${_shortened(Decimal(amount) / NANO, 2, rounding)}".removesuffix(".00")


def _shortened(amount: Decimal, digits: int, rounding: str) -> str:
    """With so many digits, and two more only where the amount is below the last of them."""
    if 0 < amount < Decimal(1).scaleb(-digits):
        shortened = amount.quantize(Decimal(1).scaleb(-digits - 2), rounding)
        return f"{shortened:f}".rstrip("0").rstrip(".")
    return f"{amount.quantize(Decimal(1).scaleb(-digits), rounding):,f}"


def _period(kind: Kind, bounds: Bounds | None) -> str:
    match kind:
        case Kind.MONTH | Kind.GPU_HOURS:
            return " per month"
        case Kind.WINDOW:
            days = bounds.window_days if bounds and bounds.window_days else 0
            return f" in {days} {'day' if days == 1 else 'days'}" if days else " in its window"
        case Kind.CREDIT:
            return " of credit"
        case Kind.RATE:
            return " per hour"
        case Kind.SERVERS:
            return " at once"


def refusal_words(refusal: Refusal, contact: str, bounds: Bounds | None = None) -> str:
    """Why a start is refused: what is left, until when, and who can raise the limit.

    For its user, who does not see what all users of the hub have spent.
    """
    if refusal.obstacle is Obstacle.UNKNOWN_PRICE or refusal.kind is None:
        return (
            "The price of this server is not known, and spending is limited for "
            f"{scope_words(refusal.scope)}. Try again in some minutes, choose another profile, or "
            f"ask {contact}"
        )
    kind, limit = refusal.kind, _users_limit(refusal.scope, refusal.kind, refusal.limit, bounds)
    if kind is Kind.SERVERS:
        return f"{limit} is reached. Stop another server first, or ask {contact} to raise it"
    # More is needed than is left: so rounded, they never read the same.
    left, needed = _left(refusal, kind), _amount(kind, refusal.needed, ROUND_CEILING)
    if kind is Kind.RATE:
        return (
            f"{limit}: {left} per hour is left besides what runs now, and this server costs "
            f"{needed} per hour. Stop another server first, choose a cheaper profile, or ask "
            f"{contact} to raise the limit"
        )
    until = f" More is available on {day_words(refusal.renews)}." if refusal.renews else ""
    if refusal.is_filled_by_storage:
        return (
            f"{limit} is used up by {STORAGE_WORDS}.{until} Ask {contact} to raise the limit. No "
            "limit deletes files"
        )
    return (
        f"{limit}: {left} is left, and the first hour of this server takes {needed}.{until} "
        f"Choose a cheaper profile, or ask {contact} to raise the limit"
    )


def rehearsal_refusal_words(refusal: Refusal, contact: str, bounds: Bounds) -> str:
    """Why an interruption on purpose is refused, for whoever asks for it."""
    assert refusal.kind is not None
    limit = _users_limit(refusal.scope, refusal.kind, refusal.limit, bounds)
    left = _left(refusal, refusal.kind)
    needed = _amount(refusal.kind, refusal.needed, ROUND_CEILING)
    return f"{limit}: {left} is left, and AWS charges {needed} for a rehearsal. Ask {contact}"


def short_refusal(refusal: Refusal) -> str:
    """The same in a few words, for a card of the spawn page."""
    if refusal.obstacle is not Obstacle.LIMIT or refusal.kind is None:
        return "Its price is not known yet"
    whose, left = scope_words(refusal.scope), _left(refusal, refusal.kind)
    match refusal.kind:
        case Kind.SERVERS:
            return f"The limit of servers of {whose} is reached"
        case Kind.RATE:
            return f"{_begin(left)} per hour left of the limit of {whose}"
    until = f" until {day_words(refusal.renews)}" if refusal.renews else ""
    return f"{_begin(left)} left of the limit of {whose}{until}"


def reached_words(refusal: Refusal, contact: str, bounds: Bounds | None = None) -> str:
    """Say what is used of a limit that refuses starts, until when, and whom to ask; empty where no
    limit does. For a page with several profiles, of which some may still start."""
    if refusal.obstacle is not Obstacle.LIMIT or refusal.kind is None:
        return ""
    kind, limit = refusal.kind, _users_limit(refusal.scope, refusal.kind, refusal.limit, bounds)
    ask = f"ask {contact} to raise it."
    if kind is Kind.SERVERS:
        return f"{limit} is reached. Stop another server first, or {ask}"
    until = f" More is available on {day_words(refusal.renews)}." if refusal.renews else ""
    ask = f"Stop another server first, or {ask}" if kind is Kind.RATE else _begin(ask)
    if refusal.is_filled_by_storage:
        return f"{limit} is used up by {STORAGE_WORDS}.{until} {ask}"
    if refusal.scope == HUB:
        return f"{limit} leaves too little.{until} {ask}"
    used = _amount(kind, max(refusal.limit - refusal.left, 0), ROUND_CEILING)
    an_hour = " per hour" if kind is Kind.RATE else ""
    at_least = "at least " if refusal.at_most else ""
    left = _left(refusal, kind)
    return f"{limit}: {at_least}{used}{an_hour} is used, {left}{an_hour} is left.{until} {ask}"


def stop_words(standing: Standing, bounds: Bounds) -> str:
    """Why a server was stopped, for its user at the next login."""
    limit = _users_limit(standing.scope, standing.kind, standing.limit, bounds)
    until = f". More is available on {day_words(standing.renews)}" if standing.renews else ""
    by = f" by {STORAGE_WORDS}" if standing.is_filled_by_storage else ""
    return f"{limit} is used up{by}{until}"


def _users_limit(scope: str, kind: Kind, limit: int, bounds: Bounds | None) -> str:
    """`The limit of $200 per month of ann`; for the hub `The limit per month of this hub`."""
    if scope == HUB:
        return f"The limit{_period(kind, bounds)} of this hub"
    return f"The limit of {limit_words(scope, kind, limit, bounds)}"


def _left(refusal: Refusal, kind: Kind) -> str:
    """What is left, if the user may see it."""
    if refusal.scope == HUB:
        return "too little"
    left = _amount(kind, refusal.left, ROUND_FLOOR)
    return f"at most {left}" if refusal.at_most else left


def _begin(words: str) -> str:
    """As the beginning of a sentence."""
    return words[:1].upper() + words[1:]


def day_words(day: date) -> str:
    """`1 December 2026`."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"
