"""Values of the provisioner to rows of the store's tables, and back.

JSON is written and read by pydantic from the dataclass itself, so that a field added with a default
reads old rows without a migration. Each `…_from` raises `ValueError` for a row that it cannot read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from ...core.homes.zone_migration import Move
from ...core.instances.retention_rules import AfterStop, Kept
from ...core.ledger.gpu_use import GpuUse
from ...core.ledger.idle_spans import IdleSpan
from ...core.ledger.segments import Segment
from ...core.offers.launch_errors import LaunchError
from ...core.offers.spot_wait import Wait
from ...core.sleep.continuation import TakenOver
from ...core.sleep.rules import SleepRules
from ...core.starts.phases import Marks
from ...wire import IdlePolicy, Market, Step, Stop
from ..model.cloud.image import Image
from ..model.cloud.launch import LaunchRequest, LaunchSpec
from ..model.leases.cluster import Cluster
from ..model.leases.lease import (
    Attempt,
    Binding,
    Home,
    Intent,
    IntentState,
    Lease,
    LeaseState,
    StepEvent,
)
from ..model.leases.mounts import Mounts
from ..model.shared_values import shared

Row = Mapping[str, Any]

_SPEC = TypeAdapter(LaunchSpec)
_REQUEST = TypeAdapter(LaunchRequest)
_ERRORS = TypeAdapter(tuple[LaunchError, ...])
_ATTEMPTS = TypeAdapter(tuple[Attempt, ...])
_IMAGE = TypeAdapter(Image)
_AFTER_STOP = TypeAdapter(AfterStop)
_KEPT = TypeAdapter(Kept)
_MOUNTS = TypeAdapter(Mounts)
_MOVE = TypeAdapter(Move)
_WAIT = TypeAdapter(Wait)
_IDLE_SPANS = TypeAdapter(tuple[IdleSpan, ...])
_GPU_USE = TypeAdapter(tuple[GpuUse, ...])
_SLEEP = TypeAdapter(SleepRules)
_MARKS = TypeAdapter(Marks)
_TAKEN_OVER = TypeAdapter(TakenOver)
_CLUSTER = TypeAdapter(Cluster)


def lease_row(lease: Lease) -> Row:
    """The lease without its events and segments, which have tables of their own."""
    return {
        "lease_id": lease.lease_id,
        "user_name": lease.user,
        "server_name": lease.server,
        "profile": lease.profile,
        "profile_name": lease.profile_name,
        "spec": _SPEC.dump_python(lease.spec, mode="json"),
        "launch_key": lease.launch_key,
        "home_kind": lease.home_kind,
        "home_gib": lease.home_gib,
        "idle": lease.idle.model_dump(mode="json"),
        "state": lease.state.value,
        "requested_at": lease.requested_at,
        "sealed_start": lease.sealed_start,
        "instance_id": lease.instance_id,
        "token_sha256": lease.token_sha256,
        "url": lease.url,
        "assigned_at": lease.assigned_at,
        "ready_at": lease.ready_at,
        "ended_at": lease.ended_at,
        "extended_until": lease.extended_until,
        "extended_by": lease.extended_by,
        "stop": None if lease.stop is None else lease.stop.model_dump(mode="json"),
        "replaced": lease.replaced,
        "attempts": _ATTEMPTS.dump_python(lease.attempts, mode="json"),
        "image": None if lease.image is None else _IMAGE.dump_python(lease.image, mode="json"),
        "after_stop": _AFTER_STOP.dump_python(lease.after_stop, mode="json"),
        "mounts": _MOUNTS.dump_python(lease.mounts, mode="json"),
        "wait": None if lease.wait is None else _WAIT.dump_python(lease.wait, mode="json"),
        "on_retained": lease.on_retained,
        "waited": lease.waited,
        "payer": lease.payer,
        "stop_requested_at": lease.stop_requested_at,
        "idle_spans": _IDLE_SPANS.dump_python(lease.idle_spans, mode="json"),
        "gpu_use": _GPU_USE.dump_python(lease.gpu_use, mode="json"),
        "continues": lease.continues,
        "sleep": _SLEEP.dump_python(lease.sleep, mode="json"),
        "marks": _MARKS.dump_python(lease.marks, mode="json"),
        "taken_over": _TAKEN_OVER.dump_python(lease.taken_over, mode="json"),
        "cluster": None
        if lease.cluster is None
        else _CLUSTER.dump_python(lease.cluster, mode="json"),
        "head": lease.head,
        "run": lease.run,
    }


def lease_from(row: Row, events: Iterable[Row], segments: Iterable[Row]) -> Lease:
    """A lease, from its row and those of its events and segments."""
    return Lease(
        lease_id=row["lease_id"],
        user=row["user_name"],
        server=row["server_name"],
        profile=row["profile"],
        profile_name=row["profile_name"],
        spec=shared(_SPEC.validate_python(row["spec"])),
        launch_key=row["launch_key"],
        home_kind=row["home_kind"],
        home_gib=row["home_gib"],
        idle=IdlePolicy.model_validate(row["idle"]),
        state=LeaseState(row["state"]),
        requested_at=row["requested_at"],
        sealed_start=row["sealed_start"],
        instance_id=row["instance_id"],
        token_sha256=row["token_sha256"],
        url=row["url"],
        assigned_at=row["assigned_at"],
        ready_at=row["ready_at"],
        ended_at=row["ended_at"],
        extended_until=row["extended_until"],
        extended_by=row["extended_by"],
        stop=None if row["stop"] is None else Stop.model_validate(row["stop"]),
        replaced=row["replaced"],
        events=tuple(map(event_from, events)),
        attempts=_ATTEMPTS.validate_python(row["attempts"]),
        image=None if row["image"] is None else shared(_IMAGE.validate_python(row["image"])),
        after_stop=shared(_AFTER_STOP.validate_python(row["after_stop"] or {})),
        mounts=_MOUNTS.validate_python(row["mounts"] or {}),
        wait=None if row["wait"] is None else _WAIT.validate_python(row["wait"]),
        on_retained=row["on_retained"],
        waited=row["waited"],
        payer=row["payer"],
        stop_requested_at=row["stop_requested_at"],
        idle_spans=idle_spans_from(row["idle_spans"] or ()),
        gpu_use=_GPU_USE.validate_python(row["gpu_use"] or ()),
        continues=row["continues"],
        sleep=shared(_SLEEP.validate_python(row["sleep"] or {})),
        marks=_MARKS.validate_python(row["marks"] or {}),
        taken_over=_TAKEN_OVER.validate_python(row["taken_over"] or {}),
        cluster=None if row["cluster"] is None else _CLUSTER.validate_python(row["cluster"]),
        head=row["head"],
        run=row["run"],
        segments=tuple(map(segment_from, segments)),
    )


def idle_spans_from(value: Any) -> tuple[IdleSpan, ...]:
    """The idle periods of a lease, from the column's value."""
    return _IDLE_SPANS.validate_python(value)


def event_rows(lease: Lease) -> Sequence[Row]:
    """All events of a lease, in order: they are rewritten together."""
    return [
        {
            "lease_id": lease.lease_id,
            "position": position,
            "step": event.step.value,
            "at": event.at,
            "message": event.message,
            "detail": event.detail,
        }
        for position, event in enumerate(lease.events)
    ]


def event_from(row: Row) -> StepEvent:
    """A line of a lease's story."""
    return StepEvent(
        step=Step(row["step"]), at=row["at"], message=row["message"], detail=row["detail"]
    )


def segment_row(segment: Segment, lease_id: str | None, overhead_key: str | None = None) -> Row:
    """A segment of the lease, or of overhead where `lease_id` is None."""
    return {
        "lease_id": lease_id,
        "instance_id": segment.instance_id,
        "market": segment.market.value,
        "usd_per_hour": segment.usd_per_hour,
        "started_at": segment.start,
        "ended_at": segment.end,
        "source": segment.source,
        "instance_type": segment.instance_type,
        "overhead_key": overhead_key,
        "zone": segment.zone,
        "gpus": segment.gpus,
        "on_demand_usd_per_hour": segment.on_demand_usd_per_hour,
        "disk_usd_per_month": segment.disk_usd_per_month,
        "address_usd_per_hour": segment.address_usd_per_hour,
    }


def segment_from(row: Row) -> Segment:
    """A segment, without the lease that it belongs to."""
    return Segment(
        instance_id=row["instance_id"],
        market=Market(row["market"]),
        usd_per_hour=row["usd_per_hour"],
        start=row["started_at"],
        end=row["ended_at"],
        source=row["source"],
        instance_type=row["instance_type"],
        zone=row["zone"],
        gpus=row["gpus"],
        on_demand_usd_per_hour=row["on_demand_usd_per_hour"],
        disk_usd_per_month=row["disk_usd_per_month"],
        address_usd_per_hour=row["address_usd_per_hour"],
    )


def intent_row(intent: Intent) -> Row:
    """A launch call; the request is JSON, so that it is replayed identically."""
    return {
        "client_token": intent.client_token,
        "launch_key": intent.launch_key,
        "state": intent.state.value,
        "created_at": intent.created_at,
        "request": _REQUEST.dump_python(intent.request, mode="json"),
        "instance_ids": list(intent.instance_ids),
        "errors": _ERRORS.dump_python(intent.errors, mode="json"),
    }


def intent_from(row: Row) -> Intent:
    """A launch call with its response."""
    return Intent(
        request=_REQUEST.validate_python(row["request"]),
        launch_key=row["launch_key"],
        state=IntentState(row["state"]),
        created_at=row["created_at"],
        instance_ids=tuple(row["instance_ids"]),
        errors=_ERRORS.validate_python(row["errors"]),
    )


def binding_row(binding: Binding) -> Row:
    """The hash of an instance's key, never the key."""
    return {
        "instance_id": binding.instance_id,
        "key_sha256": binding.key_sha256,
        "bound_at": binding.bound_at,
    }


def binding_from(row: Row) -> Binding:
    """Which key an instance is bound to."""
    return Binding(
        instance_id=row["instance_id"], key_sha256=row["key_sha256"], bound_at=row["bound_at"]
    )


def kept_row(kept: Kept) -> Row:
    """A retained instance; its fields are JSON, so that new ones need no migration."""
    return {
        "instance_id": kept.instance_id,
        "user_name": kept.user,
        "server_name": kept.server,
        "kept": _KEPT.dump_python(kept, mode="json"),
    }


def kept_from(row: Row) -> Kept:
    """A retained instance."""
    return _KEPT.validate_python(row["kept"])


def home_row(home: Home) -> Row:
    """A home with its zone migration, if one is in progress."""
    return {
        "home_id": home.home_id,
        "user_name": home.user,
        "server_name": home.server,
        "kind": home.kind,
        "size_gib": home.size_gib,
        "created_at": home.created_at,
        "volume_id": home.volume_id,
        "zone": home.zone,
        "volume_token": home.volume_token,
        "from_snapshot": home.made_from,
        "used_at": home.used_at,
        "move": None if home.move is None else _MOVE.dump_python(home.move, mode="json"),
        "delete_at": home.delete_at,
    }


def home_from(row: Row) -> Home:
    """A home with its zone migration, if one is in progress."""
    return Home(
        home_id=row["home_id"],
        user=row["user_name"],
        server=row["server_name"],
        kind=row["kind"],
        size_gib=row["size_gib"],
        created_at=row["created_at"],
        volume_id=row["volume_id"],
        zone=row["zone"],
        volume_token=row["volume_token"],
        made_from=row["from_snapshot"],
        used_at=row["used_at"],
        move=None if row["move"] is None else _MOVE.validate_python(row["move"]),
        delete_at=row["delete_at"],
    )
