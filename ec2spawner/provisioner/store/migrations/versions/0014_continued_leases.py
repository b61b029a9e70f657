"""What a lease takes over from the one that it continues on another instance."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lease", sa.Column("taken_over", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    op.drop_column("lease", "taken_over")
