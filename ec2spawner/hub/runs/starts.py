"""Requests a lease for each run whose turn has come, as for a start of its user.

Each attempt follows the configuration of that moment: profiles, prices and groups may have changed
since the run was submitted. Level-triggered: the queue says what is due, also after a restart.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from jupyterhub.app import JupyterHub
from jupyterhub.user import User

from ...core.profiles.choices import OptionsRefused
from ...provisioner.model.leases.run import Run
from ...provisioner.provisioner import Provisioner
from ...provisioner.runtime.cooperative_iteration import cooperatively
from ...provisioner.runtime.supervise import Supervised
from ...provisioner.state.home_records import HomeChanged
from ...provisioner.store.store import StoreError
from ..app.api_address import reachable_api_url
from ..app.service import HubService
from ..app.spawn_error import SpawnError
from ..app.user_account import user_of
from ..spawn.server_options import ProfileListError
from ..spawn.user_environment import without_hub_variables
from .lease import WaitsForPrice, run_lease

log = logging.getLogger(__name__)

INTERVAL: Final = 5.0
"""Seconds between two looks at the queue; a change of it begins one at once."""

PAUSE: Final = 0.5
"""Seconds between two looks at least."""

OWNERS_INTERVAL: Final = 30.0
"""Seconds between two looks at whether their users are there: each asks JupyterHub's database."""

NOBODYS: Final = "Its user has no account any more"

FAILED: Final = (
    "The hub could not start it because of an error and will try again. If this message stays, ask "
    "{}: the hub's log has the reason"
)

BATCH: Final = 50
"""Leases that are requested together, so that few launch calls buy for all."""

PRICE_PAUSE: Final = timedelta(seconds=60)
"""Spot prices are read every five minutes."""

RETRY_PAUSE: Final = timedelta(seconds=30)
"""After what may be over soon: a function of the admin that failed, an image that is unknown."""

FAILED_PAUSE: Final = timedelta(minutes=2)
"""Before a run whose start has failed unexpectedly is tried again: others with its terms are tried
first."""


@dataclass(frozen=True, slots=True)
class RunStarts:
    """The edge between the queue and JupyterHub's users."""

    app: JupyterHub
    service: HubService
    provisioner: Provisioner

    async def run(self) -> None:
        """Start what is due until the task is cancelled."""
        await self.app._start_future  # before that, JupyterHub has not loaded its users
        checked_at = 0.0
        while True:
            waiting = asyncio.ensure_future(self.provisioner.runs.wait_change(INTERVAL))
            await asyncio.sleep(0)  # it begins to wait before the queue is read: nothing is missed
            due: list[Run] = []
            with Supervised("The queue of runs"):
                if time.monotonic() - checked_at > OWNERS_INTERVAL:
                    checked_at = time.monotonic()
                    await self._end_those_of_nobody()
                due = self.provisioner.runs.due()[:BATCH]
                await asyncio.gather(*map(self._start, due))
            # Never at once: each look compares all that is queued.
            await asyncio.sleep(PAUSE)
            if len(due) == BATCH:
                waiting.cancel()
            await asyncio.wait({waiting})

    async def _end_those_of_nobody(self) -> None:
        """Those whose user was deleted."""
        owners: dict[str, User | None] = {}
        async for run in cooperatively(self.provisioner.runs.not_ended()):
            if run.user not in owners:
                owners[run.user] = user_of(self.service.accounts, self.app.users, run.user)
            if owners[run.user] is None:
                await self.provisioner.runs.refuse(run.number, NOBODYS)

    async def _start(self, run: Run) -> None:
        runs, terms = self.provisioner.runs, run.terms(self.provisioner.now())
        with Supervised(f"The start of run {run.number}"):
            try:
                await self._request(run)
            except WaitsForPrice as waits:
                runs.hold(terms, str(waits), PRICE_PAUSE)
            except OptionsRefused as error:
                await runs.refuse(run.number, f"It cannot start: {error}")
            except SpawnError as error:
                if error.status_code < 500:
                    await runs.refuse(run.number, error.jupyterhub_message)
                else:
                    runs.hold(terms, error.jupyterhub_message, RETRY_PAUSE)
            except ProfileListError as error:
                runs.hold(terms, str(error), RETRY_PAUSE)
            except (HomeChanged, StoreError) as error:
                log.error("Run %d is not started yet: %s", run.number, error)
            except Exception:  # of a function of the admin, or because of this run alone
                runs.hold(terms, FAILED.format(self.service.options.contact), RETRY_PAUSE)
                runs.pause(run.number, FAILED_PAUSE)
                raise

    async def _request(self, run: Run) -> None:
        user = user_of(self.service.accounts, self.app.users, run.user)
        if user is None:
            await self.provisioner.runs.refuse(run.number, NOBODYS)
            return
        # Of a server that was deleted since, the user's default server decides.
        spawner = user.spawners[run.server if run.server in user.orm_spawners else ""]
        environment = spawner.get_env()
        url = reachable_api_url(environment["JUPYTERHUB_API_URL"], self.service.options)
        lease, home = await run_lease(
            self.service, self.provisioner, spawner, run, without_hub_variables(environment), url
        )
        await self.provisioner.runs.start(run.number, lease, home)
