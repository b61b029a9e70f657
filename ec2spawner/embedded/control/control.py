"""The control calls, by which tests, benches and people inspect and change the simulation.

They are on the endpoint of EC2's API, below `/embedded/`, and speak JSON. Each needs the control
token, which is random at every start.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from tornado.web import HTTPError, RequestHandler

from ..api.access_keys import AccessKeys
from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..faults import Fault, Faults
from ..gateway.call_log import Calls
from ..gateway.throttle import Throttle
from ..iam.conditions import PolicyError
from ..iam.hub_policy import hub_policy
from ..instances.capacity_reservations import CapacityReservations
from ..instances.lifecycle import Lifecycle, Lifecycles
from ..instances.quotas import Quotas
from ..instances.reservations import Reservation, Reservations
from ..market.capacity import ANY, Capacity, Offer
from ..market.prices import OnDemandPrices, SpotPrices
from ..market.type_facts import instance_type_facts
from ..network import Network
from ..read_lag import ReadLag
from ..runtime.instance_runtime import InstanceRuntime
from ..storage.file_systems import FileSystems
from .requests import (
    AddressesRequest,
    BootRequest,
    CapacityBlockRequest,
    CapacityRequest,
    FaultRequest,
    FileSystemRequest,
    HubKeyRequest,
    InterruptRequest,
    LagRequest,
    LimitsRequest,
    PriceRequest,
    ReservationsRequest,
    in_words,
)


@dataclass(frozen=True)
class Controls:
    """What the control calls read and change, and the token that they need."""

    token: str

    calls: Calls
    lifecycles: Lifecycles
    runtime: InstanceRuntime
    capacity: Capacity
    quotas: Quotas
    throttle: Throttle
    faults: Faults
    lag: ReadLag
    spot_prices: SpotPrices
    on_demand_prices: OnDemandPrices
    reservations: Reservations
    capacity_reservations: CapacityReservations
    moto: Moto
    network: Network
    file_systems: FileSystems
    region: str
    certificate_pem: str
    keys: AccessKeys


class ControlHandler(RequestHandler):
    """Base of all control calls: JSON in, JSON out, errors as a message."""

    def initialize(self, controls: Controls) -> None:
        """Called by tornado for each request."""
        self.controls = controls

    def prepare(self) -> None:
        """401 without the control token."""
        said = self.request.headers.get("Authorization", "")
        if not hmac.compare_digest(said.encode(), f"token {self.controls.token}".encode()):
            raise HTTPError(
                401, "a control call needs the header Authorization: token <control_token>"
            )

    def write_error(self, status_code: int, **context: Any) -> None:
        """Answer with the reason as `error`."""
        error = context.get("exc_info", (None, None))[1]
        known = isinstance(error, HTTPError) and error.log_message
        self.finish({"error": error.log_message % error.args if known else self._reason})

    def log_exception(self, *error: Any) -> None:
        """Do not log a refused call: it is no error of the simulation."""
        if not isinstance(error[1], HTTPError):
            super().log_exception(*error)

    def body(self, model: type[Any]) -> Any:
        """The body as this model; 400 with the field and the fix if it is invalid."""
        try:
            found = model.model_validate_json(self.request.body or b"{}")
        except ValidationError as error:
            raise HTTPError(400, "%s", in_words(error, model)) from None
        return found

    def refuse_unknown(self, field: str, known: Callable[[], object]) -> None:
        """400 with EC2's words if `known` raises `EC2Error`."""
        try:
            known()
        except EC2Error as error:
            raise HTTPError(400, "%s", f"{field}: {error.message}") from None

    def spot_instance(self, instance_id: str) -> Lifecycle:
        """What EC2 could take back; 404 for an unknown instance, 409 for any other."""
        try:
            life = self.controls.lifecycles.get(instance_id)
        except EC2Error as error:
            raise HTTPError(404, "%s", error.message) from None
        if life.offer.market != "spot":
            raise HTTPError(409, "%s", f"{instance_id} is on-demand: only spot is interrupted")
        if life.state not in ("pending", "running"):
            raise HTTPError(409, "%s", f"{instance_id} is {life.state}")
        return life

    def check_offer(self, instance_type: str, zone: str) -> None:
        """400 for an instance type or a zone that the simulation does not have."""
        zones = self.controls.network.subnets
        if zone != ANY and zone not in zones:
            raise HTTPError(400, "%s", f"zone: write one of {', '.join(zones)} or {ANY}")
        if instance_type != ANY:
            self.refuse_unknown(
                "instance_type", lambda: instance_type_facts(instance_type, self.controls.region)
            )


class CallsHandler(ControlHandler):
    """`GET /embedded/calls`: every API call received."""

    def get(self) -> None:
        """Answer with the log of calls, oldest first."""
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(list(self.controls.calls)))


class InstancesHandler(ControlHandler):
    """`GET /embedded/instances`: instances that run, with their processes."""

    async def get(self) -> None:
        """Answer with every instance that is listed; times and processes are as of now."""
        running = await self.controls.runtime.running()
        self.set_header("Content-Type", "application/json")
        self.finish(
            json.dumps(
                [
                    {
                        "instance_id": life.instance_id,
                        "address": life.instance.address,
                        "state": life.state,
                        "market": life.offer.market,
                        "instance_type": life.offer.instance_type,
                        "zone": life.offer.zone,
                        "metadata_endpoint": self.controls.runtime.metadata_endpoint(
                            life.instance_id
                        ),
                        "processes": running.get(life.instance_id, []),
                    }
                    for life in self.controls.lifecycles.all()
                ]
            )
        )


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


class InterruptHandler(ControlHandler):
    """`POST /embedded/interrupt/{instance_id}`: a spot notice; 404 for an unknown instance."""

    def post(self, instance_id: str) -> None:
        """Give notice; 409 unless it is a spot instance that is pending or running."""
        body = self.body(InterruptRequest)
        life = self.spot_instance(instance_id)
        self.controls.lifecycles.interrupt(life, body.notice_seconds)
        self.finish({"ok": True})


class RebalanceHandler(ControlHandler):
    """`POST /embedded/rebalance/{instance_id}`: a recommendation; 404 for an unknown instance."""

    def post(self, instance_id: str) -> None:
        """Recommend to leave it; 409 unless it is a spot instance that is pending or running."""
        self.controls.lifecycles.recommend_rebalance(self.spot_instance(instance_id))
        self.finish({"ok": True})


class UnknownHandler(ControlHandler):
    """404 with the list of control calls."""

    def prepare(self) -> None:
        """Refuse the call, after the check of the token."""
        super().prepare()
        known = ", ".join(pattern for pattern, _ in ROUTES)
        raise HTTPError(404, "%s", f"there is: {known}")


ROUTES: list[tuple[str, type[ControlHandler]]] = [
    (r"/embedded/calls", CallsHandler),
    (r"/embedded/instances", InstancesHandler),
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
]
