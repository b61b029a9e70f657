"""What is decided before anything is started: whether it can work, where, and what it may cost."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from .. import data
from ..aws.ec2 import EC2Cloud
from ..check.finding import Finding, State
from ..check.hub_config import HubConfig
from ..check.run import check
from ..check.steps.context import Context
from ..check.steps.image import check_driver, check_image
from ..check.steps.profiles import check_profiles
from ..config import Profile
from ..core.pricing.money import digits
from ..core.profiles.profiles import InstanceType
from ..provisioner.model.cloud.cloud import CloudError
from ..provisioner.model.cloud.instance import InstanceState
from . import plan
from .hub.temporary_hub import HubDidNotStart, find_proxy
from .plan import Leg
from .steps import Steps

_NO_MODELS: Final[frozenset[str]] = frozenset()


class NotStarted(Exception):
    """Nothing was started; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for."""

    config: HubConfig
    path: Path
    """Of the admin's `jupyterhub_config.py`."""
    for_the_hub: tuple[str, ...]
    gpu: bool
    max_usd: float
    idle_seconds: float
    output: Path
    """The folder that the bundle is written to."""
    json: bool
    has_own_address: bool
    """Whether the command line gives the temporary hub another address than the hub's own."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is started: first without a GPU, then perhaps with one."""

    legs: tuple[Leg, ...]
    subnets: tuple[str, ...]
    """Those whose zones offer an instance of every leg: the home binds the server to its zone."""


async def prepare(request: Request, cloud: EC2Cloud, steps: Steps) -> Prepared:
    """Raises `NotStarted`, and `CloudError` where EC2 does not answer."""
    with steps.step("Check the configuration") as step:
        _find_proxy_and_port(request)
        step.said = await _check(request, steps)
        await check_that_no_server_runs(request, cloud)
    with steps.step("Choose instances") as step:
        prepared = await _choose(request, cloud)
        for leg in prepared.legs[1:]:
            await _check_gpu(request, cloud, leg)
        step.said = "\n".join(
            f"{', '.join(leg.instance_types[:3])}: at most ${digits(leg.usd)} (estimate)"
            for leg in prepared.legs
        )
    return prepared


def _find_proxy_and_port(request: Request) -> None:
    try:
        find_proxy()
    except HubDidNotStart as error:
        raise NotStarted(str(error)) from error
    config = request.config
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((config.bind_ip, config.bind_port))
        except OSError as error:
            raise NotStarted(
                f"the hub's address {config.bind_ip or '*'}:{config.bind_port} cannot be used: "
                f"{error.strerror}. Fix: stop the hub, or give another port with "
                "--JupyterHub.hub_bind_url=http://ADDRESS:PORT, which the security group of the "
                "hub must open to instances"
            ) from error


async def check_that_no_server_runs(request: Request, cloud: EC2Cloud) -> None:
    """Servers that outlive their hub report to its address: this hub would answer that it knows
    none of them, and refuse their users' logins. Raises `NotStarted`, and `CloudError`."""
    if request.has_own_address:
        return
    living = (InstanceState.PENDING, InstanceState.RUNNING)
    listed = await cloud.list_instances(request.config.options.hub_name)
    running = [each.instance_id for each in listed if each.state in living]
    if running:
        shown = ", ".join(running[:3]) + (", ..." if len(running) > 3 else "")
        raise NotStarted(
            f"{len(running)} instances of the hub run ({shown}): they would report to the "
            "temporary hub at the hub's address. Fix: stop the servers first, or give another "
            "port with --JupyterHub.hub_bind_url=http://ADDRESS:PORT, which the security group of "
            "the hub must open to instances"
        )


async def _check(request: Request, steps: Steps) -> str:
    """Raises `NotStarted` for what keeps an instance without a GPU from working."""
    config = _with_profile(request.config, plan.CPU_PROFILE)
    findings = await check(config, now=datetime.now(UTC), announce=steps.announce)
    _refuse(findings)
    return f"nothing failed in {len(findings)} findings"


async def _check_gpu(request: Request, cloud: EC2Cloud, leg: Leg) -> None:
    """Raises `NotStarted` where the account has no quota, or the image no driver, for the leg."""
    config = _with_profile(request.config, leg.profile())
    context = Context(config, cloud, datetime.now(UTC))
    zone_of = await cloud.zones_of(config.options.subnets)
    findings: list[Finding] = []
    image, resolved = await asyncio.gather(
        check_image(context, findings),
        check_profiles(context, config.options.profiles, sorted(set(zone_of.values())), findings),
    )
    check_driver(image, {leg.display_name: resolved.types.get(leg.slug, ())}, findings)
    _refuse(findings)


def _with_profile(config: HubConfig, profile: Mapping[str, Any]) -> HubConfig:
    """With this profile for one server: the admin's own may need what this journey does not."""
    only = (Profile.model_validate(profile),)
    options = config.options.model_copy(update={"profile_list": only})
    return replace(config, options=options, max_servers=1)


def _refuse(findings: Sequence[Finding]) -> None:
    bad = [each for each in findings if each.state is State.FAILED]
    if bad:
        said = "; ".join(f"{each.name}: {each.said}. Fix: {each.fix}" for each in bad[:3])
        raise NotStarted(f"it would fail: {said}")


async def _choose(request: Request, cloud: EC2Cloud) -> Prepared:
    options = request.config.options
    zone_of = await cloud.zones_of(options.subnets)
    offered = await cloud.offerings(sorted(set(zone_of.values())))
    models = _gpu_models() if request.gpu else _NO_MODELS
    named = plan.candidates(data.instance_types(), offered, options.architecture, models)
    types = await _priced(cloud, options.region, named)
    try:
        if request.gpu:
            gpu = plan.gpu_leg(types, offered, options.architecture, options.disk_gib, models)
            zones = frozenset[str]().union(*(offered[name] for name in gpu.instance_types))
            offered = {name: there & zones for name, there in offered.items()}
        cpu = plan.cpu_leg(
            types, offered, options.architecture, options.disk_gib, request.idle_seconds
        )
        legs = (cpu, gpu) if request.gpu else (cpu,)
        plan.check_cap(legs, request.max_usd)
    except (plan.NothingToStart, plan.OverCap) as error:
        raise NotStarted(str(error)) from error
    return Prepared(legs, _subnets(options.subnets, zone_of, offered, legs))


def _subnets(
    subnets: Sequence[str],
    zone_of: Mapping[str, str],
    offered: Mapping[str, frozenset[str]],
    legs: Sequence[Leg],
) -> tuple[str, ...]:
    def has_each_leg(zone: str) -> bool:
        return all(any(zone in offered[name] for name in leg.instance_types) for leg in legs)

    return tuple(each for each in subnets if has_each_leg(zone_of.get(each, "")))


async def _priced(cloud: EC2Cloud, region: str, names: Sequence[str]) -> dict[str, InstanceType]:
    """The types with their current on-demand prices. Raises `NotStarted`."""
    bundled = data.instance_types()
    try:
        prices = await cloud.on_demand_prices(names)
    except CloudError as error:
        if region != data.PRICES_REGION:
            raise NotStarted(
                f"the prices of {region} cannot be read ({error}), and without them no cap holds. "
                "Fix: the permission pricing:GetProducts, or try again later"
            ) from error
        return {name: bundled[name] for name in names}
    return {name: replace(bundled[name], on_demand_usd_per_hour=prices.get(name)) for name in names}


def _gpu_models() -> frozenset[str]:
    """GPUs with tensor cores: current drivers support no older ones."""
    return frozenset(each.ec2_name for each in data.gpu_models() if each.fp16_tflops)
