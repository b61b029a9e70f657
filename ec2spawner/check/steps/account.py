"""Credentials, clock, roles and keys."""

from __future__ import annotations

import asyncio

from ...aws.calls.errors import CREDENTIALS, NO_CREDENTIALS
from ...config import Profile
from ...core.partitions import is_commercial
from ...provisioner.model.cloud.cloud import CloudError
from ...wire import Market
from ..facts.account import Caller
from ..facts.clock import clock_skew
from ..finding import Finding, failed, ok
from ..topics import Topic
from ..verdicts.account import judge_clock, judge_kms_key, judge_plan, judge_spot_role
from ..verdicts.refusals import refused
from .context import Context, answer, ask
from .profiles import Resolved


async def check_credentials(context: Context, findings: list[Finding]) -> Caller | None:
    """Who the hub is to AWS, and whether its clock is right; None where AWS refuses it."""
    endpoint = await context.client.endpoint("sts")
    (caller, error), skew = await asyncio.gather(
        answer(context.account.caller()), clock_skew(endpoint)
    )
    if caller is not None:
        findings.append(ok(Topic.CREDENTIALS, f"{caller.arn} in {context.options.region}"))
    elif error is not None:
        findings.append(_no_caller(error))
    if (clock := judge_clock(skew)) is not None:
        findings.append(clock)
    return caller


def _no_caller(error: CloudError) -> Finding:
    if error.code in NO_CREDENTIALS:
        return failed(Topic.CREDENTIALS, "no AWS credentials were found", CREDENTIALS)
    return refused(Topic.CREDENTIALS, error, CREDENTIALS)


async def check_roles(
    context: Context, profiles: tuple[Profile, ...], findings: list[Finding]
) -> None:
    """What has to be in the account for launches to work."""
    await asyncio.gather(
        _instance_profile(context, findings),
        _key_pair(context, findings),
        _spot_role(context, profiles, findings),
        _kms_key(context, profiles, findings),
    )


async def _instance_profile(context: Context, findings: list[Finding]) -> None:
    profile = context.options.instance_profile
    if not profile:
        return
    fix = "make it in IAM, or correct c.EC2Spawner.instance_profile"
    asked = context.account.instance_profile(profile)
    if await ask(findings, Topic.INSTANCE_PROFILE, asked, fix) is not None:
        findings.append(ok(Topic.INSTANCE_PROFILE, profile))


async def _key_pair(context: Context, findings: list[Finding]) -> None:
    key = context.options.key_name
    if not key:
        return
    fix = "make it in EC2, or correct c.EC2Spawner.key_name"
    if await ask(findings, Topic.KEY_PAIR, context.account.key_pair(key), fix) is not None:
        findings.append(ok(Topic.KEY_PAIR, key))


async def _spot_role(
    context: Context, profiles: tuple[Profile, ...], findings: list[Finding]
) -> None:
    if not any(Market.SPOT in profile.markets for profile in profiles):
        return
    found, error = await answer(context.account.has_spot_role())
    only = [p.display_name for p in profiles if set(p.markets) == {Market.SPOT}]
    findings.append(judge_spot_role(bool(found) if error is None else error, only))


async def check_plan(context: Context, resolved: Resolved, findings: list[Finding]) -> None:
    """Whether the account's plan has the types of the profiles; other partitions have no plans."""
    if not is_commercial(context.options.region):
        return
    plan, error = await answer(context.account.plan())
    free: frozenset[str] = frozenset()
    if plan is not None and plan.is_free:
        free_types, error = await answer(context.account.free_types())
        free = free_types or free
    names = {profile.slug: profile.display_name for profile in resolved.profiles}
    types = {names[slug]: of_profile for slug, of_profile in resolved.types.items()}
    if (known := error or plan) is not None:
        findings.append(judge_plan(known, free, types))


async def _kms_key(
    context: Context, profiles: tuple[Profile, ...], findings: list[Finding]
) -> None:
    default, error = await answer(context.account.ebs_key())
    spot = any(Market.SPOT in profile.markets for profile in profiles)
    found = judge_kms_key(context.options.home.kms_key, error or default or "", spot=spot)
    if found is not None:
        findings.append(found)
