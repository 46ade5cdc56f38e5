"""What the tests of bindings stand on: a database, a chat network's side, and the service of one process."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import sqlalchemy as sa

from openab.channels.discord.bindings import DiscordBindings
from openab.domain.binding import BindingStatus, EndReason, Limits, Placement, TargetKind
from openab.domain.delivery import Begun, Confirmed, DeliveryState
from openab.domain.ids import (
    BindingId,
    ChannelName,
    ConversationId,
    ConversationRef,
    PlatformId,
    SessionKey,
)
from openab.domain.message import Place
from openab.routing.bindings import Bindings
from openab.storage import bindings, conversations, deliveries
from openab.storage.schema import bindings as binding_rows
from openab.storage.schema import deliveries as delivery_rows
from tests.builders import ACCOUNT, Offset, a_session
from tests.fakes.rooms import Pagers, Rooms

if TYPE_CHECKING:
    from collections.abc import Callable

    from openab.domain.binding import SessionBinding
    from openab.routing.adapter import BindingAdapter
    from openab.storage.engine import Database, Transaction

ADAPTERS: "dict[str, Callable[[], BindingAdapter]]" = {
    "rooms": Rooms,
    "pagers": Pagers,
    "discord": DiscordBindings,
}
#: Network and dialect. What the core writes is the same on each network, so one goes through both.
ON_WHICH = ("rooms-sqlite", "rooms-postgres", "pagers-sqlite", "discord-sqlite")
WITH_CHILDREN = ("rooms-sqlite", "rooms-postgres", "discord-sqlite")
HOUR = timedelta(hours=1)


@dataclass
class Network:
    """One chat network with a process that serves it; what a test does and sees."""

    database: "Database"
    name: str
    adapter: "BindingAdapter" = field(init=False)
    bindings: Bindings = field(init=False)
    clock: Offset = field(init=False)

    def __post_init__(self) -> None:
        self.adapter = ADAPTERS[self.name]()
        self.bindings = Bindings({self.channel: self.adapter})
        self.clock = Offset(self.database)

    @property
    def channel(self) -> ChannelName:
        return ChannelName(self.name)

    @property
    def is_silent(self) -> bool:
        """Nobody is told anything there."""
        return self.name == "pagers"

    @property
    def has_children(self) -> bool:
        return Placement.CHILD in self.adapter.capabilities.placements

    def ref(self, conversation: str, parent: str | None = None) -> ConversationRef:
        above = PlatformId(parent) if parent else None
        return ConversationRef(self.channel, ACCOUNT, PlatformId(conversation), above)

    async def place(
        self, tx: "Transaction", conversation: str, parent: str | None = None
    ) -> ConversationId:
        """A conversation's row."""
        ref = self.ref(conversation, parent)
        kind = Place.THREAD if parent else Place.CHANNEL
        return (await conversations.ensure(tx, ref, kind)).id

    async def session(self, conversation: str) -> SessionKey:
        """A conversation's own session."""
        async with self.database.transaction() as tx:
            where = await self.place(tx, conversation)
            return await a_session(tx, await conversations.get(tx, where))

    async def bind(
        self,
        session: SessionKey,
        conversation: str = "50",
        *,
        idle: timedelta | None = None,
        max_age: timedelta | None = None,
        ttl: timedelta | None = None,
        by: str = "31",
    ) -> "SessionBinding":
        """Bind in a transaction of its own."""
        async with self.database.transaction() as tx:
            return await self.bindings.bind(
                tx,
                session,
                TargetKind.SESSION,
                self.ref(conversation),
                bound_by=by,
                limits=Limits(idle, max_age),
                ttl=ttl,
            )

    async def resolve(self, conversation: str = "50") -> "SessionBinding | None":
        async with self.database.transaction() as tx:
            return await self.bindings.resolve_by_conversation(
                tx, await self.place(tx, conversation)
            )

    async def of_session(self, session: SessionKey) -> list[BindingId]:
        async with self.database.read() as tx:
            return [one.binding_id for one in await self.bindings.list_by_session(tx, session)]

    async def touch(self, binding: BindingId, **when: "object") -> None:
        async with self.database.transaction() as tx:
            await self.bindings.touch(tx, binding, **when)  # type: ignore[arg-type]

    async def unbind(
        self, target: BindingId | SessionKey, reason: EndReason = EndReason.UNFOCUSED
    ) -> list[BindingId]:
        async with self.database.transaction() as tx:
            return [one.binding_id for one in await self.bindings.unbind(tx, target, reason)]

    async def reattach(self, conversation: str = "50") -> "SessionBinding | None":
        async with self.database.transaction() as tx:
            return await self.bindings.reattach(tx, await self.place(tx, conversation))

    async def sweep(self, limit: int = 50) -> int:
        async with self.database.transaction() as tx:
            return await self.bindings.sweep(tx, ACCOUNT, limit)

    async def read(self, binding: BindingId) -> "SessionBinding":
        async with self.database.read() as tx:
            found = await bindings.get(tx, binding)
        assert found is not None
        return found.binding

    async def rows(self) -> list[tuple[BindingId, BindingStatus, EndReason | None]]:
        """Every binding that there is, oldest first."""
        query = sa.select(binding_rows).order_by(binding_rows.c.bound_at, binding_rows.c.id)
        async with self.database.read() as tx:
            return [
                (row.id, BindingStatus(row.state), EndReason(row.end_reason) if row.end_reason else None)
                for row in await tx.execute(query)
            ]  # fmt: skip

    async def active(self) -> list[BindingId]:
        return [one for one, state, _ in await self.rows() if state is BindingStatus.ACTIVE]

    async def owed(self, ending_with: str = ":farewell") -> list[str]:
        """The keys of what is owed to people and not settled."""
        query = sa.select(delivery_rows.c.key).where(delivery_rows.c.settled_at.is_(None))
        async with self.database.read() as tx:
            keys = list((await tx.execute(query)).scalars())
        return sorted(key for key in keys if key.endswith(ending_with))

    async def everything_is_sent(self) -> None:
        """The outbox did its work."""
        async with self.database.transaction() as tx:
            rows = await tx.execute(sa.select(delivery_rows.c.id).order_by(delivery_rows.c.ordinal))
            for row in rows.scalars():
                made = await deliveries.get(tx, row)
                assert made
                if made.state is DeliveryState.PENDING:
                    begun = await deliveries.record(tx, made, Begun())
                    await deliveries.record(tx, begun, Confirmed())
