"""The bodies of the control calls, checked field by field."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    field_validator,
    model_validator,
)

from ..api.protocol import service
from ..faults import ENTRY, TERMINATE, TRANSPORT_KINDS
from ..market.capacity import ANY
from ..runtime.scheduled_event import EventCode

MAX_SECONDS = 7 * 86400.0

FAULTY_SERVICES = ("cloudwatch", "ec2", "iam", "pricing", "service-quotas", "ssm", "sts")
"""Services whose calls can be made to fail, as botocore names their models."""


class ControlRequest(BaseModel):
    """Base of all bodies: an unknown field is refused, because it is probably misspelled."""

    model_config = ConfigDict(extra="forbid", strict=True)


Price = Annotated[float, Field(gt=0, le=10_000)]
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]


class CapacityRequest(ControlRequest):
    """Number of available instances of an offer; `*` is any, None is no limit."""

    market: Literal["spot", "on-demand", "*"]
    instance_type: str
    zone: str
    available: Annotated[int, Field(ge=0)] | None


class CapacityBlockRequest(ControlRequest):
    """A Capacity Block of `count` instances: seconds since it has begun, and until it ends."""

    instance_type: str
    zone: str
    count: Annotated[int, Field(ge=1, le=64)]
    begun: Seconds
    left: Seconds


class HubKeyRequest(ControlRequest):
    """A key for a hub, with statements that its admin adds to `configs/iam-policy.json`."""

    hub_name: Annotated[str, Field(min_length=1)]
    statements: list[dict[str, Any]] = []


class FaultRequest(ControlRequest):
    """The next `times` calls of `action` fail as `kind` says."""

    action: str
    kind: str
    times: Annotated[int, Field(ge=1, le=100_000)] = 1
    zones: list[str] = []
    instance_types: list[str] = []

    @field_validator("action")
    @classmethod
    def _known_action(cls, value: str) -> str:
        if value != ANY and not any(value in service(s).operation_names for s in FAULTY_SERVICES):
            raise ValueError("no action of EC2; write it as CreateFleet, or * for any")
        return value

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, value: str) -> str:
        code = value.removeprefix(ENTRY).removeprefix(TERMINATE)
        if value not in TRANSPORT_KINDS and not code[:1].isupper():
            kinds = ", ".join([*sorted(TRANSPORT_KINDS), f"{ENTRY}<Code>", f"{TERMINATE}<Code>"])
            raise ValueError(f"write an EC2 error code or one of {kinds}")
        return value

    @model_validator(mode="after")
    def _entries_are_of_a_fleet(self) -> FaultRequest:
        if self.kind.startswith((ENTRY, TERMINATE)) and self.action != "CreateFleet":
            raise ValueError(f"{ENTRY}<Code> and {TERMINATE}<Code> are for the action CreateFleet")
        if not self.kind.startswith(ENTRY) and (self.zones or self.instance_types):
            raise ValueError(f"zones and instance_types go with the kind {ENTRY}<Code>")
        return self


class PriceRequest(ControlRequest):
    """USD/hour from now on; without a zone, or with `*`, in every zone."""

    instance_type: str
    usd_per_hour: Price
    market: Literal["spot", "on-demand"] = "spot"
    zone: str | None = None

    @model_validator(mode="after")
    def _zone_of_spot(self) -> PriceRequest:
        if self.market == "spot" and self.zone is None:
            raise ValueError(f"zone: a spot price is of a zone, or of all: {ANY}")
        if self.market == "on-demand" and self.zone is not None:
            raise ValueError("zone: an on-demand price is one for all zones; leave the zone out")
        return self


class BootRequest(ControlRequest):
    """Seconds that a boot takes."""

    seconds: Seconds


class LagRequest(ControlRequest):
    """Seconds of read-after-write lag; None draws them for each resource."""

    seconds: Seconds | None


class ScheduledEventRequest(ControlRequest):
    """An event that begins in so many seconds, and ends so many later at the latest; without a
    code, what was announced is withdrawn."""

    code: EventCode | None
    in_seconds: Annotated[float, Field(ge=0, le=60 * 86400.0)] = 14 * 86400.0
    lasts_seconds: Seconds = 7200.0


class InterruptRequest(ControlRequest):
    """Seconds from the spot notice to the end of the instance."""

    notice_seconds: Seconds = 120.0


Vcpus = Annotated[
    dict[str, Annotated[int, Field(ge=0)] | None],
    BeforeValidator(lambda given: given if isinstance(given, dict) else {ANY: given}),
]
"""By class of instance types; a single number applies to every class."""


class QuotaRequest(ControlRequest):
    """vCPUs by market and class."""

    spot: Vcpus = {}
    on_demand: Vcpus = Field(default={}, alias="on-demand")


class AccountRequest(ControlRequest):
    """A change of what AWS lets the account do; absent fields stay as they are."""

    plan: Literal["free", "paid", "none"] | None = None
    verified: bool | None = None


class AddressesRequest(ControlRequest):
    """Number of free addresses of a subnet; None is all."""

    subnet_id: str
    available: Annotated[int, Field(ge=0)] | None


class FileSystemRequest(ControlRequest):
    """The id of the file system to create, in EFS's format."""

    file_system: Annotated[str, Field(pattern=r"^fs-(?:[0-9a-f]{8}|[0-9a-f]{17})$")]


class ReservationRequest(ControlRequest):
    """One Reserved Instance offering of the account."""

    instance_type: str
    count: Annotated[int, Field(ge=1)]
    usd_per_hour: Annotated[float, Field(ge=0, le=10_000)]
    upfront_usd: Annotated[float, Field(ge=0)] = 0.0
    until: Annotated[AwareDatetime, Strict(False)] | None = None
    zone: str = ""


class ReservationsRequest(ControlRequest):
    """All reservations of the account; earlier ones are replaced."""

    reservations: list[ReservationRequest]


class LimitsRequest(ControlRequest):
    """Limits to change; absent ones stay as they are."""

    token_buckets: bool | None = None
    quotas: QuotaRequest | None = None


def in_words(error: ValidationError, model: type[BaseModel]) -> str:
    """What is wrong with a body, and the fields that it may have."""
    fields = ", ".join(field.alias or name for name, field in model.model_fields.items())
    return (
        "; ".join(
            f"{'.'.join(map(str, found['loc'])) or 'body'}: {found['msg']}"
            for found in error.errors()
        )
        + f" (fields: {fields})"
    )
