"""Which cards of the spawn page their user can afford, and who may pay."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from ....config import Options
from ....core.ledger.cost_rows import user_payer
from ....core.limits.admission import Refusal
from ....core.limits.words import reached_words, scope_words, short_refusal
from ....provisioner.provisioner import Provisioner
from ...spawn.idle_policy import within_limits
from .profile_card import Card


async def with_refusals(
    cards: Sequence[Card],
    options: Options,
    provisioner: Provisioner,
    user: str,
    server: str,
    payers: Sequence[str],
) -> tuple[Card, ...]:
    """The cards, each with the payers that cannot pay its first hour now, and why not.

    The admin's function for idle policies is not called for each card: a maximum age that only it
    sets is not known here.
    """
    if not provisioner.settings.limits.bind:
        return tuple(cards)
    limits = provisioner.settings.limits
    policies = {profile.slug: options.idle_policy(profile) for profile in options.profiles}
    refusals: list[dict[str, str]] = [{} for _ in cards]
    reached: list[dict[str, str]] = [{} for _ in cards]
    for payer in payers:
        preview = provisioner.admission.preview(user, server, payer)
        for card, refused, of_limit in zip(cards, refusals, reached, strict=True):
            offers = [x.offer for x in card.offers if card.may_buy(x.offer.market)]
            policy = within_limits(policies[card.slug], limits, user, payer)
            longest = policy.max_age_seconds or 0.0
            why: Refusal | None = None
            if offers:
                why = preview.refusal(offers, longest, card.beside.usd_per_hour)
            if why is not None:
                refused[payer] = short_refusal(why)
                if words := reached_words(why, options.contact, limits.of(why.scope)):
                    of_limit[payer] = words
        await asyncio.sleep(0)  # several payers at once would delay all other requests
    return tuple(
        replace(
            card,
            refusals=refused,
            limits_reached=of_limit,
            cannot_start=len(refused) == len(payers) > 0,
        )
        for card, refused, of_limit in zip(cards, refusals, reached, strict=True)
    )


def payer_label(payer: str, user: str) -> str:
    """`Group research`, `Yourself`: a payer as its user chooses it."""
    words = scope_words(payer)
    return "Yourself" if payer == user_payer(user) else words[:1].upper() + words[1:]
