"""The API for agents under `/hub/api/ec2/`: untrusted input in, models of `wire` out.

JupyterHub's cookies and tokens are not accepted: a claim is proved by a signature, everything else
by the lease's own token.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, ClassVar
from urllib.parse import quote

from ....aws.identity import IdentityBusyError, IdentityRefused
from ....core.names import sha256_hex
from ....core.rate_limit import RateLimit, Share
from ....provisioner.instances.claims import (
    Claimant,
    ClaimRefused,
    Granted,
    InstanceUnwanted,
    SecondKey,
)
from ....provisioner.lifecycle.heartbeat import Held, policy_of
from ....provisioner.model.leases.agent_protocol import why_unfit
from ....provisioner.model.leases.lease import Lease, LeaseState
from ....provisioner.model.leases.mounts import data_mounts
from ....provisioner.model.session_wake import wakes
from ....provisioner.sleeping import CannotSleep
from ....provisioner.state.start_times import Arrival
from ....wire import (
    AgentEvent,
    Certificates,
    Claim,
    ClaimWait,
    DataMount,
    ExtendRequest,
    Heartbeat,
    HomeMount,
    IdleRequest,
    LeaseGrant,
    Spoken,
    Stop,
    StopRequest,
)
from ....wire.sleep import WAKE
from ...app.reporting.log_limits import REFUSED_CLAIM, UNPROVED_CLAIM
from ...app.reporting.metrics import CLAIMS_LIMITED, LEASE_CALLS_LIMITED, SECOND_KEY_CLAIMS
from ...security.claim_rate_limit import TooManyClaims
from ...security.notebook_certificates import CannotSign
from ...security.sealed_start import SealBroken
from .. import server_end
from .handler import STOPPING, AgentHandler


class ClaimsHandler(AgentHandler):
    """`POST claims`: verify the identity, bind the key, and grant or wait for a lease."""

    async def post(self) -> None:
        """200 with a lease, 202 with none yet; 400, 403, 410, 429 or 503 as refused."""
        unfit = why_unfit(self.read(Spoken).protocol, needs=self.service.needs_protocol)
        claim = self.read(Claim, instead=unfit)
        arrival = self.provisioner.agents.arrival(claim.agent_seconds, claim.boot_seconds)
        try:
            claimant = await self.claimant(claim)
            granted = await self.settle(claim, claimant, unfit, arrival)
        except (ClaimRefused, IdentityRefused) as error:
            unproved = isinstance(error, IdentityRefused)
            line = UNPROVED_CLAIM if unproved else REFUSED_CLAIM
            self.log.error(line, self.request.remote_ip, error)
            self.refuse(403, str(error))
        except TooManyClaims as error:
            CLAIMS_LIMITED.inc()
            await self.refuse_for_now(error.seconds, str(error))
        except InstanceUnwanted as error:
            self.refuse(410, str(error))
        except IdentityBusyError as error:
            self.retry_later(str(error))
        except asyncio.CancelledError:
            # JupyterHub cancels held requests when it stops: the agent retries with the next hub.
            self.retry_later(STOPPING)
        else:
            if unfit:
                self.refuse(400, unfit)
            elif granted is None:
                waits = self.provisioner.agents.waits_for_nobody(claimant)
                patterns = list(self.service.options.read_ahead) if waits else None
                self.answer(202, ClaimWait(read_ahead=patterns))
            else:
                self.answer(200, await self.grant(granted))

    async def settle(
        self, claim: Claim, claimant: Claimant, unfit: str, arrival: Arrival
    ) -> Granted | None:
        """A lease, or none yet. An unfit agent's instance and start are ended."""
        try:
            return await self.provisioner.agents.claim(
                claimant,
                claim.key,
                claim.wait_seconds,
                unfit=unfit,
                fault=claim.fault,
                is_reclaimed=claim.interruption_at is not None,
                arrival=arrival,
            )
        except SecondKey:
            SECOND_KEY_CLAIMS.inc()
            raise

    async def claimant(self, claim: Claim) -> Claimant:
        """The claimant, as AWS has signed it."""
        identity = await self.service.gate.identify(claim)
        return Claimant(
            instance_id=identity.instance_id,
            region=identity.region,
            account_id=identity.account_id,
            pending_time=identity.pending_time,
            protocol=claim.protocol,
            reads_ahead=claim.reads_ahead,
        )

    async def grant(self, granted: Granted) -> LeaseGrant:
        """Everything the agent needs. If the hub cannot provide it, lease and request end (410)."""
        lease, home = granted.lease, granted.home
        try:
            start = self.service.seal.open(lease.sealed_start)
            certificates = await self.certificates(lease) if lease.is_server else None
        except (SealBroken, CannotSign) as error:
            self.log.error("%s cannot be started: %s", lease.lease_id, error)
            sealed = isinstance(error, SealBroken)
            advice = (
                "Start your server again" if sealed else "Tell an admin; the hub's log has more"
            )
            message = f"The hub could not hand your server over to its machine. {advice}"
            stop = Stop(reason="failed", message=message)
            await self.provisioner.end(lease.lease_id, stop)
            self.refuse(410, "the hub can no longer start this server")
        return LeaseGrant(
            lease_id=lease.lease_id,
            lease_token=granted.token,
            environment=start.environment | self.continued(lease),
            command=start.command,
            container=self.service.options.image.container if lease.is_server else "",
            base_url=start.base_url,
            port=self.service.options.port,
            home=lease.mounts.efs
            or HomeMount(
                kind="ebs" if lease.home_kind == "ebs" else "none",
                volume_id=home.volume_id if home else None,
            ),
            data=await self.data(lease),
            buckets=list(lease.mounts.buckets),
            scratch=lease.mounts.scratch,
            idle=policy_of(lease),
            idle_seconds=lease.taken_over.idle_seconds,
            upload_to=_upload_to(lease),
            continues=lease.sleep.after_interruption != "stop",
            profile=lease.profile_name,
            is_worker=not lease.is_server,
            hub_lost_after_seconds=self.service.options.hub_lost_after,
            certificates=certificates,
        )

    def continued(self, lease: Lease) -> dict[str, str]:
        """What a server that continues on another instance is started with besides: the address
        that answers for its present lease, and that its session wakes.

        A session from before the server's start stays asleep if the server was started without it.
        """
        if not lease.continues:
            return {}
        last = self.provisioner.sleeping.last(lease.user, lease.server)
        secret = self.settings["cookie_secret"]
        return {
            server_end.ADDRESS: server_end.address(self.hub.base_url, secret, lease.lease_id),
            WAKE: wakes(lease, last),
        }

    async def data(self, lease: Lease) -> list[DataMount]:
        """The instance's data volumes, by what EC2 reports as attached."""
        return list(
            await self.listed(
                lease, lambda each: data_mounts(lease.spec, each.volumes), "data volumes"
            )
        )

    async def certificates(self, lease: Lease) -> Certificates | None:
        """For a hub with `internal_ssl`. Raises `CannotSign`."""
        authority = self.service.authority
        return await authority.sign(await self.address(lease)) if authority else None


class LeaseHandler(AgentHandler):
    """A call about one lease by its agent: token and rates are checked before its body is read."""

    CALL_TOKENS: ClassVar[int | None] = None
    """How many of its user's `user_calls` a call takes: some for what the user asks for, and none
    for what no other server may prevent. None for what the agent reports."""

    async def admit(self) -> None:
        """Check token and rates; 401, 404, 410 or 429 where they refuse."""
        await self.check_rates(self.lease(self.path_args[0]))

    async def check_rates(self, lease: Lease) -> None:
        """End the request with 429 for too many calls about this lease, or of this user."""
        limits, tokens = self.service.limits, self.CALL_TOKENS
        await self.check_rate(limits.lease_calls, lease.lease_id, "too many calls about this lease")
        too_many = "too many calls of this user"
        if tokens is None:
            await self.check_rate(limits.user_reports, lease.user, too_many)
        elif tokens:
            await self.check_rate(limits.user_calls, share_of(lease), too_many, tokens)

    async def check_rate(
        self, limit: RateLimit, key: Hashable, message: str, tokens: int = 1
    ) -> None:
        """End the request with 429 and this message if too few tokens are left."""
        now = time.monotonic()
        if not limit.take(key, now, tokens):
            LEASE_CALLS_LIMITED.inc()
            await self.refuse_for_now(limit.wait_seconds(key, now, tokens), message)

    def lease(self, lease_id: str) -> Lease:
        """The lease that the request's token opens; ends the request with 401, 404 or 410."""
        lease = self.provisioner.lease(lease_id)
        if lease is None:
            self.refuse(404, "no such lease here: continue under your last policy")
        token = self.get_auth_token() or ""
        if not lease.token_sha256 or not hmac.compare_digest(sha256_hex(token), lease.token_sha256):
            self.refuse(401, "the token does not open this lease")
        if lease.state is LeaseState.ENDED:
            self.refuse(410, "this lease has ended")
        return lease

    def refuse_unless_ready(self, lease: Lease) -> None:
        """End the request with 409 unless the server runs. Raises `Finish`."""
        if lease.state is LeaseState.ENDING:
            self.refuse(409, "this server is being stopped")
        if lease.state is not LeaseState.READY:
            self.refuse(409, "this server is still starting")

    async def post(self, lease_id: str) -> None:
        """Let `call` answer: the lease is as it is now that the body has arrived."""
        await self.call(self.lease(lease_id))

    async def call(self, lease: Lease) -> None:
        """Answer or refuse the call."""
        raise NotImplementedError


class EventsHandler(LeaseHandler):
    """`POST leases/{id}/events`: a step of the start, or the end of the notebook."""

    async def call(self, lease: Lease) -> None:
        """Apply the event; 204."""
        event = self.read(AgentEvent)
        provisioner = self.provisioner
        provisioner.agents.heard(lease.lease_id)
        if event.step == "stopped":
            # On request, or by itself.
            message = event.message or "The notebook server ended"
            notice = event.interruption_at
            await provisioner.agents.stopped(
                lease, message, event.session, notice, home_released=event.home_released
            )
        else:
            address = await self.address(lease)
            # Workers and runs have no certificate: JupyterHub's proxy does not call them.
            is_https = self.service.authority is not None and lease.is_server
            scheme = "https" if is_https else "http"
            url = f"{scheme}://{address}:{event.port or self.service.options.port}"
            await provisioner.agents.event(lease, event, url)
        self.set_status(204)


class HeartbeatHandler(LeaseHandler):
    """`POST leases/{id}/beat`: held until there is news or `hold_seconds` are over."""

    _hung_up: Callable[[], None] | None = None
    """Reports that the connection was closed while the heartbeat is held."""

    async def call(self, lease: Lease) -> None:
        """Answer a `HeartbeatResponse`; 400 for a protocol that the hub does not speak."""
        # What it reports is not held with the request: most heartbeats are, for most of the time.
        held, agents = self.take_in(lease), self.provisioner.agents
        self._hung_up = partial(agents.hung_up, held)
        try:
            answer = await agents.news(held)
        except asyncio.CancelledError:
            self.retry_later(STOPPING)  # as above
        else:
            self.lease(lease.lease_id)  # it may have ended meanwhile
            self.answer(200, answer)

    def on_connection_close(self) -> None:
        """Its agent has news, or has ended."""
        super().on_connection_close()
        if self._hung_up is not None:
            self._hung_up()

    def take_in(self, lease: Lease) -> Held:
        """Read the heartbeat; ends the request with 400 if its protocol is not supported."""
        heartbeat = self.read(Heartbeat)
        if unfit := why_unfit(heartbeat.protocol):
            self.refuse(400, unfit)
        self.release_body()
        return self.provisioner.agents.heartbeat(lease, heartbeat)


class ExtendHandler(LeaseHandler):
    """`POST leases/{id}/extend`: keep the server, bounded by its policy; 409 unless it is ready."""

    CALL_TOKENS = 0

    async def call(self, lease: Lease) -> None:
        """Answer until when the server is kept."""
        request = self.read(ExtendRequest)
        self.refuse_unless_ready(lease)
        self.answer(200, await self.provisioner.agents.extend(lease, request.seconds))


class IdleHandler(LeaseHandler):
    """`POST leases/{id}/idle`: the user's idle time; 403 if the policy leaves no choice."""

    CALL_TOKENS = 0

    async def call(self, lease: Lease) -> None:
        """Answer the policy that is now in force."""
        request = self.read(IdleRequest)
        self.refuse_unless_ready(lease)
        answer = await self.provisioner.agents.choose_idle(lease, request.server_seconds)
        if answer is None:
            self.refuse(403, "This hub does not let users choose the idle time.")
        self.answer(200, answer)


class StopHandler(LeaseHandler):
    """`POST leases/{id}/stop`: begin the stop that the user requested in the notebook."""

    CALL_TOKENS = 0

    async def call(self, lease: Lease) -> None:
        """End the lease; 204, or 409 if it is to sleep and cannot."""
        if self.read(StopRequest).sleep:
            await self.put_to_sleep(lease)
            return
        stop = Stop(reason="user", message="You stopped it from the notebook")
        await self.provisioner.end_server(lease.lease_id, stop)
        self.set_status(204)

    async def put_to_sleep(self, lease: Lease) -> None:
        """Save the session, then end the lease; 204, or 409 with the reason."""
        try:
            message = "You put it to sleep from the notebook"
            await self.provisioner.sleeping.put_to_sleep(lease.lease_id, message)
        except CannotSleep as error:
            self.refuse(409, str(error))
        self.set_status(204)


def share_of(lease: Lease) -> Share:
    """What a lease's calls on its user's behalf count as: everyone with access to the server can
    make them."""
    return Share(lease.user, lease.lease_id)


def _upload_to(lease: Lease) -> str:
    """Where the folder of the lease's user is uploaded after a spot notice: each server has its own
    place, because all users of the hub share the role."""
    below = lease.sleep.upload_to
    if not below:
        return ""
    # No named server has the place of the server without a name.
    server = "%2D" if lease.server == "-" else quote(lease.server, safe="@") or "-"
    return f"{below}{quote(lease.user, safe='@')}/{server}/"


LEASE = r"/api/ec2/leases/([a-z0-9-]{1,80})"

handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/ec2/claims", ClaimsHandler),
    (rf"{LEASE}/events", EventsHandler),
    (rf"{LEASE}/beat", HeartbeatHandler),
    (rf"{LEASE}/extend", ExtendHandler),
    (rf"{LEASE}/idle", IdleHandler),
    (rf"{LEASE}/stop", StopHandler),
]
