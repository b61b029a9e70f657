"""A spot interruption on purpose: `POST …/interrupt`, for a server's owner and for admins."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

from jupyterhub.user import User
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from tornado.web import HTTPError

from ...aws.calls.client import Client
from ...aws.compute.fault_injection import MAX_SECONDS, MIN_SECONDS, MayHaveBegun, interrupt_spot
from ...core.limits.words import rehearsal_refusal_words
from ...core.tags import HUB
from ...provisioner.limits.admission import LimitReached
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.error_hints import shortened
from ...provisioner.model.leases.lease import Lease, LeaseState
from ...provisioner.provisioner import Provisioner
from ...provisioner.store.store import StoreError
from ...wire import Market
from ..app.service import HubService
from ..app.user_account import account_of, lease_of
from .user_call import Model, UserCall, read, running, store_failed

log = logging.getLogger(__name__)

SCOPE = "delete:servers"
"""JupyterHub's, for the user: the server ends. A user's login and own tokens have it; the token of
a server, which everyone with access to that server can read, does not."""

NOT_CONFIGURED = (
    "an admin must set c.EC2Spawner.rehearsal_role first: see How to, Spot interruptions"
)


MAY_HAVE_BEGUN = "The interruption may be under way, and stays charged: save your work"
NOT_STORED = "the hub's database does not answer, so nothing was interrupted; try again"


class Interrupt(BaseModel):
    """`POST …/interrupt`."""

    model_config = ConfigDict(extra="forbid")

    notice_seconds: Annotated[float, Field(ge=MIN_SECONDS, le=MAX_SECONDS, allow_inf_nan=False)] = (
        MIN_SECONDS
    )
    """Until the instance ends, in whole minutes."""
    dry_run: bool = False


class Interruption(Model):
    """What is interrupted."""

    instance_id: str
    instance_type: str
    zone: str
    ends_at: AwareDatetime | None
    """About when; null for a dry run."""
    usd: float
    """What AWS charges for the rehearsal, in USD, besides the instance."""


class InterruptHandler(UserCall):
    """Has AWS interrupt the spot instance of a server."""

    async def post(self, user_name: str, server_name: str = "") -> None:
        """200; 403 without the scope, 404 for an unknown server, 409 unless it is a ready spot
        server and rehearsals are configured, 502 with AWS's reason where it refuses, 503 where
        its charge cannot be stored."""
        if not self.has_scope(f"{SCOPE}!user={user_name}"):
            raise HTTPError(403, f"this needs the scope {SCOPE} for the user")
        body = read(self, Interrupt, '{"notice_seconds": 120, "dry_run": false}')
        hub, provisioner = running()
        lease = lease_of(provisioner, self.find_user(user_name), server_name)
        if lease is None:
            raise HTTPError(404, "no such server runs")
        if refusal := why_not(hub, provisioner, lease):
            raise HTTPError(409, refusal)
        caller, minutes = self.current_user, math.ceil(body.notice_seconds / 60)
        by_owner = isinstance(caller, User) and (
            account_of(provisioner.accounts, caller) == lease.user
        )
        try:
            provisioner.rehearsals.check(lease, minutes, by_owner=by_owner)
            if not body.dry_run:
                log.warning("%s interrupts %s on purpose", caller.name, lease.lease_id)
                await _interrupt(hub, provisioner, lease, body, by_owner=by_owner)
        except LimitReached as error:
            words = rehearsal_refusal_words(error.displayed, hub.options.contact, error.bounds)
            raise HTTPError(409, words) from error
        except StoreError as error:
            raise store_failed(self, error, NOT_STORED) from error
        current = lease.segments[-1]
        seconds = timedelta(minutes=minutes)
        answer = Interruption(
            instance_id=current.instance_id,
            instance_type=current.instance_type,
            zone=current.zone,
            ends_at=None if body.dry_run else provisioner.now() + seconds,
            usd=provisioner.rehearsals.usd(lease, minutes),
        )
        self.finish(answer.model_dump_json())


async def _interrupt(
    hub: HubService, provisioner: Provisioner, lease: Lease, body: Interrupt, *, by_owner: bool
) -> None:
    """Raises `LimitReached` and `StoreError`, and `HTTPError` (502) with AWS's reason."""
    options = hub.options
    client = Client(options.region, options.endpoint_url or None)
    assert lease.instance_id is not None
    minutes, rehearsals = math.ceil(body.notice_seconds / 60), provisioner.rehearsals
    try:
        # Before the call: it costs money, and the next request may come during it.
        await rehearsals.charge(lease, minutes, by_owner=by_owner)
        await interrupt_spot(
            client,
            lease.instance_id,
            body.notice_seconds,
            options.rehearsal_role,
            {HUB: options.hub_name},
        )
    except CloudError as error:
        said = refused(error)
        if isinstance(error, MayHaveBegun):
            said = f"{said}. {MAY_HAVE_BEGUN}"
        else:
            await rehearsals.take_back(lease)
        raise HTTPError(502, said) from error
    finally:
        await client.close()


def why_not(hub: HubService, provisioner: Provisioner, lease: Lease) -> str:
    """Why a server cannot be interrupted on purpose; empty if it can."""
    if lease.state is not LeaseState.READY or not lease.segments:
        return "the server is not ready"
    if lease.segments[-1].market is not Market.SPOT:
        return "the server is on-demand: AWS interrupts spot instances only"
    if provisioner.rehearsals.is_rehearsed(lease):
        return "the server's machine was interrupted on purpose before: once is enough for each"
    if provisioner.moves.is_announced(lease):
        return "AWS is reclaiming the server's machine already"
    return "" if hub.options.rehearsal_role else NOT_CONFIGURED


def refused(error: CloudError) -> str:
    """AWS's answer, and what an admin can do about it."""
    said = f"AWS Fault Injection Service: {shortened(error.message)} ({error.code})"
    if error.code.startswith("AccessDenied"):
        return f"{said}. The hub's role needs the policy in configs/interruptions-policy.json"
    if error.code in ("EndpointConnectionError", "UnknownEndpointError"):
        return f"{said}. The service may not exist in this region"
    return said


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/ec2/users/([^/]+)/server/interrupt", InterruptHandler),
    (r"/api/ec2/users/([^/]+)/servers/([^/]+)/interrupt", InterruptHandler),
]
