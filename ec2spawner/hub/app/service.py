"""The state that handlers and spawners of a running hub share."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ...aws.identity import IdentityVerifier
from ...config import Options
from ...provisioner.model.leases.agent_protocol import SPOKEN
from ...provisioner.model.leases.lease import Lease
from ...provisioner.provisioner import Provisioner
from ...provisioner.state.user_accounts import UserAccounts
from ..security.claim_rate_limit import ClaimGate
from ..security.notebook_certificates import NotebookAuthority
from ..security.sealed_start import Seal
from .call_limits import CallLimits
from .event_loop.loop_turns import LoopTurns

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner


CERTIFICATES_SINCE = 2
"""The first protocol version whose agents can serve a notebook with certificates."""


@dataclass(slots=True)
class HubService:
    """Started and stopped with the hub by `hub.startup`."""

    options: Options
    seal: Seal
    verifier: IdentityVerifier
    accounts: UserAccounts
    authority: NotebookAuthority | None = None
    """Of a hub with `internal_ssl`."""
    provisioner: Provisioner | None = None
    """None until store and cloud have answered."""
    gate: ClaimGate = field(init=False)
    limits: CallLimits = field(default_factory=CallLimits)
    start_turns: LoopTurns = field(default_factory=LoopTurns)
    """Of JupyterHub's own work when a start is requested."""
    ready_turns: LoopTurns = field(default_factory=LoopTurns)
    """The same when a server is ready: no flood of requests holds up starts that are complete."""
    spawners: WeakValueDictionary[str, Spawner] = field(default_factory=WeakValueDictionary)
    """By lease id: the spawners to notify when a lease ends."""

    def __post_init__(self) -> None:
        self.gate = ClaimGate(self.verifier, self._knows)

    @property
    def needs_protocol(self) -> int:
        """The oldest protocol version that supports what every server of this hub needs."""
        return CERTIFICATES_SINCE if self.authority else SPOKEN[-1]

    def _knows(self, instance_id: str) -> bool:
        return self.provisioner is not None and self.provisioner.knows_instance(instance_id)

    def started(self, provisioner: Provisioner) -> None:
        """Offer a provisioner that runs to those who wait for it."""
        self.provisioner = provisioner
        _announce()

    def lease_ended(self, lease: Lease) -> None:
        """Let JupyterHub notice now what it would otherwise learn at its next poll."""
        spawner = self.spawners.get(lease.lease_id)
        if spawner is not None and spawner.ready and self.provisioner is not None:
            self.provisioner.spawn(_notify(spawner), f"notify {lease.lease_id}")


async def _notify(spawner: Spawner) -> None:
    await spawner.poll_and_notify()


_service: HubService | None = None
_changed = asyncio.Event()
"""Set and replaced at each change of the service or its provisioner."""


def current() -> HubService | None:
    """The service of this process's hub; None before its start and in other commands."""
    return _service


def current_provisioner() -> Provisioner | None:
    """The provisioner of this process's hub; None until store and cloud have answered."""
    return _service.provisioner if _service else None


def publish(service: HubService | None) -> None:
    """Make a service the current one, or end it with None."""
    global _service
    _service = service
    _announce()


def _announce() -> None:
    global _changed
    done, _changed = _changed, asyncio.Event()
    done.set()


async def wait_for_provisioner(timeout: float) -> Provisioner | None:
    """The provisioner once it runs; None when it does not within `timeout` seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            while (provisioner := current_provisioner()) is None:
                await _changed.wait()
            return provisioner
    return None


def utc_now() -> datetime:
    """The wall clock; for durations use a monotonic one."""
    return datetime.now(UTC)
