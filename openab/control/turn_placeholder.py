"""The live message of one run: adopted or owed at its claim, and made anew when it is lost or too old."""

from openab.control.bodies import first_placeholder, later_placeholder, recovering_placeholder
from openab.control.reception import owe_placeholder
from openab.control.retire import last_version, owe_delete, placeholders_of
from openab.control.services import Services
from openab.domain.delivery import DeliveryState
from openab.domain.ids import PlatformId, TurnId
from openab.domain.turn import TurnState
from openab.storage import conversations, turns
from openab.storage.conversations import Conversation, Ownership
from openab.storage.deliveries import Delivery
from openab.storage.engine import Transaction
from openab.storage.turns import Turn

#: How often in one run a live message that was deleted or refused is made anew.
_MOST_REPLACED = 3


class TurnPlaceholder:
    """What the run knows of its live message; the rows say what is owed."""

    def __init__(self, services: Services, ownership: Ownership, *, is_recovered: bool) -> None:
        """`is_recovered`: an earlier run of the turn may have left one, in whatever state."""
        self._services = services
        self._ownership = ownership
        self._is_recovered = is_recovered
        #: The message that is edited now.
        self.message_id: PlatformId | None = None
        #: The presentation cannot edit it any more.
        self.is_lost = False
        self._since: float | None = None
        self._replaced = 0

    def appeared(self, message_id: PlatformId) -> None:
        """It is on the network now, the first one or a later one."""
        self.message_id = message_id
        self._since = self._services.clock()

    @property
    def needs_successor(self) -> bool:
        """Whether it is lost, or the network is soon going to limit edits of it."""
        if self.is_lost and self._replaced < _MOST_REPLACED:
            return True
        since, limit = self._since, self._services.settings.placeholder_age
        return since is not None and self._services.clock() - since >= limit.total_seconds()

    async def ensure(self, tx: Transaction, where: Conversation, turn: Turn, mode: str) -> None:
        """At the claim: adopt the one that is there, and owe one where there is none to be edited."""
        if mode == "final" and not self._is_recovered:
            return
        known = await placeholders_of(tx, turn)
        if mode == "final":
            for left in known:
                await owe_delete(tx, turn, left)
        elif known and known[-1].state is DeliveryState.SENT:
            await self._adopt(tx, known[-1])
        elif not known or await self._is_in_old_doubt(tx, known[-1]):
            await self._owe_first(tx, where, turn)

    async def renew(self, turn_id: TurnId) -> None:
        """Owe another one; when it is on the network, the old one is retired."""
        async with self._services.database.transaction() as tx:
            where = await conversations.lock(tx, self._ownership)
            turn = await turns.get(tx, turn_id)
            if turn and turn.state is TurnState.RUNNING:
                version = 1 + await last_version(tx, turn)
                if self.is_lost:
                    await turns.log(tx, turn.id, "presentation_failed", {"version": version - 1})
                body = later_placeholder(turn.id)
                await owe_placeholder(tx, self._services.settings, turn.id, where, body, version)
        # Also when nothing comes of it: then it is tried again an age later.
        self._since = self._services.clock()
        self._replaced += self.is_lost
        self.is_lost = False

    async def _adopt(self, tx: Transaction, placeholder: Delivery) -> None:
        self.message_id = placeholder.platform_id
        age = await tx.now() - (placeholder.last_try_at or placeholder.created_at)
        self._since = self._services.clock() - age.total_seconds()

    async def _owe_first(self, tx: Transaction, where: Conversation, turn: Turn) -> None:
        version = 1 + await last_version(tx, turn) if self._is_recovered else 1
        make = recovering_placeholder if self._is_recovered else first_placeholder
        body = make(turn.id)
        await owe_placeholder(tx, self._services.settings, turn.id, where, body, version)

    async def _is_in_old_doubt(self, tx: Transaction, placeholder: Delivery) -> bool:
        """Nobody can make sure any more that it is there: it is looked for, and may turn out to be lost."""
        first = placeholder.first_try_at
        window = self._services.settings.nonce_window
        return self._is_recovered and first is not None and await tx.now() - first > window
