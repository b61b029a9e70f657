"""The control calls: what tests, benches and curious people may ask and order.

They stand beside EC2's own API on the same endpoint, below `/embedded/`, and speak JSON. Each needs
the control token, which is another one at every start.
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

from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..faults import Fault, Faults
from ..gateway.call_log import Calls
from ..gateway.throttle import Throttle
from ..instances.lifecycle import Lifecycles
from ..instances.quotas import Quotas
from ..instances.reservations import Reservation, Reservations
from ..market.capacity import ANY, Capacity
from ..market.prices import OnDemandPrices, SpotPrices
from ..market.type_facts import instance_type_facts
from ..network import Network
from ..runtime.instance_runtime import InstanceRuntime
from ..storage.file_systems import FileSystems
from .requests import (
    AddressesOrder,
    BootOrder,
    CapacityOrder,
    FaultOrder,
    FileSystemOrder,
    InterruptOrder,
    LimitsOrder,
    PriceOrder,
    ReservationsOrder,
    in_words,
)


@dataclass(frozen=True)
class Controls:
    """Everything that can be steered, and the token that it takes."""

    token: str

    calls: Calls
    lifecycles: Lifecycles
    runtime: InstanceRuntime
    capacity: Capacity
    quotas: Quotas
    throttle: Throttle
    faults: Faults
    spot_prices: SpotPrices
    on_demand_prices: OnDemandPrices
    reservations: Reservations
    moto: Moto
    network: Network
    file_systems: FileSystems
    region: str
    certificate_pem: str


class ControlHandler(RequestHandler):
    """Base: JSON out, JSON in, errors in words."""

    def initialize(self, controls: Controls) -> None:
        """Called by tornado with what can be steered."""
        self.controls = controls

    def prepare(self) -> None:
        """401 without the control token."""
        said = self.request.headers.get("Authorization", "")
        if not hmac.compare_digest(said.encode(), f"token {self.controls.token}".encode()):
            raise HTTPError(
                401, "a control call needs the header Authorization: token <control_token>"
            )

    def write_error(self, status_code: int, **context: Any) -> None:
        """The reason as `error`, for the person who tries a call."""
        error = context.get("exc_info", (None, None))[1]
        known = isinstance(error, HTTPError) and error.log_message
        self.finish({"error": error.log_message % error.args if known else self._reason})

    def log_exception(self, *error: Any) -> None:
        """A refused call is no error of the simulation."""
        if not isinstance(error[1], HTTPError):
            super().log_exception(*error)

    def order(self, model: type[Any]) -> Any:
        """The body as this model; 400 that names the field and how to fix it."""
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
        order = self.order(CapacityOrder)
        self.check_offer(order.instance_type, order.zone)
        self.controls.capacity.set(order.market, order.instance_type, order.zone, order.available)
        self.finish({"ok": True})


class FaultsHandler(ControlHandler):
    """`POST` and `DELETE /embedded/faults`: order faults, or cancel all of them."""

    def post(self) -> None:
        """Add a fault behind those that are ordered; 400 for an unknown type or zone."""
        order = self.order(FaultOrder)
        for zone in order.zones:
            self.check_offer(ANY, zone)
        for instance_type in order.instance_types:
            self.check_offer(instance_type, ANY)
        self.controls.faults.order(
            Fault(
                order.action,
                order.kind,
                order.times,
                frozenset(order.zones),
                frozenset(order.instance_types),
            )
        )
        self.finish({"ok": True})

    def delete(self) -> None:
        """Cancel every fault that has not struck yet."""
        self.controls.faults.clear()
        self.finish({"ok": True})


class PricesHandler(ControlHandler):
    """`POST /embedded/prices`: a spot or on-demand price from now on, in USD/hour."""

    def post(self) -> None:
        """Set a price in USD/hour; 400 for an unknown type or zone, or for any type."""
        order = self.order(PriceOrder)
        self.check_offer(order.instance_type, order.zone or ANY)
        if order.instance_type == ANY:
            raise HTTPError(400, "instance_type: a price is of one instance type")
        if order.market == "on-demand":
            self.controls.on_demand_prices.set(order.instance_type, order.usd_per_hour)
        else:
            zones = self.controls.network.subnets if order.zone == ANY else [order.zone]
            now = datetime.now(UTC)
            for zone in zones:
                self.controls.spot_prices.set(order.instance_type, zone, order.usd_per_hour, now)
        self.finish({"ok": True})


class AddressesHandler(ControlHandler):
    """`POST /embedded/addresses`: how many addresses of a subnet are free."""

    async def post(self) -> None:
        """Set the number of free addresses; 400 for an unknown subnet."""
        order = self.order(AddressesOrder)
        moto, network = self.controls.moto, self.controls.network
        if order.subnet_id not in network.subnets.values():
            known = ", ".join(network.subnets.values())
            raise HTTPError(400, "%s", f"subnet_id: write one of {known}")
        await moto.run(lambda: network.set_free_addresses(moto, order.subnet_id, order.available))
        self.finish({"ok": True})


class FileSystemsHandler(ControlHandler):
    """`POST /embedded/file-systems`: create an EFS file system."""

    async def post(self) -> None:
        """Create it with a mount target in each zone; one that exists stays as it is."""
        await self.controls.file_systems.create(self.order(FileSystemOrder).file_system)
        self.finish({"ok": True})


class ReservationsHandler(ControlHandler):
    """`POST /embedded/reservations`: replace the account's Reserved Instances."""

    def post(self) -> None:
        """Replace all of them; 400 for an unknown type or zone."""
        order = self.order(ReservationsOrder)
        for reservation in order.reservations:
            self.check_offer(reservation.instance_type, reservation.zone or ANY)
        self.controls.reservations.set(
            [
                Reservation(**reservation.model_dump(exclude_none=True))
                for reservation in order.reservations
            ]
        )
        self.finish({"ok": True})


class BootHandler(ControlHandler):
    """`POST /embedded/boot`: seconds that boots take from now on."""

    def post(self) -> None:
        """Set the seconds of a boot; boots in progress keep theirs."""
        self.controls.lifecycles.boot_seconds = self.order(BootOrder).seconds
        self.finish({"ok": True})


class LimitsHandler(ControlHandler):
    """`POST /embedded/limits`: rate limits on or off, and vCPU quotas."""

    def post(self) -> None:
        """Set what is named, and answer with all limits; 400 for an unknown class."""
        order = self.order(LimitsOrder)
        if order.token_buckets is not None:
            self.controls.throttle.enabled = order.token_buckets
        if order.quotas is not None:
            for market, by_class in order.quotas.model_dump(by_alias=True).items():
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
        order = self.order(InterruptOrder)
        try:
            life = self.controls.lifecycles.get(instance_id)
        except EC2Error as error:
            raise HTTPError(404, "%s", error.message) from None
        if life.offer.market != "spot":
            raise HTTPError(409, "%s", f"{instance_id} is on-demand: only spot is interrupted")
        if life.state not in ("pending", "running"):
            raise HTTPError(409, "%s", f"{instance_id} is {life.state}")
        self.controls.lifecycles.interrupt(life, order.notice_seconds)
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
    (r"/embedded/faults", FaultsHandler),
    (r"/embedded/prices", PricesHandler),
    (r"/embedded/addresses", AddressesHandler),
    (r"/embedded/file-systems", FileSystemsHandler),
    (r"/embedded/reservations", ReservationsHandler),
    (r"/embedded/boot", BootHandler),
    (r"/embedded/limits", LimitsHandler),
    (r"/embedded/interrupt/([^/]+)", InterruptHandler),
]
