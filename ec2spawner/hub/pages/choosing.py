"""Choosing a server: the page that offers it, and what becomes of what was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from ...config import Options, Profile
from ...core.profiles.choices import Choice, OptionsRefused
from ...data import INTERRUPTIONS_SOURCE
from ...provisioner.provisioner import Provisioner
from ..app import service
from ..app.spawn_error import NOT_BEGUN, NotStarted
from ..security.signed_link import SIGNED, is_signed
from ..spawn.home_choice import store_options
from ..spawn.profiles import (
    ProfileListBroken,
    choose,
    open_profiles,
    options_for,
    options_for_page,
)
from .card_data import cards_for, home_sentence, home_size
from .cards import Card
from .retention_text import kept_sentences
from .spawn_form import SpawnForm, read_link, render_spawn_form
from .stop_notice import notice_of

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner


async def spawn_form(spawner: Spawner, hub_options: Options, provisioner: Provisioner) -> str:
    """The form of the spawn page, in HTML. Raises `NotStarted`."""
    options, cards = await cards_of(spawner, hub_options, provisioner)
    linked, is_foreign = linked_choice(spawner, service.utc_now())
    form = SpawnForm(
        region=options.region,
        now=provisioner.now(),
        chosen=linked or (spawner.orm_spawner.user_options or {}),
        linked=is_foreign,
        notice=notice_of(provisioner.registry.last_ended(spawner.user.name, spawner.name)),
        home=home_sentence(options),
        keeps_home=options.home.kind != "none",
        kept=kept_sentences(provisioner, spawner.user.name, spawner.name),
        home_size=home_size(options, provisioner.homes.of(spawner.user.name, spawner.name)),
        interruptions=INTERRUPTIONS_SOURCE,
        contact=options.contact,
    )
    return await asyncio.to_thread(render_spawn_form, cards, form)


async def cards_of(
    spawner: Spawner, hub_options: Options, provisioner: Provisioner
) -> tuple[Options, tuple[Card, ...]]:
    """What this server may be, and the hub's options as they are for it. Raises `NotStarted`."""
    options = await _unless_broken(options_for_page(hub_options, spawner))
    profiles = await open_profiles(options, spawner)
    zones = provisioner.placement.zones_for(
        spawner.user.name, spawner.name, home_kind=options.home.kind
    )
    home = provisioner.homes.of(spawner.user.name, spawner.name)
    return options, await cards_for(options, provisioner, profiles, zones, home)


async def chosen(
    spawner: Spawner, user_options: Mapping[str, object]
) -> tuple[Options, Choice[Profile]]:
    """What a user's options mean, and the hub's as they are for this server.

    For the form, REST and stored options alike. Raises `NotStarted` (400) for what cannot be
    followed.
    """
    running = service.current()
    if running is None:
        raise NotStarted(NOT_BEGUN, reason="hub", status_code=503)
    options = await _unless_broken(options_for(running.options, spawner))
    try:
        return options, await choose(options, spawner, user_options)
    except OptionsRefused as error:
        # JupyterHub has stored them already, for every later start that names none.
        store_options(spawner, {})
        raise NotStarted(str(error), reason="options") from error


async def _unless_broken(options: Awaitable[Options]) -> Options:
    try:
        return await options
    except ProfileListBroken as error:
        raise NotStarted(str(error), reason="profiles", status_code=503) from error


def linked_choice(spawner: Spawner, now: datetime) -> tuple[dict[str, object], bool]:
    """What the link chooses by which the spawn page is being opened, and whether somebody else
    made that link: one of this hub's own was pressed to start exactly that."""
    request = spawner.handler.request if spawner.handler else None
    if request is None or request.method != "GET":
        return {}, False
    sent = request.query_arguments.items()
    query = {name: [value.decode(errors="replace") for value in values] for name, values in sent}
    options, signed = read_link(query), query.get(f"opt-{SIGNED}", [""])[0]
    return options, bool(options) and not is_signed(spawner, options, signed, now)
