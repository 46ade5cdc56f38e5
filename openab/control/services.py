"""What every part of the control plane works with; made once, by the wiring."""

from collections.abc import Callable
from dataclasses import dataclass, field

from openab.control.bot_names import BotNames
from openab.control.leases import Leases
from openab.control.pool import AgentPool
from openab.control.settings import Settings
from openab.control.stream_log import StreamLog
from openab.domain.ids import WorkerId
from openab.ports.agent import Agents
from openab.ports.channel import Channel
from openab.ports.feed import FeedSource
from openab.ports.signals import Signals
from openab.ports.workspaces import Workspaces
from openab.storage.engine import Database


def _ignore(*_labels: str) -> None:
    """Nobody counts."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Where the control plane reports what the metrics count; each takes its labels."""

    delivery: Callable[[str, str], None] = _ignore
    edit: Callable[[str], None] = _ignore
    turn_started: Callable[[], None] = _ignore
    #: (outcome, seconds)
    turn_ended: Callable[[str, float], None] = lambda _outcome, _seconds: None
    lease_lost: Callable[[], None] = _ignore
    #: How many conversations are owned now.
    leases: Callable[[int], None] = lambda _count: None
    inbox: Callable[[str, str], None] = _ignore
    #: (in | out, accepted | sent | reason word)
    handoff: Callable[[str, str], None] = _ignore
    #: (bound | fallback, reason) of a completion.
    routed: Callable[[str, str], None] = _ignore
    #: started | finished | interrupted
    backfill: Callable[[str], None] = _ignore
    #: (verdict, reason) of a turn whose agent was gone.
    recovery: Callable[[str, str], None] = _ignore
    #: Retention deleted so many rows of this table.
    deleted: Callable[[str, int], None] = lambda _table, _rows: None


@dataclass(frozen=True, slots=True)
class Services:
    """The ports and the settings of one account in one process."""

    database: Database
    #: The channel for somebody whose right to write ends when the permit says so.
    channel: Callable[[Callable[[], bool]], Channel]
    agents: Agents
    feeds: FeedSource
    stream_log: StreamLog
    settings: Settings
    leases: Leases
    clock: Callable[[], float]
    pool: AgentPool
    workspaces: Workspaces
    signals: Signals = field(default_factory=Signals)
    counters: Counters = Counters()
    bot_names: BotNames = field(default_factory=BotNames)
    #: Take the account's next request slot, asked at this monotonic moment; returns when it is.
    reserve: Callable[[float], float] = lambda now: now
    #: Take a request slot of the account that is free at this monotonic moment; False: none is, none was taken.
    spare: Callable[[float], bool] = lambda _now: False
    #: Whether this owner is certainly dead by its proof; if so, what it left running on this machine
    #: has been ended. Blocks, so it is called in a thread.
    is_buried: Callable[[WorkerId, str], bool] = lambda _owner, _proof: False
