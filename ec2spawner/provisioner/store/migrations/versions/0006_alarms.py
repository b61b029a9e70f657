"""Alarms wait in the store until each of their destinations has confirmed them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "alarm",
        sa.Column("alarm_id", sa.String(), nullable=False),
        sa.Column("raised_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("grouped", sa.Boolean(), nullable=False),
        sa.Column("alarm", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("alarm_id", name="pk_alarm"),
    )
    op.create_index("ix_alarm_raised_at", "alarm", ["raised_at"])
    op.create_table(
        "alarm_delivery",
        sa.Column("alarm_id", sa.String(), nullable=False),
        sa.Column("destination", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["alarm_id"], ["alarm.alarm_id"], name="fk_alarm_delivery_alarm_id_alarm"
        ),
        sa.PrimaryKeyConstraint("alarm_id", "destination", name="pk_alarm_delivery"),
    )
    op.create_index("ix_alarm_delivery_done_at", "alarm_delivery", ["done_at"])


def downgrade() -> None:
    op.drop_table("alarm_delivery")
    op.drop_table("alarm")
