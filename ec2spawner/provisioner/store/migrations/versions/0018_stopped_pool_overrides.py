"""What an admin sets of the warm pool names stopped instances, too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pool_override", sa.Column("stopped", sa.Integer()))


def downgrade() -> None:
    op.drop_column("pool_override", "stopped")
