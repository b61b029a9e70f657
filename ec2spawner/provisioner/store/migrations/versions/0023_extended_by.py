"""A server that is kept on says who asked for it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lease", sa.Column("extended_by", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("lease", "extended_by")
