"""The first schema."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    store = op.create_table(
        "store",
        sa.Column("store_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("store_id", name=op.f("pk_store")),
    )
    op.bulk_insert(store, [{"store_id": secrets.token_hex(8)}])
    _leases()
    _launches()
    op.create_table(
        "home",
        sa.Column("home_id", sa.String(), nullable=False),
        sa.Column("user_name", sa.String(), nullable=False),
        sa.Column("server_name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("size_gib", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("volume_id", sa.String(), nullable=True),
        sa.Column("zone", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("home_id", name=op.f("pk_home")),
        sa.UniqueConstraint("volume_id", name=op.f("uq_home_volume_id")),
    )
    op.create_index(op.f("ix_home_user_name_server_name"), "home", ["user_name", "server_name"])


def _leases() -> None:
    op.create_table(
        "lease",
        sa.Column("lease_id", sa.String(), nullable=False),
        sa.Column("user_name", sa.String(), nullable=False),
        sa.Column("server_name", sa.String(), nullable=False),
        sa.Column("profile", sa.String(), nullable=False),
        sa.Column("profile_name", sa.String(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("launch_key", sa.String(), nullable=False),
        sa.Column("home_kind", sa.String(), nullable=False),
        sa.Column("home_gib", sa.Integer(), nullable=False),
        sa.Column("idle", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sealed_start", sa.String(), nullable=False),
        sa.Column("instance_id", sa.String(), nullable=True),
        sa.Column("token_sha256", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("assigned_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ready_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("extended_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("stop", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("replaced", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.JSON(), nullable=False),
        sa.Column("image", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("lease_id", name=op.f("pk_lease")),
    )
    op.create_index(op.f("ix_lease_state"), "lease", ["state"])
    op.create_index(op.f("ix_lease_instance_id"), "lease", ["instance_id"])
    op.create_index(op.f("ix_lease_profile_ready_at"), "lease", ["profile", "ready_at"])
    op.create_index(
        op.f("ix_lease_user_name_server_name_ended_at"),
        "lease",
        ["user_name", "server_name", "ended_at"],
    )
    op.create_table(
        "lease_event",
        sa.Column("lease_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("step", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["lease.lease_id"], name=op.f("fk_lease_event_lease_id_lease")
        ),
        sa.PrimaryKeyConstraint("lease_id", "position", name=op.f("pk_lease_event")),
    )
    op.create_table(
        "segment",
        sa.Column("segment_id", sa.Integer(), nullable=False),
        sa.Column("lease_id", sa.String(), nullable=True),
        sa.Column("instance_id", sa.String(), nullable=False),
        sa.Column("market", sa.String(), nullable=False),
        sa.Column("usd_per_hour", sa.Float(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("source", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["lease.lease_id"], name=op.f("fk_segment_lease_id_lease")
        ),
        sa.PrimaryKeyConstraint("segment_id", name=op.f("pk_segment")),
    )
    op.create_index(op.f("ix_segment_lease_id"), "segment", ["lease_id"])
    op.create_index(op.f("ix_segment_instance_id"), "segment", ["instance_id"])
    op.create_index(op.f("ix_segment_started_at"), "segment", ["started_at"])


def _launches() -> None:
    op.create_table(
        "intent",
        sa.Column("client_token", sa.String(), nullable=False),
        sa.Column("launch_key", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("instance_ids", sa.JSON(), nullable=False),
        sa.Column("errors", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("client_token", name=op.f("pk_intent")),
    )
    op.create_index(op.f("ix_intent_state"), "intent", ["state"])
    op.create_index(op.f("ix_intent_created_at"), "intent", ["created_at"])
    op.create_table(
        "binding",
        sa.Column("instance_id", sa.String(), nullable=False),
        sa.Column("key_sha256", sa.String(), nullable=False),
        sa.Column("bound_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_binding")),
    )
    op.create_index(op.f("ix_binding_bound_at"), "binding", ["bound_at"])


def downgrade() -> None:
    for table in ("segment", "lease_event", "lease", "intent", "binding", "home", "store"):
        op.drop_table(table)
