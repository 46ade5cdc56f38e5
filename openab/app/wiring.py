"""The composition root: the configuration becomes the object graph of one account."""

import asyncio
import hashlib
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import structlog

from openab.agents.acp.process_tree import reap_leftovers
from openab.agents.host.embedded import EmbeddedAgents
from openab.app.counting import counters, pool_counters
from openab.app.life_lock import proves_dead
from openab.app.values import DISCORD, Live, presentation, settings, workspaces
from openab.channels.discord.bindings import DiscordBindings
from openab.channels.discord.client import DiscordClient
from openab.channels.discord.moments import moment_of
from openab.control.backfill import Backfill
from openab.control.binding_sweep import BindingSweep
from openab.control.bot_names import BotNames
from openab.control.commands import Commands
from openab.control.courtesies import Courtesies
from openab.control.dispatcher import Dispatcher
from openab.control.intake import Intake
from openab.control.leases import Leases
from openab.control.places_watch import PlacesWatch
from openab.control.pool import AgentPool
from openab.control.retention import Retention
from openab.control.services import Services
from openab.control.session_endings import SessionEndings
from openab.control.settings import Settings
from openab.control.stream_log import StreamLog
from openab.domain.gates import GatePolicy, may_join
from openab.domain.ids import AccountId, Incarnation, PlatformId, WorkerId
from openab.domain.message import InboundCommand, InboundMessage, InboundReaction
from openab.domain.outbound import CommandAnswer
from openab.observability.metrics import Metrics
from openab.ports.feed import TurnFeed, TurnOpening
from openab.ports.places import PlaceChanged
from openab.ports.signals import Signals
from openab.presentation.pacing import Budget
from openab.presentation.stream import Streams
from openab.routing.bindings import Bindings
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
        self.backfill: Backfill | None = None
        self.commands: Commands | None = None
        self.places: PlacesWatch | None = None
        self.policy: Callable[[], GatePolicy] | None = None

    def put(self, event: InboundMessage | InboundReaction) -> None:
        """A message or a reaction came."""
        if self.backfill:
            self.backfill.put(event)

    def connected(self) -> None:
        """Events come again after some may have been missed."""
        if self.backfill:
            self.backfill.connected()
        if self.places:
            self.places.connected()

    def place(self, change: PlaceChanged) -> None:
        """A thread or channel was archived, opened again, locked or deleted."""
        if self.places:
            self.places.changed(change)

    def missed(self) -> None:
        """An event came and could not be taken."""
        if self.backfill:
            self.backfill.missed()

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
    backfill: Backfill
    places_watch: PlacesWatch
    stream_log: StreamLog
    courtesies: Courtesies
    endings: SessionEndings
    retention: Retention
    binding_sweep: BindingSweep
    renewal: LeaseRenewal
    streams: Streams
    live: Live
    worker: WorkerId


def lock_mark(proof: str) -> str:
    """Which lock file a worker held, short enough for its id: whoever holds that file now outlived it."""
    return hashlib.sha256(proof.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Given:
    """What is there before the parts of one account are made."""

    database: Database
    database_url: str
    client: DiscordClient
    doors: Doors
    account: AccountId
    live: Live
    #: Whose lock of the account this process holds, and how its death can be proved.
    mark: str
    proof: str
    metrics: Metrics
    signals: Signals = field(default_factory=Signals)


class _Later:
    """What is called by parts that have to be made before it."""

    dispatcher: Dispatcher
    streams: Streams

    def open(self, opening: TurnOpening) -> TurnFeed:
        """See `FeedSource`."""
        return self.streams.open(opening)


def wire(given: Given) -> Parts:
    """Everything for one account; nothing is started yet."""
    worker = WorkerId(f"{given.mark}-{new_id()}")
    names = BotNames()
    told = replace(
        settings(given.live, given.account, worker, given.proof),
        bot_name=names.name,
        bindings=Bindings({DISCORD: DiscordBindings()}),
        count_handoff=counters(given.metrics).handoff,
        count_routed=counters(given.metrics).routed,
    )
    later, budget = _Later(), Budget()
    renewal = _renewal(given, told, later)
    agents = EmbeddedAgents(
        database_id=given.database.id, account=given.account, incarnation=Incarnation(worker)
    )
    given.database.health.on_failure = lambda trouble: given.metrics.database_errors.labels(
        trouble.value
    ).inc()
    services = _services(given, told, agents, renewal, later, budget, names)
    dispatcher = later.dispatcher = Dispatcher(services)
    later.streams = Streams(
        dispatcher.writer,
        presentation(given.live),
        budget=budget,
        reaction=dispatcher.wish_reaction,
    )
    courtesies = Courtesies(given.client.channel, told.call, is_on=told.reactions.enabled)
    endings = SessionEndings(services)
    intake, backfill = _open_doors(given, services, dispatcher, courtesies, endings)
    watch = _watch_places(given, services, intake)
    return Parts(
        database=given.database,
        client=given.client,
        agents=agents,
        pool=services.pool,
        dispatcher=dispatcher,
        intake=intake,
        backfill=backfill,
        places_watch=watch,
        stream_log=services.stream_log,
        courtesies=courtesies,
        endings=endings,
        retention=Retention(services, moment_of),
        binding_sweep=BindingSweep(services),
        renewal=renewal,
        streams=later.streams,
        live=given.live,
        worker=worker,
    )


def _services(
    given: Given,
    told: Settings,
    agents: EmbeddedAgents,
    renewal: LeaseRenewal,
    later: _Later,
    budget: Budget,
    names: BotNames,
) -> Services:
    return Services(
        database=given.database,
        channel=given.client.channel.guarded,
        agents=agents,
        feeds=later,
        stream_log=StreamLog(given.database, agents, told.commit_every, given.signals),
        settings=told,
        leases=Leases(time.monotonic, told.lease.total_seconds(), renewal.valid_until),
        clock=time.monotonic,
        pool=AgentPool(agents, told.pool, time.monotonic, pool_counters(given.metrics, told.pool)),
        workspaces=workspaces(given.live),
        signals=given.signals,
        counters=counters(given.metrics),
        bot_names=names,
        reserve=budget.reserve,
        spare=budget.spare,
        is_buried=partial(_is_buried, given.database.id, given.account),
    )


def _renewal(given: Given, told: Settings, later: _Later) -> LeaseRenewal:
    """It has a thread of its own; what it brings is heard in this loop."""
    loop, seconds = asyncio.get_running_loop(), told.lease.total_seconds()

    def renewed(result: Renewal) -> None:
        if result.failure:
            given.metrics.database_errors.labels("lease_renewal").inc()
        later.dispatcher.renewed(result)

    def told_here(result: Renewal) -> None:
        loop.call_soon_threadsafe(renewed, result)

    return LeaseRenewal(given.database_url, told.worker, seconds, seconds / 3, told_here)


def _open_doors(
    given: Given,
    services: Services,
    dispatcher: Dispatcher,
    courtesies: Courtesies,
    endings: SessionEndings,
) -> tuple[Intake, Backfill]:
    """From now on what the network tells is taken in."""
    doors, told, counters = given.doors, services.settings, services.counters
    database, wake = services.database, dispatcher.wake
    intake = Intake(
        database,
        told,
        wake,
        courtesies.refuse,
        services.signals,
        counters.inbox,
        refuse_handoff=courtesies.refuse_handoff,
        count_handoff=counters.handoff,
    )
    doors.policy = given.live.policy
    doors.backfill = Backfill(
        database,
        told,
        intake,
        given.client.history,
        count=counters.backfill,
        spare=services.spare,
    )
    doors.commands = Commands(
        database,
        told,
        wake,
        services.agents,
        dispatcher.answer_permission,
        endings.wake,
    )
    # What there was no room for while the database was away is read from history.
    intake.on_full, intake.on_room = doors.backfill.stand_still, doors.backfill.connected
    return intake, doors.backfill


def _watch_places(given: Given, services: Services, intake: Intake) -> PlacesWatch:
    """What the network tells of places is heard where conversations are bound at all."""
    told = services.settings
    watch = PlacesWatch(services.database, told, given.client.places, intake.put, services.signals)
    given.doors.places = watch if told.binding.enabled else None
    return watch


def _is_buried(database_id: str, account: AccountId, owner: WorkerId, proof: str) -> bool:
    """A dead owner's agents end before anybody goes on with their sessions."""
    if not proves_dead(proof):
        return False
    reap_leftovers(database_id, account, lambda incarnation: incarnation == Incarnation(owner))
    return True
