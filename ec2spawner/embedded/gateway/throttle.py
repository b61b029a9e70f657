"""AWS's token buckets for EC2's API, as EC2 keeps them for an account and region."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ...core.ec2_api_limits import charges
from ...core.rate_limit import TokenBucket
from ..api.protocol import EC2Error


class Throttle:
    """The buckets of one account and region."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.enabled = True
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, action: str, parameters: Mapping[str, Any]) -> None:
        """Raises `RequestLimitExceeded` when a bucket lacks the tokens; then none is taken."""
        if not self.enabled:
            return
        now = self._clock()
        taken = charges(action, parameters)
        buckets = [self._buckets.setdefault(x.bucket, TokenBucket(x.rate)) for x in taken]
        if any(
            bucket.wait_seconds(now, charge.tokens)
            for bucket, charge in zip(buckets, taken, strict=True)
        ):
            raise EC2Error("RequestLimitExceeded", "Request limit exceeded.")
        for bucket, charge in zip(buckets, taken, strict=True):
            bucket.take(now, charge.tokens)
