"""CreateFleet of type `instant`: which offers serve it, and the launches that follow.

`plan` decides and is pure; `Fleets` turns its decision into explicit launches, because moto's
own CreateFleet drops most of the launch template and always takes the first override.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .capacity import Offer
from .launch import Blueprint, Launcher, tag_specifications
from .prices import SpotPrices, on_demand_price
from .protocol import EC2Error

SPOT_STRATEGIES = ("lowest-price", "price-capacity-optimized", "capacity-optimized")
ON_DEMAND_STRATEGIES = ("lowest-price", "prioritized")
MAX_LAUNCH = 1000
"""Instances in one request; AWS's default limit on an instant fleet is far above our use."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One override, as an offer in the market that the plan is for."""

    offer: Offer
    subnet_id: str
    override: Mapping[str, Any]
    price: float | None
    """USD/hour; an unknown price sorts last."""
    template: int = 0
    """Which of the request's launch templates it belongs to."""


@dataclass(frozen=True, slots=True)
class Allocation:
    candidate: Candidate
    count: int


@dataclass(frozen=True, slots=True)
class Refused:
    candidate: Candidate
    error: EC2Error


def plan(
    candidates: Sequence[Candidate],
    wanted: int,
    strategy: str,
    room: Callable[[Offer, int], int],
    check: Callable[[Candidate, int], None],
    sold_out: Callable[[Offer], EC2Error],
) -> tuple[list[Allocation], list[Refused]]:
    """Spread `wanted` instances over the candidates, the strategy's favourite first.

    `room` says how many of a number an offer has places for, `check` raises where an offer
    cannot be had at all. Candidates after the last one needed are not tried, and so not refused.
    """
    allocations: list[Allocation] = []
    refused: list[Refused] = []
    missing = wanted
    for candidate in _ordered(candidates, wanted, strategy, room):
        if missing == 0:
            break
        count = room(candidate.offer, missing)
        error: EC2Error | None = sold_out(candidate.offer) if count == 0 else None
        if error is None:
            try:
                check(candidate, count)
            except EC2Error as found:
                error = found
        if error is not None:
            refused.append(Refused(candidate, error))
            continue
        allocations.append(Allocation(candidate, count))
        missing -= count
    return allocations, refused


def _ordered(
    candidates: Sequence[Candidate],
    wanted: int,
    strategy: str,
    room: Callable[[Offer, int], int],
) -> list[Candidate]:
    def price(candidate: Candidate) -> float:
        return candidate.price if candidate.price is not None else float("inf")

    if strategy == "prioritized":
        return sorted(
            candidates,
            key=lambda c: (
                float(c.override.get("Priority", float("inf"))),
                room(c.offer, wanted) < wanted,
            ),
        )
    if strategy == "lowest-price":
        return sorted(candidates, key=price)
    # By capacity first: offers that cannot serve the whole request come after those that can.
    return sorted(candidates, key=lambda c: (room(c.offer, wanted) < wanted, price(c)))


class Fleets:
    """Answers CreateFleet."""

    def __init__(self, launcher: Launcher, prices: SpotPrices) -> None:
        self._launcher = launcher
        self._prices = prices

    async def create(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        if parameters.get("Type", "maintain") != "instant":
            raise EC2Error("UnsupportedOperation", "The embedded EC2 has fleets of type instant.")
        targets = _targets(parameters.get("TargetCapacitySpecification") or {})
        tags = tag_specifications(parameters.get("TagSpecifications", ()))
        configs = parameters.get("LaunchTemplateConfigs") or []
        if not configs:
            raise EC2Error(
                "MissingParameter", "The request must contain the parameter LaunchTemplateConfigs"
            )
        templates = [
            await self._launcher.template_data(config.get("LaunchTemplateSpecification") or {})
            for config in configs
        ]
        fleet_id = f"fleet-{uuid.uuid4()}"
        answer: dict[str, Any] = {"FleetId": fleet_id, "Instances": [], "Errors": []}
        for market, wanted in targets.items():
            if wanted:
                await self._buy(parameters, templates, tags, market, wanted, answer)
        return answer

    async def _buy(
        self,
        parameters: Mapping[str, Any],
        templates: Sequence[Mapping[str, Any]],
        tags: Mapping[str, Mapping[str, str]],
        market: str,
        wanted: int,
        answer: dict[str, Any],
    ) -> None:
        blueprints = [await self._launcher.blueprint({}, t, tags) for t in templates]
        candidates = [
            candidate
            for index, config in enumerate(parameters["LaunchTemplateConfigs"])
            for candidate in await self._candidates(config, index, blueprints[index], market)
        ]
        allocations, refused = plan(
            candidates,
            wanted,
            _strategy(parameters, market),
            self._launcher.room_for,
            lambda candidate, count: self._check(candidate, blueprints, count),
            self._launcher.sold_out,
        )
        for allocation in allocations:
            candidate = allocation.candidate
            try:
                launched = await self._launcher.launch(
                    blueprints[candidate.template],
                    candidate.offer,
                    candidate.subnet_id,
                    allocation.count,
                    fleet_id=answer["FleetId"],
                )
            except EC2Error as error:
                refused.append(Refused(candidate, error))
                continue
            answer["Instances"].append(
                {
                    "LaunchTemplateAndOverrides": _which(candidate, templates),
                    "Lifecycle": market,
                    "InstanceIds": [i["InstanceId"] for i in launched["Instances"]],
                    "InstanceType": candidate.offer.instance_type,
                    "AvailabilityZone": candidate.offer.zone,
                    "SubnetId": candidate.subnet_id,
                }
            )
        answer["Errors"] += [
            {
                "LaunchTemplateAndOverrides": _which(refusal.candidate, templates),
                "Lifecycle": market,
                "ErrorCode": refusal.error.code,
                "ErrorMessage": refusal.error.message,
            }
            for refusal in refused
        ]

    async def _candidates(
        self, config: Mapping[str, Any], template: int, blueprint: Blueprint, market: str
    ) -> list[Candidate]:
        now = datetime.now(UTC)
        candidates = []
        for override in config.get("Overrides") or [{}]:
            instance_type = override.get("InstanceType") or blueprint.parameters.get("InstanceType")
            if not instance_type:
                raise EC2Error("MissingParameter", "An override has no InstanceType.")
            subnet_id, zone = await self._launcher.subnet_for(
                override.get("SubnetId") or blueprint.parameters.get("SubnetId"),
                override.get("AvailabilityZone"),
            )
            price = (
                self._prices.price(instance_type, zone, now)
                if market == "spot"
                else on_demand_price(instance_type)
            )
            offer = Offer(market, instance_type, zone)
            candidates.append(Candidate(offer, subnet_id, override, price, template))
        return candidates

    def _check(self, candidate: Candidate, blueprints: Sequence[Blueprint], count: int) -> None:
        self._launcher.check_offer(blueprints[candidate.template], candidate.offer, count)
        maximum = candidate.override.get("MaxPrice")
        if candidate.offer.market != "spot" or not maximum or candidate.price is None:
            return
        if float(maximum) < candidate.price:
            raise EC2Error(
                "SpotMaxPriceTooLow",
                f"Your Spot request price of {maximum} is lower than the minimum required Spot "
                f"request fulfillment price of {candidate.price}.",
            )


def _targets(specification: Mapping[str, Any]) -> dict[str, int]:
    """Market -> instances wanted: what the total has beyond both markets is the default's."""
    targets = {
        "on-demand": int(specification.get("OnDemandTargetCapacity") or 0),
        "spot": int(specification.get("SpotTargetCapacity") or 0),
    }
    default = specification.get("DefaultTargetCapacityType", "on-demand")
    total = int(specification.get("TotalTargetCapacity") or 0)
    if default not in targets or not 0 < total <= MAX_LAUNCH or sum(targets.values()) > total:
        raise EC2Error("InvalidParameterValue", "TargetCapacitySpecification is invalid.")
    targets[default] += total - sum(targets.values())
    return targets


def _strategy(parameters: Mapping[str, Any], market: str) -> str:
    options, known = (
        (parameters.get("SpotOptions"), SPOT_STRATEGIES)
        if market == "spot"
        else (parameters.get("OnDemandOptions"), ON_DEMAND_STRATEGIES)
    )
    strategy = str((options or {}).get("AllocationStrategy", "lowest-price"))
    if strategy not in known:
        raise EC2Error(
            "UnsupportedOperation",
            f"The embedded EC2 allocates {market} by {', '.join(known)}; not by {strategy}.",
        )
    return strategy


def _which(candidate: Candidate, templates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    template = templates[candidate.template]
    override = {k: v for k, v in candidate.override.items() if v is not None}
    override.setdefault("InstanceType", candidate.offer.instance_type)
    override.setdefault("AvailabilityZone", candidate.offer.zone)
    return {
        "LaunchTemplateSpecification": {
            "LaunchTemplateId": template["LaunchTemplateId"],
            "Version": str(template["VersionNumber"]),
        },
        "Overrides": override,
    }
