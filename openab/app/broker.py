"""One broker process: the order in which its parts start, and the order in which they stop."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TypeVar

import structlog

from openab.agents.acp.process_tree import reap_leftovers
from openab.agents.host.check import check_agent
from openab.app.account_lock import AccountLock
from openab.app.gauges import Gauges
from openab.app.life_lock import LifeLock, sweep
from openab.app.readiness import Readiness
from openab.app.reloading import Reloading
from openab.app.token_watch import TokenWatch
from openab.app.values import DISCORD, Live, agent_spec, binding_settings, presentation
from openab.app.wiring import Doors, Given, Parts, lock_mark, wire
from openab.channels.discord.client import DiscordClient
from openab.channels.discord.rest import Identity, TokenRefused
from openab.channels.discord.slash import Offer, register_commands
from openab.config.load import Loaded
from openab.config.paths import openab_home, private_folder
from openab.domain.errors import OpenabError, Transient, Unknown
from openab.domain.ids import PlatformId
from openab.observability.metrics import Metrics, measure_loop_lag
from openab.ports.tasks import end, spawn
from openab.storage import accounts
from openab.storage.engine import Database
from openab.storage.upgrade import prepare
from openab.web.server import WebServer

log = structlog.get_logger()
Result = TypeVar("Result")
_LOGIN_WAITS = (1.0, 2.0, 5.0, 10.0, 30.0)
_STOP_SECONDS = 5.0


class Broker:
    """`run` once; it returns after an orderly stop and raises what makes going on impossible."""

    def __init__(
        self, loaded: Loaded, environ: Mapping[str, str], redact: Callable[[str], str] = str
    ) -> None:
        self._loaded = loaded
        self._environ = environ
        self._redact = redact
        self._home = private_folder(openab_home(environ))
        self._metrics = Metrics()
        self._readiness = Readiness()
        self._gauges = Gauges(self._metrics)
        self._token_watch = TokenWatch()
        self._doors = Doors()
        self._reloading: Reloading | None = None

    def reload(self) -> None:
        """SIGHUP."""
        if self._reloading:
            self._reloading.ask()

    async def run(self, stopping: asyncio.Event) -> None:
        """Start everything, work until `stopping`, stop everything in reverse.

        Raises TokenRefused, AccountTaken, SchemaRefused, CannotListen (all before any work is
        done), and whatever bug a part dies of.
        """
        async with AsyncExitStack() as stack:
            started = await _unless_stopped(stopping, self._start(stack, stopping))
            if started:
                await self._work(*started, stopping)

    async def _start(
        self, stack: AsyncExitStack, stopping: asyncio.Event
    ) -> tuple[Parts, Identity] | None:
        """Everything up to the first claim; may be cancelled anywhere, `stack` takes it down."""
        await self._serve_health(stack)
        client = self._client(stack)
        identity = await self._login(client, stopping)
        if identity is None:
            return None
        lock = self._lock(stack, identity)
        life = await self._begin_life(stack)
        database = await self._open_database(stack, identity, client.history.newest())
        mark = lock_mark(lock.proof)
        parts = await self._wire(stack, database, client, identity, mark, life.proof)
        await self._end_leftovers(parts, identity, mark)
        return parts, identity

    async def _serve_health(self, stack: AsyncExitStack) -> None:
        listen = self._loaded.config.http.listen
        if listen is None:
            return
        server = WebServer(
            listen,
            is_default=not self._loaded.config.http.is_configured,
            checks=self._readiness.checks,
            metrics=self._metrics.render,
            turns=self._readiness.live_turns,
        )
        await server.start()
        stack.push_async_callback(server.stop)

    def _client(self, stack: AsyncExitStack) -> DiscordClient:
        discord, metrics = self._loaded.config.discord, self._metrics
        client = DiscordClient(
            discord.bot_token.reveal(),
            discord.api_base,
            self._doors.put,
            self._doors.answer,
            on_identify=self._gauges.identified,
            on_connected=self._doors.connected,
            on_missed=self._doors.missed,
            on_invalid=self._invalid,
            on_skew=lambda seconds: metrics.clock_skew.labels("discord").set(-seconds),
            on_reaction=self._doors.put if self._loaded.config.reactions.mapping else None,
            on_place=self._doors.place,
            wants_thread=self._doors.wants_thread,
        )
        stack.push_async_callback(client.close)
        return client

    def _invalid(self, status: int) -> None:
        self._gauges.invalid(status)
        self._token_watch.invalid(status)

    async def _login(self, client: DiscordClient, stopping: asyncio.Event) -> Identity | None:
        """Who we are, asked until Discord answers; None if we were stopped before."""
        attempt = 0
        while not stopping.is_set():
            try:
                identity = await client.login()
            except TokenRefused as error:
                words = "Discord refuses the token; [discord] bot_token needs a valid one"
                raise TokenRefused(f"{words} ({error})") from error
            except (Transient, Unknown) as error:
                wait = _LOGIN_WAITS[min(attempt, len(_LOGIN_WAITS) - 1)]
                log.warning("login_failed", error=str(error), retry_seconds=wait)
                attempt += 1
                await _unless(stopping, wait)
            else:
                self._readiness.client = client
                log.info("logged_in", account=identity.account, name=identity.name)
                if not identity.message_content:
                    log.error("message_content_intent_off", account=identity.account)
                return identity
        return None

    def _lock(self, stack: AsyncExitStack, identity: Identity) -> AccountLock:
        lock = AccountLock(self._home / "locks", DISCORD, identity.account)
        lock.acquire()
        stack.callback(lock.release)
        return lock

    async def _begin_life(self, stack: AsyncExitStack) -> LifeLock:
        """From now on our death can be proved: the leases that we take name this lock."""
        folder = self._home / "locks"
        life = LifeLock(folder)
        await asyncio.to_thread(life.acquire)
        stack.callback(life.release)
        await asyncio.to_thread(sweep, folder)
        return life

    async def _open_database(
        self, stack: AsyncExitStack, identity: Identity, now: PlatformId
    ) -> Database:
        address = self._loaded.database
        wanted = self._loaded.config.database.auto_upgrade
        auto = address.is_sqlite if wanted is None else wanted
        state = await prepare(address.url, auto_upgrade=auto)
        log.info("database_opened", address=address.masked, schema=state.found)
        database = await Database.open(address.url)
        stack.push_async_callback(database.close)
        self._readiness.database = database
        async with database.transaction() as tx:
            await accounts.ensure(tx, DISCORD, identity.account, identity.name, now)
        return database

    async def _wire(
        self,
        stack: AsyncExitStack,
        database: Database,
        client: DiscordClient,
        identity: Identity,
        mark: str,
        proof: str,
    ) -> Parts:
        live = Live(self._loaded.config, identity.account, self._environ, self._redact)
        parts = wire(
            Given(
                database=database,
                database_url=self._loaded.database.url,
                client=client,
                doors=self._doors,
                account=identity.account,
                live=live,
                mark=mark,
                proof=proof,
                metrics=self._metrics,
            )
        )
        stack.push_async_callback(parts.agents.stop)
        self._readiness.backfill, self._readiness.live = parts.backfill, live
        self._reloading = Reloading(self._loaded.source, live, self._environ, lambda: _apply(parts))
        return parts

    async def _end_leftovers(self, parts: Parts, identity: Identity, mark: str) -> None:
        """The account's lock is ours, so whoever held it before is dead; its agents may not be."""
        held = f"{mark}-"
        # Only incarnations that held this very lock file are proved dead by our holding it.
        await asyncio.to_thread(
            reap_leftovers,
            parts.database.id,
            identity.account,
            lambda incarnation: (
                incarnation.startswith(held) and incarnation != parts.agents.incarnation
            ),
        )

    async def _work(self, parts: Parts, identity: Identity, stopping: asyncio.Event) -> None:
        """Until `stopping`; then what runs may end, and the gateway is the last to be closed."""
        parts.renewal.start()
        leaving = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                background = [
                    group.create_task(coroutine, name=name)
                    for name, coroutine in self._background(parts, identity).items()
                ]
                dispatcher = group.create_task(parts.dispatcher.run(stopping), name="dispatcher")
                client = group.create_task(parts.client.run(leaving), name="discord")
                backfill = group.create_task(parts.backfill.run(), name="backfill")
                await stopping.wait()
                # What it has not read stays in history, behind the mark.
                backfill.cancel()
                log.info("stopping", running_turns=parts.dispatcher.running_turns)
                await asyncio.wait({dispatcher})
                # Until here people are heard: what they say waits in the inbox for the next start.
                leaving.set()
                await asyncio.wait({client})
                # What the gateway gave us before it was closed is not given again.
                await parts.intake.drained(_STOP_SECONDS)
                for task in background:
                    task.cancel()
        finally:
            await asyncio.to_thread(parts.renewal.stop, _STOP_SECONDS)
        log.info("stopped")

    def _background(
        self, parts: Parts, identity: Identity
    ) -> dict[str, Coroutine[None, None, None]]:
        assert self._reloading is not None
        return {
            "intake": parts.intake.run(),
            "places": parts.places_watch.run(),
            "stream log": parts.stream_log.run(),
            "pool": parts.pool.run(),
            "courtesies": parts.courtesies.run(),
            "session endings": parts.endings.run(),
            "retention": parts.retention.run(),
            "binding sweep": parts.binding_sweep.run(),
            "reloading": self._reloading.run(),
            "agent check": self._check_agent(parts),
            "commands": self._register(parts, identity),
            "token watch": self._token_watch.run(parts.client.rest.check_token),
            "gauges": self._gauges.run(parts, identity.account),
            "loop lag": measure_loop_lag(self._metrics),
        }

    async def _check_agent(self, parts: Parts) -> None:
        """Try the agent once at the start, so that a wrong command is known before anybody asks."""
        spec = agent_spec(self._loaded.config, self._environ)
        checked = await check_agent(spec, markers=parts.agents.markers)
        self._readiness.agent = checked
        if checked.failure:
            log.error("agent_failed", kind=checked.failure.kind.value, told=checked.failure.message)
        else:
            log.info("agent_ready", name=checked.agent_name, version=checked.agent_version)

    async def _register(self, parts: Parts, identity: Identity) -> None:
        """Register the slash commands if they changed; without them `!cancel` and the button still work."""
        account = identity.account

        async def known() -> str | None:
            async with parts.database.read() as tx:
                return await accounts.command_digest(tx, DISCORD, account)

        async def store(digest: str) -> None:
            async with parts.database.transaction() as tx:
                await accounts.keep_command_digest(tx, DISCORD, account, digest)

        try:
            await register_commands(
                parts.client.rest,
                identity.application_id,
                _offer(parts.live),
                known_digest=known,
                store_digest=store,
            )
        except OpenabError as error:
            log.warning("slash_commands_not_registered", error=str(error))


async def _unless_stopped(
    stopping: asyncio.Event, step: Coroutine[None, None, Result]
) -> Result | None:
    """Do `step`; None if we were stopped before it had ended, which cancels it."""
    going, halted = spawn("start", step), spawn("halted", stopping.wait())
    try:
        await asyncio.wait({going, halted}, return_when=asyncio.FIRST_COMPLETED)
        return await going if going.done() else None
    finally:
        await end(halted)
        await end(going)


def _offer(live: Live) -> Offer:
    """Which commands the configuration allows; a change of it needs a restart, as all that it is about."""
    binding = binding_settings(live.config)
    return Offer(binding.enabled, tuple(live.named_agents()) if binding.spawns.is_on else ())


def _apply(parts: Parts) -> None:
    parts.streams.settings = presentation(parts.live)


async def _unless(stopping: asyncio.Event, seconds: float) -> None:
    """Wait `seconds`, or until stopping."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()
