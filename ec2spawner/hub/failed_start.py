"""Why a start failed, and what can be started instead: for `NotStarted`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ..config import Options, Profile
from ..core.choices import open_markets
from ..provisioner.lease import Lease
from ..provisioner.provisioner import Provisioner
from ..provisioner.store import StoreError
from ..wire import Market, Step, Stop
from .alternatives import Alternative, Candidate, alternatives
from .attempts import usd
from .card_text import duration_words
from .not_started import NotStarted
from .profile_list import open_profiles
from .progress import current_step
from .rendering import environment
from .spawn_link import start_url

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner

NOT_TO_BE_HAD = frozenset({"capacity", "quota"})
"""Reasons of a `Stop` for which something else may be had."""

WAITED_FOR = {
    Step.REQUEST: "the hub was still looking for a machine",
    Step.BOOT: "its machine was still booting",
    Step.HOME: "your home was still being opened",
    Step.NOTEBOOK: "JupyterLab was still starting",
}


# --- sold out --------------------------------------------------------------------------------


async def could_not_start(
    spawner: Spawner, options: Options, provisioner: Provisioner, stop: Stop
) -> NotStarted:
    """For a lease that ended before it was ready: why, and what there is instead of it."""
    lease = provisioner.book.get(spawner.lease_id)
    message = stop.message or "The start was ended"
    if lease is None or stop.reason not in NOT_TO_BE_HAD:
        return NotStarted(message, reason=stop.reason, status_code=503)
    return told(
        message,
        await _instead_of(lease, spawner, options, provisioner),
        reason=stop.reason,
        link=lambda user_options: start_url(spawner, user_options, provisioner.now()),
    )


async def _instead_of(
    lease: Lease, spawner: Spawner, options: Options, provisioner: Provisioner
) -> tuple[Alternative, ...]:
    zones = provisioner.zones_of(lease.spec)
    asked = provisioner.offers.all(lease.spec.instance_types, zones, lease.spec.markets)
    known = (offer.usd_per_hour for offer in asked if offer.usd_per_hour is not None)
    profiles = await open_profiles(options, spawner)
    candidates = [_candidate(profile, provisioner, zones) for profile in profiles]
    reference = min(known, default=None)
    return alternatives(candidates, lease.profile, reference, chosen=spawner.user_options)


def _candidate(profile: Profile, provisioner: Provisioner, zones: Iterable[str]) -> Candidate:
    types = provisioner.catalogue.types_for(profile, provisioner.settings.architecture)
    return Candidate(
        slug=profile.slug,
        name=profile.display_name,
        has_gpu=any(kind.gpu for kind in types),
        markets=open_markets(profile),
        offers=provisioner.offers.open([kind.name for kind in types], zones, tuple(Market)),
    )


def told(
    message: str,
    instead: Sequence[Alternative],
    *,
    reason: str,
    link: Callable[[Mapping[str, str]], str],
) -> NotStarted:
    """The message with the alternatives, as text and as HTML; all that is given is escaped.

    `link` makes the address that starts a server with user options.
    """
    words = [(each, alternative_words(each)) for each in instead]
    listed = f"You can start now: {'; '.join(text for _, text in words)}." if words else ""
    html = environment.get_template("ec2spawner/not_started.html").render(
        message=message,
        alternatives=[{"words": text, "url": link(each.user_options)} for each, text in words],
    )
    text = " ".join(part for part in (message, listed) if part)
    return NotStarted(text, reason=reason, html=html, status_code=503)


def alternative_words(alternative: Alternative) -> str:
    """Such as `A10G, 24 GB, on-demand at $1.01/h`, or `spot from` the cheapest of several."""
    usd_per_hour = alternative.usd_per_hour
    if usd_per_hour is None:
        return f"{alternative.name}, {alternative.market}, price unknown"
    preposition = "from" if alternative.dearer_may_come else "at"
    return f"{alternative.name}, {alternative.market} {preposition} {usd(usd_per_hour)}/h"


def bound_zone(provisioner: Provisioner, lease: Lease) -> str:
    """The only zone that the server's files allow; empty where they leave the choice."""
    zones = provisioner.zones_of(lease.spec)
    bound = lease.home_kind == "ebs" and zones < set(provisioner.zones())
    return min(zones, default="") if bound else ""


# --- too late --------------------------------------------------------------------------------


async def too_late(provisioner: Provisioner, lease_id: str, seconds: float) -> NotStarted:
    """For a start that was not done within `seconds`, whose lease this ends: what it waited for,
    and what to do."""
    lease = provisioner.book.get(lease_id)
    usual = await provisioner.usual_durations(lease.profile) if lease else {}
    message = late_words(current_step(lease) if lease else Step.REQUEST, usual, seconds)
    with suppress(StoreError):  # it holds in memory, and the next pass stores it
        await provisioner.ending.begin(lease_id, Stop(reason="failed", message=message))
    return NotStarted(message, reason="timeout", status_code=503)


def late_words(step: Step, usual: Mapping[Step, float], seconds: float) -> str:
    waited_for = WAITED_FOR.get(step, WAITED_FOR[Step.NOTEBOOK])
    if step in usual:
        waited_for += f", which usually takes {duration_words(usual[step])}"
    given_back = "" if step is Step.REQUEST else " Its machine is given back."
    return (
        f"Your server was not ready within {duration_words(seconds)}: {waited_for}.{given_back} "
        "Try again, or choose another; if it happens again, tell an admin"
    )
