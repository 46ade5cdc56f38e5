"""The composition root: the configuration becomes the object graph of one account."""

import asyncio
import hashlib
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import structlog

from openab.agents.acp.process_tree import reap_leftovers
from openab.agents.host.embedded import EmbeddedAgents
from openab.app.life_lock import proves_dead
from openab.app.values import Live, presentation, settings, workspaces
from openab.channels.discord.client import DiscordClient
from openab.control.commands import Commands
from openab.control.courtesies import Courtesies
from openab.control.dispatcher import Dispatcher
from openab.control.intake import Intake
from openab.control.leases import Leases
from openab.control.pool import AgentPool, PoolCounters
from openab.control.services import Counters, Services
from openab.control.session_endings import SessionEndings
from openab.control.settings import PoolSettings
from openab.control.stream_log import StreamLog
from openab.domain.gates import GatePolicy, may_join
from openab.domain.ids import AccountId, Incarnation, PlatformId, WorkerId
from openab.domain.message import InboundCommand, InboundMessage, InboundReaction
from openab.domain.outbound import CommandAnswer
from openab.observability.metrics import Metrics
from openab.ports.feed import TurnFeed, TurnOpening
from openab.ports.signals import Signals
from openab.presentation.pacing import Budget
from openab.presentation.stream import Streams
from openab.storage.engine import Database
from openab.storage.ids import new_id
from openab.storage.renewal import LeaseRenewal, Renewal
from openab.text import notices

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger()


class Doors:
    """Where the network's events come in: the client is made before what takes its events."""

    def __init__(self) -> None:
        self.intake: Intake | None = None
        self.commands: Commands | None = None
        self.policy: Callable[[], GatePolicy] | None = None

    def put(self, event: InboundMessage | InboundReaction) -> None:
        """A message or a reaction came."""
        if self.intake:
            self.intake.put(event)

    def wants_thread(self, thread: PlatformId, parent: PlatformId | None) -> bool:
        """Whether we listen in a thread, and so have to be a member of it."""
        return self.policy is not None and may_join(thread, parent, self.policy())

    async def answer(self, command: InboundCommand) -> CommandAnswer:
        """A command came; the answer goes to its author alone."""
        if self.commands is None:
            return CommandAnswer(notices.not_ready())
        return await self.commands.answer(command)


@dataclass(frozen=True, slots=True)
class Parts:
    """What runs, once it is wired."""

    database: Database
    client: DiscordClient
    agents: EmbeddedAgents
    pool: AgentPool
    dispatcher: Dispatcher
    intake: Intake
    stream_log: StreamLog
    courtesies: Courtesies
    endings: SessionEndings
    renewal: LeaseRenewal
    streams: Streams
    live: Live
    worker: WorkerId


def lock_mark(proof: str) -> str:
    """Which lock file a worker held, short enough for its id: whoever holds that file now outlived it."""
    return hashlib.sha256(proof.encode()).hexdigest()[:12]


class _LateFeeds:
    """A FeedSource that is known before the streams behind it are made."""

    streams: Streams

    def open(self, opening: TurnOpening) -> TurnFeed:
        """See `FeedSource`."""
        return self.streams.open(opening)


def wire(
    *,
    database: Database,
    database_url: str,
    client: DiscordClient,
    doors: Doors,
    account: AccountId,
    live: Live,
    mark: str,
    proof: str,
    metrics: Metrics,
    signals: Signals | None = None,
) -> Parts:
    """Everything for one account; nothing is started yet.

    `mark` tells whose lock of the account this process holds, `proof` how its death can be proved.
    """
    signals = signals or Signals()
    worker = WorkerId(f"{mark}-{new_id()}")
    agents = EmbeddedAgents(
        database_id=database.id, account=account, incarnation=Incarnation(worker)
    )
    told = settings(live, account, worker, proof)
    loop = asyncio.get_running_loop()

    def told_loop(result: Renewal) -> None:
        loop.call_soon_threadsafe(renewed, result)

    renewal = LeaseRenewal(
        database_url,
        worker,
        told.lease.total_seconds(),
        told.lease.total_seconds() / 3,
        told_loop,
    )
    stream_log = StreamLog(database, agents, told.commit_every, signals)
    feeds = _LateFeeds()
    budget = Budget()
    pool = AgentPool(agents, told.pool, time.monotonic, _pool_counters(metrics, told.pool))
    services = Services(
        database=database,
        channel=client.channel.guarded,
        agents=agents,
        feeds=feeds,
        stream_log=stream_log,
        settings=told,
        leases=Leases(time.monotonic, told.lease.total_seconds(), renewal.valid_until),
        clock=time.monotonic,
        pool=pool,
        workspaces=workspaces(live),
        signals=signals,
        counters=_counters(metrics),
        reserve=budget.reserve,
        is_buried=partial(_is_buried, database.id, account),
    )
    dispatcher = Dispatcher(services)

    def renewed(result: Renewal) -> None:
        if result.failure:
            metrics.database_errors.labels("lease_renewal").inc()
        dispatcher.renewed(result)

    feeds.streams = Streams(
        dispatcher.writer, presentation(live), budget=budget, reaction=dispatcher.wish_reaction
    )
    courtesies = Courtesies(client.channel, told.call, is_on=told.reactions.enabled)
    doors.policy = live.policy
    doors.intake = Intake(
        database, told, dispatcher.wake, courtesies.refuse, signals, services.counters.inbox
    )
    endings = SessionEndings(services)
    doors.commands = Commands(
        database, told, dispatcher.wake, agents, dispatcher.answer_permission, endings.wake
    )
    return Parts(
        database=database,
        client=client,
        agents=agents,
        pool=pool,
        dispatcher=dispatcher,
        intake=doors.intake,
        stream_log=stream_log,
        courtesies=courtesies,
        endings=endings,
        renewal=renewal,
        streams=feeds.streams,
        live=live,
        worker=worker,
    )


def _is_buried(database_id: str, account: AccountId, owner: WorkerId, proof: str) -> bool:
    """A dead owner's agents end before anybody goes on with their sessions."""
    if not proves_dead(proof):
        return False
    reap_leftovers(database_id, account, lambda incarnation: incarnation == Incarnation(owner))
    return True


def _pool_counters(metrics: Metrics, pool: PoolSettings) -> PoolCounters:
    metrics.agent_places.set(pool.max_sessions)
    return PoolCounters(evicted=lambda reason: metrics.agents_evicted.labels(reason).inc())


def _counters(metrics: Metrics) -> Counters:
    def turn_ended(outcome: str, seconds: float) -> None:
        metrics.turns_ended.labels(outcome).inc()
        metrics.turn_seconds.observe(seconds)

    def delivery(kind: str, result: str) -> None:
        metrics.deliveries.labels(kind, result).inc()
        if result == "unknown":
            metrics.deliveries_unknown.labels(kind).inc()

    return Counters(
        delivery=delivery,
        edit=lambda outcome: metrics.edits.labels(outcome).inc(),
        turn_started=metrics.turns_started.inc,
        turn_ended=turn_ended,
        lease_lost=metrics.leases_lost.inc,
        leases=metrics.leases_held.set,
        inbox=lambda disposition, reason: metrics.inbox_events.labels(disposition, reason).inc(),
    )
