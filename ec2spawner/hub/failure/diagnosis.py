"""Finds out why a start failed, from what the provisioner knows, and what its user can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...config import Options, Profile
from ...core.offers.spot_wait import is_in_vain, longest_wait
from ...core.profiles.choices import MARKETS_OF, WAITS, open_markets
from ...core.text.durations import approximate
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.error_hints import VERIFYING, describe_error
from ...provisioner.model.leases.lease import Lease
from ...provisioner.provisioner import Provisioner
from ...wire import Market, Step, Stop
from ..app.user_account import account_of
from ..pages.progress.attempt_text import at_price
from ..pages.progress.progress import current_step
from ..spawn.allowed_profiles import allowed_profiles
from ..spawn.home_migration import home_zone_of
from ..spawn.own_disk import beside_instance
from .alternatives import Alternative, Candidate, alternatives
from .home_actions import move_actions, replacement_actions
from .start_failure import Action, ActionKind, StartFailure

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner

NO_CAPACITY = frozenset({"capacity", "quota"})
"""Values of `Stop.reason` for which another profile, market or zone may have capacity."""

WAITED_FOR = {
    Step.REQUEST: "the hub was still looking for a machine",
    Step.BOOT: "its machine was still booting",
    Step.HOME: "your home was still being opened",
    Step.NOTEBOOK: "JupyterLab was still starting",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Explains the failed start of one server; `options` are as they apply to this server."""

    spawner: Spawner
    options: Options
    provisioner: Provisioner

    async def of_stop(self, stop: Stop) -> StartFailure:
        """A lease that ended before it was ready."""
        message = stop.message or "The start was ended"
        if stop.reason == "budget":
            message = f"{message}. Ask {self.options.contact} to raise the limit"
        lease = self.provisioner.lease(self.spawner.lease_id)
        if lease is None:
            return StartFailure(stop.reason, message)
        no_capacity = stop.reason in NO_CAPACITY
        others = await self._others(lease) if no_capacity else ()
        waiting = await self._waiting(lease) if no_capacity else ()
        of_home = await self._of_home(lease.profile, no_capacity=no_capacity)
        return StartFailure(stop.reason, message, (*others, *waiting, *of_home))

    async def of_missing_offer(self, message: str, slug: str) -> StartFailure:
        """The home's zone does not offer the profile, but another zone may."""
        return StartFailure("not-offered", message, await self._of_home(slug, no_capacity=True))

    async def of_timeout(self, lease_id: str, seconds: float) -> StartFailure:
        """A start that was not ready within `seconds`."""
        provisioner = self.provisioner
        lease = provisioner.lease(lease_id)
        usual = await provisioner.start_durations.of_steps(lease.profile) if lease else {}
        if lease is not None and provisioner.homes.is_moving(lease.user, lease.server):
            message = still_moving(home_zone_of(provisioner, lease), seconds)
        elif lease is not None and provisioner.homes.is_being_copied(lease.user, lease.server):
            message = still_copying(seconds)
        elif lease and _is_searching(lease) and provisioner.market.offers.verification:
            message = f"{_not_ready(seconds)}: {VERIFYING}"
        elif failure := provisioner.listing_failure:
            message = not_listed(failure, seconds)
        elif busy := provisioner.why_not_restarted(lease_id):
            message = f"{_not_ready(seconds)}: {busy}"
        else:
            message = late(current_step(lease) if lease else Step.REQUEST, usual, seconds)
        return StartFailure("timeout", message)

    async def _of_home(self, slug: str, *, no_capacity: bool) -> tuple[Action, ...]:
        spawner, options, provisioner = self.spawner, self.options, self.provisioner
        profiles = await allowed_profiles(options, spawner)
        profile = next((each for each in profiles if each.slug == slug), None)
        if profile is None or options.home.kind != "ebs":
            return ()
        home, chosen = (
            provisioner.homes.of(account_of(provisioner.accounts, spawner.user), spawner.name),
            spawner.user_options,
        )
        if not no_capacity:
            return replacement_actions(provisioner, home, profile, chosen)
        markets = MARKETS_OF.get(str(chosen.get("market")), MARKETS_OF[profile.market])
        return move_actions(provisioner, options, home, profile, markets, chosen)

    async def _waiting(self, lease: Lease) -> tuple[Action, ...]:
        """Wait for spot, where all of it is refused now and may come back."""
        profiles = await allowed_profiles(self.options, self.spawner)
        profile = next((each for each in profiles if each.slug == lease.profile), None)
        if profile is None or WAITS not in open_markets(profile):
            return ()
        offers, zones = self.provisioner.market.offers, self.provisioner.market.zones
        spot = offers.all(lease.spec.instance_types, zones.of(lease.spec), (Market.SPOT,))
        marks = [offers.mark_of(offer) for offer in spot]
        if not spot or None in marks or is_in_vain(marks):
            return ()
        return (wait_for_spot(profile, self._chosen(lease), self.spawner.start_timeout),)

    def _chosen(self, lease: Lease) -> dict[str, object]:
        """Return the user's choices for the start that failed."""
        chosen = dict(self.spawner.user_options)
        if self.provisioner.retained(lease.user, lease.server):
            chosen["afresh"] = "true"  # the retained instance could not be started
        return chosen

    async def _others(self, lease: Lease) -> tuple[Action, ...]:
        provisioner = self.provisioner
        zones = provisioner.market.zones.of(lease.spec)
        offers = provisioner.market.offers.all(lease.spec.instance_types, zones, lease.spec.markets)
        prices = (offer.usd_per_hour for offer in offers if offer.usd_per_hour is not None)
        profiles = await allowed_profiles(self.options, self.spawner)
        chosen, reference = self._chosen(lease), min(prices, default=None)
        candidates = [
            _candidate(
                self.options,
                profile,
                provisioner,
                zones,
                # Another profile starts with its own defaults.
                chosen if profile.slug == lease.profile else {},
            )
            for profile in profiles
        ]
        found = alternatives(candidates, lease.profile, reference, chosen=chosen)
        return tuple(map(start_other, found))


def _candidate(
    options: Options,
    profile: Profile,
    provisioner: Provisioner,
    zones: Iterable[str],
    chosen: Mapping[str, object],
) -> Candidate:
    volumes = options.volumes_of(profile)
    types = provisioner.market.catalogue.types_for(profile, options.architecture, volumes)
    return Candidate(
        slug=profile.slug,
        name=profile.display_name,
        has_gpu=any(kind.gpu for kind in types),
        markets=open_markets(profile),
        offers=provisioner.market.offers.open([kind.name for kind in types], zones, tuple(Market)),
        beside_usd_per_hour=beside_instance(options, provisioner, profile, chosen).usd_per_hour,
    )


def start_other(alternative: Alternative) -> Action:
    """An alternative as an action, such as `A10G, 24 GB, on-demand at $1.01/h`.

    `spot from` names the lowest of several prices.
    """
    at = "from" if alternative.may_cost_more else "at"
    price = at_price(alternative.market, alternative.usd_per_hour, at)
    label = f"{alternative.name}, {price}"
    return Action(ActionKind.START_OTHER, label, alternative.user_options)


def wait_for_spot(profile: Profile, chosen: Mapping[str, object], start_timeout: float) -> Action:
    """Offer the same start, waiting for spot for as long as `start_timeout` (seconds) leaves."""
    lasts = approximate(longest_wait(start_timeout))
    return Action(
        ActionKind.WAIT_FOR_SPOT,
        "Wait for spot",
        {**{name: str(value) for name, value in chosen.items()}, "profile": profile.slug}
        | {"market": WAITS},
        f"Waiting costs nothing: {profile.display_name} starts by itself as soon as EC2 has spot "
        f"capacity. If there is none within {lasts}, the start ends.",
    )


# --- timeouts --------------------------------------------------------------------------------


def late(step: Step, usual: Mapping[Step, float], seconds: float) -> str:
    """Which step was not done when the `seconds` of a start were over, and what to do."""
    waited_for = WAITED_FOR.get(step, WAITED_FOR[Step.NOTEBOOK])
    if step in usual:
        waited_for += f", which usually takes {approximate(usual[step])}"
    released = "" if step is Step.REQUEST else " Its machine is being released."
    return (
        f"{_not_ready(seconds)}: {waited_for}.{released} "
        "Try again or choose another profile. If it happens again, tell an admin"
    )


def still_moving(zone: str, seconds: float) -> str:
    """The home is still being copied to `zone` after `seconds`."""
    return (
        f"Your files are still being moved to {zone}, after {approximate(seconds)}. The move "
        "continues: start your server again in a few minutes. No machine is running meanwhile, "
        "so none is charged"
    )


def still_copying(seconds: float) -> str:
    """The home of the default server is still being copied after `seconds`."""
    return (
        "The files of your default server are still being copied, after "
        f"{approximate(seconds)}. Start this server again in a few minutes. No machine is running "
        "meanwhile, so none is charged"
    )


def not_listed(failure: CloudError, seconds: float) -> str:
    """EC2 did not list the hub's instances during the start."""
    reason = describe_error(failure)
    return f"{_not_ready(seconds)}: the hub could not list its machines in EC2. {reason}"


def _is_searching(lease: Lease) -> bool:
    return current_step(lease) is Step.REQUEST


def _not_ready(seconds: float) -> str:
    return f"Your server was not ready within {approximate(seconds)}"
