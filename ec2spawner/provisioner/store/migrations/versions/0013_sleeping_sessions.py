"""What sleeps in the homes of servers, how leases sleep, and which lease continues another."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    instant = sa.DateTime(timezone=True)
    op.create_table(
        "sleeping_session",
        sa.Column("user_name", sa.String(), nullable=False),
        sa.Column("server_name", sa.String(), nullable=False),
        sa.Column("lease_id", sa.String(), nullable=False),
        sa.Column("session", sa.JSON(), nullable=False),
        sa.Column("slept_at", instant, nullable=False),
        sa.Column("expires_at", instant, nullable=False),
        sa.Column("woken_at", instant),
        sa.PrimaryKeyConstraint("user_name", "server_name", name="pk_sleeping_session"),
    )
    op.add_column("lease", sa.Column("continues", sa.String(), nullable=False, server_default=""))
    op.add_column("lease", sa.Column("sleep", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    op.drop_column("lease", "sleep")
    op.drop_column("lease", "continues")
    op.drop_table("sleeping_session")
