"""What all control calls have in common: the token, JSON in and out, errors in words."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from tornado.web import HTTPError, RequestHandler

from ...core.text.strict_json import WrongBody, check_type, parsed
from ..api.access_keys import AccessKeys
from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..faults import Faults
from ..gateway.call_log import Calls
from ..gateway.throttle import Throttle
from ..instances.account import Account
from ..instances.capacity_reservations import CapacityReservations
from ..instances.lifecycle import Lifecycles
from ..instances.quotas import Quotas
from ..instances.reservations import Reservations
from ..instances.scheduled_events import ScheduledEvents
from ..market.capacity import ANY, Capacity
from ..market.prices import OnDemandPrices, SpotPrices
from ..market.type_facts import instance_type_facts
from ..network import Network
from ..read_lag import ReadLag
from ..runtime.instance_runtime import InstanceRuntime
from ..storage.file_systems import FileSystems
from .requests import in_words


@dataclass(frozen=True)
class Controls:
    """What the control calls read and change, and the token that they need."""

    token: str

    calls: Calls
    lifecycles: Lifecycles
    runtime: InstanceRuntime
    capacity: Capacity
    quotas: Quotas
    account: Account
    throttle: Throttle
    faults: Faults
    lag: ReadLag
    spot_prices: SpotPrices
    on_demand_prices: OnDemandPrices
    reservations: Reservations
    capacity_reservations: CapacityReservations
    scheduled_events: ScheduledEvents
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
        body = self.request.body or b"{}"
        try:
            check_type(self.request.headers.get("Content-Type"))
            parsed(body)
            found = model.model_validate_json(body)
        except WrongBody as error:
            raise HTTPError(400, "%s", str(error)) from None
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
