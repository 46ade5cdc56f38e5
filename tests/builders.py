"""Builders: values as tests need them; only what matters in a test is named there."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from openab.control.settings import ReactionSettings, Settings
from openab.domain.binding import Limits, TargetKind
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.gates import GatePolicy
from openab.domain.handoff import Envelope
from openab.domain.ids import (
    AccountId,
    BindingId,
    ChannelName,
    ConversationRef,
    DeliveryId,
    MessageRef,
    PlatformId,
    SessionKey,
    SpawnId,
    TurnId,
    WorkerId,
)
from openab.domain.message import Author, AuthorKind, InboundMessage, InboundReaction, Place
from openab.domain.outbound import MessageBody
from openab.domain.turn import TurnSource
from openab.ports.agent import AgentSpec
from openab.storage import bindings, conversations, deliveries, sessions, spawns, turns
from openab.storage.bindings import NewBinding
from openab.storage.conversations import Conversation, Ownership
from openab.storage.deliveries import Owed
from openab.storage.engine import Database, Transaction
from openab.storage.handoffs import Incoming
from openab.storage.spawns import NewSpawn
from openab.storage.turns import Arrival, NewTurn

CHANNEL = ChannelName("discord")
ACCOUNT = AccountId("900")
HOME = PlatformId("77")
ASKER = PlatformId("31")
SENT_AT = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


def a_ref(conversation: str = HOME, parent: str | None = None) -> ConversationRef:
    """A conversation of our account."""
    return ConversationRef(
        CHANNEL, ACCOUNT, PlatformId(conversation), PlatformId(parent) if parent else None
    )


def an_author(author: str = ASKER, kind: AuthorKind = AuthorKind.HUMAN) -> Author:
    """Somebody who speaks."""
    return Author(PlatformId(author), f"name-{author}", f"Name {author}", kind)


def a_message(
    text: str = "<@900> build it",
    *,
    message_id: str = "1000",
    ref: ConversationRef | None = None,
    place: Place = Place.CHANNEL,
    author: Author | None = None,
    mentions: tuple[str, ...] = ("900",),
) -> InboundMessage:
    """A message as the channel reports it; it mentions us unless told otherwise."""
    return InboundMessage(
        conversation=ref or a_ref(),
        place=place,
        message_id=PlatformId(message_id),
        author=author or an_author(),
        text=text,
        sent_at=SENT_AT,
        mentioned_users=frozenset(map(PlatformId, mentions)),
    )


def a_reaction(
    emoji: str = "👍",
    *,
    message_id: str = "1000",
    place: Place = Place.THREAD,
    author: Author | None = None,
    message_author: str | None = ACCOUNT,
) -> InboundReaction:
    """A reaction on one of our messages in a thread, unless told otherwise."""
    return InboundReaction(
        conversation=a_ref("500", HOME) if place is Place.THREAD else a_ref(),
        place=place,
        message_id=PlatformId(message_id),
        author=author or an_author(),
        emoji=emoji,
        reacted_at=SENT_AT,
        message_author=PlatformId(message_author) if message_author else None,
    )


def a_spec(command: str = "agent", permission_mode: str = "auto") -> AgentSpec:
    """An agent."""
    return AgentSpec("agent", command, (), "/tmp", {}, permission_mode=permission_mode)


def some_settings(**changes: object) -> Settings:
    """Settings for one account, quick enough for a test."""
    made = Settings(
        channel=CHANNEL,
        account=ACCOUNT,
        worker=WorkerId("worker-1"),
        proof="proof-1",
        policy=lambda: GatePolicy(ACCOUNT),
        agent=a_spec,
        mode=lambda _ref, _has_other_bot: "stream",
        operators=lambda: frozenset({"1"}),
        reactions=ReactionSettings(pace=timedelta(0)),
        call=timedelta(seconds=0.2),
        drain=timedelta(seconds=0.2),
        poll=timedelta(seconds=0.02),
        commit_every=timedelta(seconds=0.02),
        five_writes=timedelta(seconds=0.05),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


async def a_conversation(
    tx: Transaction, conversation: str = HOME, parent: str | None = None
) -> Conversation:
    """A conversation's row: a thread if it has a parent."""
    place = Place.THREAD if parent else Place.CHANNEL
    return await conversations.ensure(tx, a_ref(conversation, parent), place)


async def a_turn(
    tx: Transaction, where: Conversation, message: str = "1000", text: str = "build it"
) -> TurnId:
    """A queued turn."""
    session = await sessions.ensure(tx, where, agent="agent", working_dir="/tmp")
    new = NewTurn(
        account=ACCOUNT,
        conversation=where.id,
        session_key=session.key,
        seq=await conversations.take_seq(tx, where.id),
        order_key=int(message),
        idempotency_key=f"message:{ACCOUNT}:{message}",
        arrival=Arrival({"sender_id": ASKER}, text),
        requester_id=ASKER,
        requester_name="Ann",
        requester_is_bot=False,
        trigger=MessageRef(where.ref.conversation_id, PlatformId(message)),
    )
    return await turns.enqueue(tx, new)


def a_new_turn(where: Conversation, message: str, source: str = "message") -> NewTurn:
    """A message as intake knows it; its session is there."""
    return NewTurn(
        account=ACCOUNT,
        conversation=where.id,
        session_key=where.ref.session_key(),
        seq=int(message),
        order_key=int(message),
        idempotency_key=f"{source}:{ACCOUNT}:{message}",
        arrival=Arrival({"sender_id": ASKER, "message_id": message}, f"text {message}"),
        requester_id=ASKER,
        requester_name="Ann",
        requester_is_bot=False,
        trigger=MessageRef(where.ref.conversation_id, PlatformId(message)),
        source=TurnSource(source),
    )


async def a_delivery(
    tx: Transaction, where: Conversation, key: str = "k:v1", text: str = "hello", **changes: object
) -> DeliveryId:
    """An owed row: a create of a notice unless told otherwise."""
    owed = Owed(
        account=ACCOUNT,
        conversation=where.id,
        key=key,
        kind=DeliveryKind.CREATE,
        purpose=Purpose.NOTICE,
        body=MessageBody(text),
        seq=await conversations.take_seq(tx, where.id),
    )
    made = await deliveries.owe(tx, replace(owed, **changes))  # type: ignore[arg-type]
    assert made is not None
    return made


async def a_session(tx: Transaction, where: Conversation, named: str | None = None) -> SessionKey:
    """A session of a conversation: the default agent's unless told otherwise."""
    made = await sessions.ensure(tx, where, agent=named or "agent", working_dir="/tmp", named=named)
    return made.key


async def a_binding(
    tx: Transaction,
    where: Conversation,
    session: SessionKey,
    *,
    limits: Limits | None = None,
    ttl: timedelta | None = None,
) -> BindingId:
    """An active binding, written without the service and its rules."""
    new = NewBinding(
        account=ACCOUNT,
        conversation=where.id,
        session=session,
        kind=TargetKind.SESSION,
        bound_by=ASKER,
        limits=limits or Limits(),
        ttl=ttl,
    )
    return await bindings.add(tx, new)


async def a_spawn(
    tx: Transaction, where: Conversation, starter: str = "starter-1", **changes: object
) -> SpawnId:
    """A task that is owed to a sub-agent, asked for by a person here."""
    new = NewSpawn(
        account=ACCOUNT,
        agent="luna",
        task="Look into it.",
        depth=1,
        in_a_row=1,
        requester_conversation=where.id,
        parent_session=where.ref.session_key(),
        parent_turn=None,
        requester_id=ASKER,
        requester_name="Ann",
        requester_is_bot=False,
    )
    planned = spawns.planned_id()
    await spawns.add(tx, planned, replace(new, **changes), DeliveryId(starter))  # type: ignore[arg-type]
    return planned


async def a_claim(
    database: Database, worker: str = "worker-1", limit: int = 50
) -> list[tuple[Conversation, Ownership]]:
    """Claim what can be claimed, as the dispatcher does."""
    async with database.transaction() as tx:
        return await conversations.claim(
            tx,
            [ACCOUNT],
            WorkerId(worker),
            "proof",
            lease=timedelta(seconds=15),
            call=timedelta(seconds=5),
            limit=limit,
        )


async def the_claim(
    database: Database, worker: str, within: float = 10.0
) -> tuple[Conversation, Ownership]:
    """Claim the one conversation that can be; a row that is in use at that moment is passed over."""
    async with asyncio.timeout(within):
        while True:
            for claim in await a_claim(database, worker, limit=1):
                return claim
            await asyncio.sleep(0.01)


def an_incoming(
    event: str | None = None,
    *,
    source: str = "901",
    message: str = "1000",
    sent_at: datetime = SENT_AT,
    life: float = 300.0,
) -> Incoming:
    """A hand-off that passed every static check; its id is new and its message sent long ago."""
    envelope = Envelope(
        source=PlatformId(source),
        target=PlatformId(ACCOUNT),
        event_id=event or str(uuid4()),
        origin_channel=HOME,
        origin_thread=None,
        origin_message=None,
        expires_at=int(datetime.now(UTC).timestamp() + life),
        text="Do it.\0\ud83d",
    )
    return Incoming(ACCOUNT, envelope, MessageRef(HOME, PlatformId(message)), sent_at)


class Offset:
    """The movable part of the database's clock."""

    def __init__(self, database: Database) -> None:
        self.value = timedelta(0)
        database.offset = lambda: self.value

    def pass_by(self, seconds: float) -> None:
        """So much time goes by at once."""
        self.value += timedelta(seconds=seconds)
