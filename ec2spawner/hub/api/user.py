"""The API for users under `/hub/api/ec2/`, with JupyterHub's own login: cookie or token.

The models are the contract, described field by field in `docs/reference/http.md`. Instants are
UTC, durations seconds, prices USD/hour; null is unknown, never 0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from jupyterhub.scopes import needs_scope
from jupyterhub.user import User
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from tornado.web import HTTPError

from ...core.profiles.choices import MAX_LIMIT
from ...data import INTERRUPTIONS_DATE
from ...provisioner.launch.spot_waits import NotWaiting
from ...provisioner.limits.admission import LimitReached
from ...provisioner.store.store import StoreError
from ...wire import Market
from ..app.call_limits import DEAR_CALL
from ..app.user_account import account_of, lease_of
from ..pages.spawn_page.profile_card import Bounds, Card, OfferSeen
from ..pages.spawn_page.profile_card_text import risk
from ..pages.spawn_page.spawn_page import cards_of
from ..spawn.allowed_profiles import payers_of
from ..spawn.limits import limit_words_of
from .user_call import Model, UserCall, read, running

log = logging.getLogger(__name__)


class SoldOut(Model):
    """Why an offer is not requested now."""

    reason: str
    """`offer`, `type-in-zone`, `unusable`, `quota`, `market`, `plan`, `verification`, `subnet` or
    `refused`."""
    code: str
    """EC2's."""
    since: AwareDatetime
    until: AwareDatetime | None
    """It is requested again from then on. None where only another image helps."""


class OfferModel(Model):
    """One buyable thing, at its price now."""

    market: Market
    instance_type: str
    zone: str
    usd_per_hour: float | None
    source: str
    """Source of the price; empty while it is unknown."""
    age_seconds: float | None
    """Since it was read; null if the source states its own date."""
    interruption_band: int | None
    """Share that AWS interrupts in a month: 0 under 5 %, 1 to 10 %, 2 to 15 %, 3 to 20 %, 4
    more."""
    paid: bool
    """A discount has an unused place for it, or it is a place of a capacity reservation that is
    taken before spot."""
    reserved: bool
    """It is a place of a capacity reservation."""
    sold_out: SoldOut | None


class History(Model):
    """Seven days of the spot price in the cheapest zone, as the page draws it."""

    instance_type: str
    zone: str
    start: AwareDatetime
    interval_seconds: float
    usd_per_hour: tuple[float | None, ...]
    steadiness: str
    """`steady`, `moved`, `rising`, `falling` or `unknown`."""
    steady_words: str
    """Such as `steady for 6 days`."""


class ValueModel(Model):
    """Work of the GPUs for the price: a rule of thumb, see the documentation."""

    t4s: float
    usd_per_t4_hour: float | None


class Range(Model):
    """Inclusive bounds."""

    min: float
    max: float


class UserOptions(Model):
    """What may be sent to start this profile, besides its slug."""

    market: tuple[str, ...]
    """The profile's own is the first."""
    disk_gib: Range | None
    """Null leaves no choice."""
    idle: Range | None
    """Seconds without work until the server is stopped; null leaves no choice."""


class ElsewhereModel(Model):
    """Another zone than the home's, which offers the profile for much less, or alone offers it."""

    home_zone: str
    zone: str
    market: Market
    usd_per_hour: float | None


class ProfileModel(Model):
    """One profile that this user may start."""

    slug: str
    display_name: str
    description: str
    default: bool
    gpu: str
    """Such as `1 × T4, 16 GB`; empty without a GPU."""
    vcpus: int
    memory_gib: float
    scratch_gb: int
    disk_gib: int
    idle_seconds: float
    """Idle for this long, it is stopped; 0 is never."""
    market: str
    user_options: UserOptions
    estimates: dict[str, float | None]
    """What an hour would cost by choice of `market`, with all that comes with the instance: an
    estimate."""
    beside_usd_per_hour: float
    """What of that is for the disk and the public address; prices of offers are without it."""
    offers: tuple[OfferModel, ...]
    """Best first, sold out ones too."""
    history: History | None
    interruptions: str
    """How often AWS reclaims the cheapest spot offer: `rarely`, `sometimes`, `often`; empty if
    unknown."""
    usual_start_seconds: float | None
    ready_at_once: bool
    value: ValueModel | None
    elsewhere: ElsewhereModel | None
    """Where the user may move their home to pay less: `move_home` in a start's options."""
    can_start: bool
    """False where no payer can pay for its first hour, or a limit of servers is reached."""
    refusals: dict[str, str]
    """Payer, as in `payers` of the answer -> why it cannot pay now; others can."""


class Profiles(Model):
    """`GET profiles`."""

    now: AwareDatetime
    """The hub's clock."""
    region: str
    payers: tuple[str, ...]
    """Values of the user option `payer`; the first is the default."""
    interruptions_of: date
    """Date of the figures `interruptions` and `interruption_band`."""
    profiles: tuple[ProfileModel, ...]


SCOPE = "start:servers"
"""Required to read the profiles. A user's login and own tokens have it; the token of a server,
which everyone with access to that server can read, does not."""


class ProfilesHandler(UserCall):
    """What the spawn page shows, as JSON."""

    CALL_TOKENS = DEAR_CALL

    async def get(self) -> None:
        """`GET profiles`: 403 for services and missing scopes, 503 while EC2 has not answered."""
        user = self.current_user
        if not isinstance(user, User):
            raise HTTPError(403, "only users have profiles: log in, or send a user's token")
        if not self.has_scope(f"{SCOPE}!user={user.name}"):
            raise HTTPError(403, f"the token needs the scope {SCOPE} for its user")
        hub, provisioner = running()
        options, cards = await cards_of(user.spawner, hub.options, provisioner)
        account = account_of(provisioner.accounts, user)
        payers = payers_of(options, account, user.spawner)
        names = {payer: provisioner.accounts.scope(payer) for payer in payers}
        now = provisioner.now()
        self.finish(await asyncio.to_thread(profiles_json, options.region, cards, now, names))


def profiles_json(
    region: str, cards: Sequence[Card], now: datetime, payers: Mapping[str, str]
) -> str:
    """The cards as JSON; about 300 KB for thirty, so it is made off the event loop. `payers` has
    what each payer is called."""
    profiles = tuple(_profile(card, payers) for card in cards)
    answer = Profiles(
        now=now,
        region=region,
        payers=tuple(payers.values()),
        interruptions_of=INTERRUPTIONS_DATE,
        profiles=profiles,
    )
    return answer.model_dump_json()


def _profile(card: Card, payers: Mapping[str, str]) -> ProfileModel:
    first = {way: card.first(way) for way in card.ways}
    line, hardware = card.line, card.hardware
    return ProfileModel(
        slug=card.slug,
        display_name=card.name,
        description=card.description,
        default=card.default,
        gpu=hardware.gpu_text,
        vcpus=hardware.vcpus,
        memory_gib=hardware.memory_gib,
        scratch_gb=hardware.scratch_gb,
        disk_gib=card.disk_gib,
        idle_seconds=card.idle_seconds,
        market=card.market,
        user_options=UserOptions(
            market=card.ways, disk_gib=_range(card.disk_bounds), idle=_range(card.idle_bounds)
        ),
        estimates={way: card.usd_per_hour(seen) for way, seen in first.items()},
        beside_usd_per_hour=card.beside.usd_per_hour,
        offers=tuple(map(_offer, card.offers)),
        history=line
        and History(
            instance_type=line.instance_type,
            zone=line.zone,
            start=line.start,
            interval_seconds=line.interval_seconds,
            usd_per_hour=line.usd_per_hour,
            steadiness=line.steadiness.kind,
            steady_words=line.steadiness.words,
        ),
        interruptions=risk(card),
        usual_start_seconds=card.usual_start_seconds,
        ready_at_once=card.ready_at_once,
        value=card.value
        and ValueModel(t4s=card.value.t4s, usd_per_t4_hour=card.value.usd_per_t4_hour),
        elsewhere=_elsewhere(card),
        can_start=not card.cannot_start,
        refusals={payers.get(payer, payer): why for payer, why in card.refusals.items()},
    )


def _elsewhere(card: Card) -> ElsewhereModel | None:
    elsewhere, moved = card.elsewhere, card.moved()
    first = moved.first() if moved else None
    if elsewhere is None or moved is None or first is None:
        return None
    return ElsewhereModel(
        home_zone=elsewhere.home_zone,
        zone=elsewhere.zone,
        market=first.offer.market,
        usd_per_hour=moved.usd_per_hour(first),
    )


def _range(bounds: Bounds | None) -> Range | None:
    return Range(min=bounds.min, max=bounds.max) if bounds else None


def _offer(seen: OfferSeen) -> OfferModel:
    offer, mark = seen.offer, seen.mark
    return OfferModel(
        market=offer.market,
        instance_type=offer.instance_type,
        zone=offer.zone,
        usd_per_hour=offer.usd_per_hour,
        source=seen.source,
        age_seconds=seen.age_seconds,
        interruption_band=offer.interruption_band,
        paid=offer.paid,
        reserved=bool(offer.reservation),
        sold_out=mark
        and SoldOut(reason=mark.error_class, code=mark.code, since=mark.since, until=mark.again_at),
    )


class Agreement(BaseModel):
    """`POST .../on-demand`."""

    model_config = ConfigDict(extra="forbid")

    max_usd_per_hour: float | None = Field(gt=0, le=MAX_LIMIT)
    """The price that was shown, as a limit; null if no price was known."""


class OnDemandHandler(UserCall):
    """Lets the user of a start that waits for spot accept an on-demand price."""

    @needs_scope("start:servers")
    async def post(self, user_name: str, server_name: str = "") -> None:
        """Accept on-demand for a waiting start; 409 if it is not waiting any more."""
        agreed = read(self, Agreement, '{"max_usd_per_hour": 0.53}, or null')
        hub, provisioner = running()
        lease = lease_of(provisioner, self.find_user(user_name), server_name)
        try:
            if lease is None:
                raise NotWaiting("there is no such start")
            await provisioner.spot_waits.buy_on_demand(lease.lease_id, agreed.max_usd_per_hour)
        except NotWaiting as error:
            raise HTTPError(409, str(error)) from error
        except LimitReached as error:
            raise HTTPError(409, limit_words_of(error, hub.options.contact)) from error
        except StoreError as error:
            log.warning("%s accepted on-demand; not stored yet: %s", user_name, error)
        self.set_status(204)


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/ec2/profiles", ProfilesHandler),
    (r"/api/ec2/users/([^/]+)/server/on-demand", OnDemandHandler),
    (r"/api/ec2/users/([^/]+)/servers/([^/]+)/on-demand", OnDemandHandler),
]
