"""Why a start failed, and what can be started instead: for `SpawnError`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ...config import Options, Profile
from ...core.profiles.choices import MARKETS_OF, ONCE, open_markets
from ...core.text.durations import approximate
from ...provisioner.launch.error_hints import in_words
from ...provisioner.model.cloud import CloudError
from ...provisioner.model.lease import Lease
from ...provisioner.provisioner import Provisioner
from ...provisioner.store.store import StoreError
from ...wire import Market, Step, Stop
from ..app.spawn_error import SpawnError
from ..security.signed_link import start_url
from ..spawn.allowed_profiles import allowed_profiles
from ..spawn.home_migration import HomeOffer, move_offer, replacement_offers
from .alternatives import Alternative, Candidate, alternatives
from .attempt_text import usd
from .jinja_environment import environment
from .progress import current_step

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
) -> SpawnError:
    """For a lease that ended before it was ready: why, and what there is instead of it."""
    lease = provisioner.registry.get(spawner.lease_id)
    message = stop.message or "The start was ended"
    if lease is None:
        return SpawnError(message, reason=stop.reason, status_code=503)
    sold_out = stop.reason in NOT_TO_BE_HAD
    instead = await _instead_of(lease, spawner, options, provisioner) if sold_out else ()
    of_home = await _of_home(lease.profile, spawner, options, provisioner, sold_out=sold_out)
    return told(message, instead, of_home, reason=stop.reason, link=_link(spawner, provisioner))


async def none_in_this_zone(
    spawner: Spawner, options: Options, provisioner: Provisioner, error: SpawnError, slug: str
) -> SpawnError:
    """For a start that the home's zone has no machine for: with the offer to move the home."""
    of_home = await _of_home(slug, spawner, options, provisioner, sold_out=True)
    link = _link(spawner, provisioner)
    return told(error.jupyterhub_message, (), of_home, reason="not-offered", link=link)


def _link(spawner: Spawner, provisioner: Provisioner) -> Callable[[Mapping[str, str]], str]:
    return lambda user_options: start_url(spawner, user_options, provisioner.now())


async def _of_home(
    slug: str, spawner: Spawner, options: Options, provisioner: Provisioner, *, sold_out: bool
) -> tuple[HomeOffer, ...]:
    """What may be done about the home."""
    profiles = await allowed_profiles(options, spawner)
    profile = next((each for each in profiles if each.slug == slug), None)
    if profile is None or options.home.kind != "ebs":
        return ()
    home = provisioner.homes.of(spawner.user.name, spawner.name)
    chosen = spawner.user_options
    if not sold_out:
        return replacement_offers(provisioner, home, profile, chosen)
    markets = MARKETS_OF.get(str(chosen.get("market")), MARKETS_OF[profile.market])
    moved = move_offer(provisioner, options, home, profile, markets, chosen)
    return (moved,) if moved else ()


async def _instead_of(
    lease: Lease, spawner: Spawner, options: Options, provisioner: Provisioner
) -> tuple[Alternative, ...]:
    zones = provisioner.placement.zones_of(lease.spec)
    asked = provisioner.offers.all(lease.spec.instance_types, zones, lease.spec.markets)
    known = (offer.usd_per_hour for offer in asked if offer.usd_per_hour is not None)
    profiles = await allowed_profiles(options, spawner)
    candidates = [_candidate(profile, provisioner, zones) for profile in profiles]
    reference = min(known, default=None)
    chosen = dict(spawner.user_options)
    if provisioner.retention.of_server(lease.user, lease.server):
        chosen["afresh"] = "true"  # what is kept could not be had
    return alternatives(candidates, lease.profile, reference, chosen=chosen)


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
    of_home: Sequence[HomeOffer] = (),
    *,
    reason: str,
    link: Callable[[Mapping[str, str]], str],
) -> SpawnError:
    """The message with the alternatives, as text and as HTML; all that is given is escaped.

    `link` makes the address that starts a server with user options.
    """
    words = [(each, alternative_words(each)) for each in instead]
    listed = f"You can start now: {'; '.join(text for _, text in words)}." if words else ""
    html = environment.get_template("ec2spawner/not_started.html").render(
        message=message,
        alternatives=[{"words": text, "url": link(each.user_options)} for each, text in words],
        of_home=[(each, link(each.user_options)) for each in of_home],
    )
    told_of_home = [f"{each.words}: {each.takes} Send {_sent(each)}." for each in of_home]
    follows = [part for part in (listed, *told_of_home) if part]
    said = f"{message.rstrip('. ')}." if message and follows else message
    text = " ".join(part for part in (said, *follows) if part)
    return SpawnError(text, reason=reason, html=html, status_code=503)


def _sent(offer: HomeOffer) -> str:
    """The option by which REST asks for it."""
    once = ((name, offer.user_options.get(name)) for name in ONCE)
    return ", ".join(f'"{name}": "{value}"' for name, value in once if value)


def alternative_words(alternative: Alternative) -> str:
    """Such as `A10G, 24 GB, on-demand at $1.01/h`, or `spot from` the cheapest of several."""
    usd_per_hour = alternative.usd_per_hour
    if usd_per_hour is None:
        return f"{alternative.name}, {alternative.market}, price unknown"
    preposition = "from" if alternative.dearer_may_come else "at"
    return f"{alternative.name}, {alternative.market} {preposition} {usd(usd_per_hour)}/h"


def home_zone_of(provisioner: Provisioner, lease: Lease) -> str:
    """The only zone that the server's files allow; empty where they leave the choice."""
    zones = provisioner.placement.zones_of(lease.spec)
    bound = lease.home_kind == "ebs" and zones < set(provisioner.placement.zones())
    return min(zones, default="") if bound else ""


# --- too late --------------------------------------------------------------------------------


async def too_late(provisioner: Provisioner, lease_id: str, seconds: float) -> SpawnError:
    """For a start that was not done within `seconds`, whose lease this ends: what it waited for,
    and what to do."""
    lease = provisioner.registry.get(lease_id)
    usual = await provisioner.start_durations.of_steps(lease.profile) if lease else {}
    if lease is not None and provisioner.homes.is_moving(lease.user, lease.server):
        message = moving_words(home_zone_of(provisioner, lease), seconds)
    else:
        message = late_words(current_step(lease) if lease else Step.REQUEST, usual, seconds)
        if failure := provisioner.instance_cache.failure:
            message = blind_words(failure, seconds)
        elif busy := provisioner.retention.why_not_started(lease_id):
            message = f"{too_late_words(seconds)}: {busy}"
    with suppress(StoreError):  # it holds in memory, and the next pass stores it
        await provisioner.ending.begin(lease_id, Stop(reason="failed", message=message[:500]))
    return SpawnError(message, reason="timeout", status_code=503)


def too_late_words(seconds: float) -> str:
    """That the start took longer than `seconds`."""
    return f"Your server was not ready within {approximate(seconds)}"


def moving_words(zone: str, seconds: float) -> str:
    """That the home is still being copied to `zone` after `seconds`."""
    return (
        f"Your files are still being moved to {zone}, after {approximate(seconds)}. That goes "
        "on: start your server again in a while. No machine is paid for meanwhile"
    )


def late_words(step: Step, usual: Mapping[Step, float], seconds: float) -> str:
    """Which step a start waited for when its `seconds` were over, and what to do."""
    waited_for = WAITED_FOR.get(step, WAITED_FOR[Step.NOTEBOOK])
    if step in usual:
        waited_for += f", which usually takes {approximate(usual[step])}"
    given_back = "" if step is Step.REQUEST else " Its machine is given back."
    return (
        f"{too_late_words(seconds)}: {waited_for}.{given_back} "
        "Try again, or choose another; if it happens again, tell an admin"
    )


def blind_words(failure: CloudError, seconds: float) -> str:
    """For a start during which EC2 did not show the hub its instances."""
    return (
        f"{too_late_words(seconds)}: the hub could not list its machines in EC2. "
        f"{in_words(failure)}"
    )
