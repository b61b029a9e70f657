"""boto3 behind an event loop: a bounded pool of threads, timeouts, repetitions, and our own errors.

boto3's import, its clients, the calls and the parsing of responses all run in the pool: each of
them would block the event loop for too long. Waiting does not, whether for EC2's rate limit or
before a repetition: a thread that waits is one that nobody else can call with.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ...core.backoff import Backoff
from ...core.offers.launch_errors import THROTTLES
from ...daemon_threads import DaemonThreads
from ...provisioner.model.cloud.cloud import LISTING_PAGE, CloudError
from . import call_log, metrics
from .request_tokens import RequestTokens, TurnTooLateError

THREADS: Final = 16
"""Concurrent calls, and so connections: more would only be throttled by EC2's token buckets."""

MAX_PAGES: Final = 1000
"""Pages after which a listing counts as endless."""

ATTEMPTS: Final = 3
"""Attempts of calls that may be repeated, as in botocore's standard mode."""

BACKOFF: Final = Backoff(first=1.0, longest=20.0, jitter=1.0)
"""Between them, as in botocore's standard mode, which repeats in its thread and without tokens."""

UNREADABLE: Final = "UnexpectedAnswer"
"""Our code for a response that `parse` cannot read."""

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

    There are two for each service, because calls that are not repeated wait longer for their
    answer. An `endpoint_url` applies to every service.
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
        self._clients: dict[tuple[str, bool], Any] = {}
        """By service, and whether its calls are repeated."""
        self._tokens = RequestTokens()
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

        After a retryable error it is repeated, up to `attempts` in all. Each of them waits for its
        tokens if the service is EC2.

        Raises `CloudError`. After a cancellation or timeout the call itself continues in its
        thread: as with any lost response, it may have taken effect.
        """
        latest = asyncio.get_running_loop().time() + self._timeouts.total
        try:
            async with asyncio.timeout_at(latest):
                client = await self._in_pool(lambda: self._client(service, attempts > 1))
            call = _Call(client, operation, parameters)
            with call.counted():
                async with asyncio.timeout_at(latest):
                    return await self._repeated(call, parse, attempts, latest)
        except TimeoutError as error:
            message = f"no answer to {operation} within {self._timeouts.total:g} s"
            raise CloudError("Timeout", message, retryable=True) from error

    async def _repeated(
        self, call: _Call, parse: Callable[[Answer], T], attempts: int, latest: float
    ) -> T:
        attempt = 1
        while True:
            async with self._turn(call, latest):
                try:
                    return await self._in_pool(lambda: call.read(parse))
                except CloudError as error:
                    if error.code in THROTTLES:
                        metrics.THROTTLES.labels(call.action).inc()
                        self._tokens.throttled(call.action, call.parameters)
                    if attempt >= attempts or not error.retryable:
                        raise
            await asyncio.sleep(BACKOFF.pause(attempt))
            attempt += 1

    def _turn(self, call: _Call, latest: float) -> contextlib.AbstractAsyncContextManager[None]:
        """Inside, one attempt is sent. AWS publishes no buckets of its other services."""
        if call.service == "ec2":
            return self._tokens.turn(call.action, call.parameters, latest)
        return contextlib.nullcontext()

    async def _in_pool(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise CloudError("Closed", "the hub is shutting down", retryable=False)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

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
        page: int = LISTING_PAGE,
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

        return await self._in_pool(lambda: str(self._client(service, True).meta.endpoint_url))

    async def close(self) -> None:
        """Start no more calls. Current calls end by themselves, at the latest by timeout."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._making:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _client(self, service: str, is_repeated: bool) -> Any:
        from botocore.exceptions import BotoCoreError

        from .errors import cloud_error

        with self._making:  # boto3 sessions are not safe across threads; clients are
            if (service, is_repeated) not in self._clients:
                try:
                    self._clients[service, is_repeated] = self._make(service, is_repeated)
                except (BotoCoreError, OSError) as error:
                    raise cloud_error(error) from error
            return self._clients[service, is_repeated]

    def _make(self, service: str, is_repeated: bool) -> Any:
        import boto3
        from botocore.config import Config

        if self._session is None:
            self._session = boto3.session.Session()
        return self._session.client(
            service,
            region_name=service_region(service, self.region),
            endpoint_url=self._endpoint_url,
            config=Config(
                connect_timeout=self._timeouts.connect,
                read_timeout=self._timeouts.read if is_repeated else self._timeouts.launch_read,
                max_pool_connections=THREADS,
                retries={"mode": "standard", "total_max_attempts": 1},
                user_agent_extra="ec2spawner",
            ),
        )


class _Call:
    """One call, however often it is repeated."""

    def __init__(self, client: Any, operation: str, parameters: Mapping[str, Any]) -> None:
        self.service: str = client.meta.service_model.service_name
        self.action: str = client.meta.method_to_api_mapping.get(operation, operation)
        self.parameters = parameters
        self._client = client
        self._operation = operation

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count what becomes of it, inside. A cancelled one has no outcome."""
        began = time.monotonic()
        try:
            yield
        except CloudError as error:
            self._count(_outcome(error), began)
            raise
        except TimeoutError:
            self._count("failed", began)
            raise
        else:
            self._count("ok", began)

    def _count(self, outcome: str, began: float) -> None:
        metrics.CALLS.labels(self.action, outcome).inc()
        metrics.SECONDS.labels(self.action).observe(time.monotonic() - began)

    def read(self, parse: Callable[[Answer], T]) -> T:
        """Ask once, in the pool's thread. Raises `CloudError`."""
        answer = self._ask()
        try:
            return parse(answer)
        except (LookupError, TypeError, ValueError) as error:
            message = f"{self._operation} answered what this version cannot read: {error!r}"
            raise CloudError(UNREADABLE, message, retryable=False) from error

    def _ask(self) -> Answer:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        from .errors import cloud_error

        try:
            answer: Answer = getattr(self._client, self._operation)(**self.parameters)
        except (BotoCoreError, ClientError, ResponseParserError, OSError) as error:
            said = cloud_error(error)
            call_log.record(self.action, self.parameters, None, str(said))
            raise said from error
        call_log.record(self.action, self.parameters, answer, "ok")
        return answer


def entries(member: str, parse: Callable[[Mapping[str, Any]], T]) -> Callable[[Answer], list[T]]:
    """Parses every entry of a list in a response."""
    return lambda answer: [parse(entry) for entry in answer[member]]


def _outcome(error: CloudError) -> str:
    if isinstance(error, TurnTooLateError):
        return "queued"
    if error.code in THROTTLES:
        return "throttled"
    return "failed" if error.retryable or error.code == UNREADABLE else "refused"


def known_regions() -> frozenset[str]:
    """Regions of all partitions that this version of botocore knows; newer ones work too."""
    from botocore.session import get_session

    session = get_session()
    partitions = session.get_available_partitions()
    return frozenset(r for p in partitions for r in session.get_available_regions("ec2", p))


def service_region(service: str, region: str) -> str:
    """The region of a service's endpoint, for a hub in a region of the partition `aws`.

    AWS Free Tier has one for all accounts, in us-east-1 ("AWS Free Tier" in the API reference of
    AWS Billing and Cost Management, November 2026).
    """
    if service == "freetier":
        return "us-east-1"
    return price_list_region(region) if service == "pricing" else region


def price_list_region(region: str) -> str:
    """The Price List API endpoint for a region of the partition `aws`, where three regions have it.

    It knows the prices of every region of its partition, so the nearest one is merely faster.
    From AWS's list of endpoints, November 2026.
    """
    part = region.partition("-")[0]
    if part in {"af", "eu", "il", "me"}:
        return "eu-central-1"
    return "ap-south-1" if part == "ap" else "us-east-1"
