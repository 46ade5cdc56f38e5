"""Every table. The same schema on SQLite and PostgreSQL.

Columns named `*_at` and `*_until` are UTC moments read from the database's own clock. Text that
came from an agent or a person is `RawText` (bytes), since NUL and lone surrogates do arrive.
"""

import sqlalchemy as sa

from openab.domain.binding import BindingStatus, EndReason, TargetKind
from openab.domain.delivery import DeliveryKind, DeliveryState, Purpose
from openab.domain.handoff import Direction, HandoffState, NotSent, Refusal
from openab.domain.spawn import SpawnRefusal, SpawnState
from openab.domain.turn import Outcome, TurnSource, TurnState
from openab.storage.types import JsonDocument, RawText, UtcDateTime, one_of

#: What this code needs; `openab db check` compares it with the database's alembic revision.
SCHEMA_REVISION = "0001"

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: One row: which database this is. Part of a session's name at an agent host.
database = sa.Table(
    "database",
    metadata,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("created_at", UtcDateTime, nullable=False),
)

accounts = sa.Table(
    "accounts",
    metadata,
    sa.Column("channel", sa.String(32), primary_key=True),
    sa.Column("account", sa.String(32), primary_key=True),
    sa.Column("name", RawText, nullable=False),
    #: The greatest message id that was committed to the inbox.
    sa.Column("intake_mark", sa.String(32)),
    sa.Column("identify_day", sa.String(10)),
    sa.Column("identify_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("invalid_window_at", UtcDateTime),
    sa.Column("invalid_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("command_digest", sa.String(64)),
    sa.Column("last_outbound_at", UtcDateTime),
    #: Where the account began to hear; nothing before it is ever read from history.
    sa.Column("first_mark", sa.String(32)),
)

#: How far each place's history is taken in, until the account's mark has come past it.
history_marks = sa.Table(
    "history_marks",
    metadata,
    sa.Column("channel", sa.String(32), primary_key=True),
    sa.Column("account", sa.String(32), primary_key=True),
    sa.Column("conversation_id", sa.String(32), primary_key=True),
    #: A moment as a message id: what was said up to then is in the inbox.
    sa.Column("read_to", sa.String(32), nullable=False),
)

conversations = sa.Table(
    "conversations",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("channel", sa.String(32), nullable=False),
    sa.Column("account", sa.String(32), nullable=False),
    sa.Column("conversation_id", sa.String(32), nullable=False),
    sa.Column("parent_conversation_id", sa.String(32)),
    #: channel | thread | dm
    sa.Column("place", sa.String(16), nullable=False),
    sa.Column("lease_owner", sa.String(64)),
    #: Boot id, device, inode and path of the owner's lock file: how its death can be proved.
    sa.Column("lease_proof", sa.String(1024)),
    sa.Column("lease_until", UtcDateTime),
    sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("next_seq", sa.BigInteger, nullable=False, server_default="1"),
    #: We own the thread, or have posted in it.
    sa.Column("is_involved", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("has_other_bot", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("bot_turns", sa.Integer, nullable=False, server_default="0"),
    sa.Column("last_bot_author", sa.String(32)),
    #: The newest message id known here, whoever wrote it.
    sa.Column("last_message_id", sa.String(32)),
    #: Set when the network said that the conversation is gone.
    sa.Column("closed_at", UtcDateTime),
    sa.Column("created_at", UtcDateTime, nullable=False),
    #: Other bots' messages since a person wrote.
    sa.Column("bot_messages", sa.Integer, nullable=False, server_default="0"),
    #: The person's message that the bot turns are counted from.
    sa.Column("last_human_id", sa.String(32)),
    #: The ids of the other bots that ever spoke here.
    sa.Column("other_bots", JsonDocument),
    sa.UniqueConstraint("channel", "account", "conversation_id"),
    sa.Index(None, "account", "lease_until"),
    #: Retention finds what is gone.
    sa.Index(
        "ix_conversations_closed",
        "account",
        "closed_at",
        sqlite_where=sa.text("closed_at IS NOT NULL"),
        postgresql_where=sa.text("closed_at IS NOT NULL"),
    ),
)

inbox = sa.Table(
    "inbox",
    metadata,
    sa.Column("account", sa.String(32), primary_key=True),
    #: message | interaction | reaction
    sa.Column("kind", sa.String(16), primary_key=True),
    sa.Column("event_key", sa.String(64), primary_key=True),
    sa.Column("conversation_id", sa.String(32), nullable=False),
    sa.Column("author_id", sa.String(32), nullable=False),
    #: turn | command | ignored | refused | handoff | echo
    sa.Column("disposition", sa.String(16), nullable=False),
    #: The reason word of the verdict.
    sa.Column("reason", sa.String(64), nullable=False),
    sa.Column("turn_id", sa.String(32)),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    sa.Index(None, "account", "seen_at"),
    #: What was read from history and answered, or not any more: few among very many.
    sa.Index(
        "ix_inbox_absences",
        "account",
        "conversation_id",
        sqlite_where=sa.text("reason IN ('caught_up', 'too_old', 'too_many')"),
        postgresql_where=sa.text("reason IN ('caught_up', 'too_old', 'too_many')"),
    ),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("session_key", sa.String(200), primary_key=True),
    sa.Column("channel", sa.String(32), nullable=False),
    sa.Column("account", sa.String(32), nullable=False),
    sa.Column(
        "conversation",
        sa.String(32),
        sa.ForeignKey("conversations.id"),
        nullable=False,
        index=True,
    ),
    sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("agent", sa.String(64), nullable=False),
    sa.Column("working_dir", RawText, nullable=False),
    sa.Column("acp_session_id", RawText),
    sa.Column("incarnation", sa.String(64)),
    #: What people have chosen: {option id: {value, due}}.
    sa.Column("config_options", JsonDocument),
    sa.Column("generation", sa.Integer, nullable=False, server_default="1"),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("last_activity_at", UtcDateTime, nullable=False),
    #: What the agent last said can be chosen: [{id, name, category, choices, current}].
    sa.Column("known_options", JsonDocument),
    #: What the agent last said it has used: {used, size, cost, currency}.
    sa.Column("usage", JsonDocument),
    #: When somebody had the agent forget everything; what was said before is no part of the session.
    sa.Column("reset_at", UtcDateTime),
    #: The generation before the last reset, while this host may still run its agent.
    sa.Column("ending_generation", sa.Integer),
    sa.Column("ending_incarnation", sa.String(64)),
    #: The workspace that the first message asked for, as it was written: `@name`.
    sa.Column("workspace_alias", RawText),
    #: `working_dir` is the folder that was made or found for this session; before, it is the usual one.
    sa.Column("is_placed", sa.Boolean, nullable=False, server_default=sa.false()),
    #: The agent forgot everything and has not been given the transcript yet.
    sa.Column("context_owed", sa.Boolean, nullable=False, server_default=sa.false()),
    #: The agent has been told how to hand work to other bots.
    sa.Column("is_announced", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index(None, "account", "last_activity_at"),
    sa.Index(
        "ix_sessions_ending",
        "ending_incarnation",
        sqlite_where=sa.text("ending_incarnation IS NOT NULL"),
        postgresql_where=sa.text("ending_incarnation IS NOT NULL"),
    ),
)

turns = sa.Table(
    "turns",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("account", sa.String(32), nullable=False),
    sa.Column("conversation", sa.String(32), sa.ForeignKey("conversations.id"), nullable=False),
    sa.Column("session_key", sa.String(200), sa.ForeignKey("sessions.session_key"), nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    #: The snowflake that orders turns: of the first message or interaction.
    sa.Column("order_key", sa.BigInteger, nullable=False),
    sa.Column("idempotency_key", sa.String(128), nullable=False, unique=True),
    sa.Column("state", sa.String(16), one_of("state", TurnState), nullable=False),
    sa.Column("outcome", sa.String(16), one_of("outcome", Outcome, nullable=True)),
    sa.Column("source", sa.String(16), one_of("source", TurnSource), nullable=False),
    #: The messages that became this turn: a list of {sender record, text, ...}.
    sa.Column("batch", JsonDocument, nullable=False),
    #: Who asked (the last message's author) and what they wrote it in.
    sa.Column("requester_id", sa.String(32), nullable=False),
    sa.Column("requester_name", RawText, nullable=False),
    sa.Column("requester_is_bot", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("trigger_conversation_id", sa.String(32), nullable=False),
    sa.Column("trigger_message_id", sa.String(32), nullable=False),
    #: The delivery that opens this turn's thread, where it needs one.
    sa.Column("thread_delivery", sa.String(32)),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="0"),
    sa.Column("step", sa.Integer, nullable=False, server_default="0"),
    sa.Column("incarnation", sa.String(64)),
    sa.Column("cancel_requested_at", UtcDateTime),
    sa.Column("cancelled_by", RawText),
    #: The raw answer, exactly as the agent gave it, joined.
    sa.Column("raw", RawText),
    sa.Column("stop_reason", RawText),
    sa.Column("error", JsonDocument),
    sa.Column("not_before", UtcDateTime),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("started_at", UtcDateTime),
    sa.Column("answered_at", UtcDateTime),
    sa.Column("settled_at", UtcDateTime),
    #: How much the batch holds: no message joins beyond the caps.
    sa.Column("batch_count", sa.Integer, nullable=False, server_default="1"),
    sa.Column("batch_tokens", sa.Integer, nullable=False, server_default="0"),
    #: The one author of the whole batch; null: there are several.
    sa.Column("lane", sa.String(32)),
    #: Attempts that do not count: ended by an orderly stop, or their prompt never reached the agent.
    sa.Column("orderly_stops", sa.Integer, nullable=False, server_default="0"),
    #: When people were asked whether the interrupted turn goes on; null: nobody is asked now.
    sa.Column("asked_at", UtcDateTime),
    #: Who said that it goes on.
    sa.Column("continued_by", RawText),
    sa.UniqueConstraint("conversation", "seq"),
    sa.Index(
        "uq_turns_running_session",
        "session_key",
        unique=True,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    ),
    sa.Index(
        "ix_turns_open",
        "account",
        "conversation",
        sqlite_where=sa.text("state IN ('queued', 'running', 'answered')"),
        postgresql_where=sa.text("state IN ('queued', 'running', 'answered')"),
    ),
    #: Retention finds what is old; one entry for each turn, made when it settles.
    sa.Index(
        "ix_turns_settled",
        "account",
        "settled_at",
        sqlite_where=sa.text("settled_at IS NOT NULL"),
        postgresql_where=sa.text("settled_at IS NOT NULL"),
    ),
    #: What was said in a session; the database asks for it, too, when a session is deleted.
    sa.Index(None, "session_key", "order_key"),
    sa.CheckConstraint(
        "state NOT IN ('answered', 'done', 'failed', 'interrupted') OR outcome IS NOT NULL",
        name="outcome_when_ended",
    ),
)

turn_log = sa.Table(
    "turn_log",
    metadata,
    sa.Column("turn_id", sa.String(32), sa.ForeignKey("turns.id"), primary_key=True),
    sa.Column("n", sa.Integer, primary_key=True),
    #: The constant event name, the same word as in the logs.
    sa.Column("event", sa.String(64), nullable=False),
    sa.Column("detail", JsonDocument, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
)

streams = sa.Table(
    "streams",
    metadata,
    sa.Column("turn_id", sa.String(32), sa.ForeignKey("turns.id"), primary_key=True),
    sa.Column("account", sa.String(32), nullable=False),
    sa.Column("phase", sa.String(32), nullable=False),
    #: The last committed event position of this incarnation.
    sa.Column("position", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("last_progress_at", UtcDateTime),
    sa.Column("last_sign_at", UtcDateTime),
    #: Tool calls seen, last state each: [{id, title, kind, status, detail, interrupted}].
    sa.Column("tools", JsonDocument, nullable=False),
)

#: The emoji on each message of a turn's batch; its status stands on the last one, the trigger.
turn_reactions = sa.Table(
    "turn_reactions",
    metadata,
    sa.Column("turn_id", sa.String(32), sa.ForeignKey("turns.id"), primary_key=True),
    sa.Column("message_id", sa.String(32), primary_key=True),
    sa.Column("account", sa.String(32), nullable=False),
    #: Where the message stands: the first one of a thread stands in the parent.
    sa.Column("conversation_id", sa.String(32), nullable=False),
    #: Emoji that may stand there (written before each add, shortened after each removal).
    sa.Column("shown", JsonDocument, nullable=False),
    #: The emoji that should stand there alone; null: none.
    sa.Column("wished", sa.String(64)),
    #: When the two must be made equal; null: they are, or it was given up.
    sa.Column("due_at", UtcDateTime),
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    sa.Index(None, "account", "due_at"),
)

stream_segments = sa.Table(
    "stream_segments",
    metadata,
    sa.Column("turn_id", sa.String(32), sa.ForeignKey("turns.id"), primary_key=True),
    sa.Column("n", sa.Integer, primary_key=True),
    #: Text exactly as it came.
    sa.Column("text", RawText, nullable=False),
    #: The agent began another message here (a tool call stood between, or its message id changed).
    sa.Column("is_new_message", sa.Boolean, nullable=False, server_default=sa.false()),
    #: Which attempt of the turn said it.
    sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("account", sa.String(32), nullable=False),
    sa.Column("conversation", sa.String(32), sa.ForeignKey("conversations.id"), nullable=False),
    sa.Column("turn_id", sa.String(32), sa.ForeignKey("turns.id"), index=True),
    #: Makes it single: `turn:ID:final:2:v1`, `thread:MESSAGE`, ...
    sa.Column("key", sa.String(200), nullable=False, unique=True),
    sa.Column("kind", sa.String(16), one_of("kind", DeliveryKind), nullable=False),
    sa.Column("purpose", sa.String(16), one_of("purpose", Purpose), nullable=False),
    #: The order within the conversation.
    sa.Column("ordinal", sa.BigInteger, nullable=False),
    sa.Column("part", sa.Integer, nullable=False, server_default="0"),
    sa.Column("version", sa.Integer, nullable=False, server_default="1"),
    sa.Column("state", sa.String(16), one_of("state", DeliveryState), nullable=False),
    #: The turn is settled only after this row is.
    sa.Column("is_owed", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("body", RawText, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("nonce", sa.String(25), nullable=False),
    #: Of an edit or delete: the message; of a thread: the message that it hangs on.
    sa.Column("target_conversation_id", sa.String(32)),
    sa.Column("target_id", sa.String(32)),
    #: Of an edit or delete instead: the create whose message it is, whatever id that gets.
    sa.Column("target_delivery", sa.String(32)),
    #: Of a create: the message's id on the network, once known.
    sa.Column("platform_id", sa.String(32)),
    #: It was created, and has been deleted since by somebody.
    sa.Column("is_gone", sa.Boolean, nullable=False, server_default=sa.false()),
    #: The newest message id known in the conversation before the first try.
    sa.Column("anchor", sa.String(32)),
    sa.Column("first_try_at", UtcDateTime),
    sa.Column("last_try_at", UtcDateTime),
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    #: Some earlier try's outcome was unknown, so a later refusal is not definite.
    sa.Column("had_doubt", sa.Boolean, nullable=False, server_default=sa.false()),
    #: A refusal came after doubt: it must not be sent again, only looked for.
    sa.Column("is_look_only", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("not_before", UtcDateTime),
    sa.Column("dead_reason", sa.String(32)),
    sa.Column("dead_detail", RawText),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("settled_at", UtcDateTime),
    sa.UniqueConstraint("account", "platform_id"),
    sa.Index(
        "ix_deliveries_open",
        "account",
        "conversation",
        "ordinal",
        sqlite_where=sa.text("state IN ('pending', 'sending', 'unknown')"),
        postgresql_where=sa.text("state IN ('pending', 'sending', 'unknown')"),
    ),
    #: Retention finds what is old and belongs to no turn; the others go with theirs.
    sa.Index(
        "ix_deliveries_settled",
        "account",
        "settled_at",
        sqlite_where=sa.text("turn_id IS NULL AND settled_at IS NOT NULL"),
        postgresql_where=sa.text("turn_id IS NULL AND settled_at IS NOT NULL"),
    ),
    #: The database asks for it when a conversation is deleted.
    sa.Index(None, "conversation"),
)

#: One row a receiver, updated while one of its hand-offs is decided: so one is decided at a time.
handoff_gates = sa.Table(
    "handoff_gates",
    metadata,
    sa.Column("receiver", sa.String(32), primary_key=True),
    sa.Column("passages", sa.BigInteger, nullable=False, server_default="0"),
    #: How many were ever refused; tells the next one its row in `handoff_refusals`.
    sa.Column("refusals", sa.BigInteger, nullable=False, server_default="0"),
)

#: Event ids that were accepted and may not be again.
replay_events = sa.Table(
    "replay_events",
    metadata,
    sa.Column("receiver", sa.String(32), primary_key=True),
    sa.Column("event_id", sa.String(36), primary_key=True),
    sa.Column("keep_until", UtcDateTime, nullable=False),
    sa.Index(None, "receiver", "keep_until"),
)

#: When the messages of accepted hand-offs were sent, by the network's clock.
rate_windows = sa.Table(
    "rate_windows",
    metadata,
    sa.Column("receiver", sa.String(32), primary_key=True),
    sa.Column("source", sa.String(32), primary_key=True),
    sa.Column("message_id", sa.String(32), primary_key=True),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("keep_until", UtcDateTime, nullable=False),
    sa.Index(None, "receiver", "source", "at"),
    sa.Index(None, "receiver", "keep_until"),
)

#: The hand-offs that were sent, or are to be, and those that were accepted.
handoffs = sa.Table(
    "handoffs",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("account", sa.String(32), nullable=False),
    sa.Column("event_id", sa.String(36), nullable=False),
    sa.Column("direction", sa.String(8), one_of("direction", Direction), nullable=False),
    sa.Column("state", sa.String(16), one_of("state", HandoffState), nullable=False),
    #: Why it was not sent.
    sa.Column("reason", sa.String(32), one_of("reason", NotSent, nullable=True)),
    #: The bot at the other end.
    sa.Column("peer_id", sa.String(32), nullable=False),
    sa.Column("conversation_id", sa.String(32), nullable=False),
    #: The message that carries it, once it is known.
    sa.Column("message_id", sa.String(32)),
    #: The turn that it came from, or that it became.
    sa.Column("turn_id", sa.String(32)),
    sa.Column("delivery_id", sa.String(32)),
    sa.Column("payload", RawText, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    #: When its last try to be sent began; what the sender's pace is counted by.
    sa.Column("begun_at", UtcDateTime),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("settled_at", UtcDateTime),
    sa.UniqueConstraint("account", "event_id", "direction"),
    sa.Index(None, "account", "peer_id", "begun_at"),
    #: Retention finds what is old.
    sa.Index(None, "account", "settled_at"),
)

#: The newest hand-offs that were refused: so many rows an account, used again and again.
handoff_refusals = sa.Table(
    "handoff_refusals",
    metadata,
    sa.Column("account", sa.String(32), primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True),
    sa.Column("reason", sa.String(32), one_of("reason", Refusal), nullable=False),
    #: Null: it had none that could be read.
    sa.Column("event_id", sa.String(36)),
    sa.Column("source_id", sa.String(32), nullable=False),
    sa.Column("conversation_id", sa.String(32), nullable=False),
    sa.Column("message_id", sa.String(32), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
)

#: Conversations that talk to another session than their own.
bindings = sa.Table(
    "bindings",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("account", sa.String(32), nullable=False),
    sa.Column("conversation", sa.String(32), sa.ForeignKey("conversations.id"), nullable=False),
    sa.Column(
        "session_key",
        sa.String(200),
        sa.ForeignKey("sessions.session_key"),
        nullable=False,
        index=True,
    ),
    sa.Column("kind", sa.String(16), one_of("kind", TargetKind), nullable=False),
    sa.Column("state", sa.String(16), one_of("state", BindingStatus), nullable=False),
    sa.Column("bound_at", UtcDateTime, nullable=False),
    #: Empty: openab itself.
    sa.Column("bound_by", sa.String(32), nullable=False),
    sa.Column("last_activity_at", UtcDateTime, nullable=False),
    #: Null: it never ends by itself.
    sa.Column("idle_seconds", sa.Integer),
    sa.Column("max_age_seconds", sa.Integer),
    sa.Column("expires_at", UtcDateTime),
    sa.Column("metadata", JsonDocument, nullable=False),
    sa.Column("end_reason", sa.String(32), one_of("end_reason", EndReason, nullable=True)),
    sa.Column("ended_at", UtcDateTime),
    sa.Index(
        "uq_bindings_active_conversation",
        "conversation",
        unique=True,
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    ),
    #: What is still to be looked after: few among many tombstones.
    sa.Index(
        "ix_bindings_open",
        "account",
        sqlite_where=sa.text("state IN ('active', 'ending')"),
        postgresql_where=sa.text("state IN ('active', 'ending')"),
    ),
    #: The newest tombstone of a place; the database asks for it, too, when a conversation is deleted.
    sa.Index(None, "conversation", "bound_at"),
    #: Retention finds what is old.
    sa.Index(None, "account", "ended_at"),
)

#: Tasks that were given to sub-agents.
spawns = sa.Table(
    "spawns",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("account", sa.String(32), nullable=False),
    sa.Column("state", sa.String(16), one_of("state", SpawnState), nullable=False),
    sa.Column("reason", sa.String(32), one_of("reason", SpawnRefusal, nullable=True)),
    sa.Column("agent", sa.String(64), nullable=False),
    sa.Column("task", RawText, nullable=False),
    #: 1 for what an ordinary session started.
    sa.Column("depth", sa.Integer, nullable=False),
    #: How many led to one another without a person's word between, this one included.
    sa.Column("in_a_row", sa.Integer, nullable=False),
    #: Where it was asked for, and so who is told; the session there, if an agent is to learn the result.
    sa.Column(
        "requester_conversation", sa.String(32), sa.ForeignKey("conversations.id"), nullable=False
    ),
    sa.Column("parent_session_key", sa.String(200)),
    #: The turn whose output asked for it; null: a person did.
    sa.Column("parent_turn", sa.String(32)),
    #: The person for whom it is done.
    sa.Column("requester_id", sa.String(32), nullable=False),
    sa.Column("requester_name", RawText, nullable=False),
    sa.Column("requester_is_bot", sa.Boolean, nullable=False),
    sa.Column("starter_delivery", sa.String(32), nullable=False, unique=True),
    #: Known once it is opened.
    sa.Column("session_key", sa.String(200)),
    sa.Column("turn_id", sa.String(32), unique=True),
    #: The answer as its parent is told it, once there is one.
    sa.Column("answer", RawText),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("settled_at", UtcDateTime),
    sa.Index(None, "account", "settled_at"),
    sa.Index(None, "session_key"),
    sa.Index(
        "ix_spawns_at_work",
        "parent_session_key",
        sqlite_where=sa.text("state IN ('owed', 'opened')"),
        postgresql_where=sa.text("state IN ('owed', 'opened')"),
    ),
    #: Completions that wait for a conversation: hardly ever any.
    sa.Index(
        "ix_spawns_held",
        "account",
        sqlite_where=sa.text("state = 'held'"),
        postgresql_where=sa.text("state = 'held'"),
    ),
    sa.Index(None, "requester_conversation"),
)

#: The webhooks by which sub-agents' tasks are shown: their ids alone, never their secrets.
webhooks = sa.Table(
    "webhooks",
    metadata,
    sa.Column("account", sa.String(32), primary_key=True),
    #: The channel that it belongs to.
    sa.Column("parent_conversation_id", sa.String(32), primary_key=True),
    sa.Column("webhook_id", sa.String(32), nullable=False, index=True),
    sa.Column("made_at", UtcDateTime, nullable=False),
)
