"""Models and agents: what can be chosen here, and what happens to a choice.

An idle agent is told at once. Otherwise the choice waits in the session's row, until the agent is
prompted next; it is set again whenever the agent had to be started.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from openab.control.bound_sessions import session_key_here
from openab.control.commands_cancel import may_change
from openab.control.settings import Settings
from openab.domain.errors import Rejected
from openab.domain.message import Author, CommandKind, InboundCommand
from openab.domain.options import AGENTS, MODELS, Choice, Option, by_category
from openab.domain.outbound import CommandAnswer
from openab.domain.turn import TurnState
from openab.ports.agent import (
    Agents,
    AgentSession,
    AgentUnavailable,
    Liveness,
    OptionRefused,
    SessionBusy,
)
from openab.storage import conversations, sessions, turns
from openab.storage.conversations import Conversation
from openab.storage.engine import Database, Transaction
from openab.storage.sessions import Chosen, Session
from openab.text import menus, replies

log = structlog.get_logger()
#: What each command is about: the categories of options, in the order of preference.
WANTED = {CommandKind.MODELS: MODELS, CommandKind.AGENTS: AGENTS}
_WORDS = {CommandKind.MODELS: "!models", CommandKind.AGENTS: "!agents"}


@dataclass(frozen=True, slots=True)
class _View:
    """A session as somebody sees it who wants to choose."""

    session: Session
    options: tuple[Option, ...]
    is_running: bool
    may_choose: bool


class SessionChoices:
    """The menus of `/models` and `/agents`, and what is picked from them."""

    def __init__(self, database: Database, settings: Settings, agents: Agents) -> None:
        self._database = database
        self._settings = settings
        self._agents = agents

    async def menu(self, command: InboundCommand) -> CommandAnswer:
        """The first page of what can be chosen."""
        view = await self._look(command)
        option = by_category(view.options, WANTED[command.kind]) if view else None
        if view is None or option is None:
            return CommandAnswer(replies.no_options(WANTED[command.kind][0]))
        return _shown(view, option)

    async def page(self, command: InboundCommand, category: str, page: int) -> CommandAnswer:
        """Another page of a menu."""
        view = await self._look(command)
        option = menus.of_category(view.options, category) if view else None
        if view is None or option is None:
            return CommandAnswer(replies.not_in_use())
        return _shown(view, option, page)

    async def pick(self, command: InboundCommand) -> CommandAnswer:
        """What was picked is chosen, and the menu shows it."""
        view = await self._look(command)
        option = menus.option_of(view.options, command.argument) if view else None
        if view is None or option is None:
            return CommandAnswer(replies.not_in_use())
        if not view.may_choose:
            return CommandAnswer(replies.option_not_yours())
        choice = menus.picked(option, "".join(command.values[:1]))
        if choice is None:
            return replace(_shown(view, option), text=replies.option_gone())
        return await self._chosen(view, option, choice)

    async def _chosen(self, view: _View, option: Option, choice: Choice) -> CommandAnswer:
        try:
            is_told = await self._tell_agent(view.session, option, choice)
        except OptionRefused as error:
            text = replies.option_refused(option.name, choice.name or choice.value, str(error))
            return replace(_shown(view, option), text=text)
        async with self._database.transaction() as tx:
            await _keep(tx, view.session, option, choice, is_due=not is_told)
        told = replies.option_switched if is_told else replies.option_kept
        shown = _shown(view, replace(option, current=choice.value))
        return replace(shown, text=told(option, choice))

    async def _tell_agent(self, session: Session, option: Option, choice: Choice) -> bool:
        """Set it in an agent that is idle now; False: there is none. Raises OptionRefused."""
        name = self._name(session)
        is_ours = session.incarnation == self._agents.incarnation
        if not is_ours or self._agents.status(name).liveness is not Liveness.IDLE:
            return False
        try:
            await self._agents.set_option(name, option.option_id, choice.value)
        except OptionRefused:
            raise
        except (SessionBusy, AgentUnavailable, Rejected) as error:
            # A turn began meanwhile, or the agent does not answer: the next prompt brings it.
            log.info("option_waits", session=session.key, told=str(error))
            return False
        return True

    async def _look(self, command: InboundCommand) -> _View | None:
        async with self._database.read() as tx:
            here = await conversations.find(tx, command.conversation)
            key = await session_key_here(tx, self._settings, here) if here else None
            session = await sessions.get(tx, key) if key else None
            if session is None:
                return None
            open_turns = await turns.open_for(tx, session.key)
            may_choose = await may_change(tx, self._settings, session, command.author)
        is_ours = session.incarnation == self._agents.incarnation
        live = self._agents.options(self._name(session)) if is_ours else ()
        is_running = any(turn.state is TurnState.RUNNING for turn in open_turns)
        return _View(session, _with_choices(session, live), is_running, may_choose)

    def _name(self, session: Session) -> AgentSession:
        database = self._database.id
        return AgentSession(database, session.key, session.generation, session.epoch)


async def option_by_text(
    tx: Transaction, settings: Settings, here: Conversation, author: Author, command: "Typed"
) -> str:
    """The text twin: lists what there is, or keeps the named choice for the next request."""
    session = await sessions.get(tx, await session_key_here(tx, settings, here))
    options = _with_choices(session, ()) if session else ()
    option = by_category(options, WANTED[command.kind])
    if session is None or option is None:
        return replies.no_options(WANTED[command.kind][0])
    word = _WORDS[command.kind]
    if not command.name:
        return replies.option_list(option, word)
    if not await may_change(tx, settings, session, author):
        return replies.option_not_yours()
    choice = menus.named(option, command.name)
    if choice is None:
        return replies.option_unknown(option, command.name, word)
    await _keep(tx, session, option, choice, is_due=True)
    return replies.option_kept(option, choice)


@dataclass(frozen=True, slots=True)
class Typed:
    """A command about options as it was typed; without a name it asks for the list."""

    kind: CommandKind
    name: str


async def _keep(
    tx: Transaction, session: Session, option: Option, choice: Choice, *, is_due: bool
) -> None:
    await sessions.choose(tx, session.key, option.option_id, Chosen(choice.value, is_due=is_due))
    if is_due:
        return
    # Not as it was when the menu was drawn: a run may have kept other options since.
    fresh = await sessions.locked(tx, session.key) or session
    others = [one for one in fresh.options if one.option_id != option.option_id]
    await sessions.remember_options(
        tx, session.key, [*others, replace(option, current=choice.value)]
    )


def _with_choices(session: Session, live: Sequence[Option]) -> tuple[Option, ...]:
    """What can be chosen, as it will be at the next prompt."""
    return tuple(
        _with_choice(option, session.chosen.get(option.option_id))
        for option in live or session.options
    )


def _with_choice(option: Option, wish: Chosen | None) -> Option:
    is_waiting = wish is not None and wish.is_due and option.offers(wish.value)
    return replace(option, current=wish.value) if wish and is_waiting else option


def _shown(view: _View, option: Option, page: int = 0) -> CommandAnswer:
    text = replies.option_menu(option, is_running=view.is_running)
    return CommandAnswer(text, menu=menus.menu(option, page))
