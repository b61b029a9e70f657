"""Store how long leases have waited for their agents, over restarts of the hub."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lease", sa.Column("waited", sa.Float(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("lease", "waited")
