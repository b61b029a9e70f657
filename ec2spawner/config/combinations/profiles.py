"""Profiles beside each other, and what they leave to their users."""

from __future__ import annotations

from collections.abc import Iterator

from ..options import Options
from ..problem import Problem
from .places import numbered, of_profile


def profile_problems(options: Options) -> Iterator[Problem]:
    """Choices that contradict each other, and defaults that nobody gets."""
    yield from _choices_of_markets(options)
    yield from _second_default(options)


def _choices_of_markets(options: Options) -> Iterator[Problem]:
    for index, profile in numbered(options):
        own, choices = profile.market, profile.profile_options
        if "wait_for_spot" not in choices.model_fields_set or choices.wait_for_spot:
            continue
        if "spot-wait" in (own, *choices.market):
            named = '"market"' if own == "spot-wait" else '"market" of profile_options'
            yield Problem(
                of_profile(index, profile, "profile_options.wait_for_spot"),
                f'is False, and {named} has "spot-wait", so its users wait for spot regardless',
                f'leave "spot-wait" out of {named}, or leave out "wait_for_spot"',
            )


def _second_default(options: Options) -> Iterator[Problem]:
    first: int | None = None
    for index, profile in numbered(options):
        if not profile.default:
            continue
        if first is not None:
            yield Problem(
                of_profile(index, profile, "default"),
                f"profile_list[{first}] is a default before it, and everyone may use that",
                'leave out one "default", or move the one with "groups" to the front',
            )
        elif not profile.groups:
            first = index
