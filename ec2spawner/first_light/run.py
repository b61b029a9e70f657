"""One run of `first-light`: preparation, the journey under its cap, and the end of everything."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import aiohttp
from rich.console import Console

from ..aws.calls import call_log
from ..aws.ec2 import EC2Cloud
from ..check.facts.account import Account
from ..core.pricing.money import digits
from ..provisioner.model.cloud.cloud import CloudError
from ..provisioner.store.store import Store, StoreError
from ..reserved_ports import reserved_ports
from ..terminal import complain
from . import bundle, cleanup
from .cleanup import Owner, Waits
from .earlier_runs import delete_remains
from .hub.overrides import HubSettings
from .hub.server import Server, StepFailed
from .hub.temporary_hub import HubDidNotStart, settings_of, temporary_hub
from .journey import Journey
from .plan import OverCap
from .preparation import NotStarted, Prepared, Request, prepare
from .run_folder import FolderUnusable, Run, RunFolder, interrupted
from .steps import Steps
from .watch import SpendingWatch

log = logging.getLogger(__name__)

T = TypeVar("T")

FAILED: Final = 1
NOT_STARTED: Final = 2

EXPECTED: Final = (StepFailed, HubDidNotStart, CloudError, OverCap)
"""Errors whose messages are for people."""


@dataclass(slots=True)
class FirstLight:
    """One run of the command."""

    request: Request
    folder: RunFolder
    waits: Waits
    watch: SpendingWatch | None = None
    journey: Journey | None = None
    settings: HubSettings | None = None
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
                store_id = await self._own_store()
                call_log.record_to(self.folder.path / "calls.jsonl", store_id)
                await delete_remains(interrupted(), self.steps, self.waits)
                prepared = await prepare(self.request, cloud, self.steps)
                owner = await self._remember(cloud, store_id)
            except (NotStarted, FolderUnusable, CloudError, StoreError) as error:
                said = str(error).removesuffix(".")  # AWS's messages are sentences
                complain("first-light", f"{said}. Nothing was started")
                self.folder.close(delete=True)
                return NOT_STARTED
            failure = await self._journey(cloud, prepared, owner)
            return await _to_the_end(self._end(cloud, owner, failure))
        finally:
            await cloud.close()

    async def _own_store(self) -> str:
        """Id of an empty store for the temporary hub: known before anything exists."""
        url = f"sqlite:///{self.folder.path}/ec2spawner.sqlite"
        store = await Store.open(url, now=datetime.now(UTC))
        store_id = store.store_id
        await store.close()
        return store_id

    async def _remember(self, cloud: EC2Cloud, store_id: str) -> Owner:
        """Record for the next run what this one creates, should it be killed."""
        options = self.request.config.options
        caller = await Account(cloud.client).caller()
        run = Run(
            account_id=caller.account_id,
            region=options.region,
            endpoint_url=options.endpoint_url,
            hub_name=options.hub_name,
            store_id=store_id,
        )
        await asyncio.to_thread(self.folder.write, run)
        return Owner(options.hub_name, store_id)

    # --- the journey ---

    async def _journey(self, cloud: EC2Cloud, prepared: Prepared, owner: Owner) -> str:
        """Why it failed; empty where every step held."""
        request = self.request
        self.watch = SpendingWatch(cloud, owner, prepared.legs, request.max_usd)
        try:
            with reserved_ports(2) as ports:
                self.settings = settings_of(
                    request.path,
                    request.for_the_hub,
                    self.folder.path,
                    owner.store_id,
                    request.config.api_path.removesuffix("hub/api"),
                    ports,
                    prepared.legs,
                    prepared.subnets,
                    request.idle_seconds,
                )
                await self._under_cap(self.watch, self.settings, prepared)
        except asyncio.CancelledError:
            return "it was interrupted"
        except EXPECTED as error:
            return str(error)
        except Exception as error:
            # Whatever it is, what was created has to be deleted.
            log.exception("the journey failed")
            return f"first-light itself failed: {error!r}. Please report it with the bundle"
        return ""

    async def _under_cap(
        self, watch: SpendingWatch, settings: HubSettings, prepared: Prepared
    ) -> None:
        headers = {"Authorization": f"token {settings.token}"}
        async with aiohttp.ClientSession(headers=headers) as http:
            server = Server(settings, http)
            self.journey = Journey(server, self.steps, watch, self.request.idle_seconds)
            await _first(
                [
                    asyncio.create_task(watch.run()),
                    asyncio.create_task(self._on_hub(self.journey, settings, prepared)),
                ]
            )

    async def _on_hub(self, journey: Journey, settings: HubSettings, prepared: Prepared) -> None:
        async with AsyncExitStack() as running:
            with self.steps.step("Start a hub of its own"):
                await running.enter_async_context(temporary_hub(settings))
            cpu, *more = prepared.legs
            home = self.request.config.options.home.kind
            await journey.run(cpu, more[0] if more else None, home)

    # --- the end ---

    async def _end(self, cloud: EC2Cloud, owner: Owner, failure: str) -> int:
        """Delete everything first, say so, and write the bundle last."""
        settled = self.waits.unsettled if failure else self.waits.settled
        left = await self._delete(cloud, owner, settled)
        self._say(failure, left)
        consoles = await self.watch.consoles() if self.watch else {}
        bundle_path = await asyncio.to_thread(self._write_bundle, failure, left, consoles)
        self.folder.close(delete=not left)
        if self.request.json:
            report = {**self._report(failure, left), "bundle": bundle_path}
            sys.stdout.write(json.dumps(report) + "\n")
        elif bundle_path:
            self.steps.say(f"For a bug report, redacted; read it first: {bundle_path}")
        return FAILED if failure or left else 0

    async def _delete(self, cloud: EC2Cloud, owner: Owner, settled: float) -> str:
        """What is left, in words; empty for nothing."""
        try:
            with self.steps.step("Delete everything, and list that nothing is left") as step:
                left = await cleanup.delete_everything(
                    cloud, owner, self.steps.announce, settled, self.waits
                )
                if left:
                    raise StepFailed(left)
                step.said = "no instance, volume, snapshot, network interface or launch template"
        except StepFailed as error:
            return str(error)
        return ""

    def _say(self, failure: str, left: str) -> None:
        usd = self.watch.usd() if self.watch else 0.0
        cost = f"It cost about ${digits(usd)} (estimate)."
        self.steps.say("")
        if not failure and not left:
            self.steps.say(f"Every step held. {cost}", "bold green")
        if failure:
            self.steps.say(f"It failed: {failure}", "bold red")
            self.steps.say(cost)
        if left:
            self.steps.say(
                f"NOT DELETED, and it costs money: {left}. Delete it in the EC2 console, or run "
                "first-light again: it deletes this first.",
                "bold red",
            )

    def _report(self, failure: str, left: str) -> dict[str, Any]:
        return {
            "passed": not failure and not left,
            "failure": failure,
            "left": left,
            "usd": round(self.watch.usd(), 4) if self.watch else 0.0,
            "steps": self.steps.as_json(),
            "versions": bundle.versions(),
        }

    def _write_bundle(self, failure: str, left: str, consoles: Mapping[str, str]) -> str:
        """Its path; empty, with a complaint, where it cannot be written. Blocks."""
        journey = self.journey
        known = dict(journey.consoles) if journey else {}
        known |= {instance_id: text for instance_id, text in consoles.items() if text}
        texts = bundle.console_texts(known, journey.journals if journey else ())
        path = bundle.bundle_path(self.request.output, datetime.now(UTC))
        try:
            redact = bundle.redaction_of(self.settings, self._hosts())
            report = self._report(failure, left)
            bundle.write_bundle(path, redact, report, self.folder.path, texts)
        except Exception as error:
            log.exception("no bundle")
            complain("first-light", f"the bundle {path} was not written: {error!r}")
            return ""
        return str(path)

    def _hosts(self) -> list[str]:
        """Names of the hub's own host, which may be secret."""
        return [host for host in (urlsplit(self.request.config.api_url).hostname,) if host]


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
