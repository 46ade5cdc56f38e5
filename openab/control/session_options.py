"""Before each prompt the agent is set to what people have chosen; what it refuses is told and forgotten."""

from collections.abc import Mapping

import structlog

from openab.control.persist import persist
from openab.control.retire import owe_notice
from openab.control.services import Services
from openab.domain.options import Option, by_id
from openab.ports.agent import AgentSession, Opened, OpenedBy, OptionRefused
from openab.storage import conversations, sessions
from openab.storage.conversations import Ownership
from openab.storage.engine import Transaction
from openab.storage.sessions import Chosen, Session
from openab.storage.turns import Turn
from openab.text import replies

log = structlog.get_logger()


class SessionOptions:
    """The options of one run's session."""

    def __init__(
        self, services: Services, ownership: Ownership, turn: Turn, session: Session
    ) -> None:
        self._services = services
        self._ownership = ownership
        self._turn = turn
        self._key = session.key
        self._known = session.options

    async def apply(self, name: AgentSession, opened: Opened, chosen: Mapping[str, Chosen]) -> None:
        """Set what is due: everything in an agent that was started, else what is new to it.

        Raises what the port raises, but for a refusal.
        """
        refused: dict[str, str] = {}
        done: dict[str, Chosen] = {}
        for option_id, wish in chosen.items():
            if opened.by is OpenedBy.LIVE and not wish.is_due:
                continue
            try:
                await self._set(name, opened, option_id, wish.value)
            except OptionRefused as error:
                log.info("agent_option_refused", session=self._key, option=option_id)
                refused[option_id] = str(error)
            else:
                done[option_id] = Chosen(wish.value, is_due=False)
        known = self._services.agents.options(name)
        is_news = bool(known) and known != self._known
        if refused or is_news or any(chosen[one] != done[one] for one in done):
            await persist("agent options", lambda: self._record(dict(chosen), done, refused, known))

    async def keep(self, tx: Transaction, known: tuple[Option, ...]) -> None:
        """Keep what the agent says now, if that is news. The caller has locked the conversation."""
        if known and known != self._known:
            await sessions.remember_options(tx, self._key, known)
            tx.after_commit(lambda: self._note_known(known))

    def _note_known(self, known: tuple[Option, ...]) -> None:
        self._known = known

    async def _set(self, name: AgentSession, opened: Opened, option_id: str, value: str) -> None:
        option = by_id(opened.options, option_id)
        if option is None or option.current != value:
            await self._services.agents.set_option(name, option_id, value)

    async def _record(
        self,
        chosen: dict[str, Chosen],
        done: dict[str, Chosen],
        refused: dict[str, str],
        known: tuple[Option, ...],
    ) -> None:
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership, is_beside=True)
            session = await sessions.locked(tx, self._key)
            still = session.chosen if session else {}
            for option_id in (*done, *refused):
                # Somebody may have chosen something else meanwhile: that is due at the next prompt.
                if still.get(option_id) == chosen[option_id]:
                    await sessions.choose(tx, self._key, option_id, done.get(option_id))
            for number, (option_id, reason) in enumerate(refused.items(), 1):
                option = by_id(known, option_id)
                called = option.name if option else option_id
                text = replies.option_refused(called, chosen[option_id].value, reason)
                key = f"turn:{self._turn.id}:option:{number}:v1"
                await owe_notice(tx, self._turn, key, text)
            await self.keep(tx, known)
