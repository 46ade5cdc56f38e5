"""Gateway sessions: who gets which event, numbered and kept for RESUME (Discord API documentation)."""

import secrets
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from openab.simulator.discord import shapes
from openab.simulator.discord.errors import Json
from openab.simulator.discord.faults import Faults
from openab.simulator.discord.happenings import MESSAGE_CONTENT
from openab.simulator.discord.journal import Journal
from openab.simulator.discord.records import Guild, User
from openab.simulator.discord.world import Viewer, World, WorldEvent

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT = 0, 1, 2, 6, 7
INVALID_SESSION, HELLO, HEARTBEAT_ACK = 9, 10, 11


class Line(Protocol):
    """One open socket, as the sessions use it."""

    def tell(self, frame: Json) -> None:
        """Queue a frame."""

    def close(self, code: int) -> None:
        """Close with a code, after what is queued."""

    def cut(self) -> None:
        """Break the connection at once."""

    def silence(self) -> None:
        """Send no frame any more, not even acknowledgements."""


@dataclass(eq=False)
class Session:
    """A bot's session: its number of the last event, what may be replayed, its socket if any."""

    id: str
    bot: User
    intents: int
    replayable: deque[Json] = field(default_factory=lambda: deque(maxlen=5000))
    sequence: int = 0
    line: Line | None = None
    detached_at: float | None = None
    held: list[tuple[str, Json]] = field(default_factory=list)
    #: Hears nothing any more and cannot be resumed.
    is_lost: bool = False


class Gateway:
    """All sessions; hears the world and tells each bot what it may see."""

    def __init__(self, world: World, journal: Journal, faults: Faults) -> None:
        self._world, self._journal, self._faults = world, journal, faults
        self.sessions: dict[str, Session] = {}
        self.address = ""
        self.heartbeat_seconds = 41.25
        #: How long a session can be resumed; Discord does not tell.
        self.resume_seconds = 180.0
        self.identifies: dict[str, int] = {}
        #: Guilds with an outage: named in READY, and told only when they are back.
        self.guilds_down: set[str] = set()
        world.subscribe(self.hear)

    def of_bot(self, bot_id: str, *, live: bool = True) -> list[Session]:
        """A bot's sessions, by default those with a socket."""
        return [
            one
            for one in self.sessions.values()
            if one.bot.id == bot_id and ((one.line and not one.is_lost) or not live)
        ]

    def hear(self, event: WorldEvent) -> None:
        """Tell every session that may know."""
        for session in list(self.sessions.values()):
            if self._may_know(session, event):
                self.dispatch(session, event.name, event.render(self.viewer(session)))

    def viewer(self, session: Session) -> Viewer:
        """Whose eyes a session has: content needs the intent."""
        return Viewer(session.bot.id, bool(session.intents & MESSAGE_CONTENT))

    def _may_know(self, session: Session, event: WorldEvent) -> bool:
        if session.is_lost:
            return False
        if event.only is not None and event.only != session.bot.id:
            return False
        if event.intent and not session.intents & event.intent:
            return False
        if event.channel is None:
            return True
        if not self._world.sees(session.bot.id, event.channel):
            return False
        return self._is_member_enough(session, event)

    def _is_member_enough(self, session: Session, event: WorldEvent) -> bool:
        thread = event.channel.thread if event.channel else None
        if thread is None or not self._world.threads_need_membership:
            return True
        return session.bot.id in thread.members or event.name == "THREAD_CREATE"

    def dispatch(self, session: Session, name: str, payload: Json) -> None:
        """Send an event to one session, as the delivery faults allow."""
        how = self._faults.delivery(session.bot.id, name, payload)
        if how == "never":
            return
        if how == "late":
            session.held.append((name, payload))
            return
        for _ in range(2 if how == "twice" else 1):
            self._number_and_tell(session, name, payload)
        held, session.held = session.held, []
        for late_name, late_payload in held:
            self._number_and_tell(session, late_name, late_payload)

    def _number_and_tell(self, session: Session, name: str, payload: Json) -> None:
        session.sequence += 1
        frame = {"op": DISPATCH, "s": session.sequence, "t": name, "d": payload}
        session.replayable.append(frame)
        self._journal.sent(session.bot.id, session.id, name, session.sequence, payload)
        if session.line is not None:
            session.line.tell(frame)

    def identify(self, bot: User, intents: int, line: Line) -> Session:
        """A fresh session: READY, then a GUILD_CREATE for each guild."""
        self._forget_the_expired()
        session = Session(secrets.token_hex(16), bot, intents, line=line)
        self.sessions[session.id] = session
        self.identifies[bot.id] = self.identifies.get(bot.id, 0) + 1
        self._journal.connected(bot.id, "identify", intents=intents, session_id=session.id)
        guilds = [one for one in self._world.guilds.values() if bot.id in one.member_ids]
        application = shapes.application(bot)
        ready: Json = {
            "v": 10,
            "user": shapes.user(bot) | {"verified": True, "mfa_enabled": False},
            "guilds": [{"id": one.id, "unavailable": True} for one in guilds],
            "session_id": session.id,
            "session_type": "normal",
            "resume_gateway_url": self.address,
            "application": {"id": bot.id, "flags": application["flags"]},
            "private_channels": [],
            "_trace": [],
        }
        self._number_and_tell(session, "READY", ready)
        for guild in guilds:
            if guild.id not in self.guilds_down:
                self._tell_guild(session, guild)
        return session

    def _tell_guild(self, session: Session, guild: Guild) -> None:
        shape = shapes.guild(self._world, guild, self.viewer(session))
        self._number_and_tell(session, "GUILD_CREATE", shape)

    def take_guild_down(self, guild: Guild) -> None:
        """An outage: its bots are told that it is unavailable."""
        self.guilds_down.add(guild.id)
        for session in self._sessions_in(guild):
            down = {"id": guild.id, "unavailable": True}
            self._number_and_tell(session, "GUILD_DELETE", down)

    def bring_guild_back(self, guild: Guild) -> None:
        """The outage is over: it is told anew."""
        self.guilds_down.discard(guild.id)
        for session in self._sessions_in(guild):
            self._tell_guild(session, guild)

    def _sessions_in(self, guild: Guild) -> list[Session]:
        return [one for one in self.sessions.values() if one.bot.id in guild.member_ids]

    def _forget_the_expired(self) -> None:
        for session in list(self.sessions.values()):
            if self._is_expired(session) or (session.is_lost and session.line is None):
                del self.sessions[session.id]

    def _is_expired(self, session: Session) -> bool:
        away = session.detached_at
        return away is not None and self._world.clock.monotonic() - away > self.resume_seconds

    def resume(self, session_id: str, bot: User, sequence: int, line: Line) -> Session | None:
        """Take a session up again: what was missed, then RESUMED; None: it is gone."""
        session = self.sessions.get(session_id)
        if session is None or session.bot is not bot or not self._replayable(session, sequence):
            self._journal.connected(bot.id, "resume_refused", session_id=session_id)
            return None
        self._journal.connected(bot.id, "resume", session_id=session_id, sequence=sequence)
        session.line, session.detached_at = line, None
        for frame in list(session.replayable):
            if frame["s"] > sequence:
                line.tell(frame)
        self._number_and_tell(session, "RESUMED", {"_trace": []})
        return session

    def _replayable(self, session: Session, sequence: int) -> bool:
        first = session.replayable[0]["s"] if session.replayable else 1
        usable = not (session.is_lost or self._is_expired(session))
        return usable and first <= sequence + 1 <= session.sequence + 1

    def detach(self, session: Session, line: Line, *, ends: bool) -> None:
        """A socket is gone; with 1000 or 1001 from the client the session is gone, too."""
        if session.line is line:
            session.line, session.detached_at = None, self._world.clock.monotonic()
        if ends or session.is_lost:
            self.sessions.pop(session.id, None)
        self._journal.connected(session.bot.id, "detached", session_id=session.id, ends=ends)

    def reconnect(self, bot_id: str) -> None:
        """Op 7: please connect again and resume."""
        self._each(bot_id, {"op": RECONNECT, "d": None})

    def invalidate(self, bot_id: str, *, resumable: bool) -> None:
        """Op 9; not resumable means that the session and its events are gone."""
        self._each(bot_id, {"op": INVALID_SESSION, "d": resumable})
        if not resumable:
            self.forget(bot_id)

    def forget(self, bot_id: str) -> None:
        """Make a bot's sessions deaf and impossible to resume: a gap; `cut` then leads to READY."""
        for session in self.of_bot(bot_id, live=False):
            session.is_lost = True
        self._journal.touch()

    def close(self, bot_id: str, code: int) -> None:
        """Close the bot's sockets with a code such as 1000, 4000, 4004, 4009 or 4014."""
        for line in self._lines(bot_id):
            line.close(code)

    def cut(self, bot_id: str) -> None:
        """Break the bot's sockets without a close frame."""
        for line in self._lines(bot_id):
            line.cut()

    def silence(self, bot_id: str) -> None:
        """Leave the bot's sockets open and send nothing any more."""
        for line in self._lines(bot_id):
            line.silence()

    def poison(
        self, bot_id: str, name: str = "MESSAGE_CREATE", payload: Json | None = None
    ) -> None:
        """Send an event of a shape no client expects."""
        for session in self.of_bot(bot_id):
            self._number_and_tell(session, name, payload if payload is not None else {"id": "x"})

    def _each(self, bot_id: str, frame: Json) -> None:
        for session in self.of_bot(bot_id):
            if session.line:
                session.line.tell(frame)
            name = f"OP_{frame['op']}"
            self._journal.sent(bot_id, session.id, name, None, {"d": frame["d"]})

    def _lines(self, bot_id: str) -> list[Line]:
        sessions = self.of_bot(bot_id, live=False)
        return [one.line for one in sessions if one.line is not None]
