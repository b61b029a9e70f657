"""What a user can do if their home prevents a start: move it, or replace a lost one."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...config import Options, Profile
from ...core.profiles.choices import ONCE
from ...provisioner.model.leases.lease import Home
from ...provisioner.provisioner import Provisioner
from ...wire import Market
from ..pages.progress.attempt_text import at_price
from ..spawn.home_choice import EMPTY
from ..spawn.home_migration import cheapest_elsewhere, consequence_of_move, may_move
from ..spawn.own_disk import beside_instance
from .start_failure import Action, ActionKind


def move_actions(
    provisioner: Provisioner,
    options: Options,
    home: Home | None,
    profile: Profile,
    markets: Collection[Market],
    user_options: Mapping[str, object],
) -> tuple[Action, ...]:
    """Move the home to the zone that has the profile at the lowest price; empty if none has it.

    A home that is yet to be copied stays in the zone of its source: an empty one may be anywhere.
    """
    if home is not None and home.is_being_copied:
        return (_empty_instead(_same_choice(profile, user_options)),)
    if home is None or not may_move(options, home):
        return ()
    best = cheapest_elsewhere(options, provisioner, home, profile, markets)
    if best is None:
        return ()
    beside, own = beside_instance(options, provisioner, profile, user_options), best.usd_per_hour
    price = at_price(best.market, None if own is None else own + beside.usd_per_hour)
    move = Action(
        kind=ActionKind.MOVE_HOME,
        label=f"Move my files to {best.zone} and start {profile.display_name}, {price}",
        user_options={**_same_choice(profile, user_options), "move_home": best.zone},
        consequence=consequence_of_move(provisioner, home, best.zone),
    )
    return (move,)


def replacement_actions(
    provisioner: Provisioner,
    home: Home | None,
    profile: Profile,
    user_options: Mapping[str, object],
) -> tuple[Action, ...]:
    """For a home whose volume was deleted in EC2: its newest snapshot, or an empty home. The latter
    for one that could not be copied, too."""
    if home is None or not provisioner.homes.is_gone(home):
        return ()
    same, actions = _same_choice(profile, user_options), []
    if home.is_being_copied:
        return (_empty_instead(same),)
    newest = provisioner.homes.newest_snapshot(home)
    if newest is not None:
        taken_at = f"{newest.started_at:%d %B, %H:%M} UTC"
        actions.append(
            Action(
                kind=ActionKind.RESTORE_HOME,
                label=f"Restore my files of {taken_at}",
                user_options={**same, "replace_home": newest.snapshot_id},
                consequence=f"What you saved after {taken_at} is not restored.",
            )
        )
    actions.append(
        Action(
            kind=ActionKind.EMPTY_HOME,
            label="Start with an empty home",
            user_options={**same, "replace_home": EMPTY},
            consequence=(
                "An empty home has none of your files. "
                "Ask an admin first whether they can still be recovered."
            ),
        )
    )
    return tuple(actions)


def _empty_instead(same: Mapping[str, str]) -> Action:
    return Action(
        kind=ActionKind.EMPTY_HOME,
        label="Start with an empty home",
        user_options={**same, "replace_home": EMPTY},
        consequence="An empty home has none of the files of your default server. They stay there.",
    )


def _same_choice(profile: Profile, user_options: Mapping[str, object]) -> dict[str, str]:
    """The options of the start that failed, without those that hold for one start."""
    lasting = {name: str(value) for name, value in user_options.items() if name not in ONCE}
    return {**lasting, "profile": profile.slug}
