"""The check from beginning to end: each step asks, and `verdicts` says what the answer means."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from .. import data
from ..aws.client import Timeouts
from ..aws.ec2 import EC2Cloud
from ..aws.errors import CREDENTIALS, NO_CREDENTIALS
from ..config import Options, Profile
from ..config.profile import DEFAULT_PROFILES
from ..core.profiles.profiles import InstanceType, resolve
from ..hub.spawn.user_data import PUBLISHED_PACKAGE
from ..provisioner.model.cloud import CloudError, Image
from ..provisioner.offers.instance_types import read_types
from ..wire import Market
from .account import Account, Subnet
from .address import judge_address
from .finding import Finding, failed, ok, unproved, warning
from .hub_config import HubConfig
from .hub_machine import judge_machine
from .permissions import judge_permissions
from .topics import Topic
from .verdicts.files import judge_file_system
from .verdicts.image import judge_agent, judge_image
from .verdicts.network import judge_security_groups, judge_subnets
from .verdicts.prices import judge_prices
from .verdicts.profiles import judge_quota, judge_types
from .verdicts.refusals import DENIED, NO_RESPONSE, refused

T = TypeVar("T")

_BEFORE = "not checked before c.EC2Spawner.{} is fixed"

LATER = "try again in a few minutes"

TIMEOUTS = Timeouts(read=8, launch_read=15, total=25)
"""Shorter than the hub's: somebody waits, and can try again."""

TIMEOUT = 50.0
"""Seconds for all that is asked of AWS: some forty calls, of which few take half a second."""


async def check(
    config: HubConfig, *, now: datetime, announce: Callable[[str], None] = lambda what: None
) -> list[Finding]:
    """All findings, in the order in which they are best fixed. Raises nothing of AWS's.

    `announce` is called with what is checked next.
    """
    options = config.options
    cloud = EC2Cloud(options.region, options.endpoint_url or None, timeouts=TIMEOUTS)
    try:
        work = Check(config, cloud, Account(cloud.client), now, announce)
        await work.run()
        return work.findings
    finally:
        await cloud.close()


@dataclass(slots=True)
class Check:
    """One run against the account: each step adds its findings, also if an earlier one failed."""

    config: HubConfig
    cloud: EC2Cloud
    account: Account
    now: datetime
    announce: Callable[[str], None]
    findings: list[Finding] = field(default_factory=list)

    @property
    def options(self) -> Options:
        """The hub's options, with defaults in place of invalid ones."""
        return self.config.options

    async def run(self) -> None:
        """All checks in order; adds to `findings` also what AWS did not answer in time."""
        self.findings += self.config.findings or [ok(Topic.CONFIGURATION, "every option is valid")]
        self.announce("the hub's own host")
        self.findings += judge_machine(self.options, self.config.max_servers, self.config.unsound)
        self.announce("the hub's address")
        if not self.config.address_is_known_bad:
            self.findings.append(await judge_address(self.config))
        if self._cannot_check(Topic.INCOMPLETE, "region", "endpoint_url"):
            return
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._in_aws()
        except TimeoutError:
            said = f"not all of it could be looked at within {TIMEOUT:g} s"
            self.findings.append(failed(Topic.INCOMPLETE, said, NO_RESPONSE))

    async def _in_aws(self) -> None:
        self.announce("credentials")
        if not await self._credentials():
            self.findings.append(
                unproved(Topic.INCOMPLETE, "not checked before the line above is fixed")
            )
            return
        self.announce("network")
        subnets = await self._subnets()
        await self._security_groups(subnets)
        self.announce("image")
        image = await self._image()
        await self._role_and_key()
        await self._file_system(subnets)
        self.announce("instance types and quotas")
        zones = sorted({subnet.zone for subnet in subnets}) or await self._all_zones()
        types = await self._profiles(zones)
        self.announce("prices")
        await self._prices(types, zones)
        self.announce("permissions")
        self.findings += await judge_permissions(self.cloud, self.config, image, types, subnets)

    async def _credentials(self) -> bool:
        try:
            caller = await self.account.caller()
        except CloudError as error:
            if error.code in NO_CREDENTIALS:
                finding = failed(Topic.CREDENTIALS, "no AWS credentials were found", CREDENTIALS)
            else:
                finding = refused(Topic.CREDENTIALS, error, CREDENTIALS)
            self.findings.append(finding)
            return False
        self.findings.append(ok(Topic.CREDENTIALS, f"{caller.arn} in {self.options.region}"))
        return True

    # --- network ---

    async def _subnets(self) -> Sequence[Subnet]:
        if self._cannot_check(Topic.SUBNETS, "subnets"):
            return ()
        fix = "use ids of subnets of this region and account in c.EC2Spawner.subnets"
        subnets = await self._ask(Topic.SUBNETS, self.account.subnets(self.options.subnets), fix)
        if subnets is None:
            return ()
        self.findings.append(judge_subnets(subnets))
        return subnets

    async def _all_zones(self) -> Sequence[str]:
        """Of the region, where the zones of the subnets are unknown because of a wrong option."""
        if "subnets" not in self.config.unsound:
            return ()
        zones, _ = await _answer(self.account.zones())
        return zones or ()

    async def _security_groups(self, subnets: Sequence[Subnet]) -> None:
        topic = Topic.SECURITY_GROUPS
        if self._cannot_check(topic, "security_groups"):
            return
        if not self.options.security_groups:
            self.findings.append(
                warning(
                    topic,
                    "none is given: the VPC's default group lets only its own members in",
                    f"c.EC2Spawner.security_groups, with one that lets the hub and its proxy reach "
                    f"port {self.options.port}; unless the hub is in the default group too",
                )
            )
            return
        fix = "use ids of groups of the subnets' VPC in c.EC2Spawner.security_groups"
        asked = self.account.security_groups(self.options.security_groups)
        groups = await self._ask(topic, asked, fix)
        if groups is not None and subnets:
            self.findings.append(judge_security_groups(groups, subnets))

    # --- image, role, key ---

    async def _image(self) -> Image | None:
        if self._cannot_check(Topic.IMAGE, "image", "architecture"):
            return None
        fix = (
            "c.EC2Spawner.image: an image of this region and of c.EC2Spawner.architecture that the "
            "account may use, by id, by name and owners, or by SSM parameter"
        )
        query = self.options.image.query(self.options.architecture)
        image = await self._ask(Topic.IMAGE, self.cloud.find_image(query), fix)
        if image is None:
            return None
        package = self.options.agent_package or PUBLISHED_PACKAGE
        self.findings += [
            judge_image(image, self.now),
            judge_agent(self.options.image.is_stock, package),
        ]
        return image

    async def _role_and_key(self) -> None:
        if profile := self.options.instance_profile:
            fix = "make it in IAM, or correct c.EC2Spawner.instance_profile"
            arn = await self._ask(
                Topic.INSTANCE_PROFILE, self.account.instance_profile(profile), fix
            )
            if arn is not None:
                self.findings.append(ok(Topic.INSTANCE_PROFILE, profile))
        if key := self.options.key_name:
            fix = "make it in EC2, or correct c.EC2Spawner.key_name"
            if await self._ask(Topic.KEY_PAIR, self.account.key_pair(key), fix) is not None:
                self.findings.append(ok(Topic.KEY_PAIR, key))

    async def _file_system(self, subnets: Sequence[Subnet]) -> None:
        home = self.options.home
        if home.kind != "efs" or not subnets:
            return
        asked = self.account.mount_targets(home.file_system)
        targets = await self._ask(Topic.FILE_SYSTEM, asked, LATER)
        if targets is not None:
            self.findings.append(judge_file_system(home.file_system, targets, subnets))

    async def _ask(self, topic: Topic, call: Awaitable[T], fix: str) -> T | None:
        """The response to a call; None if it failed, which is a finding then."""
        try:
            return await call
        except CloudError as error:
            self.findings.append(refused(topic, error, fix))
            return None

    def _cannot_check(self, topic: Topic, *options: str) -> bool:
        """Whether one of these options cannot be followed; then that is a finding."""
        wrong = sorted(self.config.unsound & set(options))
        if wrong:
            self.findings.append(unproved(topic, _BEFORE.format(wrong[0])))
        return bool(wrong)

    # --- profiles ---

    async def _profiles(self, zones: Sequence[str]) -> Sequence[InstanceType]:
        """Findings for each profile; returns the types that can be had, each once."""
        if not zones:
            self.findings.append(unproved(Topic.PROFILE, "not checked without subnets"))
            return ()
        profiles = self.options.profiles
        if not profiles:
            said = "c.EC2Spawner.profile_list is a function of the user: asked at each visit"
            self.findings.append(unproved(Topic.PROFILE, said))
            profiles = tuple(map(Profile.model_validate, DEFAULT_PROFILES))
        bundled = data.instance_types(self.options.region)
        named = {name for profile in profiles for name in profile.instance_types}
        read = await self._ask(Topic.PROFILE, read_types(self.cloud, zones, bundled, named), LATER)
        if read is None:
            return ()
        offered, described = read
        unknown = await self._unknown_types(named - offered.keys(), {*bundled, *offered})
        table = {name: kind for name, kind in {**bundled, **described}.items() if name in offered}
        resolved = {p.slug: resolve(p, table, self.options.architecture) for p in profiles}
        if self.options.profiles:
            quotas = await self._quotas()
            for profile in profiles:
                self._judge_profile(profile, resolved[profile.slug], offered, quotas, unknown)
        return tuple({kind.name: kind for each in resolved.values() for kind in each}.values())

    async def _unknown_types(self, names: Set[str], known: Set[str]) -> Mapping[str, str]:
        """Those that EC2 does not have in this region, each with the known name that is closest.

        What the bundled table has exists, even where this region lacks it.
        """
        strange = sorted(names - known)
        found, _ = await _answer(self.cloud.describe_types(strange)) if strange else ({}, None)
        return {
            name: next(iter(difflib.get_close_matches(name, sorted(known), n=1)), "")
            for name in strange
            if found is not None and name not in found
        }

    async def _quotas(self) -> Mapping[str, float]:
        try:
            return await self.account.quotas()
        except CloudError as error:
            said = f"they cannot be read: {error.code}"
            fix = "look in the console, or try again in a few minutes"
            if error.code in DENIED:
                fix = "give the hub's role servicequotas:ListServiceQuotas, or look in the console"
            self.findings.append(warning(Topic.QUOTA, said, fix))
            return {}

    def _judge_profile(
        self,
        profile: Profile,
        types: Sequence[InstanceType],
        offered: Mapping[str, frozenset[str]],
        quotas: Mapping[str, float],
        unknown: Mapping[str, str],
    ) -> None:
        name = f'profile "{profile.display_name}"'
        wanted = ", ".join(profile.instance_types) or profile.gpu or "what it asks for"
        own = {each: unknown[each] for each in profile.instance_types if each in unknown}
        self.findings.append(judge_types(name, wanted, types, offered, own))
        if types and quotas:
            self.findings.append(
                judge_quota(f'quota of "{profile.display_name}"', types, profile.markets, quotas)
            )

    # --- prices ---

    async def _prices(self, types: Sequence[InstanceType], zones: Sequence[str]) -> None:
        names = sorted(kind.name for kind in types)
        if not names:
            self.findings.append(unproved(Topic.PRICES, "not checked without instance types"))
            return
        spot, spot_error = await _answer(self.cloud.spot_history(names, zones, self.now))
        listed, list_error = await _answer(self.cloud.on_demand_prices(names))
        bundled = self.options.region == data.PRICES_REGION
        priced = {name for name, _zone in spot or ()}
        asked = len(names)
        self.findings += [
            judge_prices(Market.SPOT, len(priced), asked, bundled=False, error=spot_error),
            judge_prices(
                Market.ON_DEMAND, len(listed or ()), asked, bundled=bundled, error=list_error
            ),
        ]


async def _answer(call: Awaitable[T]) -> tuple[T | None, CloudError | None]:
    try:
        return await call, None
    except CloudError as error:
        return None, error
