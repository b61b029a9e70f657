"""Instance types, quotas and prices of the profiles."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from ... import data
from ...config import Profile
from ...config.entries.profile import DEFAULT_PROFILES
from ...core.offers.quotas import ListedQuota
from ...core.profiles.profiles import InstanceType, resolve
from ...provisioner.offers.instance_types import read_types
from ..finding import Finding, unproved, warning
from ..topics import Topic
from ..verdicts.profiles import Need, judge_quota, judge_types
from ..verdicts.refusals import DENIED
from .context import LATER, Context, answer, ask


@dataclass(frozen=True, slots=True)
class Resolved:
    """The profiles of the check, and what they mean in these zones."""

    profiles: tuple[Profile, ...] = ()
    types: Mapping[str, Sequence[InstanceType]] = field(default_factory=dict)
    """By the profile's slug, best first; none where the zones have none."""
    quotas: Sequence[ListedQuota] = ()

    @property
    def all_types(self) -> Sequence[InstanceType]:
        """Each once."""
        return tuple({kind.name: kind for each in self.types.values() for kind in each}.values())


def profiles_of(context: Context, findings: list[Finding]) -> tuple[Profile, ...]:
    """Those of the configuration; the default ones where they are a function of the user."""
    if context.options.profiles:
        return context.options.profiles
    said = (
        "c.EC2Spawner.profile_list is a function of the user, asked at each visit; the default "
        "profiles stand in for its own here"
    )
    findings.append(unproved(Topic.PROFILE, said))
    return tuple(map(Profile.model_validate, DEFAULT_PROFILES))


async def check_profiles(
    context: Context,
    profiles: tuple[Profile, ...],
    zones: Sequence[str],
    findings: list[Finding],
) -> Resolved:
    """Findings for each profile: whether the zones have it, and the account has room for it."""
    if not zones:
        findings.append(unproved(Topic.PROFILE, "not checked without subnets"))
        return Resolved(profiles)
    bundled = data.instance_types(context.options.region)
    named = {name for profile in profiles for name in profile.instance_types}
    asked = read_types(context.cloud, zones, bundled, named)
    read, quotas = await asyncio.gather(
        ask(findings, Topic.PROFILE, asked, LATER), _quotas(context, findings)
    )
    if read is None:
        return Resolved(profiles)
    offered, described = read
    unknown = await _unknown_types(context, named - offered.keys(), {*bundled, *offered})
    table = {name: kind for name, kind in {**bundled, **described}.items() if name in offered}
    types = {p.slug: _resolved(context, p, table) for p in profiles}
    limit = context.config.max_servers if len(profiles) == 1 else 0
    need = Need(context.options.region, max(limit, 1))
    for profile in context.options.profiles:
        name, own = profile.display_name, types[profile.slug]
        refused = _refused(context, profile, table)
        findings.append(_judge_types(profile, own, offered, unknown, refused))
        if own and quotas:
            about = f'quota of "{name}"'
            findings.append(judge_quota(about, own, profile.markets, quotas, need))
    return Resolved(profiles, types, quotas)


def _resolved(
    context: Context, profile: Profile, table: Mapping[str, InstanceType]
) -> tuple[InstanceType, ...]:
    options = context.options
    return resolve(profile, table, options.architecture, options.volumes_of(profile))


def _refused(
    context: Context, profile: Profile, table: Mapping[str, InstanceType]
) -> tuple[str, ...]:
    """Why types of the profile cannot have the EBS volumes that its servers need."""
    volumes = context.options.volumes_of(profile)
    matching = resolve(profile, table, context.options.architecture)
    return tuple(why for kind in matching if (why := kind.why_no_volumes(volumes)))


async def _unknown_types(context: Context, names: Set[str], known: Set[str]) -> Mapping[str, str]:
    """Those that EC2 does not have in this region, each with the known name that is closest.

    What the bundled table has exists, even where this region lacks it.
    """
    strange = sorted(names - known)
    found, _ = await answer(context.cloud.describe_types(strange)) if strange else ({}, None)
    return {
        name: next(iter(difflib.get_close_matches(name, sorted(known), n=1)), "")
        for name in strange
        if found is not None and name not in found
    }


async def _quotas(context: Context, findings: list[Finding]) -> Sequence[ListedQuota]:
    quotas, error = await answer(context.account.quotas())
    if error is not None:
        fix = "look in the console, or try again in a few minutes"
        if error.code in DENIED:
            fix = "give the hub's role servicequotas:ListServiceQuotas, or look in the console"
        findings.append(warning(Topic.QUOTA, f"they cannot be read: {error.code}", fix))
    return quotas or ()


def _judge_types(
    profile: Profile,
    types: Sequence[InstanceType],
    offered: Mapping[str, frozenset[str]],
    unknown: Mapping[str, str],
    refused: Sequence[str],
) -> Finding:
    wanted = ", ".join(profile.instance_types) or profile.gpu or "what it asks for"
    own = {each: unknown[each] for each in profile.instance_types if each in unknown}
    name = f'profile "{profile.display_name}"'
    return judge_types(name, wanted, types, offered, own, refused)
