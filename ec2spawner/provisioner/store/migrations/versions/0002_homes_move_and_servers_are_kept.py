"""Homes move between zones, and a stopped server's instance is kept for its user."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("store", sa.Column("epoch", sa.Integer(), server_default="0", nullable=False))
    op.add_column("store", sa.Column("agents_at", sa.String(), server_default="", nullable=False))
    op.add_column("lease", sa.Column("after_stop", sa.JSON(), nullable=True))
    op.add_column("lease", sa.Column("mounts", sa.JSON(), nullable=True))
    op.add_column("segment", sa.Column("overhead_key", sa.String(), nullable=True))
    # A hub reads open leases and those that ended lately, not all that ever were.
    op.create_index(op.f("ix_lease_state_ended_at"), "lease", ["state", "ended_at"])
    op.drop_index(op.f("ix_lease_state"), "lease")
    op.create_table(
        "kept",
        sa.Column("instance_id", sa.String(), nullable=False),
        sa.Column("user_name", sa.String(), nullable=False),
        sa.Column("server_name", sa.String(), nullable=False),
        sa.Column("kept", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_kept")),
    )
    op.add_column("home", sa.Column("volume_token", sa.String(), server_default="", nullable=False))
    op.add_column(
        "home", sa.Column("from_snapshot", sa.String(), server_default="", nullable=False)
    )
    op.add_column("home", sa.Column("used_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("home", sa.Column("move", sa.JSON(), nullable=True))
    op.add_column("home", sa.Column("delete_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column(
        "segment", sa.Column("instance_type", sa.String(), server_default="", nullable=False)
    )


def downgrade() -> None:
    op.drop_column("segment", "instance_type")
    op.drop_column("store", "agents_at")
    op.drop_column("store", "epoch")
    op.drop_table("kept")
    op.drop_column("segment", "overhead_key")
    op.create_index(op.f("ix_lease_state"), "lease", ["state"])
    op.drop_index(op.f("ix_lease_state_ended_at"), "lease")
    op.drop_column("lease", "mounts")
    op.drop_column("lease", "after_stop")
    for name in ("delete_at", "move", "used_at", "from_snapshot", "volume_token"):
        op.drop_column("home", name)
