"""What agents call, under `/hub/api/ec2/`: thin, hostile input in, models of `wire` out.

No cookie and no token of JupyterHub counts here: a claim is proved by a signature, everything
else by the lease's own token.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from jupyterhub.apihandlers.base import APIHandler
from pydantic import ValidationError
from tornado.web import Finish, stream_request_body

from ..aws.identity import IdentityBusyError, IdentityRefused
from ..core.names import sha256_hex
from ..provisioner.claims import Claimant, ClaimRefused, Granted, InstanceUnwanted
from ..provisioner.lease import Lease, LeaseState
from ..provisioner.provisioner import Provisioner
from ..wire import (
    MAX_BODY_BYTES,
    PROTOCOL,
    AgentEvent,
    Beat,
    Claim,
    ClaimWait,
    ExtendRequest,
    HomeMount,
    LeaseGrant,
    Message,
    Refusal,
    Stop,
    StopRequest,
)
from . import service
from .seal import SealBroken
from .service import HubService

ADDRESS_LISTINGS = 3
"""Listings to wait for an instance's address: EC2 knows it from the launch on."""

M = TypeVar("M", bound=Message)

PROTOCOLS = (PROTOCOL, PROTOCOL - 1) if PROTOCOL > 1 else (PROTOCOL,)
"""The hub speaks N and N-1: AMIs are older than hubs."""


@stream_request_body
class AgentHandler(APIHandler):
    """Reads a small body, answers a model."""

    _accept_cookie_auth = False
    _accept_token_auth = False

    def check_xsrf_cookie(self) -> None:
        """No cookie is accepted here, so none can be forged."""

    async def prepare(self) -> None:
        self._chunks: list[bytes] = []
        declared = self.request.headers.get("Content-Length", "0")
        if not declared.isdecimal() or int(declared) > MAX_BODY_BYTES:
            self.refuse(413, f"a body may have {MAX_BODY_BYTES} bytes")
        # A body that does not tell its length is cut by tornado, with a plain 400.
        self.request.connection.set_max_body_size(MAX_BODY_BYTES)
        await super().prepare()

    def data_received(self, chunk: bytes) -> None:
        self._chunks.append(chunk)

    def read(self, model: type[M]) -> M:
        """The body as a message; ends the request with 400 where it is none."""
        try:
            return model.model_validate_json(b"".join(self._chunks))
        except ValidationError as error:
            problems = (
                f"{'.'.join(map(str, detail['loc'])) or 'body'}: {detail['msg']}"
                for detail in error.errors(include_input=False, include_url=False)
            )
            self.refuse(400, "; ".join(problems))

    def answer(self, status: int, message: Message) -> None:
        self.set_status(status)
        self.finish(message.model_dump_json())

    def refuse(self, status: int, message: str) -> NoReturn:
        """End the request with a `Refusal`. Raises `Finish`."""
        self.answer(status, Refusal(message=message[:500]))
        raise Finish

    def come_back(self, message: str) -> NoReturn:
        """End the request with 503: not now. Raises `Finish`."""
        self.set_header("Retry-After", "2")
        self.refuse(503, message)

    def check_protocol(self, protocol: int) -> None:
        if protocol not in PROTOCOLS:
            spoken = " and ".join(map(str, PROTOCOLS))
            self.refuse(
                400,
                f"this hub speaks protocol {spoken}, and you speak {protocol}: "
                "use an image with a matching ec2spawner",
            )

    @property
    def service(self) -> HubService:
        running = service.current()
        if running is None or running.provisioner is None:
            self.come_back("the hub is starting")
        return running

    @property
    def provisioner(self) -> Provisioner:
        provisioner = self.service.provisioner
        assert provisioner is not None
        return provisioner

    def lease(self, lease_id: str) -> Lease:
        """The lease that the request's token opens; ends the request with 401, 404 or 410."""
        lease = self.provisioner.book.get(lease_id)
        if lease is None:
            self.refuse(404, "no such lease here: go on under your last policy")
        token = self.get_auth_token() or ""
        if not lease.token_sha256 or not hmac.compare_digest(sha256_hex(token), lease.token_sha256):
            self.refuse(401, "the token does not open this lease")
        if lease.state is LeaseState.ENDED:
            self.refuse(410, "this lease has ended")
        return lease


class ClaimsHandler(AgentHandler):
    async def post(self) -> None:
        claim = self.read(Claim)
        self.check_protocol(claim.protocol)
        try:
            identity = await self.service.verifier.verify(claim.document, claim.signature)
            claimant = Claimant(
                identity.instance_id, identity.region, identity.account_id, identity.pending_time
            )
            granted = await self.provisioner.starting.claim(claimant, claim.key, claim.wait_seconds)
        except (ClaimRefused, IdentityRefused) as error:
            self.log.error("Claim from %s refused: %s", self.request.remote_ip, error)
            self.refuse(403, str(error))
        except InstanceUnwanted as error:
            self.refuse(410, str(error))
        except IdentityBusyError as error:
            self.come_back(str(error))
        else:
            if granted is None:
                self.answer(202, ClaimWait())
            else:
                self.answer(200, await self.grant(granted))

    async def grant(self, granted: Granted) -> LeaseGrant:
        """All that the agent needs. When the seal does not open, lease and request end (410)."""
        lease, home = granted.lease, granted.home
        try:
            start = self.service.seal.open(lease.sealed_start)
        except SealBroken as error:
            self.log.error("The start of %s cannot be read: %s", lease.lease_id, error)
            stop = Stop(reason="failed", message="The hub can no longer start it: start it again")
            await self.provisioner.ending.begin(lease.lease_id, stop)
            self.refuse(410, "the hub can no longer start this server")
        return LeaseGrant(
            lease_id=lease.lease_id,
            lease_token=granted.token,
            environment=start.environment,
            command=start.command,
            base_url=start.base_url,
            port=self.service.options.port,
            home=HomeMount(
                kind="ebs" if lease.home_kind == "ebs" else "none",
                volume_id=home.volume_id if home else None,
            ),
            idle=lease.idle,
            profile=lease.profile_name,
            hub_lost_after_seconds=self.service.options.hub_lost_after,
        )


class EventsHandler(AgentHandler):
    async def post(self, lease_id: str) -> None:
        lease = self.lease(lease_id)
        event = self.read(AgentEvent)
        provisioner = self.provisioner
        provisioner.book.contact(lease.lease_id).heard_at = provisioner.now()
        if event.step == "stopped":
            await self.stopped(lease, event)
        else:
            address = await self.address(lease)
            url = f"http://{address}:{event.port or self.service.options.port}"
            await provisioner.starting.agent_event(lease, event, url)
        self.set_status(204)

    async def stopped(self, lease: Lease, event: AgentEvent) -> None:
        """Asked for by us, or the notebook ended by itself."""
        ending = self.provisioner.ending
        message = event.message or "The notebook server ended"
        await ending.begin(lease.lease_id, Stop(reason="failed", message=message))
        ending.agent_stopped(lease)

    async def address(self, lease: Lease) -> str:
        """The instance's private address, as EC2 says and never as the instance says."""
        address = None
        for _ in range(ADDRESS_LISTINGS):
            instance = self.provisioner.instance_of(lease)
            address = instance and instance.private_address
            if address:
                break
            await self.provisioner.watcher.next_listing(timeout=10)
        return address or self.come_back("EC2 does not tell this instance's address yet")


class BeatHandler(AgentHandler):
    async def post(self, lease_id: str) -> None:
        lease = self.lease(lease_id)
        beat = self.read(Beat)
        self.check_protocol(beat.protocol)
        try:
            answer = await self.provisioner.beats.beat(lease, beat)
        except asyncio.CancelledError:
            # JupyterHub cancels what is held when it stops: the agent comes back to the next hub.
            self.come_back("the hub is stopping")
        else:
            self.lease(lease_id)  # it may have ended meanwhile
            self.answer(200, answer)


class ExtendHandler(AgentHandler):
    async def post(self, lease_id: str) -> None:
        lease = self.lease(lease_id)
        request = self.read(ExtendRequest)
        if lease.state is not LeaseState.READY:
            self.refuse(409, "this server is being stopped")
        self.answer(200, await self.provisioner.beats.extend(lease, request.seconds))


class StopHandler(AgentHandler):
    async def post(self, lease_id: str) -> None:
        lease = self.lease(lease_id)
        self.read(StopRequest)
        stop = Stop(reason="user", message="You stopped it from the notebook")
        await self.provisioner.ending.begin(lease.lease_id, stop)
        self.set_status(204)


_LEASE = r"/api/ec2/leases/([a-z0-9-]{1,80})"

handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/ec2/claims", ClaimsHandler),
    (rf"{_LEASE}/events", EventsHandler),
    (rf"{_LEASE}/beat", BeatHandler),
    (rf"{_LEASE}/extend", ExtendHandler),
    (rf"{_LEASE}/stop", StopHandler),
]
