"""CreateFleet of type `instant`: the order of its offers, and the launches.

A fleet becomes explicit launches, because moto's own CreateFleet drops most of the launch template
and always takes the first override.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..api.protocol import EC2Error
from ..faults import Fault, Faults
from ..market.capacity import Offer
from ..market.prices import OnDemandPrices, SpotPrices
from ..market.reserved_places import BLOCK
from .blueprint import Blueprint, tag_specifications
from .launch import Launcher

SPOT_STRATEGIES = ("lowest-price", "price-capacity-optimized", "capacity-optimized")
ON_DEMAND_STRATEGIES = ("lowest-price", "prioritized")
MAX_SPECIFICATIONS = 300
"""Launch specifications of a fleet, overrides included: "Quotas for EC2 Fleet and Spot Fleet"."""
MAX_LAUNCH = 1000
"""Instances in one request; AWS's default limit on an instant fleet is far above our use."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One override, as an offer in the market of its plan."""

    offer: Offer
    subnet_id: str
    override: Mapping[str, Any]
    price: float | None
    """USD/hour; an unknown price sorts last."""
    template: int = 0
    """Which of the request's launch templates it belongs to."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """What a candidate provided of the instances requested from it."""

    candidate: Candidate
    instance_ids: Sequence[str]
    error: EC2Error | None
    """Why it provided fewer, or none."""


async def fill(
    candidates: Sequence[Candidate],
    wanted: int,
    buy: Callable[[Candidate, int], Awaitable[Purchase]],
) -> list[Purchase]:
    """Buy `wanted` instances from the candidates in order, the missing ones from each.

    Candidates after the last one needed are not tried, and so cause no errors.
    """
    purchases: list[Purchase] = []
    missing = wanted
    for candidate in candidates:
        if missing == 0:
            break
        try:
            purchase = await buy(candidate, missing)
        except EC2Error as error:
            purchase = Purchase(candidate, (), error)
        purchases.append(purchase)
        missing -= len(purchase.instance_ids)
    return purchases


def favourites_first(
    candidates: Sequence[Candidate],
    wanted: int,
    strategy: str,
    headroom: Callable[[Offer, int], int],
) -> list[Candidate]:
    """The candidates in the strategy's order; `headroom` is how many of a number an offer has."""

    def price(candidate: Candidate) -> float:
        return candidate.price if candidate.price is not None else math.inf

    def scarce(candidate: Candidate) -> bool:
        return headroom(candidate.offer, wanted) < wanted

    if strategy == "prioritized":
        return sorted(
            candidates, key=lambda c: (float(c.override.get("Priority", math.inf)), scarce(c))
        )
    if strategy == "lowest-price":
        return sorted(candidates, key=price)
    # By capacity first: offers that cannot serve the whole request come after those that can.
    return sorted(candidates, key=lambda c: (scarce(c), price(c)))


@dataclass(frozen=True, slots=True)
class _Plan:
    """The part of a request for one market."""

    candidates: Sequence[Candidate]
    """In the strategy's order."""
    wanted: int
    templates: Sequence[Mapping[str, Any]]
    blueprints: Sequence[Blueprint]


class Fleets:
    """Answers CreateFleet."""

    def __init__(
        self,
        launcher: Launcher,
        spot_prices: SpotPrices,
        on_demand_prices: OnDemandPrices,
        faults: Faults,
    ) -> None:
        self._launcher = launcher
        self._spot_prices = spot_prices
        self._on_demand_prices = on_demand_prices
        self._faults = faults

    async def create(
        self, parameters: Mapping[str, Any], refusal: EC2Error | None = None
    ) -> dict[str, Any]:
        """CreateFleet; raises EC2's errors if the whole request is invalid, before any launch.

        `refusal` is the error of every offer of a caller who may not launch instances.
        """
        plans = await self._plan(parameters)
        answer: dict[str, Any] = {"FleetId": f"fleet-{uuid.uuid4()}", "Instances": [], "Errors": []}
        fault = self._faults.next_entry_for("CreateFleet")
        for plan in plans:
            for purchase in await self._fill(plan, answer["FleetId"], fault, refusal):
                in_block = plan.blueprints[purchase.candidate.template].market_type == BLOCK
                lifecycle = BLOCK if in_block else purchase.candidate.offer.market
                _enter(purchase, plan.templates, lifecycle, answer)
        if answer["Instances"] and (reason := self._faults.next_termination_for("CreateFleet")):
            for group in answer["Instances"]:
                self._launcher.end_at_once(group["InstanceIds"], reason)
        return answer

    async def check(self, parameters: Mapping[str, Any]) -> None:
        """What a dry run validates: raises what `create` raises, and changes nothing."""
        await self._plan(parameters)

    async def _plan(self, parameters: Mapping[str, Any]) -> list[_Plan]:
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
        blueprints = [await self._launcher.blueprint({}, t, tags) for t in templates]
        _check_block(parameters, blueprints)
        plans = []
        for market, wanted in targets.items():
            if not wanted:
                continue
            candidates = [
                candidate
                for index, config in enumerate(configs)
                for candidate in await self._candidates(config, index, blueprints[index], market)
            ]
            _check_pools(candidates)
            ordered = favourites_first(
                candidates, wanted, _strategy(parameters, market), self._launcher.room_for
            )
            plans.append(_Plan(ordered, wanted, templates, blueprints))
        return plans

    async def _fill(
        self, plan: _Plan, fleet_id: str, fault: Fault | None, refusal: EC2Error | None
    ) -> list[Purchase]:
        ordered = plan.candidates
        if fault is not None:
            # Tried first, so that the fault occurs even if another offer would serve.
            ordered = sorted(ordered, key=lambda c: not fault.affects(c.offer))

        refusals = [refusal or await self._refusal(blueprint) for blueprint in plan.blueprints]
        has_spot = any(candidate.offer.market == "spot" for candidate in ordered)
        no_spot = await self._launcher.spot_refusal() if has_spot else None

        async def buy(candidate: Candidate, missing: int) -> Purchase:
            if fault is not None and fault.affects(candidate.offer):
                raise fault.entry()
            self._check_zone(candidate.offer)
            _check_price(candidate)
            if (error := refusals[candidate.template] or no_spot) is not None:
                raise error
            blueprint = plan.blueprints[candidate.template]
            count, error = self._launcher.available(blueprint, candidate.offer, missing)
            if count == 0:
                return Purchase(candidate, (), error)
            launched = await self._launcher.launch(
                blueprint, candidate.offer, candidate.subnet_id, count, fleet_id=fleet_id
            )
            ids = [instance["InstanceId"] for instance in launched["Instances"]]
            return Purchase(candidate, ids, error)

        return await fill(ordered, plan.wanted, buy)

    async def _refusal(self, blueprint: Blueprint) -> EC2Error | None:
        """The error of every offer of a template."""
        try:
            await self._launcher.check_references(blueprint)
        except EC2Error as error:
            return error
        return None

    def _check_zone(self, offer: Offer) -> None:
        """A fleet has its own code for RunInstances' `Unsupported`."""
        if offer.zone not in self._launcher.zones_with(offer.instance_type):
            raise EC2Error(
                "InvalidFleetConfiguration",
                f"Your requested instance type ({offer.instance_type}) is not supported in your "
                f"requested Availability Zone ({offer.zone}).",
            )

    async def _candidates(
        self, config: Mapping[str, Any], template: int, blueprint: Blueprint, market: str
    ) -> list[Candidate]:
        now = datetime.now(UTC)
        candidates = []
        for override in config.get("Overrides") or [{}]:
            if override.get("Placement"):
                message = "The embedded EC2 reads the placement of the launch template only."
                raise EC2Error("UnsupportedOperation", message)
            instance_type = override.get("InstanceType") or blueprint.parameters.get("InstanceType")
            if not instance_type:
                raise EC2Error("MissingParameter", "An override has no InstanceType.")
            subnet_id, zone = await self._launcher.subnet_for(
                override.get("SubnetId") or blueprint.parameters.get("SubnetId"),
                override.get("AvailabilityZone"),
            )
            price = (
                self._spot_prices.price(instance_type, zone, now)
                if market == "spot"
                else self._on_demand_prices.price(instance_type)
            )
            offer = Offer(market, instance_type, zone)
            candidates.append(Candidate(offer, subnet_id, override, price, template))
        return candidates


def _check_pools(candidates: Sequence[Candidate]) -> None:
    """Two subnets of one zone make the same pool, too.

    Which code EC2 gives to too many launch specifications is our assumption.
    """
    if len(candidates) > MAX_SPECIFICATIONS:
        raise EC2Error(
            "InvalidParameterValue",
            f"The request has {len(candidates)} launch specifications; at most "
            f"{MAX_SPECIFICATIONS} are allowed.",
        )
    if len({(each.template, each.offer) for each in candidates}) < len(candidates):
        raise EC2Error(
            "InvalidFleetConfig", "The fleet configuration contains duplicate instance pools."
        )


def _check_price(candidate: Candidate) -> None:
    maximum = candidate.override.get("MaxPrice")
    if candidate.offer.market != "spot" or not maximum or candidate.price is None:
        return
    if float(maximum) < candidate.price:
        raise EC2Error(
            "SpotMaxPriceTooLow",
            f"Your Spot request price of {maximum} is lower than the minimum required Spot "
            f"request fulfillment price of {candidate.price}.",
        )


def _enter(
    purchase: Purchase,
    templates: Sequence[Mapping[str, Any]],
    lifecycle: str,
    answer: dict[str, Any],
) -> None:
    """Add a purchase to CreateFleet's response, which may have both instances and errors."""
    candidate = purchase.candidate
    about = {
        "LaunchTemplateAndOverrides": _which(candidate, templates),
        "Lifecycle": lifecycle,
    }
    if purchase.instance_ids:
        answer["Instances"].append(
            {
                **about,
                "InstanceIds": list(purchase.instance_ids),
                "InstanceType": candidate.offer.instance_type,
                "AvailabilityZone": candidate.offer.zone,
                "SubnetId": candidate.subnet_id,
            }
        )
    if purchase.error is not None:
        code, message = purchase.error.code, purchase.error.message
        answer["Errors"].append({**about, "ErrorCode": code, "ErrorMessage": message})


def _targets(specification: Mapping[str, Any]) -> dict[str, int]:
    """Market -> instances wanted: the default market gets what the total exceeds both by."""
    targets = {
        "on-demand": int(specification.get("OnDemandTargetCapacity") or 0),
        "spot": int(specification.get("SpotTargetCapacity") or 0),
    }
    default = specification.get("DefaultTargetCapacityType", "on-demand")
    if default == BLOCK and not any(targets.values()):
        default = "on-demand"  # of whose offers a block's are
    total = int(specification.get("TotalTargetCapacity") or 0)
    if default not in targets or not 0 < total <= MAX_LAUNCH or sum(targets.values()) > total:
        raise EC2Error("InvalidParameterValue", "TargetCapacitySpecification is invalid.")
    targets[default] += total - sum(targets.values())
    return targets


def _check_block(parameters: Mapping[str, Any], blueprints: Sequence[Blueprint]) -> None:
    """Raises EC2's errors for a fleet and templates of which only one is for a Capacity Block, and
    for what a fleet for one cannot have. The first is our assumption."""
    target = parameters.get("TargetCapacitySpecification") or {}
    in_block = target.get("DefaultTargetCapacityType") == BLOCK
    if any((each.market_type == BLOCK) != in_block for each in blueprints):
        message = f"A fleet and its launch templates are of the market type {BLOCK}, or none is."
        raise EC2Error("InvalidParameterCombination", message)
    if in_block and len(blueprints) > 1:
        raise EC2Error("InvalidParameterCombination", "A fleet launches into one Capacity Block.")
    if in_block and (parameters.get("OnDemandOptions") or {}).get("CapacityReservationOptions"):
        message = f"CapacityReservationOptions cannot be specified with {BLOCK}."
        raise EC2Error("InvalidParameterCombination", message)


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
