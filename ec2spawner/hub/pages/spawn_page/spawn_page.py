"""Renders the spawn form of one user, with what the provisioner knows and what a link chose."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from ....config import Options
from ....data import interruptions_source
from ....provisioner.provisioner import Provisioner
from ...app import service
from ...app.spawn_error import SpawnError
from ...app.user_account import account_of
from ...security.signed_link import SIGNED, is_signed
from ...spawn.allowed_profiles import allowed_profiles, payers_of
from ...spawn.home_choice import copies_home
from ...spawn.server_options import ProfileListError, options_for_page
from ...spawn.user_options import read_link
from .affordable_cards import payer_label, with_refusals
from .asleep import asleep, expired
from .profile_card import Card
from .profile_card_builder import cards_for, copy_sentence, home_sentence, home_size
from .retention_text import retained_text
from .session_asleep import last_session, session_asleep
from .spawn_form import SpawnForm, render_spawn_form
from .stop_notice import last_stop

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner


async def render_options_form(
    spawner: Spawner, hub_options: Options, provisioner: Provisioner
) -> str:
    """The form of the spawn page, in HTML. Raises `SpawnError`."""
    options, cards = await cards_of(spawner, hub_options, provisioner)
    account = account_of(provisioner.accounts, spawner.user)
    stored = spawner.orm_spawner.user_options or {}
    notice = last_stop(provisioner, spawner.user, spawner.name)
    found = session_asleep(provisioner, options, spawner.user, spawner.name)
    owner = "" if _is_of_its_owner(spawner) else spawner.user.name
    if found is not None and owner:
        found = found.without_names()
    now = provisioner.now()
    linked, is_foreign = linked_choice(spawner, service.utc_now())
    homes = provisioner.homes
    home, source = homes.lasting(account, spawner.name), homes.copy_source(account)
    copied = copy_sentence(options, spawner.name, home, source)
    retained = provisioner.retained(account, spawner.name)
    form = SpawnForm(
        region=options.region,
        now=now,
        chosen=linked or stored,
        linked=is_foreign,
        notice=None if notice and notice.asleep else notice,
        owner=owner,
        home=f"{home_sentence(options)} {copied or _earlier_home(spawner, provisioner)}".rstrip(),
        begins_as_copy=bool(copied) and (home is None or home.is_being_copied),
        keeps_home=options.home.kind != "none",
        kept=retained_text(provisioner, account, spawner.name),
        may_begin_afresh=any(not each.is_ahead for each in retained),
        home_size=home_size(options, home or (source if copied else None)),
        asleep=asleep(found, cards, now, str(stored.get("market", ""))) if found else None,
        expired=expired(last_session(provisioner, options, spawner.user, spawner.name), now),
        interruptions=interruptions_source(now),
        contact=options.contact,
        payers=[(x, payer_label(x, account)) for x in payers_of(options, account, spawner)],
    )
    return await asyncio.to_thread(render_spawn_form, cards, form)


def _earlier_home(spawner: Spawner, provisioner: Provisioner) -> str:
    """Says that a new account does not get the files of an earlier one of its name."""
    accounts, homes = provisioner.accounts, provisioner.homes
    account = account_of(accounts, spawner.user)
    earlier = [x for x in accounts.namesakes(account) if homes.lasting(x, spawner.name)]
    if not earlier or homes.lasting(account, spawner.name):
        return ""
    return (
        f"An earlier account of this name has files here, which are not yours. If they should be, "
        f"ask an admin to hand over {accounts.name(earlier[-1])}."
    )


def _is_of_its_owner(spawner: Spawner) -> bool:
    """Whether the user who looks at the page is the one whose server it starts."""
    viewer = spawner.handler.current_user if spawner.handler else None
    return viewer is not None and viewer.name == spawner.user.name


async def cards_of(
    spawner: Spawner, hub_options: Options, provisioner: Provisioner
) -> tuple[Options, tuple[Card, ...]]:
    """The hub's options for this server, and a card for each allowed profile.

    Raises `SpawnError`.
    """
    try:
        options = await options_for_page(hub_options, spawner)
    except ProfileListError as error:
        raise SpawnError(str(error), reason="profiles", status_code=503) from error
    profiles = await allowed_profiles(options, spawner)
    account = account_of(provisioner.accounts, spawner.user)
    home = provisioner.homes.lasting(account, spawner.name)
    # A copy is made where its source is.
    server = "" if home is None and copies_home(options, spawner.name) else spawner.name
    zones = provisioner.homes.zones_for(account, server, home_kind=options.home.kind)
    cards = await cards_for(options, provisioner, profiles, zones, home)
    payers, owner = payers_of(options, account, spawner), (account, spawner.name)
    return options, await with_refusals(cards, options, provisioner, *owner, payers)


def linked_choice(spawner: Spawner, now: datetime) -> tuple[dict[str, object], bool]:
    """The options of the link that opened the spawn page, and whether the link is foreign.

    A link that this hub signed is not: the user pressed it to start exactly that.
    """
    request = spawner.handler.request if spawner.handler else None
    if request is None or request.method != "GET":
        return {}, False
    sent = request.query_arguments.items()
    query = {name: [value.decode(errors="replace") for value in values] for name, values in sent}
    options, signed = read_link(query), query.get(f"opt-{SIGNED}", [""])[0]
    return options, bool(options) and not is_signed(spawner, options, signed, now)
