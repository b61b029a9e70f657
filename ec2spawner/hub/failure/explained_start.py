"""What ends a start, as the error that its user sees, with what they can do now."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...config import Options
from ...provisioner.lifecycle.start import StartFailed
from ...provisioner.limits.admission import LimitReached
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.provisioner import Provisioner
from ...provisioner.state.home_records import HomeChanged
from ...provisioner.store.store import StoreError
from ...wire import Stop
from ..app import service
from ..app.resume import MAX_STOP_MESSAGE, SAVED_IF_NOT_CONTINUED
from ..app.spawn_error import DATABASE_FAILS, SpawnError
from ..security.signed_link import start_url
from ..spawn.launch_spec import NotOfferedInHomeZone
from ..spawn.limits import limit_error
from ..spawn.notebook_port import NotebookNotReached
from .diagnosis import Diagnosis
from .rendering import spawn_error
from .start_failure import StartFailure

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner


@dataclass(frozen=True, slots=True)
class ExplainedStart:
    """One start of a server; `options` are as they apply to it."""

    spawner: Spawner
    options: Options
    provisioner: Provisioner

    @asynccontextmanager
    async def request(self, slug: str) -> AsyncIterator[None]:
        """Raises `SpawnError` for all that prevents a request for this profile, or is too late."""
        try:
            yield
        except StoreError as error:
            raise SpawnError(
                DATABASE_FAILS,
                reason="store",
                log_message=str(error),
                status_code=503,
            ) from error
        except LimitReached as error:
            raise limit_error(error, self.options.contact) from error
        except HomeChanged as error:
            raise SpawnError(
                "Your home has just been changed. Start the server again",
                reason="home",
                log_message=str(error),
                status_code=503,
            ) from error
        except NotOfferedInHomeZone as error:
            failure = await self._diagnosis.of_missing_offer(error.jupyterhub_message, slug)
            raise spawn_error(failure, self._start_link) from error
        except TimeoutError as error:
            raise await self._timed_out() from error

    @asynccontextmanager
    async def wait(self) -> AsyncIterator[None]:
        """Raises `SpawnError` where the requested lease gets no notebook that answers in time."""
        try:
            yield
        except StartFailed as error:
            failure = await self._diagnosis.of_stop(error.stop)
            raise spawn_error(failure, self._start_link) from error
        except NotebookNotReached as error:
            raise await self._ended(StartFailure("failed", str(error))) from error
        except TimeoutError as error:
            raise await self._timed_out() from error

    async def cannot_continue(self) -> SpawnError:
        """Of a server whose lease ended while JupyterHub awaited a hook: no user has asked for
        another start."""
        ended = self.provisioner.remembered(self.spawner.continues)
        stop = (ended and ended.stop) or Stop(reason="hub", message="It continues no more")
        return spawn_error(await self._diagnosis.of_stop(stop), self._start_link)

    async def _timed_out(self) -> SpawnError:
        spawner = self.spawner
        failure = await self._diagnosis.of_timeout(spawner.lease_id, spawner.start_timeout)
        return await self._ended(failure)

    async def _ended(self, failure: StartFailure) -> SpawnError:
        with suppress(StoreError):  # it holds in memory, and the next pass stores it
            stop = Stop(reason="failed", message=failure.message[:MAX_STOP_MESSAGE])
            if self.spawner.continues:
                stop = stop.model_copy(update={"sleep": SAVED_IF_NOT_CONTINUED})
            await self.provisioner.end(self.spawner.lease_id, stop)
        return spawn_error(failure, self._start_link)

    @property
    def _diagnosis(self) -> Diagnosis:
        return Diagnosis(self.spawner, self.options, self.provisioner)

    def _start_link(self, user_options: Mapping[str, str]) -> str:
        return start_url(self.spawner, user_options, service.utc_now())


def ec2_unanswered(error: CloudError) -> SpawnError:
    """The error of a request while EC2 has not answered since the hub's start."""
    return SpawnError(
        "The hub is still starting, or gets no answer from EC2: no server can start yet. "
        "Try again in a minute",
        reason="cloud",
        log_message=str(error),
        status_code=503,
    )
