"""The store's tables. `rows.py` converts values to their rows and back.

What queries select by is a column of its own (user, server, state, times, profile, instance).
Everything else is JSON.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)
from sqlalchemy.types import TypeDecorator

from ...core.starts.phases import Phase


class Instant(TypeDecorator[datetime]):
    """A timezone-aware instant: UTC in the database, UTC out of it."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """UTC for the database. Raises ValueError for an instant without a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("an instant without a time zone cannot be stored")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """An aware instant in UTC."""
        if value is None:
            return None
        # SQLite stores no time zone; values were converted to UTC when they were written.
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

store_table = Table(
    "store",
    metadata,
    Column("store_id", String, primary_key=True),
    # How often the store was opened: a hub that lost it and gets it back sees whether another
    # hub has had it.
    Column("epoch", Integer, nullable=False, server_default="0"),
    # Host and port at which agents reach the hub: a copied store is detected by it.
    Column("agents_at", String, nullable=False, server_default=""),
    # Up to when homes and their snapshots are in the ledger.
    Column("storage_counted_until", Instant),
)

lease_table = Table(
    "lease",
    metadata,
    Column("lease_id", String, primary_key=True),
    Column("user_name", String, nullable=False),
    Column("server_name", String, nullable=False),
    Column("profile", String, nullable=False),
    Column("profile_name", String, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("launch_key", String, nullable=False),
    Column("home_kind", String, nullable=False),
    Column("home_gib", Integer, nullable=False),
    Column("idle", JSON, nullable=False),
    Column("state", String, nullable=False),
    Column("requested_at", Instant, nullable=False),
    Column("sealed_start", String, nullable=False),
    Column("instance_id", String),
    Column("token_sha256", String, nullable=False),
    Column("url", String, nullable=False),
    Column("assigned_at", Instant),
    Column("ready_at", Instant),
    Column("ended_at", Instant),
    Column("extended_until", Instant),
    Column("extended_by", String, nullable=False, server_default=""),
    Column("stop", JSON(none_as_null=True)),
    Column("replaced", Integer, nullable=False),
    Column("attempts", JSON, nullable=False),
    Column("image", JSON(none_as_null=True)),
    Column("after_stop", JSON(none_as_null=True)),
    Column("mounts", JSON(none_as_null=True)),
    Column("wait", JSON(none_as_null=True)),
    Column("on_retained", Boolean, nullable=False, server_default=false()),
    Column("payer", String, nullable=False, server_default=""),
    Column("run", Integer, nullable=False, server_default="0"),
    Column("stop_requested_at", Instant),
    Column("idle_spans", JSON(none_as_null=True)),
    Column("gpu_use", JSON(none_as_null=True)),
    # Id of the lease whose server it continues on another instance; empty for none.
    Column("continues", String, nullable=False, server_default=""),
    Column("sleep", JSON(none_as_null=True)),
    Column("taken_over", JSON(none_as_null=True)),
    Column("marks", JSON(none_as_null=True)),
    Column("cluster", JSON(none_as_null=True)),
    # Of a worker: id of the lease of the server that it works for; empty for a server.
    Column("head", String, nullable=False, server_default=""),
    # Seconds for which its agent was awaited: a restart of the hub continues the wait.
    Column("waited", Float, nullable=False, server_default="0"),
    Index(None, "state", "ended_at"),
    Index(None, "instance_id"),
    Index(None, "profile", "ready_at"),
    # The last is not searched by: when a server was started again is read of the index alone.
    Index(None, "user_name", "server_name", "ended_at", "requested_at"),
)

event_table = Table(
    "lease_event",
    metadata,
    Column("lease_id", String, ForeignKey("lease.lease_id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("step", String, nullable=False),
    Column("at", Instant, nullable=False),
    Column("message", String, nullable=False),
    Column("detail", String, nullable=False),
)

segment_table = Table(
    "segment",
    metadata,
    Column("segment_id", Integer, primary_key=True),
    # Without a lease it is overhead: one table, so that one sum is the bill.
    Column("lease_id", String, ForeignKey("lease.lease_id")),
    Column("instance_id", String, nullable=False),
    Column("market", String, nullable=False),
    Column("usd_per_hour", Float),
    Column("started_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Column("source", String, nullable=False),
    Column("instance_type", String, nullable=False, server_default=""),
    # Of overhead: stored again, it is the same. None in what schema 0001 wrote.
    Column("overhead_key", String),
    Column("zone", String, nullable=False, server_default=""),
    Column("gpus", Float, nullable=False, server_default="0"),
    Column("on_demand_usd_per_hour", Float),
    Column("disk_usd_per_month", Float),
    Column("address_usd_per_hour", Float),
    Index(None, "lease_id"),
    Index(None, "instance_id"),
    Index(None, "started_at"),
)

# Lines of the ledger: of leases, written when they end, and of overhead. See `CostRow`.
cost_table = Table(
    "cost",
    metadata,
    Column("cost_id", Integer, primary_key=True),
    Column("lease_id", String, ForeignKey("lease.lease_id")),
    # Of overhead: stored again, it is the same.
    Column("instance_id", String),
    Column("overhead_key", String),
    Column("day", Date, nullable=False),
    Column("user_name", String, nullable=False),
    Column("server_name", String, nullable=False),
    Column("payer", String, nullable=False),
    Column("profile", String, nullable=False),
    Column("instance_type", String, nullable=False),
    Column("zone", String, nullable=False),
    Column("market", String, nullable=False),
    Column("resource", String, nullable=False),
    Column("purpose", String, nullable=False),
    Column("cause", String, nullable=False),
    Column("microseconds", BigInteger, nullable=False),
    Column("gpus", Float, nullable=False),
    Column("nano_usd", BigInteger),
    Column("on_demand_nano_usd", BigInteger),
    Column("mib_seconds", BigInteger, nullable=False, server_default="0"),
    Column("gpu_measured", BigInteger, nullable=False, server_default="0"),
    Column("gpu_busy", BigInteger, nullable=False, server_default="0"),
    Index(None, "lease_id"),
    Index(None, "instance_id", "overhead_key"),
    Index(None, "day"),
    Index(None, "user_name", "day"),
)

# Sums of lines, kept as lines change: see `cost_totals`.
cost_total_table = Table(
    "cost_total",
    metadata,
    Column("dimension", String, primary_key=True),
    Column("days", Integer, primary_key=True),
    Column("first_day", Date, primary_key=True),
    Column("value", String, primary_key=True),
    Column("purpose", String, primary_key=True),
    Column("lines", BigInteger, nullable=False),
    Column("nano_usd", BigInteger, nullable=False),
    Column("on_demand_nano_usd", BigInteger, nullable=False),
    Column("comparable_nano_usd", BigInteger, nullable=False),
    Column("unknown", BigInteger, nullable=False),
    Column("microseconds", BigInteger, nullable=False),
    Column("gpu_microseconds", Float, nullable=False),
    Column("assumed_nano_usd", BigInteger, nullable=False),
    Column("uncounted", BigInteger, nullable=False),
    Column("mib_seconds", BigInteger, nullable=False, server_default="0"),
    Column("gpu_measured", BigInteger, nullable=False, server_default="0"),
    Column("gpu_busy", BigInteger, nullable=False, server_default="0"),
    sqlite_with_rowid=False,
)

# Of the leases that have ended those with idle time, and those that were stopped as idle.
idle_session_table = Table(
    "idle_session",
    metadata,
    Column("lease_id", String, ForeignKey("lease.lease_id"), primary_key=True),
    Column("user_name", String, nullable=False),
    Column("server_name", String, nullable=False),
    Column("ended_at", Instant, nullable=False),
    Column("is_idle_stop", Boolean, nullable=False),
    # A list with the length of each idle period.
    Column("idle_microseconds", JSON, nullable=False),
    Column("idle_usd_per_hour", Float),
    Index(None, "ended_at"),
)

# Of the starts that are over: where their time went, in seconds. NULL is a phase without one.
start_phases_table = Table(
    "start_phases",
    metadata,
    Column("lease_id", String, ForeignKey("lease.lease_id"), primary_key=True),
    Column("requested_at", Instant, nullable=False),
    Column("profile", String, nullable=False),
    # Empty where nothing was bought.
    Column("market", String, nullable=False),
    Column("outcome", String, nullable=False),
    # The phase in which a start ended; empty for a server that was ready.
    Column("unfinished", String, nullable=False),
    Column("total", Float, nullable=False),
    # Part of `queue`: spent on instances that were lost.
    Column("lost", Float, nullable=False),
    *(Column(phase.value, Float) for phase in Phase),
    Index(None, "requested_at"),
)

intent_table = Table(
    "intent",
    metadata,
    Column("client_token", String, primary_key=True),
    Column("launch_key", String, nullable=False),
    Column("state", String, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("request", JSON, nullable=False),
    Column("instance_ids", JSON, nullable=False),
    Column("errors", JSON, nullable=False),
    Index(None, "state"),
    Index(None, "created_at"),
)

binding_table = Table(
    "binding",
    metadata,
    Column("instance_id", String, primary_key=True),
    Column("key_sha256", String, nullable=False),
    Column("bound_at", Instant, nullable=False),
    Index(None, "bound_at"),
)

kept_table = Table(
    "kept",
    metadata,
    Column("instance_id", String, primary_key=True),
    Column("user_name", String, nullable=False),
    Column("server_name", String, nullable=False),
    Column("kept", JSON, nullable=False),
)

home_table = Table(
    "home",
    metadata,
    Column("home_id", String, primary_key=True),
    Column("user_name", String, nullable=False),
    Column("server_name", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("size_gib", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("volume_id", String),
    Column("zone", String),
    Column("volume_token", String, nullable=False, server_default=""),
    Column("from_snapshot", String, nullable=False, server_default=""),
    Column("used_at", Instant),
    Column("move", JSON(none_as_null=True)),
    Column("delete_at", Instant),
    UniqueConstraint("volume_id"),
    Index(None, "user_name", "server_name"),
)

alarm_table = Table(
    "alarm",
    metadata,
    Column("alarm_id", String, primary_key=True),
    Column("raised_at", Instant, nullable=False),
    # Not sent by itself, but with the rest of its hour.
    Column("grouped", Boolean, nullable=False),
    Column("alarm", JSON, nullable=False),
    Index(None, "raised_at"),
)

alarm_delivery_table = Table(
    "alarm_delivery",
    metadata,
    Column("alarm_id", String, ForeignKey("alarm.alarm_id"), primary_key=True),
    Column("destination", String, primary_key=True),
    Column("attempts", Integer, nullable=False),
    # Not before then; NULL is at once.
    Column("next_at", Instant),
    # Confirmed by the destination, or given up.
    Column("done_at", Instant),
    Index(None, "done_at"),
)

# The last one of each server, of about a day: at most `state.denied_starts.MAX`.
denied_start_table = Table(
    "denied_start",
    metadata,
    Column("user_name", String, primary_key=True),
    Column("server_name", String, primary_key=True),
    Column("denied", JSON, nullable=False),
)

# How many instances of the warm pool an admin wants, until then. At most one for each profile and
# market: few, and those that have ended are deleted with the next one.
pool_override_table = Table(
    "pool_override",
    metadata,
    Column("profile", String, primary_key=True),
    Column("market", String, primary_key=True),
    Column("running", Integer, nullable=False),
    Column("until", Instant, nullable=False),
    Column("set_by", String, nullable=False),
    Column("set_at", Instant, nullable=False),
    Column("stopped", Integer),
)

# Runs. Rows stay, as those of leases do, because no number is used twice.
run_table = Table(
    "run",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("user_name", String, nullable=False),
    Column("state", String, nullable=False),
    Column("ended_at", Instant),
    Column("record", JSON, nullable=False),
    Index(None, "state", "ended_at"),
)

# What runs execute, `source/12`, and their results so far, `result/12`: deleted after a while.
run_document_table = Table(
    "run_document",
    metadata,
    Column("document_id", String, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("written_at", Instant, nullable=False, index=True),
    Column("document", Text, nullable=False),
)

# What was saved last of the kernels of each server. The values themselves are in the home.
sleeping_session_table = Table(
    "sleeping_session",
    metadata,
    Column("user_name", String, primary_key=True),
    Column("server_name", String, primary_key=True),
    Column("lease_id", String, nullable=False),
    Column("session", JSON, nullable=False),
    Column("slept_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("woken_at", Instant),
    Column("expiry_reported", Boolean, nullable=False, server_default=false()),
)

# The users of JupyterHub whose servers the hub has had. `user_name` of all other tables is the key:
# the name under which a user was first seen, made unique.
user_account_table = Table(
    "user_account",
    metadata,
    Column("account_key", String, primary_key=True),
    Column("number", String, nullable=False),
    Column("name", String, nullable=False),
    Column("jupyterhub_id", Integer, nullable=False),
    Column("created_at", Instant),
    Column("named_at", Instant, nullable=False),
    Column("claim", String, nullable=False),
)
