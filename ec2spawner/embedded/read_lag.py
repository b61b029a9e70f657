"""Read after write: for a while after its creation, calls may not know a resource or its new tags.

"Eventual consistency in the Amazon EC2 API" promises no time, and advises retries from seconds to
minutes; most resources are known at once. While one lags, each call asks another replica: a
listing that lacks it may follow one that shows it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from random import Random
from typing import Any, Final

from .api.protocol import EC2Error

SHARE = 0.2
"""Share of the resources that are not known at once."""

MEAN_SECONDS = 0.5
"""Mean lag of those, with an exponential distribution."""

MAX_SECONDS = 5.0

STALE = 0.75
"""Probability that a call asks a replica that does not know a lagging resource yet."""

NO_LAG_HEADER: Final = "X-Embedded-No-Lag"
"""A call with this header knows all resources and tags at once: to whoever observes the account
from outside, a listing is what there is. EC2 has nothing like it, and no part of a hub sends it."""

_NOT_FOUND: Mapping[str, tuple[str, str]] = {
    "i-": ("InvalidInstanceID.NotFound", "The instance ID '{}' does not exist"),
    "vol-": ("InvalidVolume.NotFound", "The volume '{}' does not exist."),
    "snap-": ("InvalidSnapshot.NotFound", "The snapshot '{}' does not exist."),
    "sg-": ("InvalidGroup.NotFound", "The security group '{}' does not exist"),
    "eni-": ("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '{}' does not exist"),
    "lt-": (
        "InvalidLaunchTemplateId.NotFound",
        "The specified launch template, with template ID {}, does not exist.",
    ),
}
"""Prefix of an id -> EC2's code and message."""

_NO_TEMPLATE_NAME = (
    "InvalidLaunchTemplateName.NotFoundException",
    "The specified launch template, with template name {}, does not exist.",
)

NO_PLACEMENT_GROUP = "InvalidPlacementGroup.Unknown"
"""EC2's code for placement groups, which calls name: `PlacementGroups` looks for them."""

CODES = frozenset(
    [*(code for code, _ in (*_NOT_FOUND.values(), _NO_TEMPLATE_NAME)), NO_PLACEMENT_GROUP]
)
"""What calls are answered with that do not know a resource yet."""

_IDS = frozenset(
    (
        "GroupId GroupIds Groups InstanceId InstanceIds LaunchTemplateId LaunchTemplateIds "
        "NetworkInterfaceId NetworkInterfaceIds Resources SnapshotId SnapshotIds VolumeId VolumeIds"
    ).split()
)
_NAMES = frozenset({"LaunchTemplateName", "LaunchTemplateNames"})
_HOLDERS = frozenset({"LaunchTemplate", "LaunchTemplateConfigs", "LaunchTemplateSpecification"})
"""Parameters that hold other parameters with ids of templates."""

_lags: ContextVar[bool] = ContextVar("lags", default=True)


@contextlib.contextmanager
def for_call(headers: Mapping[str, str]) -> Iterator[None]:
    """Answer a call with these headers within the block: nothing lags if they ask for that."""
    token = _lags.set(NO_LAG_HEADER not in headers)
    try:
        yield
    finally:
        _lags.reset(token)


class ReadLag:
    """Which resources a call does not know yet.

    The same seed and order of calls give the same lags.
    """

    def __init__(
        self,
        seed: int,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds` is a lag for everything, as in `set`; None draws one for each resource."""
        self.seed = seed
        self._random = Random(seed)
        self._seconds = seconds
        self._clock = clock
        self._known_at: dict[str, float] = {}
        """By id, or name of a template, on the clock."""
        self._tagged: dict[str, tuple[float, Mapping[str, str]]] = {}
        """By id: when its present tags are known, on the clock, and those that are shown before."""

    def set(self, seconds: float | None) -> None:
        """The lag of what is created from now on: exact, and in every call until then. None draws
        again."""
        self._seconds = seconds

    def created(self, *ids: str) -> None:
        """These were created together; one that is known of already stays as it is."""
        at = self._clock() + self._draw()
        for each in ids:
            self._known_at.setdefault(each, at)

    def template_created(self, template_id: str, name: str) -> None:
        """A launch template, which calls name by either; a name may be used again."""
        self._known_at[template_id] = self._known_at[name] = self._clock() + self._draw()

    def tagged(self, resource_id: str, before: Mapping[str, str]) -> None:
        """The tags of a resource have changed from these."""
        _, shown = self._tagged.get(resource_id, (0.0, before))
        if self._clock() >= self._tagged.get(resource_id, (0.0, {}))[0]:
            shown = before
        self._tagged[resource_id] = (self._clock() + self._draw(), shown)

    def hides(self, name: str) -> bool:
        """Whether this call does not know the resource yet."""
        return self._is_stale(self._known_at.get(name, 0.0))

    def former_tags(self, resource_id: str) -> Mapping[str, str] | None:
        """The tags that this call shows in place of the present ones, if it does."""
        at, before = self._tagged.get(resource_id, (0.0, {}))
        return before if self._is_stale(at) else None

    def check(self, action: str, parameters: Mapping[str, Any]) -> None:
        """Raises EC2's `NotFound` for the first resource that the call names and does not know."""
        if action == "CreateLaunchTemplate":
            return
        for name, (code, message) in _named(parameters):
            if self.hides(name):
                raise EC2Error(code, message.format(name))

    def _draw(self) -> float:
        if self._seconds is not None:
            return self._seconds
        if self._random.random() >= SHARE:
            return 0.0
        return min(self._random.expovariate(1 / MEAN_SECONDS), MAX_SECONDS)

    def _is_stale(self, known_at: float) -> bool:
        if self._clock() >= known_at or not _lags.get():
            return False
        return self._seconds is not None or self._random.random() < STALE


def _named(parameters: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Ids and names in a request, each with the error for one that does not exist."""
    for key, value in parameters.items():
        values = value if isinstance(value, list | tuple) else [value]
        if key in _HOLDERS:
            for each in values:
                yield from _named(each)
        elif key in _NAMES:
            yield from ((each, _NO_TEMPLATE_NAME) for each in values)
        elif key in _IDS:
            for each in values:
                prefix = f"{each.partition('-')[0]}-"
                if prefix in _NOT_FOUND:
                    yield each, _NOT_FOUND[prefix]
