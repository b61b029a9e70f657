"""What a user sent to start a server: read from the form or a link, resolved, and stored.

Everything is checked in `core.profiles.choices`, whether it comes from the form, REST or an
earlier start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...config import Options, Profile
from ...core.profiles.choices import ONCE, OPTIONS, Choice, OptionsRefused
from ..app import service
from ..app.spawn_error import HUB_STARTING, SpawnError
from ..app.user_account import account_of
from ..security.instances_scope import SCOPE, start_has_scope
from .allowed_profiles import choose
from .server_options import ProfileListError, options_for

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner

PER_CARD = ("market", "max_usd_per_hour", "disk_gib", "idle", "home_gib", "move_home")
"""Options that are chosen in a card's panel. Each card has fields of its own, such as `market.t4`,
so that a page without a script sends them all and we know which ones count."""


def read_form(form_data: Mapping[str, Sequence[object]]) -> dict[str, object]:
    """User options from what the browser posted, for `Spawner.options_from_form`.

    The fields of cards that were not chosen are left out, and so are empty ones. A button that
    wakes what sleeps sends `wake`, the profile to wake it on, whatever else is chosen. Nothing else
    is judged here: a field sent twice stays a list, to be refused with the rest.
    """
    options: dict[str, object] = {}
    if wake := form_data.get("wake"):
        others = {name: form_data[name] for name in form_data if name not in ("wake", "session")}
        form_data = others | {"profile": wake, "session": ["wake"]}
    profile = [value for value in form_data.get("profile", ()) if value != ""]
    for name, values in form_data.items():
        option, dot, slug = name.partition(".")
        if dot and option in PER_CARD:
            if [slug] != profile:
                continue
            name = option
        given = [value for value in values if value != ""]
        if given:
            before = options.get(name, [])
            every = [*(before if isinstance(before, list) else [before]), *given]
            options[name] = every[0] if len(every) == 1 else every
    return options


def read_link(query: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """User options of a link to the spawn page: `opt-profile=t4&opt-market=on-demand`.

    The prefix is JupyterHub's and may be left out. Anything that is no option of ours is ignored.
    """
    options: dict[str, object] = {}
    for name in OPTIONS:
        given = query.get(f"opt-{name}") or query.get(name)
        if given and given[0]:
            options[name] = given[0]
    return options


async def resolve(
    spawner: Spawner, user_options: Mapping[str, object]
) -> tuple[Options, Choice[Profile]]:
    """The hub's options for this server, and the choice that the user's options mean.

    For `Spawner.apply_user_options`. Raises `SpawnError`: 400 for options that cannot be followed.
    """
    try:
        return await _choice(spawner, user_options)
    except OptionsRefused as error:
        # JupyterHub has stored them already, for every later start that sends none.
        store(spawner, {})
        raise SpawnError(str(error), reason="options") from error


async def check_lasting(spawner: Spawner, user_options: Mapping[str, object]) -> None:
    """Check options that are to be stored without a start, for the server of this spawner.

    Raises `OptionsRefused`, or `SpawnError` (503) while nothing can be checked.
    """
    once = [name for name in user_options if name in ONCE]
    if once:
        raise OptionsRefused(f"{', '.join(once)}: for one start only. Send it with the start.")
    await _choice(spawner, user_options)


async def _choice(
    spawner: Spawner, user_options: Mapping[str, object]
) -> tuple[Options, Choice[Profile]]:
    running = service.current()
    if running is None:
        raise SpawnError(HUB_STARTING, reason="hub", status_code=503)
    try:
        options = await options_for(running.options, spawner)
    except ProfileListError as error:
        raise SpawnError(str(error), reason="profiles", status_code=503) from error
    account = account_of(running.accounts, spawner.user)
    choice = await choose(options, account, spawner, user_options)
    if choice.temporary_seconds is not None and not start_has_scope():
        raise OptionsRefused(f"temporary: it needs the scope {SCOPE}. Leave it out.")
    return options, choice


def store(spawner: Spawner, options: dict[str, object]) -> None:
    """Store the options that JupyterHub uses for every later start that sends none.

    Committed before anything is awaited: all requests of the hub share one session, and a rollback
    of another request would undo it. Raises SQLAlchemy's errors.
    """
    spawner.orm_spawner.user_options = options
    spawner.db.commit()


def drop_one_time_options(spawner: Spawner) -> None:
    """Do not store what holds for one start only. Raises SQLAlchemy's errors."""
    lasting = {name: value for name, value in spawner.user_options.items() if name not in ONCE}
    if lasting != spawner.user_options:
        spawner.user_options = lasting
        store(spawner, lasting)
