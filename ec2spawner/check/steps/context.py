"""What every step works with."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from ...aws.calls.client import Client
from ...aws.ec2 import EC2Cloud
from ...config import Options
from ...provisioner.model.cloud.cloud import CloudError
from ..facts.account import Account
from ..finding import Finding, unproved
from ..hub_config import HubConfig
from ..topics import Topic
from ..verdicts.refusals import refused

T = TypeVar("T")

LATER: Final = "try again in a few minutes"


@dataclass(frozen=True, slots=True)
class Context:
    """One check of one configuration."""

    config: HubConfig
    cloud: EC2Cloud
    now: datetime

    @property
    def options(self) -> Options:
        """The hub's options, with defaults in place of invalid ones."""
        return self.config.options

    @property
    def client(self) -> Client:
        """Calls to AWS."""
        return self.cloud.client

    @property
    def account(self) -> Account:
        """What can be read of the account."""
        return Account(self.cloud.client)

    @property
    def installs_at_boot(self) -> bool:
        """Whether instances boot an image without ec2spawner."""
        return self.options.image.is_stock

    def invalid(self, topic: Topic, *options: str) -> Finding | None:
        """The finding that these options must be fixed first; None where they are valid."""
        wrong = sorted(self.config.unsound & set(options))
        if not wrong:
            return None
        return unproved(topic, f"not checked before c.EC2Spawner.{wrong[0]} is fixed")


async def ask(findings: list[Finding], topic: Topic, call: Awaitable[T], fix: str) -> T | None:
    """The response to a call; None if it failed, which is a finding then."""
    try:
        return await call
    except CloudError as error:
        findings.append(refused(topic, error, fix))
        return None


async def answer(call: Awaitable[T]) -> tuple[T | None, CloudError | None]:
    """The response to a call, or why there is none."""
    try:
        return await call, None
    except CloudError as error:
        return None, error
