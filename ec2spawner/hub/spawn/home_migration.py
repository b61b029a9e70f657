"""What may be done about a home that keeps a start from taking place: move it, or replace it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from ...config import Options, Profile
from ...core.homes.zone_migration import Estimate, estimate
from ...core.offers.purchase import Offer
from ...core.profiles.choices import ONCE
from ...core.text.durations import approximate
from ...provisioner.model.lease import Home
from ...provisioner.provisioner import Provisioner
from ...wire import Market
from .home_choice import EMPTY


@dataclass(frozen=True, slots=True)
class HomeOffer:
    """One of them, for a person to decide."""

    words: str
    """On the button."""
    takes: str
    """What it takes, or what it means, said beforehand. One sentence or two."""
    user_options: Mapping[str, str]
    """What to give JupyterHub, so that exactly this is done."""


def move_offer(
    provisioner: Provisioner,
    options: Options,
    home: Home | None,
    profile: Profile,
    markets: Collection[Market],
    chosen: Mapping[str, object],
) -> HomeOffer | None:
    """To where the profile can be had most cheaply; None where there is nothing to offer."""
    if home is None or not may_move(options, home):
        return None
    best = cheapest_elsewhere(provisioner, home, profile, markets)
    if best is None:
        return None
    return HomeOffer(
        words=f"Move my files to {best.zone} and start {_machine(profile, best)}",
        takes=consequence_of_move(provisioner, home, best.zone),
        user_options={**_kept(profile, chosen), "move_home": best.zone},
    )


def may_move(options: Options, home: Home) -> bool:
    """False on hubs that move none, and for a home that is on its way already."""
    if options.home.kind != "ebs" or options.home.move == "never":
        return False
    if home.volume_id is None or home.zone is None:
        return False
    return home.move is None or home.move.volume_id is not None


def cheapest_elsewhere(
    provisioner: Provisioner, home: Home, profile: Profile, markets: Collection[Market]
) -> Offer | None:
    """The cheapest open offer outside the home's zone, an unknown price last."""
    architecture = provisioner.settings.architecture
    types = [kind.name for kind in provisioner.catalogue.types_for(profile, architecture)]
    zones = [zone for zone in provisioner.placement.zones() if zone != home.zone]
    return min(
        provisioner.offers.open(types, zones, tuple(markets)),
        key=lambda offer: (offer.usd_per_hour is None, offer.usd_per_hour or 0.0),
        default=None,
    )


def consequence_of_move(provisioner: Provisioner, home: Home, zone: str) -> str:
    """The time and money of a move to a zone, as an estimate."""
    newest = provisioner.homes.newest.get(home.home_id)
    return takes_words(home, zone, estimate(home.size_gib, newest.stored_gib if newest else None))


def range_words(takes: Estimate) -> str:
    """How long a move takes, such as `1 minute to 5 minutes`."""
    least, most = (approximate(60 * max(1, round(each / 60))) for each in takes.seconds)
    return f"{least} to {most}"


def takes_words(home: Home, zone: str, takes: Estimate) -> str:
    """Time and money, as an estimate."""
    usd = f"${takes.usd:.2f}" if takes.usd >= 0.005 else "less than $0.01"
    return (
        f"Your files ({home.size_gib} GiB in {home.zone}) can be copied to {zone}. Estimates: "
        f"{range_words(takes)}, in which your server cannot run, and {usd} for the copy. The old "
        "volume is deleted once your server has started with the new one."
    )


def replacement_offers(
    provisioner: Provisioner, home: Home | None, profile: Profile, chosen: Mapping[str, object]
) -> tuple[HomeOffer, ...]:
    """For a home whose volume was deleted in EC2: its newest snapshot, or an empty one."""
    if home is None or home.home_id not in provisioner.homes.gone:
        return ()
    kept, offers = _kept(profile, chosen), []
    newest = provisioner.homes.newest.get(home.home_id)
    if newest is not None:
        offers.append(
            HomeOffer(
                words=f"Restore my files of {_at(newest.started_at)}",
                takes="What was written after that is lost.",
                user_options={**kept, "replace_home": newest.snapshot_id},
            )
        )
    offers.append(
        HomeOffer(
            words="Start with an empty home",
            takes="Ask an admin first whether your files can still be found.",
            user_options={**kept, "replace_home": EMPTY},
        )
    )
    return tuple(offers)


def _machine(profile: Profile, offer: Offer) -> str:
    price = "price unknown" if offer.usd_per_hour is None else f"${offer.usd_per_hour:.2f}/h"
    return f"{profile.display_name}, {offer.market} at {price}"


def _kept(profile: Profile, chosen: Mapping[str, object]) -> dict[str, str]:
    kept = {name: str(value) for name, value in chosen.items() if name not in ONCE}
    return {**kept, "profile": profile.slug}


def _at(instant: datetime) -> str:
    return f"{instant:%d %B, %H:%M} UTC"
