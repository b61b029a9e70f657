"""Homes and their snapshots are in the ledger."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("cost", "cost_total"):
        op.add_column(
            table, sa.Column("mib_seconds", sa.BigInteger(), nullable=False, server_default="0")
        )
    op.add_column(
        "store", sa.Column("storage_counted_until", sa.DateTime(timezone=True), nullable=True)
    )


def downgrade() -> None:
    op.drop_column("store", "storage_counted_until")
    for table in ("cost_total", "cost"):
        op.drop_column(table, "mib_seconds")
