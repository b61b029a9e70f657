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
from ...core.concurrency_limit import ConcurrencyLimit
from ...core.rate_limit import Rate, RateLimit
from ...provisioner.model.leases.agent_protocol import SPOKEN
from ...provisioner.model.leases.lease import Lease
from ...provisioner.provisioner import Provisioner
from ...provisioner.state.user_accounts import UserAccounts
from ..security.claim_rate_limit import ClaimGate
from ..security.notebook_certificates import NotebookAuthority
from ..security.sealed_start import Seal
from .event_loop.loop_turns import LoopTurns

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner


CERTIFICATES_SINCE = 2
"""The first protocol version whose agents can serve a notebook with certificates."""

LEASE_CALLS = Rate(burst=100, per_second=10.0)
"""Calls about one lease. An agent sends 4 heartbeats a second at most, under a policy of seconds
(`agent.hub.heartbeat.MIN_GAP_SECONDS`), and little else; one that floods the hub slows down all
pages."""

RUN_DOCUMENTS = Rate(burst=10, per_second=0.5)
"""What one agent submits or executes, and results that it reports: each is a read or write of up to
some megabytes."""

RUN_RESULTS = Rate(burst=20, per_second=2.0)
"""Results that one agent, or one user through REST, reads. One of 4 MiB, the largest, holds up the
event loop for 11 ms; through REST it is sent unpacked, in pieces. Most have some kilobytes and take
none. Those of an array of 1000, the largest, are read in 8 minutes."""

RUN_RESULTS_AT_ONCE = 2
"""Results that one user reads at a time through REST: the hub holds each, of 64 MiB at most, in
memory until the client has read it."""

RUN_SUBMISSIONS = Rate(burst=20, per_second=0.1)
"""Of one user through REST."""


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
    lease_calls: RateLimit = field(default_factory=lambda: RateLimit(LEASE_CALLS))
    """By lease id."""
    run_documents: RateLimit = field(default_factory=lambda: RateLimit(RUN_DOCUMENTS))
    """By lease id."""
    run_results: RateLimit = field(default_factory=lambda: RateLimit(RUN_RESULTS))
    """By lease id, which is text, and through REST by JupyterHub's id of the user, a number."""
    run_results_at_once: ConcurrencyLimit = field(
        default_factory=lambda: ConcurrencyLimit(RUN_RESULTS_AT_ONCE)
    )
    """By JupyterHub's id of the user."""
    run_submissions: RateLimit = field(default_factory=lambda: RateLimit(RUN_SUBMISSIONS))
    """By JupyterHub's id of the user."""
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
