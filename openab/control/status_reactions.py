"""Makes the emoji on a trigger what they should be: one call at a time, noted before and after."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from openab.control.services import Services
from openab.domain.errors import Transient, Unknown
from openab.domain.ids import TurnId
from openab.domain.turn import LIFECYCLE
from openab.ports.channel import Channel, ChannelRejected
from openab.storage import conversations, reactions, turns
from openab.storage.conversations import Ownership
from openab.storage.engine import Transaction
from openab.storage.reactions import Reactions

log = structlog.get_logger()
_TRIES = 6
#: Marks an emoji of which it is not known whether it stands there; adding it again is harmless.
_TENTATIVE = "?"


@dataclass(frozen=True, slots=True)
class _Move:
    """One call: add before remove, so that there is never none."""

    reactions: Reactions
    add: str | None = None
    remove: str | None = None
    #: What may have stood there before the call was noted; still so if it is definitely not made.
    before: tuple[str, ...] = ()


class StatusReactions:
    """The reactions of one conversation's turns, for its present owner."""

    def __init__(self, services: Services, channel: Channel, ownership: Ownership) -> None:
        self._services = services
        self._channel = channel
        self._ownership = ownership
        self._wishes: dict[TurnId, str] = {}
        #: When the account has room for our next call, once that was asked; monotonic.
        self._slot: float | None = None

    def wish(self, turn: TurnId, emoji: str) -> None:
        """A running turn should show this emoji; a later wish replaces it."""
        self._wishes[turn] = emoji

    async def step(self) -> tuple[bool, datetime | None]:
        """Make one call if one is due; returns whether it did, and when the next is."""
        async with self._services.database.read() as tx:
            due_at = await reactions.next_due(tx, self._ownership.conversation)
            now = await tx.now()
        if not self._wishes and (due_at is None or due_at > now):
            return False, due_at
        wait = self._wait_for_room()
        if wait > 0:
            return False, now + timedelta(seconds=wait)
        move = await self._prepare()
        if move:
            await self._make(move)
        return True, None

    def _wait_for_room(self) -> float:
        """How long until the account has a request left for us; what is wished meanwhile is one call."""
        now = self._services.clock()
        if self._slot is None:
            self._slot = self._services.reserve(now)
        wait = self._slot - now
        if wait <= 0:
            self._slot = None
        return wait

    async def _prepare(self) -> _Move | None:
        """Write the wishes, choose one call, and note what it may leave there, before it is made."""
        # People's turns wish on while this waits for the database.
        written = dict(self._wishes)
        move = await self._written(written)
        for turn, emoji in written.items():
            if self._wishes.get(turn) == emoji:
                del self._wishes[turn]
        return move

    async def _written(self, wishes: dict[TurnId, str]) -> _Move | None:
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            now = await tx.now()
            for turn, emoji in wishes.items():
                await self._write_wish(tx, turn, emoji, now)
            known = await reactions.take_due(tx, self._ownership.conversation, now)
            return await self._choose(tx, known, now) if known else None

    async def _write_wish(self, tx: Transaction, turn: TurnId, emoji: str, now: datetime) -> None:
        """A wish of a run that has ended meanwhile is void: the end has its own emoji."""
        row = await turns.get(tx, turn)
        if row and row.outcome is None:
            await reactions.wish(tx, turn, emoji, now)

    async def _choose(self, tx: Transaction, known: Reactions, now: datetime) -> _Move | None:
        wished, shown = _each(known.wished), known.shown
        missing = next((emoji for emoji in wished if emoji not in shown), None)
        if missing:
            tentative = _TENTATIVE + missing
            listed = shown if tentative in shown else (*shown, tentative)
            due = now + self._services.settings.reactions.pace
            await reactions.note(tx, known, listed, due, known.tries)
            return _Move(replace(known, shown=listed), add=missing, before=shown)
        extra = next((emoji for emoji in map(_bare, shown) if emoji not in wished), None)
        if extra:
            return _Move(known, remove=extra, before=shown)
        await self._rest(tx, known, now)
        return None

    async def _rest(self, tx: Transaction, known: Reactions, now: datetime) -> None:
        """All is as wished: nothing more is due, unless the last emoji is to go after a while."""
        settings = self._services.settings.reactions
        turn = await turns.get(tx, known.turn)
        is_over = turn is not None and turn.state in LIFECYCLE.terminal
        stays = {None, known.receipt}
        if settings.remove_after_reply and known.wished not in stays and is_over:
            is_done = settings.emojis.done in _each(known.wished)
            hold = settings.done_hold if is_done else settings.error_hold
            await reactions.drop_wish(tx, known, now + hold, left=known.receipt or "")
        else:
            await reactions.note(tx, known, known.shown, None, 0)

    async def _make(self, move: _Move) -> None:
        try:
            await self._call(move)
        except Transient as error:
            await self._again(move, error.retry_after or 1.0, move.before)
        except Unknown:
            await self._again(move, 1.0, move.reactions.shown)
        except ChannelRejected as error:
            log.info("reaction_refused", turn_id=move.reactions.turn, refusal=error.refusal.value)
            await self._refused(move)
        else:
            await self._made(move)

    async def _call(self, move: _Move) -> None:
        channel, seconds = self._channel, self._services.settings.call.total_seconds()
        if move.add:
            await channel.add_reaction(move.reactions.trigger, move.add, seconds)
        elif move.remove:
            await channel.remove_reaction(move.reactions.trigger, move.remove, seconds)

    async def _made(self, move: _Move) -> None:
        async with self._owned() as tx:
            shown = (*_without(move), move.add) if move.add else _without(move)
            due = await tx.now() + self._services.settings.reactions.pace
            await reactions.note(tx, move.reactions, shown, due, 0)

    async def _again(self, move: _Move, wait: float, shown: tuple[str, ...]) -> None:
        """Try the same once more later; a call that failed too often is given up.

        `shown` is what may stand there: an emoji that was definitely not added needs no removal.
        """
        tries = move.reactions.tries + 1
        async with self._owned() as tx:
            if not await self._is_still_wished(tx, move):
                tries = 0
            due = None if tries > _TRIES else await tx.now() + timedelta(seconds=wait)
            await reactions.note(tx, move.reactions, shown, due, tries)

    async def _refused(self, move: _Move) -> None:
        """An emoji that may not be added is not wished any more; what is left is still cleaned up."""
        async with self._owned() as tx:
            due = await tx.now() + self._services.settings.reactions.pace
            if move.add and await self._is_still_wished(tx, move):
                left = [emoji for emoji in _each(move.reactions.wished) if emoji != move.add]
                await reactions.drop_wish(tx, move.reactions, due, left=" ".join(left))
            await reactions.note(tx, move.reactions, _without(move), due, 0)

    async def _is_still_wished(self, tx: Transaction, move: _Move) -> bool:
        """Whether nobody wished something else while the call was made."""
        now = await reactions.again(tx, move.reactions)
        return now is not None and now.wished == move.reactions.wished

    @asynccontextmanager
    async def _owned(self) -> AsyncIterator[Transaction]:
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership)
            yield tx


def _each(wished: str | None) -> tuple[str, ...]:
    """A wish may name several, parted by spaces."""
    return tuple((wished or "").split())


def _bare(emoji: str) -> str:
    return emoji.removeprefix(_TENTATIVE)


def _without(move: _Move) -> tuple[str, ...]:
    touched = move.add or move.remove
    return tuple(emoji for emoji in move.reactions.shown if _bare(emoji) != touched)
