"""Launches: one CreateFleet of type `instant`, from a launch template named by its content.

The functions are pure: a request makes the same call every time, which a replay after a crash
depends on (EC2 compares the parameters of a call whose ClientToken it knows).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final

from ...core.offers.launch_errors import TEMPLATE_GONE, LaunchError, code_of
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.cloud.launch import FleetResponse, Launched, LaunchRequest
from ...wire import Market
from ..calls.client import Answer, Client, entries
from ..tags import to_ec2
from .capacity_reservations import BLOCK
from .templates import Templates

PAUSES: Final = (0.2, 0.4, 0.8, 1.6)
"""Seconds between calls with a template that EC2 does not know yet; then `LAST_PAUSE`."""
LAST_PAUSE: Final = 3.0


class Fleets:
    """Launch calls with the templates they need, and the zones, which never change."""

    def __init__(self, client: Client, templates: Templates) -> None:
        self._client = client
        self._templates = templates
        self._zones: dict[str, str] = {}

    async def zones_of(self, subnets: Sequence[str]) -> dict[str, str]:
        """Subnet id -> availability zone; read once."""
        unknown = [subnet for subnet in dict.fromkeys(subnets) if subnet not in self._zones]
        if unknown:
            zone = entries("Subnets", lambda each: (each["SubnetId"], each["AvailabilityZone"]))
            self._zones |= await self._client.call("describe_subnets", zone, SubnetIds=unknown)
        return {subnet: self._zones[subnet] for subnet in subnets}

    async def launch(self, request: LaunchRequest) -> FleetResponse:
        """One CreateFleet call; more only where EC2 refuses it because of an unknown template.

        It does not know a new one for some seconds: the call is repeated with pauses. One that
        someone has deleted is created again, once. Raises `CloudError`.

        If the template is unknown in a *response*, EC2 may have recorded that under the token. It
        is returned as it is: another token is another request, which the caller stores first.
        """
        zones = await self.zones_of(request.spec.subnets)
        name = await self._ensure_template(request)
        call = fleet_request(request, name)
        created_again, pauses = False, chain(PAUSES, repeat(LAST_PAUSE))
        while True:
            try:
                answer = await self._create_fleet(call, request.market, zones)
            except CloudError as error:
                if error.code not in TEMPLATE_GONE:
                    raise
                if self._templates.is_new(name):
                    await asyncio.sleep(next(pauses))
                    continue
                if created_again:
                    raise
                created_again = True
                self._templates.forget(name)
                await self._ensure_template(request)
                continue
            if _lacks_template(answer) and not self._templates.is_new(name):
                self._templates.forget(name)
            return answer

    async def _ensure_template(self, request: LaunchRequest) -> str:
        return await self._templates.ensure(
            request.spec, request.tags, request.reservation, is_block=request.is_block
        )

    async def _create_fleet(
        self, call: Mapping[str, Any], market: Market, zones: Mapping[str, str]
    ) -> FleetResponse:
        # One attempt: InsufficientInstanceCapacity comes as an HTTP 500, which botocore repeats.
        return await self._client.call(
            "create_fleet", lambda answer: launch_answer(answer, market, zones), attempts=1, **call
        )


def fleet_request(request: LaunchRequest, template: str) -> dict[str, Any]:
    """CreateFleet's parameters. No minimum is set, because fewer instances help too.

    A capacity reservation is the template's, and no `CapacityReservationOptions` is set: with it,
    a fleet prefers any open reservation of the account, and uses no template that targets one.
    """
    tags = to_ec2(request.tags)
    call: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": request.client_token,
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": request.count,
            "DefaultTargetCapacityType": BLOCK if request.is_block else request.market.value,
        },
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": template, "Version": "1"},
                "Overrides": _overrides(request),
            }
        ],
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tags} for kind in ("fleet", "instance", "volume")
        ],
    }
    if request.market is Market.SPOT:
        call["SpotOptions"] = {"AllocationStrategy": "price-capacity-optimized"}
    elif not request.is_block:  # a block is one offer: it needs no strategy
        # Unlike `lowest-price`, our order of types takes discounts into account.
        call["OnDemandOptions"] = {"AllocationStrategy": "prioritized"}
    return call


def _overrides(request: LaunchRequest) -> list[dict[str, Any]]:
    """The request's offers in its order.

    On-demand, the zones of a type share its priority, so that EC2 picks the zone with capacity;
    zones that EC2 has named as having capacity come first.
    """
    overrides: list[dict[str, Any]] = []
    priorities: dict[tuple[bool, str], int] = {}
    for place, (instance_type, subnet) in enumerate(request.offers):
        override: dict[str, Any] = {"InstanceType": instance_type, "SubnetId": subnet}
        if request.market is Market.ON_DEMAND and not request.is_block:
            group = place < request.preferred, instance_type
            override["Priority"] = float(priorities.setdefault(group, len(priorities)))
        overrides.append(override)
    return overrides


def launch_answer(answer: Answer, market: Market, zones: Mapping[str, str]) -> FleetResponse:
    """The instances and the errors of CreateFleet's response, which can have both."""
    return FleetResponse(
        instances=tuple(
            _launched(group, instance_id, market, zones)
            for group in answer.get("Instances", ())
            for instance_id in group.get("InstanceIds", ())
        ),
        errors=tuple(_error(error, zones) for error in answer.get("Errors", ())),
    )


def _launched(
    group: Mapping[str, Any], instance_id: str, market: Market, zones: Mapping[str, str]
) -> Launched:
    override = _override_of(group)
    return Launched(
        instance_id=instance_id,
        instance_type=group.get("InstanceType") or override.get("InstanceType", ""),
        zone=_zone(override, zones),
        market=_market(group.get("Lifecycle"), market),
    )


def _market(lifecycle: str | None, asked: Market) -> Market:
    """EC2 has lifecycles that are no market of ours, such as that of Capacity Blocks."""
    return Market(lifecycle) if lifecycle in set(Market) else asked


def _error(error: Mapping[str, Any], zones: Mapping[str, str]) -> LaunchError:
    override, message = _override_of(error), error.get("ErrorMessage", "")
    return LaunchError(
        code=code_of(error.get("ErrorCode") or "Unknown", message),
        message=message,
        instance_type=override.get("InstanceType", ""),
        subnet=override.get("SubnetId", ""),
        zone=_zone(override, zones),
    )


def _override_of(group: Mapping[str, Any]) -> Mapping[str, Any]:
    override: Mapping[str, Any] = group.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    return override


def _zone(override: Mapping[str, Any], zones: Mapping[str, str]) -> str:
    return override.get("AvailabilityZone") or zones.get(override.get("SubnetId", ""), "")


def _lacks_template(answer: FleetResponse) -> bool:
    """Whether EC2 launched nothing because it does not know the template."""
    return not answer.instances and any(error.code in TEMPLATE_GONE for error in answer.errors)
