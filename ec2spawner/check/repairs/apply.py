"""Makes repairs, with the credentials of whoever runs the check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ...aws.billing.prices import NOT_PERMITTED
from ...aws.calls.client import Client, Timeouts
from ...config import Options
from ...provisioner.model.cloud.cloud import CloudError
from .plan import Repair, done_before

Ask = Callable[[Repair], bool]
"""Whether to make a repair; asks a person, or answers for them."""

TIMEOUTS = Timeouts(read=20, total=40)
"""IAM and Service Quotas take seconds to write."""


class Result(StrEnum):
    """What became of a repair."""

    DONE = "done"
    DONE_BEFORE = "done before"
    DECLINED = "declined"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A repair and what became of it."""

    repair: Repair
    result: Result
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """The keys that `--fix --json` promises."""
        return {
            "what": self.repair.what,
            "result": self.result,
            "error": self.error,
            "command": self.repair.command,
        }


async def make_repairs(options: Options, repairs: Sequence[Repair], ask: Ask) -> list[Outcome]:
    """One after the other; raises nothing of AWS's. `ask` may wait for a person.

    Of alternatives, those after one that was made are left out.
    """
    client = Client(options.region, options.endpoint_url or None, TIMEOUTS)
    outcomes: list[Outcome] = []
    made: set[str] = set()
    try:
        for repair in repairs:
            if repair.one_of in made:
                continue
            if not ask(repair):
                outcomes.append(Outcome(repair, Result.DECLINED))
                continue
            outcome = await _make(client, repair)
            outcomes.append(outcome)
            if repair.one_of and outcome.result in (Result.DONE, Result.DONE_BEFORE):
                made.add(repair.one_of)
    finally:
        await client.close()
    return outcomes


async def _make(client: Client, repair: Repair) -> Outcome:
    try:
        await client.call(
            repair.operation, lambda _: None, service=repair.service, **repair.parameters
        )
    except CloudError as error:
        if done_before(error):
            return Outcome(repair, Result.DONE_BEFORE, error.code)
        result = Result.DENIED if error.code in NOT_PERMITTED else Result.FAILED
        return Outcome(repair, result, f"{error.code}: {error.message}")
    return Outcome(repair, Result.DONE)
