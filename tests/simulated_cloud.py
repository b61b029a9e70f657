"""EC2 in memory and in virtual time: a `Cloud` that lags, refuses, throttles and loses answers.

A clock that the test moves decides in which state an instance is and whether a listing shows it
already. What EC2 enforces and our code relies on is enforced here: client tokens and their
parameters, capacity by offer, one attachment per volume and in its zone only.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ec2spawner import data
from ec2spawner.core.instances.scheduled_events import ScheduledEvent
from ec2spawner.core.offers.launch_errors import LaunchError
from ec2spawner.core.offers.quotas import ListedQuota
from ec2spawner.core.offers.reserved_capacity import CapacityReservation
from ec2spawner.core.pricing.discounts import Discount
from ec2spawner.core.pricing.price_history import PricePoint, merged
from ec2spawner.core.pricing.resource_prices import ResourcePrices
from ec2spawner.core.profiles.profiles import InstanceType
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.image import Image, ImageQuery
from ec2spawner.provisioner.model.cloud.instance import Instance, InstanceState
from ec2spawner.provisioner.model.cloud.launch import FleetResponse, Launched, LaunchRequest
from ec2spawner.provisioner.model.cloud.network import Interface, PlacementGroup, SecurityGroup
from ec2spawner.provisioner.model.cloud.volume import Volume, VolumeSnapshot, VolumeSpec
from ec2spawner.wire import Market

ACCOUNT = "111122223333"

SOLD_OUT = "InsufficientInstanceCapacity"

"""The VPC's."""


class Clock:
    """Aware UTC that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
        self.steady = 0.0

    def __call__(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        """Monotonic seconds."""
        return self.steady

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        self.steady += seconds

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock; no time passes."""
        self.time += timedelta(seconds=seconds)


@dataclass(slots=True)
class Machine:
    """An instance as EC2 knows it; `Instance` is what a listing says of it."""

    instance: Instance
    listed_from: datetime
    runs_from: datetime
    ended: InstanceState | None = None
    ended_reason: str = ""
    ended_message: str = ""
    ended_at: datetime | None = None
    stops_on_power_off: bool = False
    hidden: bool = False
    """Left out of listings though it runs."""

    def shown(self, now: datetime) -> Instance:
        if self.ended is not None:
            return replace(
                self.instance,
                state=self.ended,
                state_reason=self.ended_reason,
                state_message=self.ended_message,
                ended_at=self.ended_at,
                has_public_address=False,
            )
        if now >= self.runs_from:
            return replace(self.instance, state=InstanceState.RUNNING)
        return replace(self.instance, state=InstanceState.PENDING, has_public_address=False)


@dataclass(frozen=True, slots=True)
class Call:
    """One call that was received, refused or not."""

    name: str
    arguments: tuple[Any, ...]
    at: datetime


@dataclass(slots=True)
class Fault:
    """What happens to the next `times` calls of a name.

    `error` is raised, before the call has taken effect or after it; `gate`, where set, is waited
    for first, in the same place.
    """

    error: Exception | None
    times: int
    after_effect: bool = False
    gate: asyncio.Event | None = None


@dataclass(slots=True)
class SimulatedCloud:
    """Implements `ec2spawner.provisioner.model.cloud.cloud.Cloud`."""

    clock: Clock
    subnets: Mapping[str, str] = field(
        default_factory=lambda: {"subnet-a": "us-east-1a", "subnet-b": "us-east-1b"}
    )
    machines: dict[str, Machine] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    interfaces: dict[str, Interface] = field(default_factory=dict)
    security_groups: dict[str, SecurityGroup] = field(default_factory=dict)
    """By id, of one VPC; those that a configuration names are not here."""
    placement_groups: dict[str, PlacementGroup] = field(default_factory=dict)
    """By name."""
    placed: dict[str, str] = field(default_factory=dict)
    """By instance id: the name of its placement group."""
    tags_of_parts: dict[str, dict[str, str]] = field(default_factory=dict)
    """By id, of disks and interfaces that came with an instance: what was set since."""
    consoles: dict[str, str] = field(default_factory=dict)
    """By instance id: what it wrote to its console."""
    snapshots: dict[str, VolumeSnapshot] = field(default_factory=dict)
    """As they were asked for; what is pending completes with time."""
    mounted: set[str] = field(default_factory=set)
    """Ids of the instances whose agent has mounted its home, and not unmounted it."""
    detached_while_mounted: list[str] = field(default_factory=list)
    """Ids of volumes that lost what was written last."""
    files: dict[str, set[str]] = field(default_factory=dict)
    """What is on each volume, and on each snapshot of one."""
    snapshot_seconds: float = 0.0
    """From the call until a snapshot is complete."""
    snapshot_lag: float = 0.0
    """From the call until a listing shows a snapshot."""
    volume_lag: float = 0.0
    """From the call until a listing shows a volume."""
    late_reads: int = 0
    """So many looks at one volume show none yet."""
    creating_reads: int = 0
    """So many looks at one volume after those show that it is being created."""
    capacity: dict[tuple[Market, str, str], int] = field(default_factory=dict)
    """By market, instance type and zone; no entry is no limit."""
    errors: dict[tuple[Market, str, str], LaunchError] = field(default_factory=dict)
    """By market, instance type and zone: answered in place of an instance while it stands here."""
    prices: dict[tuple[str, str], float] = field(default_factory=dict)
    """Spot prices now, by instance type and zone; a change holds from when a reading first shows
    it."""
    histories: dict[tuple[str, str], Sequence[PricePoint]] = field(default_factory=dict)
    """In place of `prices` where it matters what they were; later points are not returned yet."""
    quotas_listed: Sequence[ListedQuota] = ()
    list_prices: dict[str, float] = field(default_factory=dict)
    """On-demand prices, by instance type."""
    resources: ResourcePrices = field(default_factory=ResourcePrices)
    reserved: Sequence[Discount] = ()
    capacity_reserved: dict[str, CapacityReservation] = field(default_factory=dict)
    scheduled: dict[str, list[ScheduledEvent]] = field(default_factory=dict)
    """By instance id: what AWS has announced."""
    """By id. `available` is what instances of others leave; those here are subtracted."""
    types: dict[str, InstanceType] = field(default_factory=lambda: dict(data.instance_types()))
    """What EC2 has, and says of it."""
    not_offered: set[tuple[str, str]] = field(default_factory=set)
    """(instance type, zone) that EC2's offerings lack."""
    gives_public_addresses: bool = False
    images: dict[str, Image] = field(default_factory=lambda: {"ami-1": Image("ami-1")})
    """The newest comes last."""
    old_templates: int = 0
    boot_seconds: float = 0.0
    """From the launch until the state is `running`."""
    listing_lag: float = 0.0
    """From the launch until a listing shows the instance."""
    keeps_volumes: bool = False
    """A terminated instance does not let go of its volumes by itself."""
    call_seconds: Callable[[], float] = lambda: 0.0
    """How long the next call takes to arrive."""
    calls: list[Call] = field(default_factory=list)
    _answers: list[tuple[LaunchError, ...]] = field(default_factory=list)
    """Errors with which the next launches answer, and nothing else."""
    _faults: dict[str, list[Fault]] = field(default_factory=lambda: defaultdict(list))
    _launches: dict[str, tuple[LaunchRequest, FleetResponse]] = field(default_factory=dict)
    _created: dict[str, tuple[tuple[str, VolumeSpec], Volume]] = field(default_factory=dict)
    _modified: dict[str, datetime] = field(default_factory=dict)
    _noted: dict[tuple[str, str], list[PricePoint]] = field(default_factory=dict)
    """Earlier `prices`, by instance type and zone."""
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    # --- the test's side ---

    def fail(self, name: str, error: Exception, times: int = 1, *, after: bool = False) -> None:
        """Let the next calls raise; `after`: they take effect, only the answer is lost."""
        self._faults[name].append(Fault(error, times, after))

    def hold(
        self, name: str, *, after: bool = False, then: CloudError | None = None
    ) -> asyncio.Event:
        """Let the next call wait for the event, before or after it takes effect; `then` raise."""
        gate = asyncio.Event()
        self._faults[name].append(Fault(then, 1, after, gate))
        return gate

    def sell_out(self, market: Market, instance_type: str = "g4dn.xlarge", left: int = 0) -> None:
        for zone in self.subnets.values():
            self.capacity[market, instance_type, zone] = left

    def refuse_offers(self, *codes: str, times: int = 1) -> None:
        """Let the next launches bring nothing but these errors, which name no offer."""
        errors = [LaunchError(code, "refused") for code in codes]
        self.refuse_with(*errors, times=times)

    def refuse_with(self, *errors: LaunchError, times: int = 1) -> None:
        """Let the next launches bring nothing but these errors."""
        self._answers += [errors] * times

    def refuse(
        self,
        code: str,
        *markets: Market,
        zone: str = "",
        instance_type: str = "g4dn.xlarge",
        message: str = "no",
    ) -> None:
        """Answer this error for offers from now on, in one zone or in all."""
        for market in markets or Market:
            for each in [zone] if zone else set(self.subnets.values()):
                error = LaunchError(code, message, instance_type, zone=each)
                self.errors[market, instance_type, each] = error

    def copy(self, instance_id: str) -> str:
        """Somebody launches an instance with the tags of another. Its id."""
        original = self.machines[instance_id]
        copied = f"i-{next(self._numbers):017x}"
        self.machines[copied] = replace(
            original, instance=replace(original.instance, instance_id=copied)
        )
        return copied

    def end(
        self, instance_id: str, reason: str = "Server.SpotInstanceTermination", message: str = ""
    ) -> None:
        """The instance is terminated, and not by us."""
        self._end(instance_id, reason)
        self.machines[instance_id].ended_message = message

    def power_off(self, instance_id: str) -> None:
        """The instance powers itself off."""
        machine = self.machines[instance_id]
        if not machine.stops_on_power_off:
            self._end(instance_id, "Client.InstanceInitiatedShutdown")
        elif machine.ended is None:
            machine.ended = InstanceState.STOPPED
            machine.ended_reason = "Client.InstanceInitiatedShutdown"
            machine.ended_at = self.clock()

    def of(self, name: str) -> list[Call]:
        return [call for call in self.calls if call.name == name]

    def requests(self) -> list[LaunchRequest]:
        return [call.arguments[0] for call in self.of("launch")]

    def running(self) -> list[str]:
        """Ids of all instances that cost money."""
        return [each for each, machine in self.machines.items() if machine.ended is None]

    def members(self, group_id: str) -> set[str]:
        """Ids of the instances that are not terminated and have the security group."""
        return {
            each
            for each, machine in self.machines.items()
            if machine.ended is not InstanceState.TERMINATED
            and group_id in machine.instance.security_groups
        }

    def placed_in(self, name: str) -> set[str]:
        """Ids of the instances that are not terminated and are in the placement group."""
        return {
            each
            for each, group in self.placed.items()
            if group == name and self.machines[each].ended is not InstanceState.TERMINATED
        }

    def tags(self, instance_id: str) -> Mapping[str, str]:
        return self.machines[instance_id].instance.tags

    # --- EC2's side ---

    async def launch(self, request: LaunchRequest) -> FleetResponse:
        faults = await self._receive("launch", request)
        if request.client_token in self._launches:
            first, answer = self._launches[request.client_token]
            if first != request:
                raise CloudError("IdempotentParameterMismatch", "another request", retryable=False)
        else:
            answer = self._launch(request)
            self._launches[request.client_token] = request, answer
        await self._lose_answer(faults)
        return answer

    def _launch(self, request: LaunchRequest) -> FleetResponse:
        assert request.offers, "EC2 wants offers"
        pools = [(instance_type, self.subnets[subnet]) for instance_type, subnet in request.offers]
        assert len(set(pools)) == len(pools), "EC2 refuses two subnets of one zone"
        if self._answers:
            return FleetResponse((), self._answers.pop(0))
        group = request.spec.placement_group
        if group and group not in self.placement_groups:
            unknown = LaunchError("InvalidPlacementGroup.Unknown", f"'{group}' is unknown")
            return FleetResponse((), (unknown,))
        launched: list[Launched] = []
        errors: list[LaunchError] = []
        for instance_type, subnet in request.offers:
            zone = self.subnets[subnet]
            offer = request.market, instance_type, zone
            error = self.errors.get(offer) or LaunchError(SOLD_OUT, "sold out", instance_type)
            here = 0 if offer in self.errors else self.capacity.get(offer, request.count)
            if request.reservation:
                here, error = self._places(
                    request.reservation, instance_type, zone, is_block=request.is_block
                )
            taken = min(request.count - len(launched), here)
            if offer in self.capacity and not request.reservation:
                self.capacity[offer] -= taken
            launched += [self._make(request, instance_type, zone) for _ in range(taken)]
            if len(launched) < request.count:
                errors.append(replace(error, subnet=subnet, zone=zone))
        return FleetResponse(tuple(launched), tuple(errors))

    def _places(
        self, reservation_id: str, instance_type: str, zone: str, *, is_block: bool
    ) -> tuple[int, LaunchError]:
        """Unused places, and EC2's error for more."""
        found = self.capacity_reserved.get(reservation_id)
        if found is None or found.has_ended(self.clock()):
            return 0, LaunchError("InvalidCapacityReservationId.NotFound", "ended", instance_type)
        assert (found.instance_type, found.zone) == (instance_type, zone), "no instance fits"
        if found.is_block != is_block:
            return 0, LaunchError("InvalidParameterValue", "wrong market type", instance_type)
        left = max(0, found.available - self._in(reservation_id))
        return left, LaunchError("ReservationCapacityExceeded", "full", instance_type)

    def _in(self, reservation_id: str) -> int:
        machines = (each for each in self.machines.values() if each.ended is None)
        return sum(each.instance.reservation == reservation_id for each in machines)

    def _make(self, request: LaunchRequest, instance_type: str, zone: str) -> Launched:
        now, number = self.clock(), next(self._numbers)
        instance_id = f"i-{number:017x}"
        instance = Instance(
            instance_id=instance_id,
            state=InstanceState.PENDING,
            instance_type=instance_type,
            zone=zone,
            market=request.market,
            launched_at=now,
            image_id=request.spec.image_id,
            private_address=f"10.0.{number // 250}.{number % 250 + 1}",
            has_public_address=self.gives_public_addresses,
            account_id=ACCOUNT,
            tags=dict(request.tags),
            deleted_with=(f"vol-{number:017x}", f"eni-{number:017x}"),
            reservation=request.reservation,
            in_block=request.is_block,
            security_groups=request.spec.security_groups or ("sg-default",),
        )
        self.machines[instance_id] = Machine(
            instance,
            listed_from=now + timedelta(seconds=self.listing_lag),
            runs_from=now + timedelta(seconds=self.boot_seconds),
        )
        if group := request.spec.placement_group:
            zones = {self.machines[each].instance.zone for each in self.placed_in(group)}
            assert zones <= {zone}, "EC2 refuses a group in several zones"
            self.placed[instance_id] = group
        return Launched(instance_id, instance_type, zone, request.market)

    async def list_instances(self, hub: str, among: Collection[str] = ()) -> Sequence[Instance]:
        faults = await self._receive("list_instances", hub, *([frozenset(among)] if among else []))
        now, attached = self.clock(), self._attached()
        listing = [
            replace(machine.shown(now), volumes=attached[machine.instance.instance_id])
            for machine in self.machines.values()
            if machine.instance.tags.get("ec2spawner:hub") == hub
            and (not among or machine.instance.instance_id in among)
            and now >= machine.listed_from
            and not machine.hidden
        ]
        await self._lose_answer(faults)
        return listing

    def _attached(self) -> Mapping[str, Mapping[str, str]]:
        """By instance id, device name -> volume id: of homes. Disks of a launch are no volumes
        here."""
        found: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for volume in self.volumes.values():
            if volume.attached_to is not None:
                devices = found[volume.attached_to]
                devices[f"/dev/sd{'fghijk'[len(devices)]}"] = volume.volume_id
        return found

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        faults = await self._receive("terminate", tuple(instance_ids))
        for instance_id in instance_ids:
            if instance_id in self.machines:
                self._end(instance_id, "Client.UserInitiatedShutdown")
        await self._lose_answer(faults)

    async def stop(self, instance_ids: Sequence[str]) -> None:
        faults = await self._receive("stop", tuple(instance_ids))
        for instance_id in instance_ids:
            machine = self._unended(instance_id)
            if machine.instance.market is Market.SPOT:
                raise CloudError("UnsupportedOperation", "a one-time spot", retryable=False)
            machine.ended = InstanceState.STOPPED
            machine.ended_reason = "Client.UserInitiatedShutdown"
            machine.ended_at = self.clock()
        await self._lose_answer(faults)

    async def stop_on_power_off(self, instance_id: str) -> None:
        faults = await self._receive("stop_on_power_off", instance_id)
        self._unended(instance_id).stops_on_power_off = True
        await self._lose_answer(faults)

    async def start(self, instance_ids: Sequence[str]) -> None:
        faults = await self._receive("start", tuple(instance_ids))
        now = self.clock()
        for instance_id in instance_ids:
            machine = self._unended(instance_id)
            if machine.ended is None:
                continue
            instance = machine.instance
            if self.capacity.get((instance.market, instance.instance_type, instance.zone)) == 0:
                raise CloudError(SOLD_OUT, "no room", retryable=False)
            machine.ended, machine.ended_reason, machine.ended_at = None, "", None
            self.mounted.discard(instance_id)
            machine.instance = replace(instance, launched_at=now)
            machine.runs_from = now + timedelta(seconds=self.boot_seconds)
        await self._lose_answer(faults)

    def _unended(self, instance_id: str) -> Machine:
        machine = self.machines.get(instance_id)
        if machine is None:
            raise CloudError("InvalidInstanceID.NotFound", instance_id, retryable=False)
        if machine.ended is InstanceState.TERMINATED:
            raise CloudError("IncorrectInstanceState", "is terminated", retryable=False)
        return machine

    def stopped(self) -> list[str]:
        """Ids of the instances that are stopped: their disks cost money."""
        machines = self.machines.items()
        return [each for each, machine in machines if machine.ended is InstanceState.STOPPED]

    def _end(self, instance_id: str, reason: str) -> None:
        machine = self.machines[instance_id]
        if machine.ended is InstanceState.TERMINATED:
            return
        machine.ended, machine.ended_reason = InstanceState.TERMINATED, reason
        machine.ended_at = self.clock()
        if self.keeps_volumes:
            return
        for volume in self.volumes.values():
            if volume.attached_to == instance_id:
                self._change(volume.volume_id, state="available", attached_to=None)

    async def tag(self, resource_ids: Sequence[str], tags: Mapping[str, str]) -> None:
        faults = await self._receive("tag", tuple(resource_ids), dict(tags))
        for resource_id in resource_ids:
            if resource_id in self.machines:
                machine = self.machines[resource_id]
                machine.instance = replace(machine.instance, tags={**machine.instance.tags, **tags})
            elif resource_id in self.volumes:
                old = self.volumes[resource_id].tags
                self._change(resource_id, tags={**old, **tags})
            else:
                self.tags_of_parts.setdefault(resource_id, {}).update(tags)
        await self._lose_answer(faults)

    async def ran_until(
        self, instance_ids: Sequence[str], since: datetime, until: datetime
    ) -> Mapping[str, datetime]:
        await self._receive("ran_until", tuple(instance_ids))
        known = {each: self.machines[each] for each in instance_ids if each in self.machines}
        return {each: machine.ended_at or until for each, machine in known.items()}

    async def zones_of(self, subnets: Sequence[str]) -> Mapping[str, str]:
        await self._lose_answer(await self._receive("zones_of", tuple(subnets)))
        return {subnet: self.subnets[subnet] for subnet in subnets}

    async def spot_history(
        self, instance_types: Sequence[str], zones: Sequence[str], since: datetime
    ) -> Mapping[tuple[str, str], tuple[PricePoint, ...]]:
        arguments = tuple(instance_types), tuple(zones), since
        await self._lose_answer(await self._receive("spot_history", *arguments))
        found: dict[tuple[str, str], tuple[PricePoint, ...]] = {}
        for pool, usd in self.prices.items():
            noted = self._noted.setdefault(pool, [])
            if not noted or noted[-1].usd_per_hour != usd:
                noted.append(PricePoint(self.clock() if noted else since, usd))
            found[pool] = merged((), noted, since)
        for pool, points in self.histories.items():
            found[pool] = merged((), [p for p in points if p.at <= self.clock()], since)
        return {
            (name, zone): points
            for (name, zone), points in found.items()
            if name in instance_types and (not zones or zone in zones) and points
        }

    async def on_demand_prices(self, instance_types: Sequence[str]) -> Mapping[str, float]:
        await self._lose_answer(await self._receive("on_demand_prices", tuple(instance_types)))
        return {name: usd for name, usd in self.list_prices.items() if name in instance_types}

    async def resource_prices(self) -> ResourcePrices:
        await self._lose_answer(await self._receive("resource_prices"))
        return self.resources

    async def reservations(self) -> Sequence[Discount]:
        await self._lose_answer(await self._receive("reservations"))
        return self.reserved

    async def capacity_reservations(self) -> Sequence[CapacityReservation]:
        fault = await self._receive("capacity_reservations")
        listed = [
            replace(each, available=max(0, each.available - self._in(name)))
            for name, each in self.capacity_reserved.items()
            if not each.has_ended(self.clock())
            if each.begins_at is None or each.begins_at <= self.clock()
        ]
        await self._lose_answer(fault)
        return listed

    async def scheduled_events(self) -> Mapping[str, Sequence[ScheduledEvent]]:
        fault = await self._receive("scheduled_events")
        found = {
            name: tuple(events)
            for name, events in self.scheduled.items()
            if name in self.machines
            and self.machines[name].shown(self.clock()).state is InstanceState.RUNNING
        }
        await self._lose_answer(fault)
        return found

    async def quotas(self) -> Sequence[ListedQuota]:
        await self._lose_answer(await self._receive("quotas"))
        return self.quotas_listed

    async def offerings(self, zones: Sequence[str]) -> Mapping[str, frozenset[str]]:
        await self._lose_answer(await self._receive("offerings", tuple(zones)))
        found = {
            name: frozenset(zone for zone in zones if (name, zone) not in self.not_offered)
            for name in self.types
        }
        return {name: having for name, having in found.items() if having}

    async def describe_types(self, instance_types: Sequence[str]) -> Mapping[str, InstanceType]:
        await self._lose_answer(await self._receive("describe_types", tuple(instance_types)))
        known = self.types
        unsaid: dict[str, Any] = {
            "on_demand_usd_per_hour": None,
            "spot_saving_percent": None,
            "interruption_band": None,
        }
        return {name: replace(known[name], **unsaid) for name in instance_types if name in known}

    async def find_image(self, query: ImageQuery) -> Image:
        await self._lose_answer(await self._receive("find_image", query))
        wanted = query.image_id or next(reversed(self.images), "")
        if wanted not in self.images:
            raise CloudError("InvalidAMIID.NotFound", f"no image {wanted}", retryable=False)
        return self.images[wanted]

    async def delete_old_templates(self, hub: str, store_id: str, before: datetime) -> int:
        faults = await self._receive("delete_old_templates", hub, store_id, before)
        deleted, self.old_templates = self.old_templates, 0
        await self._lose_answer(faults)
        return deleted

    async def create_volume(
        self, client_token: str, zone: str, spec: VolumeSpec, tags: Mapping[str, str]
    ) -> Volume:
        faults = await self._receive("create_volume", client_token, zone, spec, dict(tags))
        if client_token in self._created:
            parameters, made = self._created[client_token]
            if parameters != (zone, spec):
                raise CloudError("IdempotentParameterMismatch", "another request", retryable=False)
        else:
            made = self._make_volume(zone, spec, tags)
            self._created[client_token] = (zone, spec), made
        await self._lose_answer(faults)
        return self.volumes.get(made.volume_id, made)

    async def copy_volume(
        self, client_token: str, source: Volume, spec: VolumeSpec, tags: Mapping[str, str]
    ) -> Volume:
        source_id = source.volume_id
        faults = await self._receive("copy_volume", client_token, source_id, spec, dict(tags))
        token = f"CopyVolumes {client_token}"  # each action has tokens of its own
        if token in self._created:
            parameters, made = self._created[token]
            if parameters != (source_id, spec):
                raise CloudError("IdempotentParameterMismatch", "another request", retryable=False)
        else:
            source = self._held(source_id)
            if spec.size_gib < source.size_gib:
                raise CloudError("InvalidParameterValue", "smaller than source", retryable=False)
            made = self._make_volume(source.zone, spec, tags)
            self.files[made.volume_id] = set(self.files[source_id])
            self._created[token] = (source_id, spec), made
        await self._lose_answer(faults)
        return self.volumes.get(made.volume_id, made)

    def _make_volume(self, zone: str, spec: VolumeSpec, tags: Mapping[str, str]) -> Volume:
        copy = self._snapshot(spec.snapshot_id) if spec.snapshot_id else None
        if copy and copy.state != "completed":
            raise CloudError("IncorrectState", f"{copy.snapshot_id} is pending", retryable=False)
        if copy and spec.size_gib < copy.size_gib:
            raise CloudError("InvalidParameterValue", "smaller than snapshot", retryable=False)
        volume_id = f"vol-{next(self._numbers):017x}"
        made = Volume(
            *(volume_id, zone, spec.size_gib, "available", None, dict(tags), self.clock()),
            volume_type=spec.volume_type,
            encrypted=spec.encrypted,
        )
        self.volumes[volume_id] = made
        self.files[volume_id] = set(self.files[spec.snapshot_id]) if copy else set()
        return made

    async def volume(self, volume_id: str) -> Volume | None:
        await self._lose_answer(await self._receive("volume", volume_id))
        if self.late_reads > 0:
            self.late_reads -= 1
            return None
        volume = self.volumes.get(volume_id)
        if volume is not None and self.creating_reads > 0:
            self.creating_reads -= 1
            return replace(volume, state="creating")
        return volume

    async def modify_volume(self, volume_id: str, size_gib: int) -> None:
        faults = await self._receive("modify_volume", volume_id, size_gib)
        if size_gib < self._held(volume_id).size_gib:
            raise CloudError("InvalidParameterValue", "cannot shrink", retryable=False)
        before = self._modified.get(volume_id)
        if before is not None and self.clock() - before < timedelta(hours=6):
            said = "Wait at least 6 hours between modifications per EBS volume."
            raise CloudError("VolumeModificationRateExceeded", said, retryable=False)
        self._modified[volume_id] = self.clock()
        self._change(volume_id, size_gib=size_gib)
        await self._lose_answer(faults)

    async def create_snapshot(self, volume_id: str, tags: Mapping[str, str]) -> VolumeSnapshot:
        faults = await self._receive("create_snapshot", volume_id, dict(tags))
        volume, snapshot_id = self._held(volume_id), f"snap-{next(self._numbers):017x}"
        self.snapshots[snapshot_id] = VolumeSnapshot(
            snapshot_id, volume_id, "pending", 0, self.clock(), volume.size_gib, tags=dict(tags)
        )
        self.files[snapshot_id] = set(self.files[volume_id])
        await self._lose_answer(faults)
        return self._snapshot(snapshot_id)

    async def list_snapshots(self, hub: str) -> Sequence[VolumeSnapshot]:
        await self._lose_answer(await self._receive("list_snapshots", hub))
        return [
            self._snapshot(each)
            for each, snapshot in self.snapshots.items()
            if snapshot.tags.get("ec2spawner:hub") == hub
            and (self.clock() - snapshot.started_at).total_seconds() >= self.snapshot_lag
        ]

    async def snapshot_sizes(self, snapshot_ids: Sequence[str]) -> Mapping[str, int]:
        await self._lose_answer(await self._receive("snapshot_sizes", tuple(snapshot_ids)))
        return {
            each: self.snapshots[each].size_gib for each in snapshot_ids if each in self.snapshots
        }

    async def delete_snapshot(self, snapshot_id: str) -> None:
        faults = await self._receive("delete_snapshot", snapshot_id)
        self.snapshots.pop(snapshot_id, None)
        self.files.pop(snapshot_id, None)
        await self._lose_answer(faults)

    def _held(self, volume_id: str) -> Volume:
        if volume_id not in self.volumes:
            said = f"The volume '{volume_id}' does not exist."
            raise CloudError("InvalidVolume.NotFound", said, retryable=False)
        return self.volumes[volume_id]

    def _snapshot(self, snapshot_id: str) -> VolumeSnapshot:
        """As it is now: complete once the time that it takes is over, unless it failed."""
        if snapshot_id not in self.snapshots:
            said = f"The snapshot '{snapshot_id}' does not exist."
            raise CloudError("InvalidSnapshot.NotFound", said, retryable=False)
        snapshot = self.snapshots[snapshot_id]
        if snapshot.state != "pending":
            return snapshot
        passed = (self.clock() - snapshot.started_at).total_seconds()
        if passed >= self.snapshot_seconds:
            return replace(snapshot, state="completed", percent=100, stored_gib=1.0)
        return replace(snapshot, percent=int(100 * passed / self.snapshot_seconds))

    async def list_volumes(self, hub: str) -> Sequence[Volume]:
        await self._lose_answer(await self._receive("list_volumes", hub))
        newest = self.clock() - timedelta(seconds=self.volume_lag)
        return [
            volume
            for volume in self.volumes.values()
            if volume.tags.get("ec2spawner:hub") == hub
            and (not self.volume_lag or (volume.created_at or newest) <= newest)
        ]

    async def attach_volume(self, volume_id: str, instance_id: str) -> None:
        faults = await self._receive("attach_volume", volume_id, instance_id)
        volume, machine = self._held(volume_id), self.machines[instance_id]
        if machine.ended is not None:
            raise CloudError("IncorrectInstanceState", "is not running", retryable=False)
        if self.creating_reads > 0:
            raise CloudError("IncorrectState", "is not available", retryable=False)
        if volume.zone != machine.instance.zone:
            raise CloudError("InvalidVolume.ZoneMismatch", "another zone", retryable=False)
        if volume.attached_to not in {None, instance_id}:
            raise CloudError("VolumeInUse", f"held by {volume.attached_to}", retryable=False)
        self._change(volume_id, state="in-use", attached_to=instance_id)
        await self._lose_answer(faults)

    async def detach_volume(self, volume_id: str, instance_id: str) -> None:
        faults = await self._receive("detach_volume", volume_id, instance_id)
        volume = self.volumes.get(volume_id)
        if volume is not None and volume.attached_to == instance_id:
            if instance_id in self.mounted and self.machines[instance_id].ended is None:
                self.detached_while_mounted.append(volume_id)
            self._change(volume_id, state="available", attached_to=None)
        await self._lose_answer(faults)

    async def free_volumes(self, hub: str) -> Sequence[Volume]:
        await self._lose_answer(await self._receive("free_volumes", hub))
        listed = [v for v in self.volumes.values() if v.tags.get("ec2spawner:hub") == hub]
        return [v for v in listed if v.state == "available" and "ec2spawner:intent" in v.tags]

    async def delete_volume(self, volume_id: str) -> None:
        faults = await self._receive("delete_volume", volume_id)
        if volume_id in self.volumes and self.volumes[volume_id].attached_to is not None:
            raise CloudError("VolumeInUse", "is attached", retryable=False)
        self.volumes.pop(volume_id, None)
        await self._lose_answer(faults)

    async def free_interfaces(self, hub: str) -> Sequence[Interface]:
        await self._lose_answer(await self._receive("free_interfaces", hub))
        listed = [i for i in self.interfaces.values() if i.tags.get("ec2spawner:hub") == hub]
        return [i for i in listed if i.state == "available"]

    async def delete_interface(self, interface_id: str) -> None:
        faults = await self._receive("delete_interface", interface_id)
        self.interfaces.pop(interface_id, None)
        await self._lose_answer(faults)

    async def create_security_group(
        self, name: str, description: str, subnet_id: str, tags: Mapping[str, str]
    ) -> str:
        faults = await self._receive("create_security_group", name, subnet_id, dict(tags))
        found = [each for each in self.security_groups.values() if each.name == name]
        if any(each.tags != tags for each in found):
            raise CloudError("InvalidGroup.Duplicate", "somebody else's", retryable=False)
        if not found:
            found = [SecurityGroup(f"sg-{next(self._numbers):017x}", name, dict(tags))]
            self.security_groups[found[0].group_id] = found[0]
        await self._lose_answer(faults)
        return found[0].group_id

    async def set_security_groups(self, instance_id: str, groups: Sequence[str]) -> None:
        faults = await self._receive("set_security_groups", instance_id, tuple(groups))
        machine = self._unended(instance_id)
        assert groups, "EC2 wants at least one"
        machine.instance = replace(machine.instance, security_groups=tuple(groups))
        await self._lose_answer(faults)

    async def list_security_groups(self, hub: str) -> Sequence[SecurityGroup]:
        await self._lose_answer(await self._receive("list_security_groups", hub))
        listed = self.security_groups.values()
        return [each for each in listed if each.tags.get("ec2spawner:hub") == hub]

    async def delete_security_group(self, group_id: str) -> None:
        faults = await self._receive("delete_security_group", group_id)
        if self.members(group_id):
            raise CloudError("DependencyViolation", "has a dependent object", retryable=False)
        self.security_groups.pop(group_id, None)
        await self._lose_answer(faults)

    async def create_placement_group(self, name: str, tags: Mapping[str, str]) -> None:
        faults = await self._receive("create_placement_group", name, dict(tags))
        made = PlacementGroup(name, "available", dict(tags))
        if self.placement_groups.setdefault(name, made).tags != tags:
            what = "somebody else's"
            raise CloudError("InvalidPlacementGroup.Duplicate", what, retryable=False)
        await self._lose_answer(faults)

    async def list_placement_groups(self, hub: str) -> Sequence[PlacementGroup]:
        await self._lose_answer(await self._receive("list_placement_groups", hub))
        listed = self.placement_groups.values()
        return [each for each in listed if each.tags.get("ec2spawner:hub") == hub]

    async def delete_placement_group(self, name: str) -> None:
        faults = await self._receive("delete_placement_group", name)
        if self.placed_in(name):
            raise CloudError("InvalidPlacementGroup.InUse", "in use", retryable=False)
        self.placement_groups.pop(name, None)
        await self._lose_answer(faults)

    async def console_output(self, instance_id: str) -> str:
        await self._lose_answer(await self._receive("console_output", instance_id))
        return self.consoles.get(instance_id, "")

    # --- inside ---

    def _change(self, volume_id: str, **changes: Any) -> None:
        self.volumes[volume_id] = replace(self.volumes[volume_id], **changes)

    async def _receive(self, name: str, *arguments: Any) -> Fault | None:
        """Record the call; meet what was ordered for it before its effect.

        Without a fault the effect follows at once: who sees the call sees the effect.
        """
        await asyncio.sleep(self.call_seconds())
        self.calls.append(Call(name, arguments, self.clock()))
        fault = next((each for each in self._faults[name] if each.times > 0), None)
        if fault is None:
            return None
        fault.times -= 1
        if fault.after_effect:
            return fault
        await self._meet(fault)
        return None

    async def _lose_answer(self, fault: Fault | None) -> None:
        if fault is not None:
            await self._meet(fault)

    async def _meet(self, fault: Fault) -> None:
        if fault.gate is not None:
            await fault.gate.wait()
        if fault.error is not None:
            raise fault.error
