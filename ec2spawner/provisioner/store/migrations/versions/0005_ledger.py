"""The ledger: what leases and overhead have cost by day, who pays, and when servers were idle."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lease", sa.Column("payer", sa.String(), server_default="", nullable=False))
    op.add_column(
        "lease", sa.Column("stop_requested_at", sa.DateTime(timezone=True), nullable=True)
    )
    op.add_column("lease", sa.Column("idle_spans", sa.JSON(), nullable=True))
    op.add_column("segment", sa.Column("zone", sa.String(), server_default="", nullable=False))
    op.add_column("segment", sa.Column("gpus", sa.Float(), server_default="0", nullable=False))
    op.add_column("segment", sa.Column("on_demand_usd_per_hour", sa.Float(), nullable=True))
    op.create_table(
        "cost",
        sa.Column("cost_id", sa.Integer(), nullable=False),
        sa.Column("lease_id", sa.String(), nullable=True),
        sa.Column("instance_id", sa.String(), nullable=True),
        sa.Column("overhead_key", sa.String(), nullable=True),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("user_name", sa.String(), nullable=False),
        sa.Column("server_name", sa.String(), nullable=False),
        sa.Column("payer", sa.String(), nullable=False),
        sa.Column("profile", sa.String(), nullable=False),
        sa.Column("instance_type", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("market", sa.String(), nullable=False),
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("purpose", sa.String(), nullable=False),
        sa.Column("cause", sa.String(), nullable=False),
        sa.Column("microseconds", sa.BigInteger(), nullable=False),
        sa.Column("gpus", sa.Float(), nullable=False),
        sa.Column("nano_usd", sa.BigInteger(), nullable=True),
        sa.Column("on_demand_nano_usd", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["lease.lease_id"], name=op.f("fk_cost_lease_id_lease")
        ),
        sa.PrimaryKeyConstraint("cost_id", name=op.f("pk_cost")),
    )
    op.create_index(op.f("ix_cost_lease_id"), "cost", ["lease_id"])
    op.create_index(
        op.f("ix_cost_instance_id_overhead_key"), "cost", ["instance_id", "overhead_key"]
    )
    op.create_index(op.f("ix_cost_day"), "cost", ["day"])
    op.create_index(op.f("ix_cost_user_name_day"), "cost", ["user_name", "day"])


def downgrade() -> None:
    op.drop_table("cost")
    for name in ("on_demand_usd_per_hour", "gpus", "zone"):
        op.drop_column("segment", name)
    for name in ("idle_spans", "stop_requested_at", "payer"):
        op.drop_column("lease", name)
