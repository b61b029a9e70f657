"""What a start has reached is stored with its lease, and its phases once it is over."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

PHASES = (
    *("queue", "buy", "pending", "boot", "agent"),
    *("claim", "home", "notebook", "listen", "route"),
)


def upgrade() -> None:
    op.add_column("lease", sa.Column("marks", sa.JSON(none_as_null=True)))
    op.create_table(
        "start_phases",
        sa.Column("lease_id", sa.String(), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("profile", sa.String(), nullable=False),
        sa.Column("market", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("unfinished", sa.String(), nullable=False),
        sa.Column("total", sa.Float(), nullable=False),
        sa.Column("lost", sa.Float(), nullable=False),
        *(sa.Column(phase, sa.Float(), nullable=True) for phase in PHASES),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["lease.lease_id"], name="fk_start_phases_lease_id_lease"
        ),
        sa.PrimaryKeyConstraint("lease_id", name="pk_start_phases"),
    )
    op.create_index("ix_start_phases_requested_at", "start_phases", ["requested_at"])


def downgrade() -> None:
    op.drop_table("start_phases")
    op.drop_column("lease", "marks")
