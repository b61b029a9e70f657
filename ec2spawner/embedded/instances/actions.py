"""The actions on instances: run, list, start, stop, terminate, read the console."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..api import pagination
from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..market.capacity import Offer
from ..market.reserved_places import BLOCK
from ..market.type_facts import instance_type_facts
from ..runtime.instance_runtime import InstanceRuntime
from .account import Account
from .blueprint import Blueprint, tag_specifications
from .group_actions import SecurityGroups
from .launch import Launcher
from .lifecycle import CODES, Lifecycle, Lifecycles

OWN_FILTERS: Mapping[str, Callable[[Any], str | None]] = {
    "client-token": lambda shown: str(shown.client_token),
    "instance-lifecycle": lambda shown: shown.lifecycle,
    "launch-time": lambda shown: shown.launch_time.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    "instance-state-code": lambda shown: str(shown.state_code),
    "placement-group-name": lambda shown: shown.placement.group_name,
    "network-interface.network-interface-id": lambda shown: (
        shown.network_interfaces[0].id if shown.network_interfaces else None
    ),
}
"""DescribeInstances' filters that moto lacks -> the value of moto's instance."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A validated RunInstances request."""

    blueprint: Blueprint
    offer: Offer
    subnet_id: str
    least: int
    most: int


class Instances:
    """Answers the actions on instances for which moto's response would be wrong."""

    def __init__(
        self,
        moto: Moto,
        launcher: Launcher,
        lifecycles: Lifecycles,
        runtime: InstanceRuntime,
        groups: SecurityGroups,
        account: Account,
    ) -> None:
        self._moto = moto
        self._account = account
        self._launcher = launcher
        self._lifecycles = lifecycles
        self._runtime = runtime
        self._groups = groups

    async def run(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """RunInstances: fewer than MaxCount where the rest cannot be had, never below MinCount."""
        plan = await self._plan(parameters)
        count, error = self._launcher.available(plan.blueprint, plan.offer, plan.most)
        if error is not None and count < plan.least:
            raise error
        return await self._launcher.launch(
            plan.blueprint,
            plan.offer,
            plan.subnet_id,
            count,
            client_token=parameters.get("ClientToken"),
        )

    async def check_run(self, parameters: Mapping[str, Any]) -> None:
        """What a dry run of RunInstances validates: ids and types, not capacity."""
        await self._plan(parameters)

    def check_exist(self, parameters: Mapping[str, Any]) -> None:
        """Raises `InvalidInstanceID.NotFound` for the first id that does not exist."""
        self._lifecycles.get_all(parameters.get("InstanceIds") or ())

    async def _plan(self, parameters: Mapping[str, Any]) -> _Plan:
        call = dict(parameters)
        specification = call.pop("LaunchTemplate", None)
        template = await self._launcher.template_data(specification) if specification else None
        tags = tag_specifications(call.pop("TagSpecifications", ()))
        blueprint = await self._launcher.blueprint(call, template, tags)
        merged = blueprint.parameters
        placement = merged.get("Placement") or {}
        subnet_id, zone = await self._launcher.subnet_for(
            merged.get("SubnetId"), placement.get("AvailabilityZone")
        )
        market = "spot" if blueprint.market_type == "spot" else "on-demand"
        if market == "spot" and (refusal := await self._launcher.spot_refusal()) is not None:
            raise refusal
        await self._launcher.check_references(blueprint)
        offer = Offer(market, merged.get("InstanceType") or "m1.small", zone)
        instance_type_facts(offer.instance_type, self._moto.region)
        least, most = int(call.get("MinCount") or 0), int(call.get("MaxCount") or 0)
        if not 1 <= least <= most:
            raise EC2Error("InvalidParameterValue", "MinCount and MaxCount must be 1 or more.")
        return _Plan(blueprint, offer, subnet_id, least, most)

    async def page(
        self, parameters: Mapping[str, Any], hides: Callable[[str], bool]
    ) -> tuple[list[str], str | None]:
        """The instances of one page of DescribeInstances, without the ids that `hides` names, and
        the token of the next."""
        ids: Sequence[str] = parameters.get("InstanceIds") or ()
        page = pagination.asked("DescribeInstances", parameters)
        self._lifecycles.get_all(ids)
        found = await self._moto.run(lambda: self._select(parameters.get("Filters") or (), ids))
        rest = [each for each in found if each[0] >= page.start and not hides(each[1])]
        shown, after = rest[: page.size], rest[page.size :]
        return [name for _, name in shown], pagination.token_from(after[0][0]) if after else None

    def with_reservations(self, ids: Sequence[str], body: bytes) -> bytes:
        """DescribeInstances' answer, in XML, with the capacity reservations that moto lacks."""
        for instance_id in ids:
            if reservation := self._lifecycles.reservation_of(instance_id):
                element = f"<instanceId>{instance_id}</instanceId>"
                more = f"<capacityReservationId>{reservation}</capacityReservationId>"
                if self._lifecycles.get(instance_id).wish.in_block:
                    more += f"<instanceLifecycle>{BLOCK}</instanceLifecycle>"
                body = body.replace(element.encode(), f"{element}{more}".encode(), 1)
        return body

    async def terminate(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """TerminateInstances; terminated already is no error."""
        changes = self._change(parameters, self._lifecycles.terminate)
        return {"TerminatingInstances": changes}

    async def stop(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """StopInstances; raises `UnsupportedOperation` for a spot instance."""
        return {"StoppingInstances": self._change(parameters, self._lifecycles.stop)}

    async def start(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """StartInstances; raises `IncorrectInstanceState` while one is stopping, and what a launch
        of its type raises in this account."""
        for life in self._lifecycles.get_all(parameters.get("InstanceIds") or ()):
            self._account.check_launch(life.offer.instance_type)
        return {"StartingInstances": self._change(parameters, self._lifecycles.start)}

    async def modify_attribute(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """ModifyInstanceAttribute, of InstanceInitiatedShutdownBehavior or of Groups."""
        life = self._lifecycles.get(parameters.get("InstanceId", ""))
        asked = parameters.keys() - {"InstanceId", "DryRun"}
        if len(asked) > 1:
            message = "Fields for multiple attribute types specified"
            raise EC2Error("InvalidParameterCombination", message)
        if asked == {"Groups"}:
            await self._groups.set_of(life.instance_id, parameters["Groups"])
            return {}
        if asked != {"InstanceInitiatedShutdownBehavior"}:
            message = f"The embedded EC2 does not modify {', '.join(sorted(asked)) or 'nothing'}."
            raise EC2Error("UnsupportedOperation", message)
        behavior = parameters["InstanceInitiatedShutdownBehavior"].get("Value")
        self._lifecycles.set_shutdown_behavior(life, behavior)
        return {}

    async def reboot(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """RebootInstances; does nothing to an instance that is not running."""
        self._change(parameters, self._lifecycles.reboot)
        return {}

    async def console(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """GetConsoleOutput: the last 64 KiB, also of one that was terminated lately.

        Without `Latest`, what was posted a while after its last start or end; raises
        `UnsupportedOperation` for `Latest` of an instance type that is not on Nitro.
        """
        life = self._lifecycles.get(parameters.get("InstanceId", ""))
        consoles, instance = self._runtime.consoles, life.instance
        if parameters.get("Latest") not in (True, "true"):
            output = consoles.posted(life.instance_id)
        elif instance_type_facts(instance.instance_type, instance.region).is_nitro:
            output = await asyncio.to_thread(consoles.latest, life.instance_id)
        else:
            raise EC2Error(
                "UnsupportedOperation",
                "This instance type does not support retrieving the latest console logs. For "
                "supported instance types, see documentation.",
            )
        return {
            "InstanceId": life.instance_id,
            "Output": base64.b64encode(output).decode(),
            "Timestamp": datetime.now(UTC),
        }

    def _change(
        self, parameters: Mapping[str, Any], change: Callable[[Lifecycle], None]
    ) -> list[dict[str, Any]]:
        ids = parameters.get("InstanceIds")
        if not ids:
            raise EC2Error("InvalidParameterCombination", "No instances specified")
        changes = []
        for life in self._lifecycles.get_all(dict.fromkeys(ids)):
            before = life.state
            change(life)
            changes.append(
                {
                    "InstanceId": life.instance_id,
                    "CurrentState": {"Code": CODES[life.state], "Name": life.state},
                    "PreviousState": {"Code": CODES[before], "Name": before},
                }
            )
        return changes

    def _select(
        self, filters: Sequence[Mapping[str, Any]], ids: Sequence[str]
    ) -> list[tuple[int, str]]:
        """Matching instances in launch order, each with its permanent position."""
        by_name = {f.get("Name", ""): f.get("Values") or [] for f in filters}
        for_moto = {name: v for name, v in by_name.items() if name not in OWN_FILTERS}
        own = {name: v for name, v in by_name.items() if name in OWN_FILTERS}
        wanted = set(ids)
        try:
            matching = {
                shown
                for reservation in self._moto.backend.describe_instances(for_moto)
                for shown in reservation.instances
            }
        except NotImplementedError as error:
            message = f"The embedded EC2 does not do this: {error}"
            raise EC2Error("UnsupportedOperation", message) from error
        return [
            (life.position, life.instance_id)
            for life in self._lifecycles.all()
            if life.moto_instance in matching
            and (not wanted or life.instance_id in wanted)
            and all(OWN_FILTERS[name](life.moto_instance) in values for name, values in own.items())
        ]
