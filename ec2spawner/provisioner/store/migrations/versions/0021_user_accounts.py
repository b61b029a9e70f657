"""Accounts of users: names are used again after a deletion or a change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "user_account",
        sa.Column("account_key", sa.String(), nullable=False),
        sa.Column("number", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("jupyterhub_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True)),
        sa.Column("named_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("claim", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("account_key", name=op.f("pk_user_account")),
    )


def downgrade() -> None:
    op.drop_table("user_account")
