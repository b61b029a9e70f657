"""The hardware that a running server could continue on, or a run of it could have. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ....provisioner.model.leases.lease import Lease
from ....wire import MAX_CHOICES, HardwareChoice, HardwareChoices, Market
from .profile_card import Card


def hardware_choices(
    cards: Sequence[Card], lease: Lease, payer: str, *, reports_ends: bool = False
) -> HardwareChoices:
    """A choice for each card, that of the server's own profile apart, at the cost of `payer`."""
    own = next((card for card in cards if card.slug == lease.profile), None)
    others = [card for card in cards if card.slug != lease.profile][:MAX_CHOICES]
    return HardwareChoices(
        choices=[_choice(card, payer) for card in others],
        own=None if own is None else _choice(own, payer),
        deletes_disk=_keeps_disk(lease),
        reports_ends=reports_ends,
    )


def _keeps_disk(lease: Lease) -> bool:
    """Whether the lease's instance is one that is stopped with its disk; EC2 stops no spot one."""
    is_on_demand = bool(lease.segments) and lease.segments[-1].market is Market.ON_DEMAND
    return lease.on_retained or (is_on_demand and lease.after_stop.then == "stop")


def _choice(card: Card, payer: str) -> HardwareChoice:
    first = card.first()
    return HardwareChoice(
        profile=card.slug,
        name=card.name[:200],
        usd_per_hour=card.usd_per_hour(first),
        market=first.offer.market if first else None,
        is_available=first is not None and first.mark is None,
        refusal=_refusal(card, payer),
        memory_bytes=round(card.hardware.memory_gib * 2**30),
        gpu_memory_bytes=card.hardware.gpu_memory_bytes,
    )


def _refusal(card: Card, payer: str) -> str:
    if card.unusable:
        return card.unusable[:200]
    if not card.is_offered:
        return "not offered in the zones of this hub or of your files"
    return card.refusals.get(payer, "")[:200]
