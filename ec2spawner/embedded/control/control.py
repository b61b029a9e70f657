"""The control calls, by which tests, benches and people inspect and change the simulation.

They are on the endpoint of EC2's API, below `/embedded/`, and speak JSON. Each needs the control
token, which is random at every start.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from tornado.web import HTTPError

from ..faults import Fault
from ..iam.conditions import PolicyError
from ..iam.hub_policy import hub_policy
from ..instances.reservations import Reservation
from ..market.capacity import ANY, Offer
from .handler import ControlHandler
from .instances import (
    DetachedWhileMountedHandler,
    InstancesHandler,
    InterruptHandler,
    ReachableHandler,
    RebalanceHandler,
    ScheduledEventHandler,
    UptimesHandler,
)
from .requests import (
    AccountRequest,
    AddressesRequest,
    BootRequest,
    CapacityBlockRequest,
    CapacityRequest,
    FaultRequest,
    FileSystemRequest,
    HubKeyRequest,
    LagRequest,
    LimitsRequest,
    PriceRequest,
    ReservationsRequest,
)


class CallsHandler(ControlHandler):
    """`GET /embedded/calls`: every API call received."""

    def get(self) -> None:
        """Answer with the log of calls, oldest first."""
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(list(self.controls.calls)))


class CertificateHandler(ControlHandler):
    """`GET /embedded/certificate`: the PEM that identity documents verify against."""

    def get(self) -> None:
        """Answer with the certificate."""
        self.set_header("Content-Type", "application/x-pem-file")
        self.finish(self.controls.certificate_pem)


class CapacityHandler(ControlHandler):
    """`POST /embedded/capacity`: how many instances of an offer there are."""

    def post(self) -> None:
        """Set the number of places; 400 for an unknown instance type or zone."""
        body = self.body(CapacityRequest)
        self.check_offer(body.instance_type, body.zone)
        self.controls.capacity.set(body.market, body.instance_type, body.zone, body.available)
        self.finish({"ok": True})


class CapacityBlocksHandler(ControlHandler):
    """`POST /embedded/capacity-blocks`: a Capacity Block, as if it had been bought."""

    def post(self) -> None:
        """Its id; 400 for an unknown instance type or zone."""
        body = self.body(CapacityBlockRequest)
        self.check_offer(body.instance_type, body.zone)
        made = self.controls.capacity_reservations.make_block(
            Offer("on-demand", body.instance_type, body.zone), body.count, body.begun, body.left
        )
        self.finish({"reservation": made})


class FaultsHandler(ControlHandler):
    """`POST` and `DELETE /embedded/faults`: add a fault, or cancel all of them."""

    def post(self) -> None:
        """Add a fault after earlier ones; 400 for an unknown instance type or zone."""
        body = self.body(FaultRequest)
        for zone in body.zones:
            self.check_offer(ANY, zone)
        for instance_type in body.instance_types:
            self.check_offer(instance_type, ANY)
        self.controls.faults.add(
            Fault(
                body.action,
                body.kind,
                body.times,
                frozenset(body.zones),
                frozenset(body.instance_types),
            )
        )
        self.finish({"ok": True})

    def delete(self) -> None:
        """Cancel all faults that are still to be injected."""
        self.controls.faults.clear()
        self.finish({"ok": True})


class PricesHandler(ControlHandler):
    """`POST /embedded/prices`: a spot or on-demand price from now on, in USD/hour."""

    def post(self) -> None:
        """Set a price in USD/hour; 400 for an unknown type or zone, or for any type."""
        body = self.body(PriceRequest)
        self.check_offer(body.instance_type, body.zone or ANY)
        if body.instance_type == ANY:
            raise HTTPError(400, "instance_type: a price is of one instance type")
        if body.market == "on-demand":
            self.controls.on_demand_prices.set(body.instance_type, body.usd_per_hour)
        else:
            zones = self.controls.network.subnets if body.zone == ANY else [body.zone]
            now = datetime.now(UTC)
            for zone in zones:
                self.controls.spot_prices.set(body.instance_type, zone, body.usd_per_hour, now)
        self.finish({"ok": True})


class AccountHandler(ControlHandler):
    """`POST /embedded/account`: the account's plan, and whether AWS has verified it."""

    def post(self) -> None:
        """Set what is named, and answer with both; the plan `none` is that of older accounts."""
        body, account = self.body(AccountRequest), self.controls.account
        if body.plan is not None:
            account.plan = None if body.plan == "none" else body.plan
        if body.verified is not None:
            account.is_verified = body.verified
        self.finish({"plan": account.plan or "none", "verified": account.is_verified})


class AddressesHandler(ControlHandler):
    """`POST /embedded/addresses`: how many addresses of a subnet are free."""

    async def post(self) -> None:
        """Set the number of free addresses; 400 for an unknown subnet."""
        body = self.body(AddressesRequest)
        moto, network = self.controls.moto, self.controls.network
        if body.subnet_id not in network.subnets.values():
            known = ", ".join(network.subnets.values())
            raise HTTPError(400, "%s", f"subnet_id: write one of {known}")
        await moto.run(lambda: network.set_free_addresses(moto, body.subnet_id, body.available))
        self.finish({"ok": True})


class FileSystemsHandler(ControlHandler):
    """`POST /embedded/file-systems`: create an EFS file system."""

    async def post(self) -> None:
        """Create it with a mount target in each zone; one that exists stays as it is."""
        await self.controls.file_systems.create(self.body(FileSystemRequest).file_system)
        self.finish({"ok": True})


class ReservationsHandler(ControlHandler):
    """`POST /embedded/reservations`: replace the account's Reserved Instances."""

    def post(self) -> None:
        """Replace all of them; 400 for an unknown type or zone."""
        body = self.body(ReservationsRequest)
        for reservation in body.reservations:
            self.check_offer(reservation.instance_type, reservation.zone or ANY)
        self.controls.reservations.set(
            [
                Reservation(**reservation.model_dump(exclude_none=True))
                for reservation in body.reservations
            ]
        )
        self.finish({"ok": True})


class HubKeysHandler(ControlHandler):
    """`POST /embedded/hub-keys`: an access key for a hub of this name."""

    def post(self) -> None:
        """Issue it, and answer with it; 400 for statements that are invalid."""
        body, moto = self.body(HubKeyRequest), self.controls.moto
        try:
            policy = hub_policy(moto.region, moto.account, body.hub_name, body.statements)
        except PolicyError as error:
            raise HTTPError(400, "%s", f"statements: {error}") from None
        key = self.controls.keys.issue_for_hub(policy)
        self.finish({"aws_access_key_id": key.id, "aws_secret_access_key": key.secret})


class BootHandler(ControlHandler):
    """`POST /embedded/boot`: seconds that boots take from now on."""

    def post(self) -> None:
        """Set the seconds of a boot; boots in progress keep theirs."""
        self.controls.lifecycles.boot_seconds = self.body(BootRequest).seconds
        self.finish({"ok": True})


class LagHandler(ControlHandler):
    """`POST /embedded/lag`: seconds until calls know what is created from now on."""

    def post(self) -> None:
        """Set the lag; null draws one for each resource, as EC2 would."""
        self.controls.lag.set(self.body(LagRequest).seconds)
        self.finish({"ok": True})


class LimitsHandler(ControlHandler):
    """`POST /embedded/limits`: rate limits on or off, and vCPU quotas."""

    def post(self) -> None:
        """Set what is named, and answer with all limits; 400 for an unknown class."""
        body = self.body(LimitsRequest)
        if body.token_buckets is not None:
            self.controls.throttle.enabled = body.token_buckets
        if body.quotas is not None:
            for market, by_class in body.quotas.model_dump(by_alias=True).items():
                self._set_quotas(market, by_class)
        self.finish(
            {
                "token_buckets": self.controls.throttle.enabled,
                "quotas": self.controls.quotas.by_market(),
            }
        )

    def _set_quotas(self, market: str, by_class: dict[str, int | None]) -> None:
        quotas = self.controls.quotas
        known = {ANY, *quotas.by_market()[market]}
        if unknown := by_class.keys() - known:
            classes = ", ".join(sorted(known))
            raise HTTPError(
                400, "%s", f"quotas.{market}: no class {min(unknown)}; write one of {classes}"
            )
        for name, vcpus in by_class.items():
            if name == ANY:
                quotas.set(market, vcpus)
            else:
                quotas.set_class(market, name, vcpus)


class UnknownHandler(ControlHandler):
    """404 with the list of control calls."""

    def prepare(self) -> None:
        """Refuse the call, after the check of the token."""
        super().prepare()
        known = ", ".join(pattern for pattern, _ in ROUTES)
        raise HTTPError(404, "%s", f"there is: {known}")


ROUTES: list[tuple[str, type[ControlHandler]]] = [
    (r"/embedded/account", AccountHandler),
    (r"/embedded/calls", CallsHandler),
    (r"/embedded/instances", InstancesHandler),
    (r"/embedded/uptimes", UptimesHandler),
    (r"/embedded/detached-while-mounted", DetachedWhileMountedHandler),
    (r"/embedded/reachable/([^/]+)/([^/]+)", ReachableHandler),
    (r"/embedded/certificate", CertificateHandler),
    (r"/embedded/capacity", CapacityHandler),
    (r"/embedded/capacity-blocks", CapacityBlocksHandler),
    (r"/embedded/faults", FaultsHandler),
    (r"/embedded/prices", PricesHandler),
    (r"/embedded/addresses", AddressesHandler),
    (r"/embedded/file-systems", FileSystemsHandler),
    (r"/embedded/reservations", ReservationsHandler),
    (r"/embedded/hub-keys", HubKeysHandler),
    (r"/embedded/boot", BootHandler),
    (r"/embedded/lag", LagHandler),
    (r"/embedded/limits", LimitsHandler),
    (r"/embedded/interrupt/([^/]+)", InterruptHandler),
    (r"/embedded/rebalance/([^/]+)", RebalanceHandler),
    (r"/embedded/scheduled-event/([^/]+)", ScheduledEventHandler),
]
