"""The notice above the cards where limits are reached, once for all of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .profile_card import Card
from .profile_card_text import usd

MAX_OPEN: Final = 6
"""Profiles that a notice names."""


@dataclass(frozen=True, slots=True)
class LimitNotice:
    """The limits that keep a payer from paying for some of the cards."""

    payer: str
    label: str
    """Such as `Group lab`; empty where there is no choice."""
    limits: tuple[str, ...]
    """Sentences that say what is used of each, until when, and whom to ask."""
    open: str
    """Sentences that say what can still be started; empty where something else prevents it."""


def limit_notices(
    cards: Sequence[Card], payers: Sequence[tuple[str, str]]
) -> tuple[LimitNotice, ...]:
    """One for each payer with a limit that refuses cards."""
    found = []
    for payer, label in payers:
        limits = dict.fromkeys(words for card in cards if (words := card.limits_reached.get(payer)))
        if limits:
            shown = label if len(payers) > 1 else ""
            found.append(LimitNotice(payer, shown, tuple(limits), _still_open(cards, payer)))
    return tuple(found)


def _still_open(cards: Sequence[Card], payer: str) -> str:
    names = []
    for card in cards:
        first = card.first()
        if payer in card.refusals or card.unusable or first is None or card.nothing_left():
            continue
        known = card.usd_per_hour(first)
        names.append(card.name if known is None else f"{card.name} (${usd(known)}/h)")
    are_refused = len(names) + sum(payer in card.refusals for card in cards) == len(cards)
    if not names:
        return "What is left pays for none of the profiles." if are_refused else ""
    more = [f"{len(names) - MAX_OPEN} more"] if len(names) > MAX_OPEN else []
    still = "; ".join([*names[:MAX_OPEN], *more])
    others = " The others cost more than is left." if are_refused else ""
    return f"You can still start: {still}.{others}"
