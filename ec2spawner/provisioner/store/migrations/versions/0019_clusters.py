"""Leases of workers, and which workers the user of a server wants."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lease", sa.Column("cluster", sa.JSON(none_as_null=True)))
    op.add_column("lease", sa.Column("head", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("lease", "head")
    op.drop_column("lease", "cluster")
