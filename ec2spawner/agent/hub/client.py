"""The calls from instance to hub. Each is tried once; callers decide about retries."""

from __future__ import annotations

from typing import TypeVar

import aiohttp
from pydantic import BaseModel, ValidationError

from ...wire import (
    AgentEvent,
    Claim,
    ClaimWait,
    ClusterAnswer,
    ClusterRequest,
    ContinueRequest,
    ExtendRequest,
    ExtendResponse,
    HardwareChoices,
    Heartbeat,
    HeartbeatResponse,
    IdleRequest,
    IdleResponse,
    LeaseGrant,
    Message,
    Move,
    Refusal,
    RunReport,
    RunsAnswer,
    RunsRequest,
    RunWork,
    StopRequest,
)
from ...wire.runs import MAX_RUN_BODY_BYTES

CONNECT_SECONDS = 5.0
CALL_SECONDS = 15.0
"""Timeout of a call that the hub answers at once; added to the hold of a long poll."""

MAX_RESPONSE_BYTES = MAX_RUN_BODY_BYTES
"""The work or the result of a run is the largest; a larger response is not the hub's."""

MAX_RETRY_AFTER_SECONDS = 60.0
"""The hub asks for a few seconds. A proxy may ask for longer than an agent may be silent."""

Model = TypeVar("Model", bound=BaseModel)


class HubError(Exception):
    """A call to the hub brought no usable answer. Messages contain no secrets."""

    retry_after = 0.0
    """Seconds to wait before the next call, from a 429. Add the usual backoff: its jitter keeps
    agents that were throttled together from retrying together."""


class HubUnreachableError(HubError):
    """No answer, a 5xx, a 429 or an invalid body: retry; the notebook keeps running."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class HubRefusedError(HubError):
    """A 4xx: the hub refused the call."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the hub answered {status}: {message}")
        self.status = status
        self.message = message


class PowerOffError(HubError):
    """This instance powers off: for too long it has had no answer, or no identity."""


class GoneError(PowerOffError):
    """410: the hub does not want this instance any more."""


class HubClient:
    """Calls `{hub_api_url}/ec2`. Cancelling a call closes its connection at once."""

    def __init__(self, hub_api_url: str, http: aiohttp.ClientSession) -> None:
        self._root = f"{hub_api_url}/ec2"
        self._http = http
        self._lease_id = ""
        self._token = ""

    def take_lease(self, lease_id: str, token: str) -> None:
        """Use this lease and its token for all later calls."""
        self._lease_id, self._token = lease_id, token

    async def claim(self, claim: Claim) -> LeaseGrant | ClaimWait:
        """Ask for a lease. Raises `HubError`."""
        status, body = await self._post("claims", claim, claim.wait_seconds)
        return _parse(ClaimWait, body) if status == 202 else _parse(LeaseGrant, body)

    async def report(self, event: AgentEvent) -> None:
        """Report a step. Raises `HubError`."""
        await self._call("events", event)

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatResponse:
        """Send a heartbeat, which the hub may hold. Raises `HubError`."""
        body = await self._call("beat", heartbeat, heartbeat.hold_seconds)
        return _parse(HeartbeatResponse, body)

    async def extend(self, seconds: float) -> ExtendResponse:
        """Postpone the idle stop on the owner's behalf. Raises `HubError`."""
        return _parse(ExtendResponse, await self._call("extend", ExtendRequest(seconds=seconds)))

    async def choose_idle(self, seconds: float) -> IdleResponse:
        """Choose the idle limit on the owner's behalf. Raises `HubError`."""
        request = IdleRequest(server_seconds=seconds)
        return _parse(IdleResponse, await self._call("idle", request))

    async def stop(self, *, sleep: bool = False) -> None:
        """Ask for the server's stop on the owner's behalf, `sleep` with its session saved first.

        Raises `HubError`.
        """
        await self._call("stop", StopRequest(sleep=sleep))

    async def hardware(self) -> HardwareChoices:
        """What else the owner may continue on. Raises `HubError`."""
        return _parse(HardwareChoices, await self._call("hardware", Message()))

    async def continue_on(self, profile: str | None) -> Move:
        """Continue on another profile on the owner's behalf, or None: how far a move is.

        Raises `HubError`.
        """
        return _parse(Move, await self._call("continue", ContinueRequest(profile=profile)))

    async def cluster(self, request: ClusterRequest) -> ClusterAnswer:
        """Price, start, scale, stop or show the server's cluster. Raises `HubError`."""
        return _parse(ClusterAnswer, await self._call("cluster", request))

    async def runs(self, request: RunsRequest) -> RunsAnswer:
        """Submit, show or cancel runs on the owner's behalf. Raises `HubError`."""
        return _parse(RunsAnswer, await self._call("runs", request))

    async def report_run(self, report: RunReport) -> RunWork:
        """Report on the run that this instance executes. Raises `HubError`."""
        return _parse(RunWork, await self._call("run", report))

    async def _call(self, call: str, message: BaseModel, hold: float = 0.0) -> bytes:
        """A call about the lease, which the hub may hold for `hold` seconds; the body."""
        _, body = await self._post(f"leases/{self._lease_id}/{call}", message, hold)
        return body

    async def _post(self, path: str, message: BaseModel, hold: float = 0.0) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        timeout = aiohttp.ClientTimeout(total=hold + CALL_SECONDS, sock_connect=CONNECT_SECONDS)
        try:
            async with self._http.post(
                f"{self._root}/{path}",
                data=message.model_dump_json(),
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                body = await _read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise HubUnreachableError(f"no answer to {path}: {error!r}") from error
        if response.status == 410:
            raise GoneError(_message(body))
        if response.status == 429:
            wait = _retry_after(response.headers.get("Retry-After", ""))
            raise HubUnreachableError(f"{path} answered 429", wait)
        if not 200 <= response.status < 500:
            raise HubUnreachableError(f"{path} answered {response.status}")
        if response.status >= 400:
            raise HubRefusedError(response.status, _message(body))
        return response.status, body


def _retry_after(header: str) -> float:
    """Seconds; 0 for a header that is not a number of them."""
    return min(float(header), MAX_RETRY_AFTER_SECONDS) if header.isdecimal() else 0.0


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(64 * 1024):
        body += chunk
        if len(body) > MAX_RESPONSE_BYTES:
            raise HubUnreachableError(f"a response of more than {MAX_RESPONSE_BYTES} bytes")
    return bytes(body)


def _parse(model: type[Model], body: bytes) -> Model:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        # Without the input: a grant contains tokens.
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors(include_input=False, include_url=False)[:3]
        )
        raise HubUnreachableError(f"an invalid {model.__name__}: {problems}") from None


def _message(body: bytes) -> str:
    try:
        return Refusal.model_validate_json(body).message[:500]
    except ValidationError:
        return "without a reason"
