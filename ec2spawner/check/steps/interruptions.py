"""Whether the queue of spot events and Fault Injection Service answer the hub, where configured."""

from __future__ import annotations

from ...aws.compute.fault_injection import refusal
from ...aws.monitoring.spot_event_queue import SpotEventQueue, region_of
from ...provisioner.model.cloud.cloud import CloudError
from ..finding import Finding, ok, unproved, warning
from ..topics import Topic
from .context import Context

POLICY = "give the hub's role the policy in configs/interruptions-policy.json"


async def check_interruptions(context: Context, findings: list[Finding]) -> None:
    """A finding for each of the two that is configured. Neither keeps a server from starting."""
    if invalid := context.invalid(Topic.INTERRUPTION_QUEUE, "interruption_queue"):
        findings.append(invalid)
    elif url := context.options.interruption_queue:
        findings.append(await _queue(context, url))
    if invalid := context.invalid(Topic.REHEARSALS, "rehearsal_role"):
        findings.append(invalid)
    elif context.options.rehearsal_role:
        findings.append(await _rehearsals(context))


async def _queue(context: Context, url: str) -> Finding:
    topic, options = Topic.INTERRUPTION_QUEUE, context.options
    queue = SpotEventQueue(url, options.region, options.endpoint_url or None)
    try:
        arn = await queue.arn()
    except CloudError as error:
        fix = "name a queue that is there" if "NonExistentQueue" in error.code else POLICY
        return warning(topic, f"{error.code}: {error.message}", fix)
    finally:
        await queue.close()
    if (region := region_of(url)) and region != options.region:
        said = f"{arn} is in {region}, and EventBridge reports the instances of its own region"
        return warning(topic, said, f"use a queue and a rule in {options.region}")
    return ok(topic, f"{arn} answers")


async def _rehearsals(context: Context) -> Finding:
    topic = Topic.REHEARSALS
    error = await refusal(context.client)
    if error is None:
        said = "Fault Injection Service answers; what the role may do is seen by a rehearsal"
        return unproved(topic, said, "ec2spawner interrupt rehearses an interruption")
    if error.retryable:
        return warning(
            topic,
            f"{error.code}: {error.message}",
            "AWS Fault Injection Service may not exist in this region: unset "
            "c.EC2Spawner.rehearsal_role then",
        )
    return warning(topic, f"{error.code}: {error.message}", POLICY)
