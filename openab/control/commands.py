"""What people ask of the broker itself: only the requester of a turn, or an operator, may cancel it."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from openab.control.retire import retire_queued
from openab.control.settings import Settings
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.errors import Transient, Unknown
from openab.domain.gates import Disposition, may_use
from openab.domain.ids import ConversationId, PlatformId, TurnId
from openab.domain.message import Author, CommandKind, InboundCommand, Place
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
#: Whoever asks is told within three seconds, or the network tells them that we did not answer.
_DATABASE_SECONDS = 2.0
_RETRY_SECONDS = 0.1


#: (turn, number of the question, number of the option) → whether it was still open.
Permit = Callable[[TurnId, int, int], Awaitable[bool]]


async def _nobody_asks(_turn: TurnId, _question: int, _option: int) -> bool:
    """Where no agent runs."""
    return False


def _question(argument: str) -> tuple[TurnId, int, int] | None:
    """`TURN:QUESTION:OPTION`, as our buttons have it; None for anything else."""
    turn, _, rest = argument.partition(":")
    number, _, choice = rest.partition(":")
    if not (number.isdecimal() and choice.isdecimal() and len(number) + len(choice) < 10):
        return None
    return TurnId(turn), int(number), int(choice)


class Commands:
    """Answers slash commands and buttons; a repeated interaction is answered again and does nothing."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        wake: Callable[[ConversationId], None],
        permit: Permit = _nobody_asks,
    ) -> None:
        """`permit` passes (turn, question, option) to the agent that waits; False: it waits no more."""
        self._database = database
        self._settings = settings
        self._wake = wake
        self._permit = permit

    async def answer(self, command: InboundCommand) -> str:
        """Do it, and return what the person is told (only they see it).

        A database that is away for a moment is asked again: doing it twice is harmless.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + _DATABASE_SECONDS
        while True:
            try:
                return await self._answer(command)
            except (Transient, Unknown) as error:
                if clock() >= until:
                    raise
                log.warning("command_waits_for_database", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _answer(self, command: InboundCommand) -> str:
        refusal = self._refusal(command)
        if refusal:
            log.info("command_refused", reason=refusal, interaction_id=command.interaction_id)
            return notices.not_allowed_here()
        if command.kind is CommandKind.PERMIT:
            return await self._answer_permission(command)
        async with self._database.transaction() as tx:
            here = await conversations.find(tx, command.conversation)
            if here is None:
                return notices.nothing_to_cancel()
            if not await self._note(tx, command):
                # What ran then may have ended, and something else may run now.
                return notices.cancelling(command.author.display_name)
            text = await cancel(tx, self._settings, here, command.author, command.argument or None)
            tx.after_commit(lambda: self._wake(here.id))
        log.info("command_answered", command=command.kind)
        return text

    async def _answer_permission(self, command: InboundCommand) -> str:
        asked = _question(command.argument)
        async with self._database.transaction() as tx:
            await self._note(tx, command)
            turn = await turns.get(tx, asked[0]) if asked else None
        if turn is None or asked is None:
            return notices.permission_closed()
        author = command.author
        if not turn.is_asked_by(author.id) and author.id not in self._settings.operators():
            return notices.permission_not_yours(turn.requester_name)
        is_answered = await self._permit(*asked)
        log.info("permission_answered", turn_id=turn.id, by=author.id, in_time=is_answered)
        return notices.permission_answered() if is_answered else notices.permission_closed()

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
    """Cancel one turn here: the wanted one, else the next of the author's own, else the running one.

    Doing it twice changes nothing more. Returns what the author is told.
    """
    await conversations.hold(tx, here.id)
    turn = _choose(await turns.open_of(tx, here.id), author, wanted)
    if turn is None:
        return notices.nothing_to_cancel()
    if not turn.is_asked_by(author.id) and author.id not in settings.operators():
        return notices.not_yours_to_cancel(turn.requester_name)
    if not await turns.request_cancel(tx, turn.id, author.display_name):
        return notices.cancelling(author.display_name)
    # The request has locked the row: only now it is certain whether it had been claimed meanwhile.
    known = await turns.get(tx, turn.id)
    if known is None or known.state is not TurnState.QUEUED:
        return notices.cancelling(author.display_name)
    await turns.record(tx, known, CancelledQueued(), settled_at=await tx.now())
    await retire_queued(tx, settings, known, author.display_name)
    return notices.cancelled_before_start(author.display_name)


def _choose(open_turns: list[Turn], author: Author, wanted: str | None) -> Turn | None:
    if wanted:
        return next((turn for turn in open_turns if turn.id == wanted), None)
    running = [turn for turn in open_turns if turn.state is TurnState.RUNNING]
    own = [turn for turn in open_turns if turn.is_asked_by(author.id)]
    # A running turn comes before the queued ones in both.
    return next(iter(own + running + open_turns), None)
