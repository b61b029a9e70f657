"""Sessions that have expired stay on record for a while: whether that was reported is stored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "sleeping_session",
        sa.Column("expiry_reported", sa.Boolean(), nullable=False, server_default=sa.false()),
    )


def downgrade() -> None:
    op.drop_column("sleeping_session", "expiry_reported")
