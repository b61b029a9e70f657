"""The check from beginning to end: its steps, what each needs of the others, and its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from ..aws.calls.client import Timeouts
from ..aws.ec2 import EC2Cloud
from .address import judge_address
from .finding import Finding, failed, ok, unproved
from .hub_config import HubConfig
from .hub_machine import judge_machine
from .permissions import judge_permissions
from .steps.account import check_credentials, check_plan, check_roles
from .steps.alarms import check_alarms, untested_alarms
from .steps.context import Context, answer
from .steps.costs import check_costs
from .steps.files import check_files
from .steps.image import check_driver, check_image
from .steps.interruptions import check_interruptions
from .steps.network import check_network
from .steps.profiles import check_profiles, profiles_of
from .steps.reservations import check_reservations
from .topics import Section, Topic
from .verdicts.refusals import NO_RESPONSE

TIMEOUTS = Timeouts(read=8, launch_read=15, total=25)
"""Shorter than the hub's: somebody waits, and can try again."""

TIMEOUT = 50.0
"""Seconds for all that is asked of AWS: some fifty calls, of which few take half a second."""


async def check(
    config: HubConfig,
    *,
    now: datetime,
    announce: Callable[[str], None] = lambda what: None,
    test_alarms: bool = False,
) -> list[Finding]:
    """All findings, by section and in the order in which they are best fixed there.

    Raises nothing of AWS's. `announce` is called with what is checked next. `test_alarms`: send a
    message to each destination of alarms.
    """
    options = config.options
    cloud = EC2Cloud(options.region, options.endpoint_url or None, timeouts=TIMEOUTS)
    context = Context(config, cloud, now)
    findings = config.findings or [ok(Topic.CONFIGURATION, "every option is valid")]
    try:
        announce("the hub's own host")
        findings += judge_machine(options, config.max_servers, config.unsound)
        if not config.address_is_known_bad:
            announce("the hub's address")
            findings.append(await judge_address(config))
        if invalid := context.invalid(Topic.INCOMPLETE, "region", "endpoint_url"):
            findings.append(invalid)
        else:
            await _in_time(context, findings, announce)
        if invalid := context.invalid(Topic.ALARMS, "alarms"):
            findings.append(invalid)
        elif test_alarms:
            announce("the destinations of alarms")
            findings += await check_alarms(options, now)
        else:
            findings += untested_alarms(options)
    finally:
        await cloud.close()
    sections, topics = list(Section), list(Topic)
    return sorted(findings, key=lambda f: (sections.index(f.topic.section), topics.index(f.topic)))


async def _in_time(
    context: Context, findings: list[Finding], announce: Callable[[str], None]
) -> None:
    try:
        async with asyncio.timeout(TIMEOUT):
            await _in_aws(context, findings, announce)
    except TimeoutError:
        said = f"not all of it could be looked at within {TIMEOUT:g} s"
        findings.append(failed(Topic.INCOMPLETE, said, NO_RESPONSE))


async def _in_aws(
    context: Context, findings: list[Finding], announce: Callable[[str], None]
) -> None:
    """Steps that need nothing of each other run at the same time: the client bounds their calls."""
    announce("credentials")
    if await check_credentials(context, findings) is None:
        said = "not checked before the credentials are fixed"
        findings.append(unproved(Topic.INCOMPLETE, said))
        return
    announce("network, image and roles")
    profiles = profiles_of(context, findings)
    network, image, _ = await asyncio.gather(
        check_network(context, findings),
        check_image(context, findings),
        check_roles(context, profiles, findings),
    )
    announce("instance types and quotas")
    zones = network.zones or await _all_zones(context)
    resolved, _ = await asyncio.gather(
        check_profiles(context, profiles, zones, findings),
        check_files(context, network.subnets, findings),
    )
    check_driver(
        image,
        {p.display_name: resolved.types.get(p.slug, ()) for p in context.options.profiles},
        findings,
    )
    announce("prices and permissions")
    _, _, _, _, permissions = await asyncio.gather(
        check_plan(context, resolved, findings),
        check_interruptions(context, findings),
        check_reservations(context, resolved, zones, findings),
        check_costs(context, resolved, zones, network.public, findings),
        judge_permissions(
            context.cloud, context.config, image, resolved.all_types, network.subnets
        ),
    )
    findings += permissions


async def _all_zones(context: Context) -> Sequence[str]:
    """Of the region, where the zones of the subnets are unknown because of a wrong option."""
    if "subnets" not in context.config.unsound:
        return ()
    zones, _ = await answer(context.account.zones())
    return zones or ()
