"""Starts that a limit refused outlive a restart of the hub."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "denied_start",
        sa.Column("user_name", sa.String(), nullable=False),
        sa.Column("server_name", sa.String(), nullable=False),
        sa.Column("denied", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("user_name", "server_name", name="pk_denied_start"),
    )


def downgrade() -> None:
    op.drop_table("denied_start")
