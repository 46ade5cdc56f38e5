"""What people ask of the broker itself: slash commands, buttons and menus, with the same allow-lists."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from openab.control.commands_bindings import ABOUT_BINDINGS, about_binding
from openab.control.commands_cancel import cancel, cancel_all, reset
from openab.control.commands_continue import go_on
from openab.control.commands_options import WANTED, SessionChoices
from openab.control.commands_reports import SESSIONS, session_list, usage
from openab.control.commands_spawn import spawn_for_person
from openab.control.completions import release_held
from openab.control.resend import Verdict, dead_rows, requested_by, resend
from openab.control.settings import Settings
from openab.domain.errors import Transient, Unknown
from openab.domain.gates import Disposition, may_press
from openab.domain.ids import ConversationId, TurnId
from openab.domain.message import CommandKind, InboundCommand
from openab.domain.outbound import CommandAnswer
from openab.ports.agent import Agents
from openab.storage import conversations, inbox, turns
from openab.storage.conversations import Conversation
from openab.storage.engine import Database, Transaction
from openab.storage.inbox import Entry
from openab.text import menus, notices, replies

log = structlog.get_logger()
#: Whoever asks is told within three seconds, or the network tells them that we did not answer.
_DATABASE_SECONDS = 2.0
_RETRY_SECONDS = 0.1
#: What changes something here and now, without asking an agent.
_CHANGES = frozenset(
    {
        CommandKind.CANCEL,
        CommandKind.CANCEL_ALL,
        CommandKind.CONTINUE,
        CommandKind.RESET,
        CommandKind.SPAWN,
        *ABOUT_BINDINGS,
    }
)
#: These can be the first that is heard of a conversation.
_BEGIN = frozenset({CommandKind.SPAWN, *ABOUT_BINDINGS})
#: What they say where nothing is known of the conversation.
_NOTHING = {
    CommandKind.RESET: replies.nothing_to_reset,
    CommandKind.CONTINUE: notices.nothing_to_continue,
}
#: (turn, number of the question, number of the option) → whether it was still open.
Permit = Callable[[TurnId, int, int], Awaitable[bool]]


async def _nobody_asks(_turn: TurnId, _question: int, _option: int) -> bool:
    """Where no agent runs."""
    return False


def _nobody_waits() -> None:
    """Where no agent runs."""


def _question(argument: str) -> tuple[TurnId, int, int] | None:
    """`TURN:QUESTION:OPTION`, as our buttons have it; None for anything else."""
    turn, _, rest = argument.partition(":")
    number, _, choice = rest.partition(":")
    if not (number.isdecimal() and choice.isdecimal() and len(number) + len(choice) < 10):
        return None
    return TurnId(turn), int(number), int(choice)


class Commands:
    """Answers slash commands, buttons and menus; a repeated interaction does nothing a second time."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        wake: Callable[[ConversationId], None],
        agents: Agents,
        permit: Permit = _nobody_asks,
        on_reset: Callable[[], None] = _nobody_waits,
    ) -> None:
        """`permit` passes (turn, question, option) to the agent that waits; False: it waits no more.

        `on_reset` hints that an agent has to be ended.
        """
        self._database = database
        self._settings = settings
        self._wake = wake
        self._permit = permit
        self._on_reset = on_reset
        self._choices = SessionChoices(database, settings, agents)

    async def answer(self, command: InboundCommand) -> CommandAnswer:
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

    async def _answer(self, command: InboundCommand) -> CommandAnswer:
        refusal = self._refusal(command)
        if refusal:
            log.info("command_refused", reason=refusal, interaction_id=command.interaction_id)
            return CommandAnswer(notices.not_allowed_here())
        if command.kind is CommandKind.PERMIT:
            return CommandAnswer(await self._answer_permission(command))
        if command.kind is CommandKind.RESEND:
            return CommandAnswer(await self._resend(command))
        if command.kind in _CHANGES:
            return CommandAnswer(await self._change(command))
        return await self._look(command)

    async def _change(self, command: InboundCommand) -> str:
        """Do what changes something, in the one transaction that also notes the command."""
        async with self._database.transaction() as tx:
            here = await _where(tx, command)
            if here is None:
                return _NOTHING.get(command.kind, notices.nothing_to_cancel)()
            if not await self._note(tx, command) and not _only_shows(command):
                # What ran then may have ended, and something else may run now.
                is_cancel = command.kind is CommandKind.CANCEL
                name = command.author.display_name
                return notices.cancelling(name) if is_cancel else replies.done_before()
            text = await self._changed(tx, here, command)
            tx.after_commit(lambda: self._wake(here.id))
            tx.after_commit(self._on_reset)
        log.info("command_answered", command=command.kind)
        return text

    async def _changed(self, tx: Transaction, here: Conversation, command: InboundCommand) -> str:
        settings, author = self._settings, command.author
        if command.kind is CommandKind.CANCEL_ALL:
            return await cancel_all(tx, settings, here, author)
        if command.kind is CommandKind.CONTINUE:
            return await go_on(tx, settings, here, author, command.argument)
        if command.kind is CommandKind.RESET:
            return await reset(tx, settings, here, author)
        if command.kind is CommandKind.SPAWN:
            return await spawn_for_person(tx, settings, here, author, command.options)
        if command.kind in ABOUT_BINDINGS:
            text = await about_binding(tx, settings, here, author, command.kind, command.options)
            # What waited for exactly one place may have it now.
            await release_held(tx, settings)
            return text
        return await cancel(tx, settings, here, author, command.argument or None)

    async def _look(self, command: InboundCommand) -> CommandAnswer:
        """What only asks, and what an agent has to be asked for."""
        async with self._database.transaction() as tx:
            await self._note(tx, command)
        turned = menus.page_of(command.argument) if command.kind is CommandKind.PAGE else None
        if command.kind in WANTED:
            return await self._choices.menu(command)
        if command.kind is CommandKind.CHOOSE:
            return await self._choices.pick(command)
        if turned and turned[0] != SESSIONS:
            return await self._choices.page(command, *turned)
        async with self._database.read() as tx:
            here = await conversations.find(tx, command.conversation)
            if command.kind is CommandKind.USAGE:
                return await usage(tx, self._settings, here)
            if command.kind is CommandKind.SESSIONS or turned:
                page = turned[1] if turned else 0
                return await session_list(tx, self._settings, here, page)
        return CommandAnswer(replies.not_in_use())

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

    async def _resend(self, command: InboundCommand) -> str:
        """By the requester of what could not be delivered, or an operator; once, however often pressed."""
        author = command.author
        async with self._database.transaction() as tx:
            await self._note(tx, command)
            turn = await requested_by(tx, await dead_rows(tx, command.argument))
            if turn is None or turn.account != self._settings.account:
                return notices.nothing_to_send_again()
            if not turn.is_asked_by(author.id) and author.id not in self._settings.operators():
                return notices.not_yours_to_send_again(turn.requester_name)
            resent = await resend(tx, command.argument, author.id)
            for conversation in resent.conversations:
                tx.after_commit(partial(self._wake, conversation))
        log.info("resend_asked", turn_id=turn.id, by=author.id, verdict=resent.verdict.value)
        is_owed = resent.verdict is Verdict.OWED
        return notices.sent_again(resent.count) if is_owed else notices.sent_again_before()

    def _refusal(self, command: InboundCommand) -> str | None:
        ref = command.conversation
        parent, place = ref.parent_conversation_id, command.place
        policy = self._settings.policy()
        return may_press(command.author, place, ref.conversation_id, parent, policy)

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


def _only_shows(command: InboundCommand) -> bool:
    return command.kind is CommandKind.SESSION and not command.options


async def _where(tx: Transaction, command: InboundCommand) -> Conversation | None:
    if command.kind in _BEGIN:
        return await conversations.ensure(tx, command.conversation, command.place)
    return await conversations.find(tx, command.conversation)
