"""The states of instances over time: pending, running, stopping, terminated.

moto changes states at once and never removes an instance. Here a timer and the instance runtime
decide, and the state is set on moto's object, so that moto's listings and filters show it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal

from ...wire import Market
from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..market.capacity import Offer
from ..market.reserved_places import ReservedPlaces, Wish
from ..runtime.instance import SimulatedInstance
from ..runtime.instance_runtime import InstanceRuntime
from ..runtime.packet_filter import Ports
from .basic_monitoring import record_run
from .firewall.reachability import between, passage
from .quotas import counted_by
from .uptimes import Uptimes

log = logging.getLogger(__name__)

CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}

USER_INITIATED = "Client.UserInitiatedShutdown"
INSTANCE_INITIATED = "Client.InstanceInitiatedShutdown"
SPOT_TERMINATION = "Server.SpotInstanceTermination"

SCHEDULED_STOP = "Server.ScheduledStop"
"""StateReason code of a stop by a scheduled event."""

BLOCK_ENDS = "Server.CapacityBlockEnds"
"""Of the end of a Capacity Block. EC2 documents no code for it: this one is ours."""

REASONS = {
    BLOCK_ENDS: "Capacity Block ends",
    SCHEDULED_STOP: "Stopped due to scheduled retirement",
    USER_INITIATED: "User initiated shutdown",
    INSTANCE_INITIATED: "Instance initiated shutdown",
    SPOT_TERMINATION: "Spot instance termination",
    "Client.InvalidKMSKey.InvalidState": "The KMS key provided is in an incorrect state",
    "Client.InvalidSnapshot.NotFound": "The specified snapshot was not found",
    "Client.VolumeLimitExceeded": "Volume limit exceeded",
    "Server.InsufficientInstanceCapacity": "Insufficient capacity to satisfy instance request",
    "Server.InternalError": "Internal error on launch",
}

_AFTER_LAUNCH = frozenset(
    {BLOCK_ENDS, USER_INITIATED, INSTANCE_INITIATED, SCHEDULED_STOP, SPOT_TERMINATION}
)
"""Reasons whose StateTransitionReason has words and a time; that of the others is the code."""


@dataclass
class Lifecycle:
    """One instance, from its launch until it has left the listing."""

    instance: SimulatedInstance
    offer: Offer
    vcpus: int
    moto_instance: Any
    wish: Wish = field(default_factory=Wish)
    """What its launch said of capacity reservations: a start repeats it."""
    reservation: str = ""
    """Id of the capacity reservation whose place it took; empty for none."""
    state: str = "pending"
    position: int = 0
    """Number of its launch: pages of a listing begin at it."""
    change: asyncio.Task[None] | None = None
    """The latest transition: the next one begins when it is done."""
    boot_timer: asyncio.TimerHandle | None = None
    interruption_timer: asyncio.TimerHandle | None = None
    """Until EC2 reclaims it: spot after a notice, an instance of a Capacity Block without one."""

    @property
    def instance_id(self) -> str:
        """EC2's id, such as `i-0a1b2c3d4e5f60718`."""
        return self.instance.instance_id

    @property
    def uses_capacity(self) -> bool:
        """Whether it counts against capacity and quota: not once it is stopped or terminated."""
        return self.state in ("pending", "running", "stopping", "shutting-down")

    def show(self, state: str, reason: str = "") -> None:
        """Let listings show this state, and why it was entered. Only in moto's thread: a listing
        made meanwhile would show the state of now with the reason of before."""
        from moto.ec2.models.instances import InstanceState, StateReason

        self.moto_instance._state = InstanceState(state, CODES[state])
        if reason:
            at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S GMT")
            words = REASONS.get(reason, "Client error on launch")
            initiator = "User initiated" if reason == USER_INITIATED else words
            at_launch = reason not in _AFTER_LAUNCH
            self.moto_instance._reason = reason if at_launch else f"{initiator} ({at})"
            self.moto_instance.state_reason = StateReason(f"{reason}: {words}", reason)
        elif state in ("pending", "running"):
            self.moto_instance._reason = ""
            self.moto_instance.state_reason = StateReason()


class Lifecycles:
    """All instances of this embedded EC2, and their transitions."""

    def __init__(
        self,
        moto: Moto,
        runtime: InstanceRuntime,
        places: ReservedPlaces,
        hub_subnet: str,
        boot_seconds: float,
        terminated_visible_seconds: float,
    ) -> None:
        self.boot_seconds = boot_seconds
        self.uptimes = Uptimes()
        self._terminated_visible_seconds = terminated_visible_seconds
        self._moto = moto
        self._runtime = runtime
        self._places = places
        self._hub_subnet = hub_subnet
        self._lifecycles: dict[str, Lifecycle] = {}
        self._launched = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def get(self, instance_id: str) -> Lifecycle:
        """Raises `InvalidInstanceID.NotFound`."""
        try:
            return self._lifecycles[instance_id]
        except KeyError:
            raise EC2Error(
                "InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist"
            ) from None

    def holds(self, instance_id: str) -> bool:
        """Whether the instance is listed."""
        return instance_id in self._lifecycles

    def get_all(self, instance_ids: Iterable[str]) -> list[Lifecycle]:
        """Lifecycles by id; raises `EC2Error` for the first unknown one."""
        return [self.get(instance_id) for instance_id in instance_ids]

    def all(self) -> list[Lifecycle]:
        """Every instance that is listed, terminated ones included, in launch order."""
        return list(self._lifecycles.values())

    async def ports_between(self, source_id: str, target_id: str) -> tuple[Ports, Ports]:
        """As `reachability.between`; none unless both are running.

        Raises `InvalidInstanceID.NotFound`.
        """
        source, target = self.get(source_id), self.get(target_id)
        if not source.state == target.state == "running":
            return (), ()
        return await self._moto.run(
            lambda: between(self._moto, source.moto_instance, target.moto_instance)
        )

    def vcpus_in_use(self, counted: tuple[Market, str]) -> int:
        """vCPUs that count against the quota of a market and class: a capacity reservation counts,
        used or not, and its instances do not count again. A Capacity Block does not count."""
        reserved = sum(
            each.total * each.vcpus
            for each in self._places.all()
            if each.state == "active" and not each.is_block and counted_by(each.offer) == counted
        )
        return reserved + sum(
            life.vcpus
            for life in self._lifecycles.values()
            if life.uses_capacity
            and counted_by(life.offer) == counted
            and not self._places.holds(life.reservation)
        )

    def reservation_of(self, instance_id: str) -> str:
        """Id of the active capacity reservation that an instance is in; empty for none."""
        life = self._lifecycles.get(instance_id)
        is_in_one = life is not None and life.uses_capacity and self._places.holds(life.reservation)
        return life.reservation if life is not None and is_in_one else ""

    def begin(self, life: Lifecycle) -> None:
        """Add a launched instance: pending now, running after the boot."""
        self._launched += 1
        life.position = self._launched
        self._lifecycles[life.instance_id] = life
        self._boot(life)

    def start(self, life: Lifecycle) -> None:
        """Start a stopped instance; does nothing to one that is pending or running.

        Raises `IncorrectInstanceState`, `InsufficientInstanceCapacity`, and where it runs in a
        capacity reservation only, `ReservationCapacityExceeded`.
        """
        if life.state in ("pending", "running"):
            return
        if life.state != "stopped":
            raise EC2Error(
                "IncorrectInstanceState",
                f"The instance '{life.instance_id}' is not in a state from which it can be "
                "started.",
            )
        [life.reservation] = self._places.take(life.wish, life.offer, 1)
        now = datetime.now(UTC).replace(microsecond=0)
        life.instance.pending_since = now
        life.instance.starts += 1
        life.instance.change_host()
        life.moto_instance.launch_time = now.replace(tzinfo=None)
        self._boot(life)

    def stop(self, life: Lifecycle, reason: str = USER_INITIATED) -> None:
        """Raises `UnsupportedOperation` for a one-time spot instance, and `IncorrectInstanceState`
        for one that has never run or has ended."""
        if life.state in ("stopping", "stopped"):
            return
        if life.wish.in_block:
            message = "The embedded EC2 does not stop instances of Capacity Blocks."
            raise EC2Error("UnsupportedOperation", message)
        if life.offer.market == "spot":
            raise EC2Error(
                "UnsupportedOperation",
                f"You can't stop the Spot Instance '{life.instance_id}' because it is associated "
                "with a one-time Spot Instance request. You can only stop Spot Instances "
                "associated with persistent Spot Instance requests.",
            )
        if life.state == "pending" and life.instance.starts == 1:
            raise EC2Error(
                "IncorrectInstanceState",
                f"Instance '{life.instance_id}' cannot be stopped as it has never reached the "
                "'running' state.",
            )
        if life.state not in ("pending", "running"):
            raise EC2Error(
                "IncorrectInstanceState",
                f"The instance '{life.instance_id}' is not in a state from which it can be "
                "stopped.",
            )
        self._enter(life, "stopping", reason)
        self._then(life, self._stop(life, reason))

    def set_shutdown_behavior(self, life: Lifecycle, behavior: object) -> None:
        """What becomes of the instance when it powers itself off: `stop` or `terminate`."""
        if behavior not in ("stop", "terminate"):
            raise EC2Error(
                "InvalidParameterValue",
                f"Invalid value '{behavior}' for InstanceInitiatedShutdownBehavior",
            )
        if life.offer.market == "spot":
            raise EC2Error(
                "UnsupportedOperation",
                "The shutdown behavior of a one-time Spot Instance cannot be modified.",
            )
        if life.state in ("shutting-down", "terminated"):
            raise EC2Error(
                "IncorrectInstanceState",
                f"The instance '{life.instance_id}' is not in a state in which its attributes can "
                "be modified.",
            )
        life.moto_instance.instance_initiated_shutdown_behavior = behavior

    def reboot(self, life: Lifecycle) -> None:
        """Does nothing unless the instance is running, as on EC2."""
        if life.state == "running":
            self._then(life, self._reboot(life))

    def terminate(self, life: Lifecycle, reason: str = USER_INITIATED) -> None:
        """Terminate; one that is terminated already is no error."""
        if life.state in ("shutting-down", "terminated"):
            return
        has_run = life.uses_capacity
        gives_back = has_run and reason != SPOT_TERMINATION
        if life.interruption_timer is not None:
            life.interruption_timer.cancel()
        self._enter(life, "shutting-down", reason)
        self._then(life, self._terminate(life, reason, gives_back=gives_back, has_run=has_run))

    def interrupt(self, life: Lifecycle, notice_seconds: float) -> None:
        """EC2 reclaims a spot instance: notice now, termination after `notice_seconds`."""
        now = self.recommend_rebalance(life)
        life.instance.interruption_at = now + timedelta(seconds=notice_seconds)
        if life.interruption_timer is not None:
            life.interruption_timer.cancel()
        life.interruption_timer = asyncio.get_running_loop().call_later(
            notice_seconds, self.terminate, life, SPOT_TERMINATION
        )

    def recommend_rebalance(self, life: Lifecycle) -> datetime:
        """EC2 recommends to leave a spot instance, which ends nothing; the instant of now."""
        now = datetime.now(UTC)
        life.instance.rebalance_at = life.instance.rebalance_at or now
        return now

    def power_button(self, instance_id: str, what: Literal["off", "reboot"]) -> None:
        """The instance powered itself off: stop or terminate, as its shutdown behaviour says."""
        life = self._lifecycles.get(instance_id)
        if life is None or life.state != "running":
            return
        behavior = life.moto_instance.instance_initiated_shutdown_behavior
        if what == "reboot":
            self.reboot(life)
        elif behavior == "terminate" or life.offer.market == "spot":
            # A one-time spot instance cannot be stopped: powering off terminates it.
            self.terminate(life, INSTANCE_INITIATED)
        else:
            self.stop(life, INSTANCE_INITIATED)

    async def close(self) -> None:
        """Cancel all timers and transitions; the instance runtime ends the processes."""
        for life in self._lifecycles.values():
            for timer in (life.boot_timer, life.interruption_timer):
                if timer is not None:
                    timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _boot(self, life: Lifecycle) -> None:
        self._enter(life, "pending")
        self.uptimes.begin(life.instance_id, life.offer)
        self._end_with_block(life)
        life.boot_timer = asyncio.get_running_loop().call_later(
            self.boot_seconds, lambda: self._then(life, self._run(life))
        )

    def _end_with_block(self, life: Lifecycle) -> None:
        if (at := self._places.reclaimed_at(life.reservation)) is not None:
            seconds = (at - datetime.now(UTC)).total_seconds()
            life.interruption_timer = asyncio.get_running_loop().call_later(
                max(seconds, 0.0), self.terminate, life, BLOCK_ENDS
            )

    async def _run(self, life: Lifecycle) -> None:
        if life.state == "pending":
            self._enter(life, "running")
            await self._boot_now(life)

    async def _boot_now(self, life: Lifecycle) -> None:
        life.instance.passage = await self._moto.run(
            lambda: passage(self._moto, life.moto_instance, self._hub_subnet)
        )
        await self._runtime.boot(life.instance)

    async def _reboot(self, life: Lifecycle) -> None:
        await self._runtime.halt(life.instance_id, reboot=True)
        if life.state == "running":
            await self._boot_now(life)

    async def _stop(self, life: Lifecycle, reason: str) -> None:
        await self._runtime.halt(life.instance_id)
        await self._record_run(life)
        self._places.give_back(life.reservation, life.offer)
        life.reservation = ""
        if life.state == "stopping":
            self._enter(life, "stopped", reason)

    async def _terminate(
        self, life: Lifecycle, reason: str, *, gives_back: bool, has_run: bool
    ) -> None:
        await self._runtime.remove(life.instance_id)
        if has_run:
            await self._record_run(life)
        await self._moto.run(lambda: self._end_in_moto(life, reason))
        self._enter(life, "terminated", reason)
        if gives_back:
            self._places.give_back(life.reservation, life.offer)
            life.reservation = ""
        await asyncio.sleep(self._terminated_visible_seconds)
        await self._moto.run(lambda: self._forget_in_moto(life))
        self._lifecycles.pop(life.instance_id, None)

    async def _record_run(self, life: Lifecycle) -> None:
        began, ended = life.instance.pending_since, datetime.now(UTC)
        await self._moto.run(lambda: record_run(self._moto, life.instance_id, began, ended))

    def _end_in_moto(self, life: Lifecycle, reason: str) -> None:
        """Detach or delete its volumes, delete its interfaces, and free its address."""
        shown = life.moto_instance
        for interface in shown.nics.values():
            interface.delete_on_termination = True
        shown.terminate()
        shown.__class__ = _terminated_class()
        # moto would give the addresses back a second time when the object is collected.
        shown._private_ips.clear()
        # moto has set `terminated`, which must not be listed before we set it, and that its user
        # terminated it.
        life.show("shutting-down", reason)

    def _forget_in_moto(self, life: Lifecycle) -> None:
        backend = self._moto.backend
        for reservation_id, reservation in list(backend.reservations.items()):
            if life.moto_instance in reservation.instances:
                reservation.instances.remove(life.moto_instance)
                if not reservation.instances:
                    del backend.reservations[reservation_id]
        backend.tags.pop(life.instance_id, None)

    def _enter(self, life: Lifecycle, state: str, reason: str = "") -> None:
        """The next listing shows it: calls into moto are made in their order."""
        life.state = state
        if state in ("stopping", "shutting-down"):
            self.uptimes.end(life.instance_id, reason)
        self._moto.begin(lambda: life.show(state, reason))

    def _then(self, life: Lifecycle, transition: Coroutine[Any, Any, None]) -> None:
        """Run the transitions of an instance one after the other, each to its end."""
        if life.boot_timer is not None:
            life.boot_timer.cancel()
            life.boot_timer = None
        life.change = asyncio.ensure_future(_after(life.change, transition))
        self._tasks.add(life.change)
        life.change.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a transition of an instance failed", exc_info=error)


async def _after(before: asyncio.Task[None] | None, transition: Coroutine[Any, Any, None]) -> None:
    try:
        if before is not None:
            await asyncio.wait([before])
        await transition
    finally:
        transition.close()


@cache
def _terminated_class() -> type:
    """moto's instance without the interfaces and addresses that it no longer has."""
    from moto.ec2.models.instances import Instance

    class Terminated(Instance):
        network_interfaces: Any = ()
        private_ip: Any = None
        private_ip_address: Any = None
        private_dns_name: Any = ""

    return Terminated
