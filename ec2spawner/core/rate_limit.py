"""Token buckets, one for each key. Pure: the clock is the caller's."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True)
class RateLimit:
    """One rate for many keys, each with a bucket of its own. Times in seconds of any one clock."""

    rate: Rate
    _buckets: dict[Hashable, _Bucket] = field(default_factory=dict)

    def take(self, key: Hashable, now: float) -> bool:
        """Take a token; False, and nothing is taken, where there is none."""
        bucket = self._filled(key, now)
        if bucket.tokens < A_TOKEN:
            return False
        bucket.tokens -= 1
        return True

    def wait_seconds(self, key: Hashable, now: float) -> float:
        """How long until there is a token; 0 where there is one."""
        tokens = self._filled(key, now).tokens
        return 0.0 if tokens >= A_TOKEN else (1 - tokens) / self.rate.per_second

    def __len__(self) -> int:
        return len(self._buckets)

    def _filled(self, key: Hashable, now: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._forget(now)
            bucket = self._buckets[key] = _Bucket(self.rate.burst, now)
        bucket.tokens = self._tokens(bucket, now)
        bucket.at = max(bucket.at, now)
        return bucket

    def _tokens(self, bucket: _Bucket, now: float) -> float:
        gained = max(now - bucket.at, 0.0) * self.rate.per_second
        return min(bucket.tokens + gained, self.rate.burst)

    def _forget(self, now: float) -> None:
        """Keep the emptier half: who has spent most is remembered longest."""
        kept = sorted(self._buckets, key=lambda key: self._tokens(self._buckets[key], now))
        self._buckets = {key: self._buckets[key] for key in kept[: MAX_BUCKETS // 2]}
