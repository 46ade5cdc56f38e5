"""The first tables.

The previous release must run on this schema: add now, use in this release, remove in a later one.
"""
# Imports nothing of openab: the code moves on, history must not. `op.batch_alter_table` always gets
# `copy_from`, the table as it was, so that `--sql` works for SQLite.

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("channel", sa.String(length=32), nullable=False),
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("name", sa.LargeBinary(), nullable=False),
        sa.Column("intake_mark", sa.String(length=32), nullable=True),
        sa.Column("identify_day", sa.String(length=10), nullable=True),
        sa.Column("identify_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("invalid_window_at", sa.BigInteger(), nullable=True),
        sa.Column("invalid_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("command_digest", sa.String(length=64), nullable=True),
        sa.Column("last_outbound_at", sa.BigInteger(), nullable=True),
        sa.Column("first_mark", sa.String(length=32), nullable=True),
        sa.PrimaryKeyConstraint("channel", "account", name=op.f("pk_accounts")),
    )
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("channel", sa.String(length=32), nullable=False),
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("conversation_id", sa.String(length=32), nullable=False),
        sa.Column("parent_conversation_id", sa.String(length=32), nullable=True),
        sa.Column("place", sa.String(length=16), nullable=False),
        sa.Column("lease_owner", sa.String(length=64), nullable=True),
        sa.Column("lease_proof", sa.String(length=1024), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("next_seq", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("is_involved", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("has_other_bot", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("bot_turns", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_bot_author", sa.String(length=32), nullable=True),
        sa.Column("last_message_id", sa.String(length=32), nullable=True),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("bot_messages", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_human_id", sa.String(length=32), nullable=True),
        sa.Column("other_bots", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversations")),
        sa.UniqueConstraint(
            "channel",
            "account",
            "conversation_id",
            name=op.f("uq_conversations_channel_account_conversation_id"),
        ),
    )
    op.create_index(
        op.f("ix_conversations_account_lease_until"),
        "conversations",
        ["account", "lease_until"],
        unique=False,
    )
    op.create_index(
        "ix_conversations_closed",
        "conversations",
        ["account", "closed_at"],
        unique=False,
        sqlite_where=sa.text("closed_at IS NOT NULL"),
        postgresql_where=sa.text("closed_at IS NOT NULL"),
    )
    op.create_table(
        "database",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_database")),
    )
    op.create_table(
        "inbox",
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("event_key", sa.String(length=64), nullable=False),
        sa.Column("conversation_id", sa.String(length=32), nullable=False),
        sa.Column("author_id", sa.String(length=32), nullable=False),
        sa.Column("disposition", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("turn_id", sa.String(length=32), nullable=True),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account", "kind", "event_key", name=op.f("pk_inbox")),
    )
    op.create_index(op.f("ix_inbox_account_seen_at"), "inbox", ["account", "seen_at"], unique=False)
    op.create_index(
        "ix_inbox_absences",
        "inbox",
        ["account", "conversation_id"],
        unique=False,
        sqlite_where=sa.text("reason IN ('caught_up', 'too_old', 'too_many')"),
        postgresql_where=sa.text("reason IN ('caught_up', 'too_old', 'too_many')"),
    )
    op.create_table(
        "sessions",
        sa.Column("session_key", sa.String(length=200), nullable=False),
        sa.Column("channel", sa.String(length=32), nullable=False),
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("conversation", sa.String(length=32), nullable=False),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("working_dir", sa.LargeBinary(), nullable=False),
        sa.Column("acp_session_id", sa.LargeBinary(), nullable=True),
        sa.Column("incarnation", sa.String(length=64), nullable=True),
        sa.Column("config_options", sa.Text(), nullable=True),
        sa.Column("generation", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_activity_at", sa.BigInteger(), nullable=False),
        sa.Column("known_options", sa.Text(), nullable=True),
        sa.Column("usage", sa.Text(), nullable=True),
        sa.Column("reset_at", sa.BigInteger(), nullable=True),
        sa.Column("ending_generation", sa.Integer(), nullable=True),
        sa.Column("ending_incarnation", sa.String(length=64), nullable=True),
        sa.Column("workspace_alias", sa.LargeBinary(), nullable=True),
        sa.Column("is_placed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("context_owed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("is_announced", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation"], ["conversations.id"], name=op.f("fk_sessions_conversation")
        ),
        sa.PrimaryKeyConstraint("session_key", name=op.f("pk_sessions")),
    )
    op.create_index(
        op.f("ix_sessions_account_last_activity_at"),
        "sessions",
        ["account", "last_activity_at"],
        unique=False,
    )
    op.create_index(op.f("ix_sessions_conversation"), "sessions", ["conversation"], unique=False)
    op.create_index(
        "ix_sessions_ending",
        "sessions",
        ["ending_incarnation"],
        unique=False,
        sqlite_where=sa.text("ending_incarnation IS NOT NULL"),
        postgresql_where=sa.text("ending_incarnation IS NOT NULL"),
    )
    op.create_table(
        "turns",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("conversation", sa.String(length=32), nullable=False),
        sa.Column("session_key", sa.String(length=200), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("order_key", sa.BigInteger(), nullable=False),
        sa.Column("idempotency_key", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("batch", sa.Text(), nullable=False),
        sa.Column("requester_id", sa.String(length=32), nullable=False),
        sa.Column("requester_name", sa.LargeBinary(), nullable=False),
        sa.Column("requester_is_bot", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("trigger_conversation_id", sa.String(length=32), nullable=False),
        sa.Column("trigger_message_id", sa.String(length=32), nullable=False),
        sa.Column("thread_delivery", sa.String(length=32), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("step", sa.Integer(), server_default="0", nullable=False),
        sa.Column("incarnation", sa.String(length=64), nullable=True),
        sa.Column("cancel_requested_at", sa.BigInteger(), nullable=True),
        sa.Column("cancelled_by", sa.LargeBinary(), nullable=True),
        sa.Column("raw", sa.LargeBinary(), nullable=True),
        sa.Column("stop_reason", sa.LargeBinary(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("answered_at", sa.BigInteger(), nullable=True),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.Column("batch_count", sa.Integer(), server_default="1", nullable=False),
        sa.Column("batch_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lane", sa.String(length=32), nullable=True),
        sa.Column("orderly_stops", sa.Integer(), server_default="0", nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=True),
        sa.Column("continued_by", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint(
            "state NOT IN ('answered', 'done', 'failed', 'interrupted') OR outcome IS NOT NULL",
            name=op.f("ck_turns_outcome_when_ended"),
        ),
        sa.ForeignKeyConstraint(
            ["conversation"], ["conversations.id"], name=op.f("fk_turns_conversation")
        ),
        sa.ForeignKeyConstraint(
            ["session_key"], ["sessions.session_key"], name=op.f("fk_turns_session_key")
        ),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'answered', 'done', 'failed', 'cancelled', 'interrupted')",
            name=op.f("ck_turns_state"),
        ),
        sa.CheckConstraint(
            "outcome IS NULL OR outcome IN ('completed', 'failed', 'cancelled', 'interrupted')",
            name=op.f("ck_turns_outcome"),
        ),
        sa.CheckConstraint(
            "source IN ('message', 'handoff', 'schedule', 'spawn', 'completion')",
            name=op.f("ck_turns_source"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turns")),
        sa.UniqueConstraint("conversation", "seq", name=op.f("uq_turns_conversation_seq")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_turns_idempotency_key")),
    )
    op.create_index(
        "ix_turns_open",
        "turns",
        ["account", "conversation"],
        unique=False,
        sqlite_where=sa.text("state IN ('queued', 'running', 'answered')"),
        postgresql_where=sa.text("state IN ('queued', 'running', 'answered')"),
    )
    op.create_index(
        op.f("ix_turns_session_key_order_key"),
        "turns",
        ["session_key", "order_key"],
        unique=False,
    )
    op.create_index(
        "ix_turns_settled",
        "turns",
        ["account", "settled_at"],
        unique=False,
        sqlite_where=sa.text("settled_at IS NOT NULL"),
        postgresql_where=sa.text("settled_at IS NOT NULL"),
    )
    op.create_index(
        "uq_turns_running_session",
        "turns",
        ["session_key"],
        unique=True,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("conversation", sa.String(length=32), nullable=False),
        sa.Column("turn_id", sa.String(length=32), nullable=True),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("purpose", sa.String(length=16), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("part", sa.Integer(), server_default="0", nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("is_owed", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("nonce", sa.String(length=25), nullable=False),
        sa.Column("target_conversation_id", sa.String(length=32), nullable=True),
        sa.Column("target_id", sa.String(length=32), nullable=True),
        sa.Column("target_delivery", sa.String(length=32), nullable=True),
        sa.Column("platform_id", sa.String(length=32), nullable=True),
        sa.Column("is_gone", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("anchor", sa.String(length=32), nullable=True),
        sa.Column("first_try_at", sa.BigInteger(), nullable=True),
        sa.Column("last_try_at", sa.BigInteger(), nullable=True),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("had_doubt", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("is_look_only", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("dead_reason", sa.String(length=32), nullable=True),
        sa.Column("dead_detail", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["conversation"], ["conversations.id"], name=op.f("fk_deliveries_conversation")
        ),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_deliveries_turn_id")),
        sa.CheckConstraint(
            "kind IN ('create', 'edit', 'delete', 'thread')", name=op.f("ck_deliveries_kind")
        ),
        sa.CheckConstraint(
            "purpose IN ('thread', 'placeholder', 'final', 'notice', 'retire', 'cap_warning', "
            "'handoff', 'starter', 'task')",
            name=op.f("ck_deliveries_purpose"),
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'sending', 'unknown', 'sent', 'dead')",
            name=op.f("ck_deliveries_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint(
            "account", "platform_id", name=op.f("uq_deliveries_account_platform_id")
        ),
        sa.UniqueConstraint("key", name=op.f("uq_deliveries_key")),
    )
    op.create_index(
        "ix_deliveries_open",
        "deliveries",
        ["account", "conversation", "ordinal"],
        unique=False,
        sqlite_where=sa.text("state IN ('pending', 'sending', 'unknown')"),
        postgresql_where=sa.text("state IN ('pending', 'sending', 'unknown')"),
    )
    op.create_index(
        op.f("ix_deliveries_conversation"), "deliveries", ["conversation"], unique=False
    )
    op.create_index(
        "ix_deliveries_settled",
        "deliveries",
        ["account", "settled_at"],
        unique=False,
        sqlite_where=sa.text("turn_id IS NULL AND settled_at IS NOT NULL"),
        postgresql_where=sa.text("turn_id IS NULL AND settled_at IS NOT NULL"),
    )
    op.create_index(op.f("ix_deliveries_turn_id"), "deliveries", ["turn_id"], unique=False)
    op.create_table(
        "stream_segments",
        sa.Column("turn_id", sa.String(length=32), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("text", sa.LargeBinary(), nullable=False),
        sa.Column("is_new_message", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="1", nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_stream_segments_turn_id")),
        sa.PrimaryKeyConstraint("turn_id", "n", name=op.f("pk_stream_segments")),
    )
    op.create_table(
        "streams",
        sa.Column("turn_id", sa.String(length=32), nullable=False),
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("position", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("last_progress_at", sa.BigInteger(), nullable=True),
        sa.Column("last_sign_at", sa.BigInteger(), nullable=True),
        sa.Column("tools", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_streams_turn_id")),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_streams")),
    )
    op.create_table(
        "turn_log",
        sa.Column("turn_id", sa.String(length=32), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(length=64), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_turn_log_turn_id")),
        sa.PrimaryKeyConstraint("turn_id", "n", name=op.f("pk_turn_log")),
    )
    op.create_table(
        "turn_reactions",
        sa.Column("turn_id", sa.String(length=32), nullable=False),
        sa.Column("message_id", sa.String(length=32), nullable=False),
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("conversation_id", sa.String(length=32), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("wished", sa.String(length=64), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_turn_reactions_turn_id")),
        sa.PrimaryKeyConstraint("turn_id", "message_id", name=op.f("pk_turn_reactions")),
    )
    op.create_index(
        op.f("ix_turn_reactions_account_due_at"),
        "turn_reactions",
        ["account", "due_at"],
        unique=False,
    )
    op.create_table(
        "handoff_gates",
        sa.Column("receiver", sa.String(length=32), nullable=False),
        sa.Column("passages", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("refusals", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("receiver", name=op.f("pk_handoff_gates")),
    )
    op.create_table(
        "replay_events",
        sa.Column("receiver", sa.String(length=32), nullable=False),
        sa.Column("event_id", sa.String(length=36), nullable=False),
        sa.Column("keep_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("receiver", "event_id", name=op.f("pk_replay_events")),
    )
    op.create_index(
        op.f("ix_replay_events_receiver_keep_until"),
        "replay_events",
        ["receiver", "keep_until"],
        unique=False,
    )
    op.create_table(
        "rate_windows",
        sa.Column("receiver", sa.String(length=32), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("message_id", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("keep_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("receiver", "source", "message_id", name=op.f("pk_rate_windows")),
    )
    op.create_index(
        op.f("ix_rate_windows_receiver_source_at"),
        "rate_windows",
        ["receiver", "source", "at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_rate_windows_receiver_keep_until"),
        "rate_windows",
        ["receiver", "keep_until"],
        unique=False,
    )
    op.create_table(
        "handoffs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("event_id", sa.String(length=36), nullable=False),
        sa.Column("direction", sa.String(length=8), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("peer_id", sa.String(length=32), nullable=False),
        sa.Column("conversation_id", sa.String(length=32), nullable=False),
        sa.Column("message_id", sa.String(length=32), nullable=True),
        sa.Column("turn_id", sa.String(length=32), nullable=True),
        sa.Column("delivery_id", sa.String(length=32), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("begun_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("direction IN ('out', 'in')", name=op.f("ck_handoffs_direction")),
        sa.CheckConstraint(
            "state IN ('owed', 'sent', 'not_sent', 'accepted')", name=op.f("ck_handoffs_state")
        ),
        sa.CheckConstraint(
            "reason IS NULL OR reason IN ('wrong_target', 'own_account', 'target_not_trusted', 'wrong_channel', "
            "'no_text', 'lone_surrogate', 'too_large', 'target_absent', 'expired', "
            "'refused', 'unclear', 'conversation_gone')",
            name=op.f("ck_handoffs_reason"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_handoffs")),
        sa.UniqueConstraint(
            "account", "event_id", "direction", name=op.f("uq_handoffs_account_event_id_direction")
        ),
    )
    op.create_index(
        op.f("ix_handoffs_account_peer_id_begun_at"),
        "handoffs",
        ["account", "peer_id", "begun_at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_handoffs_account_settled_at"), "handoffs", ["account", "settled_at"], unique=False
    )
    op.create_table(
        "handoff_refusals",
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("event_id", sa.String(length=36), nullable=True),
        sa.Column("source_id", sa.String(length=32), nullable=False),
        sa.Column("conversation_id", sa.String(length=32), nullable=False),
        sa.Column("message_id", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "reason IN ('too_large', 'not_json', 'duplicate_key', 'wrong_schema', "
            "'wrong_source', 'own_handoff', 'source_not_trusted', 'wrong_target', "
            "'wrong_first_line', 'wrong_event_id', 'wrong_expiry', 'expired', "
            "'expires_too_late', 'wrong_hop_count', 'wrong_origin', 'no_text', "
            "'lone_surrogate', 'conversation_gone', 'dm_off', 'channel_not_allowed', "
            "'bot_turn_cap', 'replay', 'replay_capacity', 'rate_limited')",
            name=op.f("ck_handoff_refusals_reason"),
        ),
        sa.PrimaryKeyConstraint("account", "slot", name=op.f("pk_handoff_refusals")),
    )
    op.create_table(
        "history_marks",
        sa.Column("channel", sa.String(length=32), nullable=False),
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("conversation_id", sa.String(length=32), nullable=False),
        sa.Column("read_to", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint(
            "channel", "account", "conversation_id", name=op.f("pk_history_marks")
        ),
    )
    op.create_table(
        "webhooks",
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("parent_conversation_id", sa.String(length=32), nullable=False),
        sa.Column("webhook_id", sa.String(length=32), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account", "parent_conversation_id", name=op.f("pk_webhooks")),
    )
    op.create_index(op.f("ix_webhooks_webhook_id"), "webhooks", ["webhook_id"], unique=False)

    op.create_table(
        "spawns",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("task", sa.LargeBinary(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("in_a_row", sa.Integer(), nullable=False),
        sa.Column("requester_conversation", sa.String(length=32), nullable=False),
        sa.Column("parent_session_key", sa.String(length=200), nullable=True),
        sa.Column("parent_turn", sa.String(length=32), nullable=True),
        sa.Column("requester_id", sa.String(length=32), nullable=False),
        sa.Column("requester_name", sa.LargeBinary(), nullable=False),
        sa.Column("requester_is_bot", sa.Boolean(), nullable=False),
        sa.Column("starter_delivery", sa.String(length=32), nullable=False),
        sa.Column("session_key", sa.String(length=200), nullable=True),
        sa.Column("turn_id", sa.String(length=32), nullable=True),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "state IN ('owed', 'opened', 'held', 'finished', 'refused')",
            name=op.f("ck_spawns_state"),
        ),
        sa.CheckConstraint(
            "reason IS NULL OR reason IN ('switched_off', 'unknown_agent', 'no_task', "
            "'no_threads_here', 'too_deep', 'too_many', 'too_many_in_a_row', 'no_starter')",
            name=op.f("ck_spawns_reason"),
        ),
        sa.ForeignKeyConstraint(
            ["requester_conversation"],
            ["conversations.id"],
            name=op.f("fk_spawns_requester_conversation"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_spawns")),
        sa.UniqueConstraint("starter_delivery", name=op.f("uq_spawns_starter_delivery")),
        sa.UniqueConstraint("turn_id", name=op.f("uq_spawns_turn_id")),
    )
    op.create_index(
        op.f("ix_spawns_account_settled_at"), "spawns", ["account", "settled_at"], unique=False
    )
    op.create_index(
        "ix_spawns_at_work",
        "spawns",
        ["parent_session_key"],
        unique=False,
        sqlite_where=sa.text("state IN ('owed', 'opened')"),
        postgresql_where=sa.text("state IN ('owed', 'opened')"),
    )
    op.create_index(
        "ix_spawns_held",
        "spawns",
        ["account"],
        unique=False,
        sqlite_where=sa.text("state = 'held'"),
        postgresql_where=sa.text("state = 'held'"),
    )
    op.create_index(
        op.f("ix_spawns_requester_conversation"), "spawns", ["requester_conversation"], unique=False
    )
    op.create_index(op.f("ix_spawns_session_key"), "spawns", ["session_key"], unique=False)

    op.create_table(
        "bindings",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("account", sa.String(length=32), nullable=False),
        sa.Column("conversation", sa.String(length=32), nullable=False),
        sa.Column("session_key", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("bound_at", sa.BigInteger(), nullable=False),
        sa.Column("bound_by", sa.String(length=32), nullable=False),
        sa.Column("last_activity_at", sa.BigInteger(), nullable=False),
        sa.Column("idle_seconds", sa.Integer(), nullable=True),
        sa.Column("max_age_seconds", sa.Integer(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("end_reason", sa.String(length=32), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "kind IN ('subagent', 'session', 'acp')",
            name=op.f("ck_bindings_kind"),
        ),
        sa.CheckConstraint(
            "state IN ('active', 'ending', 'ended')",
            name=op.f("ck_bindings_state"),
        ),
        sa.CheckConstraint(
            "end_reason IS NULL OR end_reason IN ('idle', 'max_age', 'expired', 'unfocused', "
            "'replaced', 'archived', 'conversation_gone')",
            name=op.f("ck_bindings_end_reason"),
        ),
        sa.ForeignKeyConstraint(
            ["conversation"], ["conversations.id"], name=op.f("fk_bindings_conversation")
        ),
        sa.ForeignKeyConstraint(
            ["session_key"], ["sessions.session_key"], name=op.f("fk_bindings_session_key")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bindings")),
    )
    op.create_index(
        op.f("ix_bindings_account_ended_at"), "bindings", ["account", "ended_at"], unique=False
    )
    op.create_index(
        op.f("ix_bindings_conversation_bound_at"),
        "bindings",
        ["conversation", "bound_at"],
        unique=False,
    )
    op.create_index(
        "ix_bindings_open",
        "bindings",
        ["account"],
        unique=False,
        sqlite_where=sa.text("state IN ('active', 'ending')"),
        postgresql_where=sa.text("state IN ('active', 'ending')"),
    )
    op.create_index(op.f("ix_bindings_session_key"), "bindings", ["session_key"], unique=False)
    op.create_index(
        "uq_bindings_active_conversation",
        "bindings",
        ["conversation"],
        unique=True,
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    )


def downgrade() -> None:
    op.drop_table("webhooks")
    op.drop_table("history_marks")
    op.drop_table("spawns")
    op.drop_table("bindings")
    op.drop_table("handoff_refusals")
    op.drop_table("handoffs")
    op.drop_table("rate_windows")
    op.drop_table("replay_events")
    op.drop_table("handoff_gates")
    op.drop_table("turn_reactions")
    op.drop_table("turn_log")
    op.drop_table("streams")
    op.drop_table("stream_segments")
    op.drop_table("deliveries")
    op.drop_table("turns")
    op.drop_table("sessions")
    op.drop_table("inbox")
    op.drop_table("database")
    op.drop_table("conversations")
    op.drop_table("accounts")
