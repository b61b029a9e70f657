"""Segments have the prices of disks and public addresses.

Those that had ended keep the cost that was recorded, without disks. Of those that run the prices
are unknown, and filled in from their beginning.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

COLUMNS = ("disk_usd_per_month", "address_usd_per_hour")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("segment", sa.Column(name, sa.Float(), nullable=True))
    segment = sa.table(
        "segment", sa.column("ended_at"), *(sa.column(name, sa.Float()) for name in COLUMNS)
    )
    ended = sa.update(segment).where(segment.c.ended_at.is_not(None))
    op.execute(ended.values(dict.fromkeys(COLUMNS, 0.0)))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("segment", name)
