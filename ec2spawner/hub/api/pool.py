"""The warm pool, for admins: how it stands, and how many instances shall wait until when.

The models are the contract, described field by field in `docs/reference/http.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from tornado.web import HTTPError

from ...config import Options, Profile
from ...config.entries.warm_pool import MAX_RUNNING
from ...core.pool.rules import PoolRule
from ...core.pool.targets import Override
from ...core.pool.words import why
from ...core.profiles.choices import MARKETS_OF, open_markets
from ...provisioner.pool.standing import Member, Standing, StoppedMember
from ...provisioner.provisioner import Provisioner
from ...provisioner.store.store import StoreError
from ...wire import Market
from .user_call import Model, UserCall, read, require_instances_scope, running, store_failed

DEFAULT_UNTIL: Final = timedelta(days=1)
"""What is set without an end would be paid for until somebody remembers it."""

MAX_UNTIL: Final = timedelta(days=30)

EXAMPLE: Final = '{"running": 5, "until": "2026-11-24T18:00:00+01:00"}'


class MemberModel(Model):
    """An instance of the pool."""

    instance_id: str
    instance_type: str
    zone: str
    launched_at: AwareDatetime
    waiting_since: AwareDatetime | None
    """When its agent called first, null while it boots; of a stopped one, when it was stopped."""
    usd_per_hour: float | None
    """With its disks and address, of a stopped one of its disks; null if a price is unknown."""


class ByHandModel(Model):
    """What an admin has set."""

    running: int
    stopped: int | None
    """Null where that is as configured."""
    until: AwareDatetime
    by: str
    at: AwareDatetime


class FailureModel(Model):
    """Why instances are missing."""

    message: str
    at: AwareDatetime
    retry_seconds: float
    """Until more is bought."""


class PlacesModel(Model):
    """One profile and market."""

    profile: str
    """Slug."""
    profile_name: str
    market: Market
    target: int
    """How many shall wait running."""
    stopped_target: int
    """How many shall wait stopped beside these."""
    why: tuple[str, ...]
    """The steps to that number, a sentence each."""
    waiting: int
    """A start gets one at once."""
    booting: int
    missing: int
    """Places without an instance, those for stopped ones included."""
    stopped: int
    """A start begins with a boot of one of them."""
    homes_ahead: int
    """So many more wait, each for a user who is expected, with the home attached ahead."""
    usd_per_hour: float
    """Of the instances, as far as prices are known."""
    by_hand: ByHandModel | None
    failure: FailureModel | None
    problem: str
    """Why the hub cannot say what an instance of this profile would be; empty if it can."""
    instances: tuple[MemberModel, ...]
    stopped_instances: tuple[MemberModel, ...]


class PoolModel(Model):
    """`GET pool`."""

    now: AwareDatetime
    time_zone: str
    """The option `time_zone`, in which `ec2spawner pool` reads times of day."""
    usd_per_hour: float
    """Of all instances of the pool, as far as prices are known."""
    max_usd_per_hour: float | None
    """`warm_pool_usd_per_hour`; null for no cap."""
    places: tuple[PlacesModel, ...]
    profiles: tuple[str, ...]
    """Slugs of all profiles for which a number can be set."""


class ByHand(BaseModel):
    """`PUT pool/{profile}`."""

    model_config = ConfigDict(extra="forbid")

    running: Annotated[int, Field(ge=0, le=MAX_RUNNING, strict=True)]
    stopped: Annotated[int, Field(ge=0, le=MAX_RUNNING, strict=True)] | None = None
    until: AwareDatetime | None = None
    market: Market | None = None


class PoolHandler(UserCall):
    """How the pool stands."""

    async def get(self) -> None:
        """`GET pool`: from memory; 403 without the scope."""
        require_instances_scope(self)
        hub, provisioner = running()
        self.set_header("Cache-Control", "no-store")
        self.finish(pool_model(hub.options, provisioner).model_dump_json())


class PoolOfProfileHandler(UserCall):
    """How many instances wait for a profile, by hand."""

    async def put(self, profile: str) -> None:
        """200 with the pool; 400 for a number or an end out of bounds, 404 for an unknown profile,
        409 for a market that no server of it may take."""
        require_instances_scope(self)
        body = read(self, ByHand, EXAMPLE)
        hub, provisioner = running()
        found = _profile(hub.options, profile)
        now = provisioner.now()
        until = body.until or now + DEFAULT_UNTIL
        if not now < until <= now + MAX_UNTIL:
            raise HTTPError(400, f"until must be in the next {MAX_UNTIL.days} days")
        market = market_of(body, provisioner.settings.pool.rules, found)
        if market not in {each for word in open_markets(found) for each in MARKETS_OF[word]}:
            raise HTTPError(409, f"no server of this profile may take {market} instances")
        override = Override(found.slug, market, body.running, until, body.stopped)
        try:
            await provisioner.pool.set_by_hand(override, by=self.current_user.name)
        except StoreError as error:
            raise store_failed(self, error) from error
        self.finish(pool_model(hub.options, provisioner).model_dump_json())

    async def delete(self, profile: str) -> None:
        """204, and the configuration holds again; 404 where nothing is set by hand."""
        require_instances_scope(self)
        self.refuse_body()
        _, provisioner = running()
        try:
            was_set = await provisioner.pool.clear(profile, by=self.current_user.name)
        except StoreError as error:
            raise store_failed(self, error) from error
        if not was_set:
            raise HTTPError(404, "nothing is set by hand for this profile")
        self.set_status(204)


def pool_model(options: Options, provisioner: Provisioner) -> PoolModel:
    """The pool as of the last pass."""
    profiles = _profiles(options)
    names = {each.slug: each.display_name for each in profiles}
    standings = provisioner.pool.standings()
    zone = provisioner.settings.time_zone
    return PoolModel(
        now=provisioner.now(),
        time_zone=str(zone),
        usd_per_hour=sum(each.usd_per_hour for each in standings),
        max_usd_per_hour=provisioner.settings.pool.usd_per_hour,
        places=tuple(
            _places(
                each, names.get(each.target.profile, each.target.profile), why(each.target, zone)
            )
            for each in standings
        ),
        profiles=tuple(names),
    )


def _places(standing: Standing, name: str, why: Sequence[str]) -> PlacesModel:
    target, by_hand, failure = standing.target, standing.by_hand, standing.failure
    return PlacesModel(
        profile=target.profile,
        profile_name=name or target.profile,
        market=target.market,
        target=target.running,
        stopped_target=target.stopped.number,
        why=tuple(why),
        waiting=standing.waiting,
        booting=standing.booting,
        missing=standing.missing,
        stopped=len(standing.startable),
        homes_ahead=len(standing.ahead),
        usd_per_hour=standing.usd_per_hour,
        by_hand=by_hand
        and ByHandModel(
            running=by_hand.override.running,
            stopped=by_hand.override.stopped,
            until=by_hand.override.until,
            by=by_hand.by,
            at=by_hand.at,
        ),
        failure=failure
        and FailureModel(
            message=failure.message, at=failure.at, retry_seconds=standing.retry_seconds
        ),
        problem=standing.problem,
        instances=tuple(map(_member, standing.members)),
        stopped_instances=tuple(map(_stopped, standing.startable)),
    )


def _member(member: Member) -> MemberModel:
    instance = member.instance
    return MemberModel(
        instance_id=instance.instance_id,
        instance_type=instance.instance_type,
        zone=instance.zone,
        launched_at=instance.launched_at,
        waiting_since=member.waiting_since,
        usd_per_hour=member.rate.usd_per_hour,
    )


def _stopped(member: StoppedMember) -> MemberModel:
    instance = member.instance
    return MemberModel(
        instance_id=instance.instance_id,
        instance_type=instance.instance_type,
        zone=instance.zone,
        launched_at=instance.launched_at,
        waiting_since=member.kept.kept_at,
        usd_per_hour=member.rate.usd_per_hour,
    )


def _profiles(options: Options) -> Sequence[Profile]:
    """Those that a list names: an instance of the pool has no user for whom a function would
    return others."""
    return () if callable(options.profile_list) else options.profiles


def _profile(options: Options, slug: str) -> Profile:
    found = next((each for each in _profiles(options) if each.slug == slug), None)
    if found is None:
        known = ", ".join(each.slug for each in _profiles(options)) or "none"
        raise HTTPError(404, f"there is no such profile in profile_list; there is: {known}")
    return found


def market_of(body: ByHand, rules: Sequence[PoolRule], profile: Profile) -> Market:
    """The market of both numbers: by default that of the profile's first rule, or else the
    profile's first.

    Raises `HTTPError` 409 where `stopped` is set and that is spot: running ones were meant for the
    market that they have now, and nothing would say that they are set for another one.
    """
    default = next((x.market for x in rules if x.profile == profile.slug), profile.markets[0])
    market = body.market or default
    if market is Market.SPOT and (body.stopped or (body.stopped is not None and not body.market)):
        raise HTTPError(
            409,
            "spot instances cannot wait stopped, and both numbers are set for one market: name "
            "on-demand (--market=on-demand), or leave stopped ones as configured",
        )
    return market


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/ec2/pool", PoolHandler),
    (r"/api/ec2/pool/([^/]+)", PoolOfProfileHandler),
]
