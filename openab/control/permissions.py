"""An agent's questions for permission: a notice with a button per option while one is open."""

from openab.control.persist import persist
from openab.control.retire import owe_delete, owe_notice, permission_key, questions_of
from openab.control.services import Services
from openab.domain.agent_events import PermissionAsked, PermissionSettled
from openab.domain.errors import Rejected
from openab.domain.ids import TurnId
from openab.domain.outbound import Button
from openab.ports.agent import AgentSession
from openab.storage import conversations, turns
from openab.storage.conversations import Ownership
from openab.storage.turns import Turn
from openab.text import notices
from openab.text.measure import shorten
from openab.text.neutralize import neutralize
from openab.text.tools import asked_title

#: Discord's limits for one message: five rows of five buttons, 80 characters on each.
_BUTTONS, _LABEL = 25, 80
#: No attempt asks more often; so a button of an earlier attempt's question never answers a later one.
_PER_ATTEMPT = 10_000
_STYLES = {"allow_once": "success", "allow_always": "success"}


class Questions:
    """The open questions of one run. A question is named by its attempt and its place among the run's."""

    def __init__(self, services: Services, ownership: Ownership, turn: Turn) -> None:
        self._services = services
        self._ownership = ownership
        self._turn = turn
        self._before = (turn.attempt - 1) * _PER_ATTEMPT
        self._asked: list[PermissionAsked] = []
        self._open: dict[str, int] = {}

    @property
    def is_any_open(self) -> bool:
        """Whether the agent waits for somebody."""
        return bool(self._open)

    async def ask(self, asked: PermissionAsked) -> None:
        """Owe the notice; whoever settles questions without people is not shown to them."""
        self._asked.append(asked)
        if self._services.settings.agent().permission_mode != "ask":
            return
        number = self._before + len(self._asked)
        self._open[asked.request_id] = number
        await persist("permission question", lambda: self._owe(number, asked))

    async def settle(self, settled: PermissionSettled) -> None:
        """It was answered or cancelled: the notice goes."""
        number = self._open.pop(settled.request_id, None)
        if number is not None:
            await persist("permission answer", lambda: self._retire(number, settled))

    async def answer(self, session: AgentSession, number: int, choice: int) -> bool:
        """Pass a person's choice on; False: the question is not open any more."""
        place = number - self._before
        asked = self._asked[place - 1] if 0 < place <= len(self._asked) else None
        if asked is None or asked.request_id not in self._open:
            return False
        if not 0 <= choice < len(asked.options):
            return False
        option = asked.options[choice].option_id
        try:
            return await self._services.agents.answer(session, asked.request_id, option)
        except Rejected:
            # Another owner, another life of the host, or an option that is offered no more.
            return False

    async def _owe(self, number: int, asked: PermissionAsked) -> None:
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership, is_beside=True)
            buttons = question_buttons(self._turn.id, number, asked)
            key = permission_key(self._turn, number)
            await owe_notice(tx, self._turn, key, question_text(asked), buttons=buttons)
            await turns.log(tx, self._turn.id, "permission_asked", {"request": asked.request_id})

    async def _retire(self, number: int, settled: PermissionSettled) -> None:
        async with self._services.database.transaction() as tx:
            await conversations.lock(tx, self._ownership, is_beside=True)
            for notice in await questions_of(tx, self._turn):
                if notice.key == permission_key(self._turn, number):
                    await owe_delete(tx, self._turn, notice)
            detail = {"request": settled.request_id, "option": settled.option_id}
            await turns.log(tx, self._turn.id, "permission_settled", detail)


def question_text(asked: PermissionAsked) -> str:
    """What the agent wants to do, and how many of its answers there is no button for."""
    kind = asked.tool.kind.value.replace("_", " ") if asked.tool.kind else "tool"
    left_out = max(0, len(asked.options) - _BUTTONS)
    return notices.permission_asked(asked_title(asked), kind, left_out)


def question_buttons(turn: TurnId, number: int, asked: PermissionAsked) -> tuple[Button, ...]:
    """One per option, as many as Discord shows; only the requester or an operator may press them."""
    return tuple(
        Button(
            custom_id=f"openab:permit:{turn}:{number}:{index}",
            label=_label(option.name) or f"Option {index + 1}",
            style=_STYLES.get(option.kind or "", "secondary"),
        )
        for index, option in enumerate(asked.options[:_BUTTONS])
    )


def _label(name: str) -> str:
    return shorten(" ".join(neutralize(name).split()), _LABEL)
