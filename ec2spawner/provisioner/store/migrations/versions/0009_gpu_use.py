"""How much of their time the GPUs of a lease worked, by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lease", sa.Column("gpu_use", sa.JSON(), nullable=True))
    for table in ("cost", "cost_total"):
        for name in ("gpu_measured", "gpu_busy"):
            column = sa.Column(name, sa.BigInteger(), server_default="0", nullable=False)
            op.add_column(table, column)


def downgrade() -> None:
    for table in ("cost", "cost_total"):
        for name in ("gpu_measured", "gpu_busy"):
            op.drop_column(table, name)
    op.drop_column("lease", "gpu_use")
