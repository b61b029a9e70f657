"""A running server's other hardware, for its agent: the owner asks in the notebook, whose page may
not use the owner's own login at the hub."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ....core.alarms.alarm import Kind
from ....core.profiles.choices import OptionsRefused
from ....provisioner.lifecycle.server_moves import CannotMove
from ....provisioner.limits.admission import LimitReached
from ....provisioner.model.leases.lease import Lease, LeaseState
from ....provisioner.provisioner import Provisioner
from ....wire import ContinueRequest, Move
from ...app.api_address import reachable_api_url
from ...app.call_limits import DEAR_CALL
from ...app.spawn_error import SpawnError
from ...pages.spawn_page.hardware_choices import hardware_choices
from ...pages.spawn_page.spawn_page import cards_of
from ...security.sealed_start import SealBroken
from ...spawn.allowed_profiles import payer_from
from ...spawn.hardware_change import continue_on
from ...spawn.limits import limit_words_of
from ...spawn.server_options import ProfileListError
from .calls import LEASE, share_of
from .owner import OwnersHandler


class HardwareHandler(OwnersHandler):
    """`POST leases/{id}/hardware`: what else the owner of a ready server could continue on, or have
    a run on, at the cost of the server's payer."""

    CALL_TOKENS = DEAR_CALL

    async def call(self, lease: Lease) -> None:
        """Answer `HardwareChoices`; 409 unless the server is ready, 503 without the profiles."""
        self.refuse_body()
        self.refuse_unless_ready(lease)
        spawner = self.owners_spawner(lease)
        try:
            options, cards = await cards_of(spawner, self.service.options, self.provisioner)
        except SpawnError as error:
            self.refuse(503, error.jupyterhub_message)
        reports_ends = self.provisioner.alarms.raises(Kind.RUN_ENDED)
        try:
            payer = payer_from(lease, options, spawner)
        except OptionsRefused as error:
            self.refuse(409, str(error))
        self.answer(200, hardware_choices(cards, lease, payer, reports_ends=reports_ends))


class ContinueHandler(OwnersHandler):
    """`POST leases/{id}/continue`: continue on another profile, or how far that is."""

    async def call(self, lease: Lease) -> None:
        """Answer a `Move`; 409 with the reason if the server cannot move, 503 without profiles."""
        profile = self.read(ContinueRequest).profile
        if profile is not None:
            self.refuse_unless_ready(lease)
            await self.begin(lease, profile)
        self.answer(200, move_of(self.provisioner, lease))

    async def begin(self, lease: Lease, profile: str) -> None:
        """Buy the other instance; ends the request with 409 or 503 where that is refused."""
        spawner, hub = self.owners_spawner(lease), self.service
        limit, share, now = hub.limits.user_starts, share_of(lease), time.monotonic()
        await self.check_rate(limit, share, "too many moves")
        url = reachable_api_url(spawner.get_env()["JUPYTERHUB_API_URL"], hub.options)
        try:
            with limit.returned_on_error(share, now):
                await continue_on(hub, self.provisioner, spawner, url, {"profile": profile})
        except ProfileListError as error:
            self.refuse(503, str(error))
        except LimitReached as error:
            self.refuse(409, limit_words_of(error, hub.options.contact))
        except SpawnError as error:
            self.refuse(409, error.jupyterhub_message)
        except (CannotMove, OptionsRefused, SealBroken) as error:
            self.refuse(409, str(error))


def move_of(provisioner: Provisioner, lease: Lease) -> Move:
    """How far the last move of a lease's server to other hardware is."""
    found = provisioner.moves.last(lease.user, lease.server)
    if found is None or found.taken_over.trigger != "hardware":
        return Move(state="none")
    if found.state in {LeaseState.ENDING, LeaseState.ENDED}:
        message = found.stop.message if found.stop else ""
        return Move(state="failed", profile_name=found.profile_name, message=message)
    message = found.events[-1].message if found.events else ""
    if provisioner.moves.has_left(found):
        return Move(state="moving", profile_name=found.profile_name, message=message)
    is_booting = found.state is LeaseState.STARTING
    return Move(
        state="booting" if is_booting else "looking",
        profile_name=found.profile_name,
        message=message,
    )


handlers: list[tuple[str, Callable[..., Any]]] = [
    (rf"{LEASE}/hardware", HardwareHandler),
    (rf"{LEASE}/continue", ContinueHandler),
]
