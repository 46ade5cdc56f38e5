"""Sessions: one agent's memory of a conversation, and how to find it again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from openab.domain.agent_events import UsageChanged
from openab.domain.ids import AccountId, AcpSessionId, ConversationId, Incarnation, SessionKey
from openab.domain.options import Choice, Option
from openab.storage.conversations import Conversation
from openab.storage.dialect import CLOCK
from openab.storage.engine import Transaction
from openab.storage.schema import sessions


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value that somebody chose; it is set again whenever the agent had to be started."""

    value: str
    #: The agent that runs now has not been told yet.
    is_due: bool = True


@dataclass(frozen=True, slots=True)
class Session:
    """A session as it was read. `epoch` guards commands to its agent."""

    key: SessionKey
    conversation: ConversationId
    epoch: int
    agent: str
    working_dir: str
    acp_session_id: AcpSessionId | None
    incarnation: Incarnation | None
    generation: int
    #: What people have chosen, by option id.
    chosen: Mapping[str, Chosen]
    #: What the agent last said can be chosen.
    options: tuple[Option, ...]
    usage: UsageChanged | None
    created_at: datetime
    last_activity_at: datetime
    #: What was said before is no part of the session.
    reset_at: datetime | None
    #: The first generation whose agent may still run after a reset, and at which host.
    ending: tuple[int, Incarnation] | None
    #: The workspace that was asked for, as it was written.
    workspace_alias: str | None
    #: `working_dir` was made or found for this session.
    is_placed: bool
    #: Its agent forgot everything and has not been given the transcript yet.
    context_owed: bool = False
    #: Its agent has been told how to hand work to other bots.
    is_announced: bool = False


@dataclass(frozen=True, slots=True)
class EndingSession:
    """A session that was reset while this host may still run an agent of a former generation."""

    key: SessionKey
    #: The generations that are over: the first that is not known to have ended, and the last.
    first: int
    last: int
    epoch: int


async def ensure(
    tx: Transaction,
    conversation: Conversation,
    *,
    agent: str,
    working_dir: str,
    named: str | None = None,
) -> Session:
    """A session here, made if need be; agent and folder stay as they were first.

    `named`: which of the named agents it is of; None: the default one.
    """
    key = conversation.ref.session_key(named)
    found = await get(tx, key)
    if found:
        return found
    now = await tx.now()
    statement = postgresql.insert(sessions).values(
        session_key=key,
        channel=conversation.ref.channel,
        account=conversation.ref.account,
        conversation=conversation.id,
        agent=agent,
        working_dir=working_dir,
        # Beyond all that a row of this key had before retention deleted it: a host may remember.
        epoch=int(now.timestamp()),
        created_at=now,
        last_activity_at=now,
    )
    await tx.execute(statement.on_conflict_do_nothing())
    made = await get(tx, key)
    assert made is not None
    return made


_GET = sa.select(sessions).where(sessions.c.session_key == sa.bindparam("key"))
_TAKE = (
    sa.update(sessions)
    .where(sessions.c.session_key == sa.bindparam("key"))
    .values(
        epoch=sessions.c.epoch + 1,
        incarnation=sa.bindparam("host"),
        last_activity_at=sa.bindparam("at"),
    )
    .returning(sessions, CLOCK)
)


async def get(tx: Transaction, key: SessionKey) -> Session | None:
    """The session of this key, if there is one."""
    result = await tx.execute(_GET, {"key": key})
    row = result.one_or_none()
    return _session(row) if row else None


async def take(tx: Transaction, key: SessionKey, incarnation: Incarnation) -> Session:
    """Raise the session's epoch for a new commander; whoever held the former one is refused from now on."""
    taken = {"key": key, "host": incarnation, "at": await tx.now()}
    row = (await tx.execute(_TAKE, taken)).one()
    tx.heard(row.clock)
    return _session(row)


async def locked(tx: Transaction, key: SessionKey) -> Session | None:
    """The session of this key, and nobody else can change it before this transaction ends."""
    result = await tx.execute(
        sa.select(sessions).where(sessions.c.session_key == key).with_for_update()
    )
    row = result.one_or_none()
    return _session(row) if row else None


async def remember_agent(
    tx: Transaction,
    session: Session,
    acp_session_id: AcpSessionId,
    *,
    context_lost: bool = False,
    is_new: bool = False,
) -> Session | None:
    """Keep the id under which the agent finds its memory again; returns the session as it is now.

    With `context_lost` the transcript is owed to the agent from now on (see `context_given`);
    `is_new`: it remembers nothing that it was ever told. None: it was reset meanwhile, and nothing
    is kept.
    """
    owed = {"context_owed": True} if context_lost else {}
    owed |= {"is_announced": False} if is_new else {}
    result = await tx.execute(
        sa.update(sessions)
        .where(sessions.c.session_key == session.key, sessions.c.generation == session.generation)
        .values(acp_session_id=acp_session_id, **owed)
        .returning(sessions)
    )
    row = result.one_or_none()
    return _session(row) if row else None


async def context_given(tx: Transaction, session: Session) -> None:
    """The agent has got the transcript of what it forgot."""
    await tx.execute(
        sa.update(sessions)
        .where(sessions.c.session_key == session.key, sessions.c.generation == session.generation)
        .values(context_owed=False)
    )


async def announced(tx: Transaction, session: Session) -> None:
    """The agent has been told how to hand work to other bots."""
    await tx.execute(
        sa.update(sessions)
        .where(sessions.c.session_key == session.key, sessions.c.generation == session.generation)
        .values(is_announced=True)
    )


async def ask_for_workspace(tx: Transaction, key: SessionKey, alias: str | None) -> None:
    """The session is to work in the folder of this alias, or (None) in the usual one."""
    await _set(tx, key, workspace_alias=alias, is_placed=False)


async def place(tx: Transaction, session: Session, working_dir: str) -> bool:
    """Keep the folder that was made or found for the session; False: it was reset meanwhile."""
    result = await tx.execute(
        sa.update(sessions)
        .where(sessions.c.session_key == session.key, sessions.c.generation == session.generation)
        .values(working_dir=working_dir, is_placed=True)
    )
    return bool(result.rowcount == 1)


async def remember_options(tx: Transaction, key: SessionKey, options: Sequence[Option]) -> None:
    """Keep what the agent says can be chosen, for as long as it says nothing else."""
    await _set(tx, key, known_options=[_written(option) for option in options])


async def choose(tx: Transaction, key: SessionKey, option_id: str, chosen: Chosen | None) -> None:
    """Keep what somebody has chosen; None: the agent does not take it, so it is no choice any more."""
    session = await locked(tx, key)
    assert session is not None
    kept = {**session.chosen, option_id: chosen}
    written = {
        option: {"value": one.value, "due": one.is_due} for option, one in kept.items() if one
    }
    await _set(tx, key, config_options=written or None)


async def note_usage(tx: Transaction, session: Session, usage: UsageChanged) -> None:
    """Keep what the agent says it has used; a session that was reset meanwhile has used nothing."""
    await tx.execute(
        sa.update(sessions)
        .where(sessions.c.session_key == session.key, sessions.c.generation == session.generation)
        .values(
            usage={
                "used": usage.used,
                "size": usage.size,
                "cost": usage.cost,
                "currency": usage.currency,
            }
        )
    )


async def reset(tx: Transaction, session: Session) -> None:
    """The agent is to forget everything: from now on there is another generation, which knows nothing.

    The host that may still run the former one finds it with `ending_at` and ends its agent.
    """
    pending = (
        session.ending if session.ending and session.ending[1] == session.incarnation else None
    )
    await _set(
        tx,
        session.key,
        generation=session.generation + 1,
        acp_session_id=None,
        usage=None,
        reset_at=await tx.now(),
        ending_generation=pending[0] if pending else session.generation,
        ending_incarnation=session.incarnation,
        is_placed=False,
        context_owed=False,
        is_announced=False,
    )


async def ending_at(
    tx: Transaction, account: AccountId, incarnation: Incarnation
) -> list[EndingSession]:
    """The sessions whose former agent this host has to end."""
    result = await tx.execute(
        sa.select(sessions).where(
            sessions.c.account == account, sessions.c.ending_incarnation == incarnation
        )
    )
    return [
        EndingSession(
            SessionKey(row.session_key), row.ending_generation, row.generation - 1, row.epoch
        )
        for row in result
    ]


async def ended(tx: Transaction, ending: EndingSession) -> None:
    """The former agents have ended; nothing happens if there was another reset since."""
    await tx.execute(
        sa.update(sessions)
        .where(
            sessions.c.session_key == ending.key,
            sessions.c.generation == ending.last + 1,
        )
        .values(ending_generation=None, ending_incarnation=None)
    )


async def _set(tx: Transaction, key: SessionKey, **values: object) -> None:
    await tx.execute(sa.update(sessions).where(sessions.c.session_key == key).values(**values))


def _session(row: Any) -> Session:
    return Session(
        key=SessionKey(row.session_key),
        conversation=ConversationId(row.conversation),
        epoch=row.epoch,
        agent=row.agent,
        working_dir=row.working_dir,
        acp_session_id=AcpSessionId(row.acp_session_id) if row.acp_session_id else None,
        incarnation=Incarnation(row.incarnation) if row.incarnation else None,
        generation=row.generation,
        chosen={
            option: Chosen(one["value"], one["due"])
            for option, one in (row.config_options or {}).items()
        },
        options=tuple(_option(written) for written in row.known_options or ()),
        usage=UsageChanged(**row.usage) if row.usage else None,
        created_at=row.created_at,
        last_activity_at=row.last_activity_at,
        reset_at=row.reset_at,
        ending=(row.ending_generation, Incarnation(row.ending_incarnation))
        if row.ending_incarnation
        else None,
        workspace_alias=row.workspace_alias,
        is_placed=row.is_placed,
        context_owed=row.context_owed,
        is_announced=row.is_announced,
    )


def _written(option: Option) -> dict[str, object]:
    return {
        "id": option.option_id,
        "name": option.name,
        "category": option.category,
        "current": option.current,
        "choices": [[one.value, one.name, one.description] for one in option.choices],
    }


def _option(written: Mapping[str, Any]) -> Option:
    return Option(
        option_id=written["id"],
        name=written["name"],
        category=written["category"],
        choices=tuple(Choice(*one) for one in written["choices"]),
        current=written["current"],
    )
