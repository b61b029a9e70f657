"""What launch calls have taught: which offers are not worth asking for now, and until when.

A memory without a clock: every question says when it is asked, in UTC. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from ...wire import Market
from .launch_errors import ErrorClass, LaunchError, error_class, zones_with_capacity
from .purchase import OfferKey
from .quotas import quota_class

MARKED_FOR: Mapping[ErrorClass, timedelta] = MappingProxyType(
    {
        ErrorClass.OFFER: timedelta(minutes=3),
        ErrorClass.QUOTA: timedelta(minutes=3),
        ErrorClass.MARKET: timedelta(minutes=10),
        ErrorClass.PLAN: timedelta(minutes=10),
        ErrorClass.VERIFICATION: timedelta(minutes=1),
        ErrorClass.SUBNET: timedelta(minutes=3),
        ErrorClass.TYPE_IN_ZONE: timedelta(hours=24),
        ErrorClass.UNUSABLE: timedelta(hours=1),
        ErrorClass.REFUSED: timedelta(minutes=15),
    }
)
"""How long a refusal is believed. Three minutes are Karpenter's; which types a zone has changes
when AWS builds; whether a type works changes with the image; a permission or the account's plan,
when an admin changes it. A verification takes minutes to hours: one call a minute notices its end.
What is not here marks nothing, and what is refused marks nothing but a capacity reservation."""

UNUSABLE = "UnusableGpu"
"""The code of a mark that is no refusal of EC2's."""

HINTED_FOR = timedelta(minutes=3)
"""How long EC2's word that a zone has room is believed: as long as its opposite."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Why something is not worth asking for. It holds from `since` on, and at `until` no more."""

    error_class: ErrorClass
    code: str
    """EC2's, of the last refusal."""
    since: datetime
    """UTC. A refusal while the mark holds extends it: this is the first one's."""
    until: datetime
    """UTC."""
    why: str = ""
    """For people: why the image's driver cannot use the GPU. Empty if it is not known."""

    @property
    def again_at(self) -> datetime | None:
        """When asking again may help, UTC; None where only another image does."""
        return None if self.error_class is ErrorClass.UNUSABLE else self.until

    def holds(self, now: datetime) -> bool:
        """Whether the mark applies at `now` (UTC): from `since` on, no longer at `until`."""
        return self.since <= now < self.until


class Scope(NamedTuple):
    """What a mark is of. An empty field is any."""

    market: Market | None = None
    instance_type: str = ""
    zone: str = ""
    quota_class: str = ""
    subnet: str = ""
    image_id: str = ""
    reservation: str = ""


_EVERYTHING = Scope()


class _Asked(NamedTuple):
    instance_type: str
    subnet: str
    zone: str


class SoldOut:
    """The marks of one hub, and EC2's hints."""

    def __init__(self) -> None:
        self._marks: dict[Scope, Mark] = {}
        self._hinted: dict[OfferKey, datetime] = {}
        """Until when a hint is believed."""

    def learn(
        self,
        market: Market,
        asked: Sequence[tuple[str, str]],
        errors: Iterable[LaunchError],
        brought: Collection[tuple[str, str]],
        zones: Mapping[str, str],
        now: datetime,
        reservation: str = "",
    ) -> None:
        """Remember the errors of one launch call.

        `asked` are its (instance type, subnet), `brought` the (instance type, zone) of what came,
        `zones` the zone of each subnet. An error is of what it names; where that could be several
        offers, it is of those that brought nothing. A call that targeted a capacity `reservation`
        says nothing of the market's own capacity, nor of its quota, in which the reservation counts
        already.
        """
        call = [_Asked(kind, subnet, zones.get(subnet, "")) for kind, subnet in asked]
        errors = tuple(errors)
        for error in errors:
            self._believe_hint(market, call, error, now)
        # After the hints: what was refused itself is sold out, whatever another refusal says.
        for error in errors:
            found = error_class(error.code)
            if found not in MARKED_FOR or (found is ErrorClass.REFUSED and not reservation):
                continue
            meant = _meant(call, error, zones)
            if found is ErrorClass.PLAN and len({each.instance_type for each in meant}) > 1:
                continue  # EC2 refuses images with the same words: no type is known to be meant
            if len(meant) > 1:
                meant = [each for each in meant if (each.instance_type, each.zone) not in brought]
                if found is ErrorClass.TYPE_IN_ZONE:
                    # Which of them it is, nobody knows: too little to give up a type for a day.
                    found = ErrorClass.OFFER
            for each in meant:
                scope = _scope(found, market, each, reservation)
                self._mark(scope, found, error.code, now)

    def learn_unusable(
        self, instance_type: str, image_id: str, zones: Iterable[str], why: str, now: datetime
    ) -> None:
        """Remember that instances of this type cannot work with this image, in any market of
        these zones."""
        for zone in zones:
            scope = Scope(None, instance_type, zone, image_id=image_id)
            self._mark(scope, ErrorClass.UNUSABLE, UNUSABLE, now, why)

    def mark_of(self, key: OfferKey, now: datetime, image_id: str = "") -> Mark | None:
        """Why an offer is not worth asking for, with an image if one is given, by the mark that
        holds longest; None if it is."""
        with_image = Scope(None, key.instance_type, key.zone, image_id=image_id)
        held = [
            mark
            for scope in (*_scopes_of(key), with_image)
            if (mark := self._marks.get(scope)) is not None and mark.holds(now)
        ]
        return max(held, key=lambda mark: mark.until) if held else None

    def mark_of_subnet(self, subnet: str, now: datetime) -> Mark | None:
        """Why a subnet cannot be used at `now`, such as no free addresses; None if it can."""
        mark = self._marks.get(Scope(subnet=subnet))
        return mark if mark is not None and mark.holds(now) else None

    def verification(self, now: datetime) -> Mark | None:
        """Why nothing is launched at `now` in this account; None if AWS has verified it, as far as
        is known."""
        mark = self._marks.get(_EVERYTHING)
        return mark if mark is not None and mark.holds(now) else None

    def is_hinted(self, key: OfferKey, now: datetime) -> bool:
        """True where EC2 itself has just said that there is room, and not refused it since."""
        until = self._hinted.get(key)
        return until is not None and now < until and self.mark_of(key, now) is None

    def all(self, now: datetime) -> tuple[tuple[Scope, Mark], ...]:
        """Every mark that holds, the one that ends first first."""
        held = [(scope, mark) for scope, mark in self._marks.items() if mark.holds(now)]
        return tuple(sorted(held, key=lambda entry: (entry[1].until, *map(str, entry[0]))))

    def forget_old(self, now: datetime) -> None:
        """Drop what holds no more."""
        self._marks = {scope: mark for scope, mark in self._marks.items() if now < mark.until}
        self._hinted = {key: until for key, until in self._hinted.items() if now < until}

    def _believe_hint(
        self, market: Market, call: Sequence[_Asked], error: LaunchError, now: datetime
    ) -> None:
        for zone in zones_with_capacity(error.message):
            for instance_type in _types_named(call, error):
                self._marks.pop(Scope(market, instance_type, zone), None)
                self._marks.pop(Scope(None, instance_type, zone), None)
                self._hinted[OfferKey(market, instance_type, zone)] = now + HINTED_FOR

    def _mark(
        self, scope: Scope, found: ErrorClass, code: str, now: datetime, why: str = ""
    ) -> None:
        before = self._marks.get(scope)
        since = before.since if before is not None and before.holds(now) else now
        self._marks[scope] = Mark(found, code, since, now + MARKED_FOR[found], why)


def _meant(call: Sequence[_Asked], error: LaunchError, zones: Mapping[str, str]) -> list[_Asked]:
    """What an error may be of: all of the call that it does not name otherwise."""
    named = _Asked(error.instance_type, error.subnet, error.zone or zones.get(error.subnet, ""))
    return [
        asked
        for asked in call
        if all(name in ("", field) for name, field in zip(named, asked, strict=True))
    ]


def _types_named(call: Sequence[_Asked], error: LaunchError) -> set[str]:
    """The types that a hint is about; where the entry names none, its text does."""
    if error.instance_type:
        return {error.instance_type}
    words = error.message.split()
    return {asked.instance_type for asked in call if asked.instance_type in words}


def _scope(found: ErrorClass, market: Market, asked: _Asked, reservation: str) -> Scope:
    """What an error of a class marks of an offer that it is of."""
    match found:
        case ErrorClass.SUBNET:
            return Scope(subnet=asked.subnet)
        case ErrorClass.VERIFICATION:
            return _EVERYTHING
        case ErrorClass.PLAN:
            return Scope(None, asked.instance_type)
        case _ if reservation:
            return Scope(market, asked.instance_type, asked.zone, reservation=reservation)
        case ErrorClass.TYPE_IN_ZONE:
            return Scope(None, asked.instance_type, asked.zone)
        case ErrorClass.QUOTA:
            return Scope(market, quota_class=quota_class(market, asked.instance_type))
        case ErrorClass.MARKET:
            return Scope(market)
        case _:
            return Scope(market, asked.instance_type, asked.zone)


@lru_cache(maxsize=8192)
def _scopes_of(key: OfferKey) -> tuple[Scope, ...]:
    """What a mark that concerns an offer may be of. Kept: a page asks for hundreds of offers."""
    in_any = _EVERYTHING, Scope(None, key.instance_type)
    if key.reservation:
        where = key.market, key.instance_type, key.zone
        return *in_any, Scope(None, *where[1:]), Scope(*where, reservation=key.reservation)
    return (
        *in_any,
        Scope(key.market, key.instance_type, key.zone),
        Scope(None, key.instance_type, key.zone),
        Scope(key.market, quota_class=quota_class(key.market, key.instance_type)),
        Scope(key.market),
    )
