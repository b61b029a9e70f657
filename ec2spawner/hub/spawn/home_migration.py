"""Where a home could move to, and what the move takes: for the spawn page and for failed starts."""

from __future__ import annotations

from collections.abc import Collection

from ...config import Options, Profile
from ...core.homes.zone_migration import Estimate, estimate
from ...core.offers.purchase import Offer
from ...core.text.durations import approximate
from ...provisioner.model.leases.lease import Home, Lease
from ...provisioner.provisioner import Provisioner
from ...wire import Market


def home_zone_of(provisioner: Provisioner, lease: Lease) -> str:
    """The only zone in which the server can run, because its home is there; empty if any can."""
    zones = provisioner.market.zones.of(lease.spec)
    bound = lease.home_kind == "ebs" and zones < set(provisioner.market.zones.all())
    return min(zones, default="") if bound else ""


def may_move(options: Options, home: Home) -> bool:
    """False on hubs that move no homes, and for a home that is moving already."""
    if options.home.kind != "ebs" or options.home.move == "never":
        return False
    if home.volume_id is None or home.zone is None:
        return False
    return home.move is None or home.move.volume_id is not None


def cheapest_elsewhere(
    options: Options,
    provisioner: Provisioner,
    home: Home,
    profile: Profile,
    markets: Collection[Market],
) -> Offer | None:
    """The cheapest open offer outside the home's zone; one with an unknown price comes last."""
    volumes = options.volumes_of(profile)
    fitting = provisioner.market.catalogue.types_for(profile, options.architecture, volumes)
    types = [kind.name for kind in fitting]
    zones = [zone for zone in provisioner.market.zones.all() if zone != home.zone]
    return min(
        provisioner.market.offers.open(types, zones, tuple(markets)),
        key=lambda offer: (offer.usd_per_hour is None, offer.usd_per_hour or 0.0),
        default=None,
    )


def consequence_of_move(provisioner: Provisioner, home: Home, zone: str) -> str:
    """The time and money that a move to a zone takes, as an estimate; for people."""
    newest = provisioner.homes.newest_snapshot(home)
    takes = estimate(home.size_gib, newest.stored_gib if newest else None)
    return move_text(home, zone, takes)


def move_text(home: Home, zone: str, takes: Estimate) -> str:
    """Time and money of a move for people, as an estimate."""
    usd = f"${takes.usd:.2f}" if takes.usd >= 0.005 else "less than $0.01"
    return (
        f"Your files ({home.size_gib} GiB in {home.zone}) can be copied to {zone}. Estimates: "
        f"{duration_text(takes)}, in which your server cannot run, and {usd} for the copy. The "
        "old volume is deleted once your server has started with the new one."
    )


def duration_text(takes: Estimate) -> str:
    """How long a move takes, such as `1 minute to 5 minutes`."""
    shortest, longest = (approximate(_whole(each)) for each in takes.seconds)
    return f"{shortest} to {longest}"


def _whole(seconds: float) -> float:
    """Round to whole minutes from one on, and to tens of seconds before: it is an estimate."""
    unit = 60 if seconds >= 60 else 10
    return unit * max(1, round(seconds / unit))
