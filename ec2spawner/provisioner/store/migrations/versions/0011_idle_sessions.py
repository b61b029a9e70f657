"""Sessions with idle time have rows of their own, so that a year of them is replayed at once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

BY_SERVER = "ix_lease_user_name_server_name_ended_at"
COLUMNS = ["user_name", "server_name", "ended_at"]


def upgrade() -> None:
    op.create_table(
        "idle_session",
        sa.Column("lease_id", sa.String(), nullable=False),
        sa.Column("user_name", sa.String(), nullable=False),
        sa.Column("server_name", sa.String(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("is_idle_stop", sa.Boolean(), nullable=False),
        sa.Column("idle_microseconds", sa.JSON(), nullable=False),
        sa.Column("idle_usd_per_hour", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["lease.lease_id"], name="fk_idle_session_lease_id_lease"
        ),
        sa.PrimaryKeyConstraint("lease_id", name="pk_idle_session"),
    )
    op.create_index("ix_idle_session_ended_at", "idle_session", ["ended_at"])

    op.drop_index(BY_SERVER, "lease")
    op.create_index(f"{BY_SERVER}_requested_at", "lease", [*COLUMNS, "requested_at"])


def downgrade() -> None:
    op.drop_index(f"{BY_SERVER}_requested_at", "lease")
    op.create_index(BY_SERVER, "lease", COLUMNS)
    op.drop_table("idle_session")
