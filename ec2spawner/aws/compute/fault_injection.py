"""A spot interruption on purpose, by AWS Fault Injection Service (FIS)."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Mapping
from typing import Any, Final

from ...provisioner.model.cloud.cloud import CloudError
from ..calls.client import UNREADABLE, Answer, Client

ACTION: Final = "aws:ec2:send-spot-instance-interruptions"

MIN_SECONDS: Final = 120.0
MAX_SECONDS: Final = 900.0
"""Until the interruption, from FIS's reference of the action. The notice comes two minutes before;
if there is more time, a rebalance recommendation comes at once."""

POLLS: Final = 15
POLL: Final = 2.0
"""Times and seconds between them: FIS resolves the instance and begins within a few seconds."""

RUNS: Final = frozenset({"running", "completed"})
FAILED: Final = frozenset({"failed", "cancelled"})
STOPPED: Final = frozenset({"stopping", "stopped"})
"""It was running before."""


class MayHaveBegun(CloudError):
    """FIS was asked to begin, and has not said that nothing came of it."""


async def interrupt_spot(
    client: Client, instance_id: str, seconds: float, role: str, tags: Mapping[str, str]
) -> None:
    """Have AWS interrupt a spot instance in `seconds`, in whole minutes.

    `role` is the ARN of the role that FIS uses, in the instance's account; `tags` are those of all
    that is created in FIS. Returns once the interruption is under way. Raises `CloudError`, with
    FIS's reason: `MayHaveBegun` where that is not known.
    """
    template = await client.call(
        "create_experiment_template",
        _id("experimentTemplate"),
        service="fis",
        tags=tags,
        **_template(client.region, instance_id, seconds, role),
    )
    try:
        try:
            experiment = await client.call(
                "start_experiment",
                _id("experiment"),
                service="fis",
                clientToken=str(uuid.uuid4()),
                experimentTemplateId=template,
                tags=tags,
            )
        except CloudError as error:
            if error.retryable or error.code == UNREADABLE:  # it may have taken effect
                raise _uncertain(error) from error
            raise
        await _until_it_runs(client, experiment)
    finally:
        # An experiment keeps its own copy of the template.
        await asyncio.shield(_delete(client, template))


def _uncertain(error: CloudError) -> MayHaveBegun:
    return MayHaveBegun(error.code, error.message, retryable=error.retryable)


async def refusal(client: Client) -> CloudError | None:
    """Why FIS does not answer this hub; None if it does."""
    try:
        await client.call("list_experiment_templates", lambda _: None, service="fis", maxResults=1)
    except CloudError as error:
        return error
    return None


def _template(region: str, instance_id: str, seconds: float, role: str) -> dict[str, Any]:
    _, partition, _, _, account, _ = role.split(":", 5)
    arn = f"arn:{partition}:ec2:{region}:{account}:instance/{instance_id}"
    minutes = math.ceil(min(max(seconds, MIN_SECONDS), MAX_SECONDS) / 60)
    return {
        "clientToken": str(uuid.uuid4()),
        "description": f"ec2spawner interrupt: {instance_id}",
        "roleArn": role,
        "stopConditions": [{"source": "none"}],
        "targets": {
            "server": {
                "resourceType": "aws:ec2:spot-instance",
                "resourceArns": [arn],
                "selectionMode": "ALL",
            }
        },
        "actions": {
            "interrupt": {
                "actionId": ACTION,
                "parameters": {"durationBeforeInterruption": f"PT{minutes}M"},
                "targets": {"SpotInstances": "server"},
            }
        },
    }


async def _until_it_runs(client: Client, experiment: str) -> None:
    for _ in range(POLLS):
        try:
            state = await client.call("get_experiment", _state, service="fis", id=experiment)
        except CloudError as error:
            raise _uncertain(error) from error
        if state.get("status") in RUNS:
            return
        reason = str(state.get("reason") or "FIS gives no reason")
        if state.get("status") in FAILED:
            raise CloudError("ExperimentFailed", reason, retryable=False)
        if state.get("status") in STOPPED:
            raise MayHaveBegun("ExperimentStopped", reason, retryable=False)
        await asyncio.sleep(POLL)
    raise MayHaveBegun("Timeout", "FIS did not begin the interruption in time", retryable=True)


async def _delete(client: Client, template: str) -> None:
    try:
        await client.call("delete_experiment_template", lambda _: None, service="fis", id=template)
    except CloudError:
        return  # it costs nothing, and interrupts nothing by itself


def _id(member: str) -> Any:
    def read(answer: Answer) -> str:
        return str(answer[member]["id"])

    return read


def _state(answer: Answer) -> dict[str, Any]:
    state: dict[str, Any] = answer["experiment"]["state"]
    return state
