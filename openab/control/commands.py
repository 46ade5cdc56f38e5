"""What people ask of the broker itself: only the requester of a turn, or an operator, may cancel it."""

from collections.abc import Callable

import structlog

from openab.control.retire import retire_queued
from openab.control.settings import Settings
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.gates import Disposition, may_use
from openab.domain.ids import ConversationId, PlatformId
from openab.domain.message import Author, InboundCommand, Place
from openab.domain.outbound import presentation_body
from openab.domain.turn import CancelledQueued, TurnState
from openab.storage import conversations, deliveries, inbox, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Owed
from openab.storage.engine import Database, Transaction
from openab.storage.inbox import Entry
from openab.storage.turns import Turn
from openab.text import notices

log = structlog.get_logger()


class Commands:
    """Answers slash commands and buttons; a repeated interaction is answered again and does nothing."""

    def __init__(
        self, database: Database, settings: Settings, wake: Callable[[ConversationId], None]
    ) -> None:
        self._database = database
        self._settings = settings
        self._wake = wake

    async def answer(self, command: InboundCommand) -> str:
        """Do it, and return what the person is told (only they see it)."""
        refusal = self._refusal(command)
        if refusal:
            log.info("command_refused", reason=refusal, interaction_id=command.interaction_id)
            return notices.not_allowed_here()
        async with self._database.transaction() as tx:
            here = await conversations.find(tx, command.conversation)
            if here is None:
                return notices.nothing_to_cancel()
            is_first = await self._note(tx, command)
            text = await cancel(tx, self._settings, here, command.author, command.argument or None)
            tx.after_commit(lambda: self._wake(here.id))
        log.info("command_answered", command=command.kind, first=is_first)
        return text

    def _refusal(self, command: InboundCommand) -> str | None:
        ref = command.conversation
        policy = self._settings.policy()
        if command.place is Place.DM and not policy.allow_dm:
            return "dm_off"
        parent = ref.parent_conversation_id if command.place is Place.THREAD else None
        reason = may_use(command.author.id, ref.conversation_id, parent, policy)
        is_dm_channel = command.place is Place.DM and reason == "channel_not_allowed"
        return None if is_dm_channel else reason

    async def _note(self, tx: Transaction, command: InboundCommand) -> bool:
        return await inbox.add(
            tx,
            Entry(
                account=self._settings.account,
                kind="interaction",
                event_key=command.interaction_id,
                conversation_id=command.conversation.conversation_id,
                author_id=command.author.id,
                disposition=Disposition.COMMAND,
                reason=command.kind.value,
            ),
        )


async def cancel_by_text(
    tx: Transaction, settings: Settings, here: Conversation, author: Author, message: PlatformId
) -> None:
    """The text twin: its answer is a notice, unless the cancelled turn itself will tell."""
    text = await cancel(tx, settings, here, author, None)
    if text in {
        notices.cancelling(author.display_name),
        notices.cancelled_before_start(author.display_name),
    }:
        return
    await deliveries.owe(
        tx,
        Owed(
            account=settings.account,
            conversation=here.id,
            key=f"command:{settings.account}:{message}:v1",
            kind=DeliveryKind.CREATE,
            purpose=Purpose.NOTICE,
            body=presentation_body(text),
            seq=await conversations.take_seq(tx, here.id),
        ),
    )


async def cancel(
    tx: Transaction, settings: Settings, here: Conversation, author: Author, wanted: str | None
) -> str:
    """Cancel one turn here: the wanted one, else the running one, else the next of the author's own.

    Doing it twice changes nothing more. Returns what the author is told.
    """
    turn = _choose(await turns.open_of(tx, here.id), author, wanted)
    if turn is None:
        return notices.nothing_to_cancel()
    if author.id != turn.requester_id and author.id not in settings.operators():
        return notices.not_yours_to_cancel(turn.requester_name)
    if not await turns.request_cancel(tx, turn.id, author.display_name):
        return notices.cancelling(author.display_name)
    if turn.state is TurnState.RUNNING:
        return notices.cancelling(author.display_name)
    await turns.record(tx, turn, CancelledQueued(), settled_at=await tx.now())
    await retire_queued(tx, settings, turn, author.display_name)
    return notices.cancelled_before_start(author.display_name)


def _choose(open_turns: list[Turn], author: Author, wanted: str | None) -> Turn | None:
    if wanted:
        return next((turn for turn in open_turns if turn.id == wanted), None)
    running = [turn for turn in open_turns if turn.state is TurnState.RUNNING]
    own = [turn for turn in open_turns if turn.requester_id == author.id]
    return next(iter(running + own + open_turns), None)
