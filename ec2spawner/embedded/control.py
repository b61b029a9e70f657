"""The control calls: what tests, benches and curious people may ask and order.

They stand beside EC2's own API on the same endpoint, below `/embedded/`, and speak JSON. They
have no login, as everything on this loopback address; a browser's page is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from tornado.web import HTTPError, RequestHandler

from .calls import Calls
from .capacity import ANY, Capacity, Quotas
from .faults import TRANSPORT_KINDS, Faults
from .launch import instance_type_facts
from .machine_room import MachineRoom
from .network import Network
from .prices import SpotPrices
from .protocol import EC2Error, service
from .states import Lives
from .throttle import Throttle

MAX_SECONDS = 7 * 86400.0


@dataclass(frozen=True)
class Controls:
    """Everything that can be steered."""

    calls: Calls
    lives: Lives
    room: MachineRoom
    capacity: Capacity
    quotas: Quotas
    throttle: Throttle
    faults: Faults
    prices: SpotPrices
    network: Network
    region: str
    certificate_pem: str


class Order(BaseModel):
    """Base of all bodies: a field that is not known is refused, for it is a slip of the pen."""

    model_config = ConfigDict(extra="forbid", strict=True)


Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]


class CapacityOrder(Order):
    market: Literal["spot", "on-demand", "*"]
    instance_type: str
    zone: str
    available: Annotated[int, Field(ge=0)] | None


class FaultOrder(Order):
    action: str
    kind: str
    times: Annotated[int, Field(ge=1, le=100_000)] = 1

    @field_validator("action")
    @classmethod
    def _known_action(cls, value: str) -> str:
        if value != ANY and not any(value in service(s).operation_names for s in ("ec2", "sts")):
            raise ValueError("no action of EC2; write it as CreateFleet, or * for any")
        return value

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, value: str) -> str:
        if value not in TRANSPORT_KINDS and not value[:1].isupper():
            raise ValueError(f"write an EC2 error code or one of {', '.join(TRANSPORT_KINDS)}")
        return value


class PriceOrder(Order):
    instance_type: str
    zone: str
    usd_per_hour: Annotated[float, Field(gt=0, le=10_000)]


class BootOrder(Order):
    seconds: Seconds


class InterruptOrder(Order):
    notice_seconds: Seconds = 120.0


class QuotaOrder(Order):
    spot: Annotated[int, Field(ge=0)] | None = None
    on_demand: Annotated[int, Field(ge=0)] | None = Field(default=None, alias="on-demand")


class LimitsOrder(Order):
    token_buckets: bool | None = None
    quotas: QuotaOrder | None = None


class ControlHandler(RequestHandler):
    """Base: JSON out, JSON in, errors in words."""

    def initialize(self, controls: Controls) -> None:
        self.controls = controls

    def prepare(self) -> None:
        if "Origin" in self.request.headers:
            raise HTTPError(403, "control calls are not for pages in a browser")

    def write_error(self, status_code: int, **context: Any) -> None:
        error = context.get("exc_info", (None, None))[1]
        known = isinstance(error, HTTPError) and error.log_message
        self.finish({"error": error.log_message % error.args if known else self._reason})

    def log_exception(self, *error: Any) -> None:
        if not isinstance(error[1], HTTPError):
            super().log_exception(*error)

    def order(self, model: type[Any]) -> Any:
        """The body as this model; 400 that names the field and how to mend it."""
        try:
            found = model.model_validate_json(self.request.body or b"{}")
        except ValidationError as error:
            raise HTTPError(400, "%s", _in_words(error, model)) from None
        return found

    def refuse_unknown(self, field: str, known: Callable[[], object]) -> None:
        try:
            known()
        except EC2Error as error:
            raise HTTPError(400, "%s", f"{field}: {error.message}") from None

    def check_offer(self, instance_type: str, zone: str) -> None:
        zones = self.controls.network.subnets
        if zone != ANY and zone not in zones:
            raise HTTPError(400, "%s", f"zone: write one of {', '.join(zones)} or {ANY}")
        if instance_type != ANY:
            self.refuse_unknown(
                "instance_type", lambda: instance_type_facts(instance_type, self.controls.region)
            )


class CallsHandler(ControlHandler):
    def get(self) -> None:
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(list(self.controls.calls)))


class InstancesHandler(ControlHandler):
    async def get(self) -> None:
        running = await self.controls.room.running()
        self.set_header("Content-Type", "application/json")
        self.finish(
            json.dumps(
                [
                    {
                        "instance_id": life.instance_id,
                        "address": life.machine.address,
                        "state": life.state,
                        "market": life.offer.market,
                        "instance_type": life.offer.instance_type,
                        "zone": life.offer.zone,
                        "processes": running.get(life.instance_id, []),
                    }
                    for life in self.controls.lives.all()
                ]
            )
        )


class CertificateHandler(ControlHandler):
    def get(self) -> None:
        self.set_header("Content-Type", "application/x-pem-file")
        self.finish(self.controls.certificate_pem)


class CapacityHandler(ControlHandler):
    def post(self) -> None:
        order = self.order(CapacityOrder)
        self.check_offer(order.instance_type, order.zone)
        self.controls.capacity.set(order.market, order.instance_type, order.zone, order.available)
        self.finish({"ok": True})


class FaultsHandler(ControlHandler):
    def post(self) -> None:
        order = self.order(FaultOrder)
        self.controls.faults.order(order.action, order.kind, order.times)
        self.finish({"ok": True})


class PricesHandler(ControlHandler):
    def post(self) -> None:
        order = self.order(PriceOrder)
        self.check_offer(order.instance_type, order.zone)
        if order.instance_type == ANY:
            raise HTTPError(400, "instance_type: a price is of one instance type")
        zones = self.controls.network.subnets if order.zone == ANY else [order.zone]
        now = datetime.now(UTC)
        for zone in zones:
            self.controls.prices.set(order.instance_type, zone, order.usd_per_hour, now)
        self.finish({"ok": True})


class BootHandler(ControlHandler):
    def post(self) -> None:
        self.controls.lives.boot_seconds = self.order(BootOrder).seconds
        self.finish({"ok": True})


class LimitsHandler(ControlHandler):
    def post(self) -> None:
        order = self.order(LimitsOrder)
        if order.token_buckets is not None:
            self.controls.throttle.enabled = order.token_buckets
        if order.quotas is not None:
            given = order.quotas.model_dump(by_alias=True, include=order.quotas.model_fields_set)
            self.controls.quotas.vcpus.update(given)
        self.finish(
            {
                "token_buckets": self.controls.throttle.enabled,
                "quotas": self.controls.quotas.vcpus,
            }
        )


class InterruptHandler(ControlHandler):
    def post(self, instance_id: str) -> None:
        order = self.order(InterruptOrder)
        try:
            life = self.controls.lives.get(instance_id)
        except EC2Error as error:
            raise HTTPError(404, "%s", error.message) from None
        if life.offer.market != "spot":
            raise HTTPError(409, "%s", f"{instance_id} is on-demand: only spot is interrupted")
        if life.state not in ("pending", "running"):
            raise HTTPError(409, "%s", f"{instance_id} is {life.state}")
        self.controls.lives.interrupt(life, order.notice_seconds)
        self.finish({"ok": True})


class UnknownHandler(ControlHandler):
    def prepare(self) -> None:
        known = ", ".join(pattern for pattern, _ in ROUTES)
        raise HTTPError(404, "%s", f"there is: {known}")


ROUTES: list[tuple[str, type[ControlHandler]]] = [
    (r"/embedded/calls", CallsHandler),
    (r"/embedded/instances", InstancesHandler),
    (r"/embedded/certificate", CertificateHandler),
    (r"/embedded/capacity", CapacityHandler),
    (r"/embedded/faults", FaultsHandler),
    (r"/embedded/prices", PricesHandler),
    (r"/embedded/boot", BootHandler),
    (r"/embedded/limits", LimitsHandler),
    (r"/embedded/interrupt/([^/]+)", InterruptHandler),
]


def _in_words(error: ValidationError, model: type[BaseModel]) -> str:
    fields = ", ".join(field.alias or name for name, field in model.model_fields.items())
    return (
        "; ".join(
            f"{'.'.join(map(str, found['loc'])) or 'body'}: {found['msg']}"
            for found in error.errors()
        )
        + f" (fields: {fields})"
    )
