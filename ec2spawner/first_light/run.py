"""One run of `first-light`: preparation, the journey under its cap, and the end of everything."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
from rich.console import Console

from .. import data, terminal
from ..aws.ec2 import EC2Cloud
from ..check.finding import State
from ..check.hub_config import HubConfig
from ..check.run import check
from ..core.pricing.money import digits
from ..core.profiles.profiles import InstanceType
from ..provisioner.model.cloud import CloudError
from ..provisioner.store.read_only import peek
from ..provisioner.store.store import StoreError
from ..terminal import complain
from . import bundle, cleanup, plan
from .journey import Journey
from .overrides import HubSettings
from .plan import Leg
from .server import Server, StepFailed
from .steps import Steps
from .temporary_hub import HubDidNotStart, find_proxy, settings_of, temporary_hub
from .watch import SpendingWatch

T = TypeVar("T")

FAILED: Final = 1
NOT_STARTED: Final = 2


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


@dataclass(slots=True)
class FirstLight:
    """One run of the command."""

    request: Request
    folder: Path
    """Of the temporary hub; deleted at the end."""
    watch: SpendingWatch | None = None
    settings: HubSettings | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    """Consoles and journals, by their names in the bundle."""
    steps: Steps = field(init=False)

    def __post_init__(self) -> None:
        console = Console(stderr=self.request.json)
        self.steps = Steps(
            console, lambda: self.watch.usd() if self.watch else 0.0, quiet=self.request.json
        )

    async def run(self) -> int:
        """The exit status. Whatever happens to the journey, all that it created is deleted."""
        options = self.request.config.options
        cloud = EC2Cloud(options.region, options.endpoint_url or None)
        try:
            try:
                legs = await self._prepare(cloud)
            except (NotStarted, CloudError, StoreError) as error:
                complain("first-light", f"{error}. Nothing was started")
                return NOT_STARTED
            try:
                failure = await self._journey(cloud, legs)
            except asyncio.CancelledError:
                failure = "it was interrupted"
            left = await _to_the_end(self._clean_up(cloud))
            return await _to_the_end(self._report(failure, left))
        finally:
            await cloud.close()

    # --- before anything is started ---

    async def _prepare(self, cloud: EC2Cloud) -> list[Leg]:
        """What will be started. Raises `NotStarted`, `CloudError`, `StoreError`."""
        with self.steps.step("Check the configuration") as step:
            try:
                find_proxy()
            except HubDidNotStart as error:
                raise NotStarted(str(error)) from error
            step.said = await self._check()
        with self.steps.step("Verify that the account has nothing of this hub") as step:
            await self._refuse_a_hub_in_use(cloud)
        with self.steps.step("Choose instances") as step:
            legs = await self._legs(cloud)
            step.said = "\n".join(
                f"{', '.join(leg.instance_types[:3])}: at most ${digits(leg.usd)} (estimate)"
                for leg in legs
            )
        return legs

    async def _check(self) -> str:
        findings = await check(
            self.request.config, now=datetime.now(UTC), announce=self.steps.announce
        )
        bad = [each for each in findings if each.state is State.FAILED]
        if bad:
            said = "; ".join(f"{each.name}: {each.said}. Fix: {each.fix}" for each in bad[:3])
            raise NotStarted(f"`ec2spawner check` finds what cannot work: {said}")
        return f"nothing failed in {len(findings)} findings"

    async def _refuse_a_hub_in_use(self, cloud: EC2Cloud) -> None:
        options = self.request.config.options
        with suppress(StoreError):  # there is none before the hub's first start
            found = await peek(options.store_url, (), now=datetime.now(UTC))
            if found.hub_runs:
                raise NotStarted(
                    "this hub is running, and a second one would use its address and its name. "
                    "Fix: stop it, or try first-light with a configuration of its own"
                )
        there = await cleanup.remaining(cloud, options.hub_name, options.region)
        if there:
            raise NotStarted(
                f'the account has resources of the hub "{options.hub_name}": '
                f"{cleanup.words(there)}. first-light deletes everything of its hub at the end, so "
                "it refuses to begin. Fix: --EC2Spawner.hub_name=first-light, with permission for "
                "that name; or `ec2spawner reap`, where these were left over"
            )

    async def _legs(self, cloud: EC2Cloud) -> list[Leg]:
        options = self.request.config.options
        zones = sorted(set((await cloud.zones_of(options.subnets)).values()))
        offered, disk = await cloud.offerings(zones), options.disk_gib
        architecture, models = options.architecture, _gpu_models() if self.request.gpu else _NONE
        types = await self._priced(
            cloud, plan.candidates(data.instance_types(), offered, architecture, models)
        )
        try:
            legs = [plan.cpu_leg(types, offered, architecture, disk)]
            if self.request.gpu:
                legs.append(plan.gpu_leg(types, offered, architecture, disk, models))
            plan.check_cap(legs, self.request.max_usd)
        except (plan.NothingToStart, plan.OverCap) as error:
            raise NotStarted(str(error)) from error
        return legs

    async def _priced(self, cloud: EC2Cloud, names: list[str]) -> dict[str, InstanceType]:
        """The types with their current on-demand prices. Raises `NotStarted`."""
        bundled, region = data.instance_types(), self.request.config.options.region
        try:
            prices = await cloud.on_demand_prices(names)
        except CloudError as error:
            if region != data.PRICES_REGION:
                raise NotStarted(
                    f"the prices of {region} cannot be read ({error}), and without them no cap "
                    "holds. Fix: the permission pricing:GetProducts, or try again later"
                ) from error
            return {name: bundled[name] for name in names}
        return {
            name: replace(bundled[name], on_demand_usd_per_hour=prices.get(name)) for name in names
        }

    # --- the journey and its end ---

    async def _journey(self, cloud: EC2Cloud, legs: list[Leg]) -> str:
        """Why it failed; empty where every step held."""
        request, options = self.request, self.request.config.options
        self.watch = SpendingWatch(cloud, options.hub_name, tuple(legs), request.max_usd)
        base_url = request.config.api_path.removesuffix("hub/api")
        self.settings = settings_of(
            request.path,
            self.folder,
            base_url,
            [leg.profile() for leg in legs],
            plan.HOME_GIB,
            request.idle_seconds,
        )
        try:
            await self._under_cap(self.watch, legs)
        except (StepFailed, HubDidNotStart, CloudError, plan.OverCap) as error:
            return str(error)
        return ""

    async def _under_cap(self, watch: SpendingWatch, legs: list[Leg]) -> None:
        assert self.settings is not None
        headers = {"Authorization": f"token {self.settings.token}"}
        async with aiohttp.ClientSession(headers=headers) as http:
            server = Server(self.settings, http)
            journey = Journey(server, self.steps, watch, self.request.idle_seconds)
            survives = self.request.config.options.home.kind != "none"
            try:
                tasks = [
                    asyncio.create_task(watch.run()),
                    asyncio.create_task(self._on_hub(journey, legs, survives)),
                ]
                await _first(tasks)
            finally:
                self.texts = bundle.console_texts(journey.consoles, journey.journals)

    async def _on_hub(self, journey: Journey, legs: list[Leg], home_survives: bool) -> None:
        assert self.settings is not None
        async with AsyncExitStack() as running:
            with self.steps.step("Start a hub of its own"):
                hub = temporary_hub(self.settings, list(self.request.for_the_hub))
                await running.enter_async_context(hub)
            await journey.run(legs[0], legs[1] if len(legs) > 1 else None, home_survives)

    async def _clean_up(self, cloud: EC2Cloud) -> str:
        """What is left, in words; empty for nothing."""
        options = self.request.config.options
        if self.watch is not None:
            self.texts = {
                **bundle.console_texts(await self.watch.consoles(), ()),
                **self.texts,
            }
        try:
            with self.steps.step("Delete everything, and list that nothing is left") as step:
                left = await cleanup.delete_everything(
                    cloud, options.hub_name, options.region, self.steps.announce
                )
                if left:
                    raise StepFailed(cleanup.words(left))
                step.said = "no instance, volume, snapshot, network interface or launch template"
        except (CloudError, StepFailed) as error:
            return str(error)
        return ""

    async def _report(self, failure: str, left: str) -> int:
        request, now = self.request, datetime.now(UTC)
        spent = self.watch.usd() if self.watch else 0.0
        report = {
            "passed": not failure and not left,
            "failure": failure,
            "left": left,
            "usd": round(spent, 4),
            "steps": self.steps.as_json(),
            "versions": bundle.versions(),
        }
        path = bundle.bundle_path(request.output, now)
        redact = bundle.redaction_of(self.settings, request.config.options.hub_name)
        await asyncio.to_thread(bundle.write_bundle, path, redact, report, self.folder, self.texts)
        if request.json:
            sys.stdout.write(json.dumps({**report, "bundle": str(path)}) + "\n")
        else:
            self._print_end(failure, left, spent, path)
        return FAILED if failure or left else 0

    def _print_end(self, failure: str, left: str, spent: float, path: Path) -> None:
        console = self.steps.console
        console.print()
        cost = f"It cost about ${digits(spent)} (estimate)."
        if not failure and not left:
            console.print(terminal.text(f"Every step held. {cost}", "bold green"))
        if failure:
            console.print(terminal.text(f"It failed: {failure}", "bold red"))
            console.print(terminal.text(cost))
        if left:
            console.print(
                terminal.text(
                    f"NOT DELETED, and it costs money: {left}. Delete it in the EC2 console.",
                    "bold red",
                )
            )
        console.print(terminal.text(f"For a bug report, redacted; read it first: {path}"))


async def _first(tasks: list[asyncio.Task[None]]) -> None:
    """Wait until one ends, cancel the others, and raise what it raised."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """What the work returns: further signals do not interrupt it."""
    task = asyncio.create_task(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


_NONE: Final[frozenset[str]] = frozenset()


def _gpu_models() -> frozenset[str]:
    """GPUs with tensor cores: current drivers support no older ones."""
    return frozenset(each.ec2_name for each in data.gpu_models() if each.fp16_tflops)
