"""${message}.

The previous release must run on this schema: add now, use in this release, remove in a later one.
"""
# Imports nothing of openab: the code moves on, history must not. `op.batch_alter_table` always gets
# `copy_from`, the table as it was, so that `--sql` works for SQLite.

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    ${downgrades if downgrades else "pass"}
