"""Token buckets, one or one for each key. Pure: the clock is the caller's."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

MAX_BUCKETS = 4096
"""Keys that are remembered. Beyond them the fullest buckets are forgotten, which forgives a
little and bounds what a stranger can make the hub remember."""


A_TOKEN = 1 - 1e-6
"""A caller that waits exactly as long as required has a token, despite rounding of floats."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A token bucket's size and refill."""

    burst: int
    """So many at once."""
    per_second: float
    """And so many again in each second after that."""

    @property
    def half(self) -> Rate:
        """Half of size and refill; a token at least."""
        return Rate(max(self.burst // 2, 1), self.per_second / 2)


@dataclass(slots=True)
class TokenBucket:
    """One bucket, full at first. Times in seconds of any one clock; one that goes back changes
    nothing."""

    rate: Rate
    _tokens: float = field(init=False)
    _at: float = field(init=False, default=-inf)
    """When `_tokens` were counted."""

    def __post_init__(self) -> None:
        self._tokens = float(self.rate.burst)

    def tokens(self, now: float) -> float:
        """How many are in it; never more than `rate.burst`."""
        gained = max(now - self._at, 0.0) * self.rate.per_second if self.rate.per_second else 0.0
        return min(self._tokens + gained, float(self.rate.burst))

    def take(self, now: float, tokens: int = 1) -> bool:
        """Take so many; False, and nothing is taken, where there are fewer."""
        there = self._count(now)
        if there < tokens - 1 + A_TOKEN:
            return False
        self._tokens = there - tokens
        return True

    def give_back(self, now: float, tokens: int) -> None:
        """Return what was taken and not used."""
        self._tokens = min(self._count(now) + tokens, float(self.rate.burst))

    def empty(self, now: float) -> None:
        """Whoever fills it says that nothing is left."""
        self._count(now)
        self._tokens = min(self._tokens, 0.0)

    def wait_seconds(self, now: float, tokens: int = 1) -> float:
        """How long until so many are there, also if they exceed `rate.burst`: then for those who
        take them one after the other. 0 where they are there."""
        there = self.tokens(now)
        if there >= tokens - 1 + A_TOKEN:
            return 0.0
        return (tokens - there) / self.rate.per_second if self.rate.per_second else inf

    def _count(self, now: float) -> float:
        self._tokens = self.tokens(now)
        self._at = max(self._at, now)
        return self._tokens


class Share(NamedTuple):
    """A key that takes what belongs to another key: one server's, or one program's, of a user's."""

    of: Hashable
    part: Hashable


@dataclass(slots=True)
class RateLimit:
    """One rate for many keys, each with a bucket of its own. Times in seconds of any one clock.

    What a `Share` takes is taken from `of`. Each has half the rate at most, and all of them leave
    half of the bucket to `of` itself.
    """

    rate: Rate
    _buckets: dict[Hashable, TokenBucket] = field(default_factory=dict)

    def take(self, key: Hashable, now: float, tokens: int = 1) -> bool:
        """Take so many; False, and nothing is taken, where there are fewer."""
        if self.wait_seconds(key, now, tokens):
            return False
        for bucket in self._drawn(key, now):
            bucket.take(now, tokens)
        return True

    def wait_seconds(self, key: Hashable, now: float, tokens: int = 1) -> float:
        """How long until so many are there; 0 where they are."""
        waits = self._bucket(key, now).wait_seconds(now, tokens)
        if isinstance(key, Share):
            left = self.rate.burst // 2
            waits = max(waits, self._bucket(key.of, now).wait_seconds(now, tokens + left))
        return waits

    @contextmanager
    def returned_on_error(self, key: Hashable, now: float) -> Iterator[None]:
        """Return the token that `key` took at `now` if the block raises: then it bought nothing."""
        try:
            yield
        except BaseException:
            for bucket in self._drawn(key, now):
                bucket.give_back(now, 1)
            raise

    def __len__(self) -> int:
        return len(self._buckets)

    def _bucket(self, key: Hashable, now: float) -> TokenBucket:
        if key not in self._buckets:
            if len(self._buckets) >= MAX_BUCKETS:
                self._forget(now)
            is_share = isinstance(key, Share)
            self._buckets[key] = TokenBucket(self.rate.half if is_share else self.rate)
        return self._buckets[key]

    def _drawn(self, key: Hashable, now: float) -> list[TokenBucket]:
        """The buckets that `key` takes from."""
        keys = (key, key.of) if isinstance(key, Share) else (key,)
        return [self._bucket(each, now) for each in keys]

    def _forget(self, now: float) -> None:
        """Keep the emptier half: who has spent most is remembered longest."""
        kept = sorted(self._buckets, key=lambda key: self._buckets[key].tokens(now))
        self._buckets = {key: self._buckets[key] for key in kept[: MAX_BUCKETS // 2]}
