"""Totals of the ledger by dimension and period, so that a year of costs is read at once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cost_total",
        sa.Column("dimension", sa.String(), nullable=False),
        sa.Column("days", sa.Integer(), nullable=False),
        sa.Column("first_day", sa.Date(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("purpose", sa.String(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("nano_usd", sa.BigInteger(), nullable=False),
        sa.Column("on_demand_nano_usd", sa.BigInteger(), nullable=False),
        sa.Column("comparable_nano_usd", sa.BigInteger(), nullable=False),
        sa.Column("unknown", sa.BigInteger(), nullable=False),
        sa.Column("microseconds", sa.BigInteger(), nullable=False),
        sa.Column("gpu_microseconds", sa.Float(), nullable=False),
        sa.Column("assumed_nano_usd", sa.BigInteger(), nullable=False),
        sa.Column("uncounted", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "dimension", "days", "first_day", "value", "purpose", name="pk_cost_total"
        ),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("cost_total")
