"""Runs, what they execute, and their results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run",
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("user_name", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("record", sa.JSON(), nullable=False),
    )
    op.create_index("ix_run_state_ended_at", "run", ["state", "ended_at"])
    op.create_table(
        "run_document",
        sa.Column("document_id", sa.String(), primary_key=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
    )
    op.create_index("ix_run_document_written_at", "run_document", ["written_at"])
    op.add_column("lease", sa.Column("run", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("lease", "run")
    op.drop_table("run_document")
    op.drop_table("run")
