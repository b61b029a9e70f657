"""What an admin sets of the warm pool outlives a restart of the hub."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    instant = sa.DateTime(timezone=True)
    op.create_table(
        "pool_override",
        sa.Column("profile", sa.String(), nullable=False),
        sa.Column("market", sa.String(), nullable=False),
        sa.Column("running", sa.Integer(), nullable=False),
        sa.Column("until", instant, nullable=False),
        sa.Column("set_by", sa.String(), nullable=False),
        sa.Column("set_at", instant, nullable=False),
        sa.PrimaryKeyConstraint("profile", "market", name="pk_pool_override"),
    )


def downgrade() -> None:
    op.drop_table("pool_override")
