"""The other hardware that a running server could continue on. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ....wire import MAX_CHOICES, HardwareChoice, HardwareChoices
from .profile_card import Card
from .profile_card_text import NO_DRIVER


def hardware_choices(cards: Sequence[Card], current: str, payer: str = "") -> HardwareChoices:
    """A choice for each card but that of the `current` profile, paid by the same `payer`."""
    others = [card for card in cards if card.slug != current]
    return HardwareChoices(choices=[_choice(card, payer) for card in others[:MAX_CHOICES]])


def _choice(card: Card, payer: str) -> HardwareChoice:
    first = card.first()
    return HardwareChoice(
        profile=card.slug,
        name=card.name[:200],
        usd_per_hour=first.offer.usd_per_hour if first else None,
        market=first.offer.market if first else None,
        is_available=first is not None and first.mark is None,
        refusal=_refusal(card, payer)[:200],
        memory_bytes=round(card.hardware.memory_gib * 2**30),
        gpu_memory_bytes=card.hardware.gpu_memory_bytes,
    )


def _refusal(card: Card, payer: str) -> str:
    if card.no_driver:
        return NO_DRIVER
    if not card.is_offered:
        return "not offered in the zones of this hub or of your files"
    return card.refusals.get(payer, "")
