"""boto3 behind an event loop: a bounded pool of threads, timeouts, and our own errors.

boto3's import, its clients, the calls and the parsing of responses all run in the pool: each of
them would block the event loop for too long.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ...core.offers.launch_errors import THROTTLES
from ...daemon_threads import DaemonThreads
from ...provisioner.model.cloud import CloudError
from . import call_log, metrics

THREADS: Final = 16
"""Concurrent calls, and so connections: more would only be throttled by EC2's token buckets."""

PAGE: Final = 50
"""Resources to a page: parsing a page of 100 instances takes 56 ms of CPU, of 1000 600 ms."""

MAX_PAGES: Final = 1000
"""Pages after which a listing counts as endless."""

ATTEMPTS: Final = 3
"""Attempts of calls that may be repeated, with the back-off of botocore's standard mode."""

Answer = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `connect` and `read` limit one attempt, `total` one call with its retries."""

    connect: float = 3.0
    read: float = 10.0
    """EC2 answers a page of 50 within two seconds."""
    launch_read: float = 40.0
    """CreateFleet of type `instant` answers when it has tried every offer."""
    total: float = 50.0


class Client:
    """boto3's clients of one region, created when they are first needed.

    There are two for each service: one repeats calls, one never does. An `endpoint_url` applies to
    every service.
    """

    def __init__(
        self, region: str, endpoint_url: str | None = None, timeouts: Timeouts | None = None
    ) -> None:
        self.region = region
        self._endpoint_url = endpoint_url
        self._timeouts = timeouts or Timeouts()
        self._threads = DaemonThreads(THREADS, "ec2spawner-aws")
        self._making = threading.Lock()
        self._session: Any = None
        self._clients: dict[tuple[str, int], Any] = {}
        self._closed = False

    async def call(
        self,
        operation: str,
        parse: Callable[[Answer], T],
        *,
        service: str = "ec2",
        attempts: int = ATTEMPTS,
        **parameters: Any,
    ) -> T:
        """Call the service's `operation` (boto3's method name) and parse its response, in the pool.

        Raises `CloudError`. After a cancellation or timeout the call itself continues in its
        thread: as with any lost response, it may have taken effect.
        """
        if self._closed:
            raise CloudError("Closed", "the hub is shutting down", retryable=False)

        def work() -> T:
            answer = self._ask(service, operation, attempts, parameters)
            try:
                return parse(answer)
            except (LookupError, TypeError, ValueError) as error:
                message = f"{operation} answered what this version cannot read: {error!r}"
                raise CloudError("UnexpectedAnswer", message, retryable=False) from error

        try:
            async with asyncio.timeout(self._timeouts.total):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError as error:
            message = f"no answer to {operation} within {self._timeouts.total:g} s"
            raise CloudError("Timeout", message, retryable=True) from error

    async def do(self, operation: str, *, ignore: Collection[str] = (), **parameters: Any) -> bool:
        """Call an operation of EC2 whose response says nothing.

        False where EC2 refused it with one of the codes in `ignore`. Raises `CloudError` otherwise.
        """
        try:
            await self.call(operation, lambda _: None, **parameters)
        except CloudError as error:
            if error.code not in ignore:
                raise
            return False
        return True

    async def dry_run(self, action: str, **parameters: Any) -> CloudError | None:
        """EC2's error for an API action, such as `CreateTags`, called with DryRun.

        EC2 always answers with an error; None if the endpoint ignored DryRun.
        """
        from botocore import xform_name

        try:
            await self.do(xform_name(action), attempts=1, DryRun=True, **parameters)
        except CloudError as error:
            return error
        return None

    async def pages(
        self,
        operation: str,
        parse: Callable[[Answer], Sequence[T]],
        *,
        service: str = "ec2",
        page: int = PAGE,
        **parameters: Any,
    ) -> list[T]:
        """All pages of a listing operation, or an exception; never only some of them."""
        found: list[T] = []
        token: str | None = None
        for _ in range(MAX_PAGES):
            place: dict[str, Any] = {"NextToken": token} if token else {}
            items, token = await self.call(
                operation,
                lambda answer: (parse(answer), answer.get("NextToken")),
                service=service,
                **{"MaxResults": page, **place, **parameters},
            )
            found.extend(items)
            if not token:
                return found
        raise CloudError("EndlessListing", f"{operation} does not end", retryable=True)

    async def endpoint(self, service: str = "ec2") -> str:
        """The URL that calls of a service go to."""

        def read() -> str:
            return str(self._client(service, ATTEMPTS).meta.endpoint_url)

        return await asyncio.get_running_loop().run_in_executor(self._threads, read)

    async def close(self) -> None:
        """Start no more calls. Current calls end by themselves, at the latest by timeout."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._making:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _ask(
        self, service: str, operation: str, attempts: int, parameters: Mapping[str, Any]
    ) -> Answer:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        from .errors import cloud_error

        try:
            client = self._client(service, attempts)
        except (BotoCoreError, OSError) as error:  # no call was made, so none is counted
            raise cloud_error(error) from error
        action = client.meta.method_to_api_mapping.get(operation, operation)
        outcome, began = "failed", time.monotonic()
        answer: Answer | None = None
        try:
            answer = getattr(client, operation)(**parameters)
            outcome = "ok"
        except (BotoCoreError, ClientError, ResponseParserError, OSError) as error:
            said = cloud_error(error)
            outcome = _outcome(said)
            call_log.record(action, parameters, None, str(said))
            raise said from error
        finally:
            metrics.CALLS.labels(action, outcome).inc()
            metrics.SECONDS.labels(action).observe(time.monotonic() - began)
        call_log.record(action, parameters, answer, outcome)
        return answer

    def _client(self, service: str, attempts: int) -> Any:
        with self._making:  # boto3 sessions are not safe across threads; clients are
            if (service, attempts) not in self._clients:
                self._clients[service, attempts] = self._make(service, attempts)
            return self._clients[service, attempts]

    def _make(self, service: str, attempts: int) -> Any:
        import boto3
        from botocore.config import Config

        if self._session is None:
            self._session = boto3.session.Session()
        once = attempts == 1
        client = self._session.client(
            service,
            region_name=price_list_region(self.region) if service == "pricing" else self.region,
            endpoint_url=self._endpoint_url,
            config=Config(
                connect_timeout=self._timeouts.connect,
                read_timeout=self._timeouts.launch_read if once else self._timeouts.read,
                max_pool_connections=THREADS,
                retries={"mode": "standard", "total_max_attempts": attempts},
                user_agent_extra="ec2spawner",
            ),
        )
        client.meta.events.register("needs-retry", _count_throttle)
        return client


def entries(member: str, parse: Callable[[Mapping[str, Any]], T]) -> Callable[[Answer], list[T]]:
    """Parses every entry of a list in a response."""
    return lambda answer: [parse(entry) for entry in answer[member]]


def _outcome(error: CloudError) -> str:
    if error.code in THROTTLES:
        return "throttled"
    return "failed" if error.retryable else "refused"


def _count_throttle(response: Any, operation: Any, **_: Any) -> None:
    """botocore reports each attempt before it repeats the call."""
    if response is not None and response[1].get("Error", {}).get("Code") in THROTTLES:
        metrics.THROTTLES.labels(operation.name).inc()


def known_regions() -> frozenset[str]:
    """Regions of all partitions that this version of botocore knows; newer ones work too."""
    from botocore.session import get_session

    session = get_session()
    partitions = session.get_available_partitions()
    return frozenset(r for p in partitions for r in session.get_available_regions("ec2", p))


def price_list_region(region: str) -> str:
    """The Price List API endpoint for a region of the partition `aws`, where three regions have it.

    It knows the prices of every region of its partition, so the nearest one is merely faster.
    From AWS's list of endpoints, November 2026.
    """
    part = region.partition("-")[0]
    if part in {"af", "eu", "il", "me"}:
        return "eu-central-1"
    return "ap-south-1" if part == "ap" else "us-east-1"
