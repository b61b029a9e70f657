"""How far this machine's clock is from AWS's."""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from tornado.simple_httpclient import SimpleAsyncHTTPClient

TIMEOUT = 5.0
"""Seconds for the answer."""


async def clock_skew(endpoint: str, clock: Callable[[], float] = time.time) -> float | None:
    """Seconds by which this machine's clock is ahead of the endpoint's; None if it did not say.

    Any answer has a Date header, also one that refuses: no credentials are sent, because wrong
    clocks are what makes AWS refuse those. The header has whole seconds.
    """
    client = SimpleAsyncHTTPClient(force_instance=True, max_body_size=64 * 1024)
    try:
        answer = await client.fetch(
            endpoint,
            raise_error=False,
            follow_redirects=False,
            connect_timeout=TIMEOUT,
            request_timeout=TIMEOUT,
        )
        return clock() - parsedate_to_datetime(answer.headers["Date"]).timestamp()
    except Exception:  # no answer, or one without a readable date: other findings say so
        return None
    finally:
        client.close()
