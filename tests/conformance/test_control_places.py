"""What becomes of a binding when its conversation is archived, opened, locked or gone; nothing on doubt."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from openab.channels.discord.bindings import DiscordBindings
from openab.control.intake import Intake
from openab.control.places_watch import PlacesWatch
from openab.domain.binding import BindingStatus, EndReason, Limits, SessionBinding
from openab.domain.delivery import Begun, Confirmed
from openab.domain.ids import BindingId, ConversationRef, PlatformId
from openab.domain.message import Place
from openab.ports.places import PlaceChanged, PlaceState
from openab.ports.signals import Signals
from openab.ports.tasks import end, spawn
from openab.routing.bindings import Bindings
from openab.storage import bindings, conversations, deliveries
from openab.storage.engine import Database
from tests.builders import (
    CHANNEL,
    HOME,
    Offset,
    a_binding,
    a_conversation,
    a_message,
    a_ref,
    a_session,
    some_settings,
)

THREAD = "500"
REF = a_ref(THREAD, HOME)


class ScriptedPlaces:
    """Fulfils `openab.ports.places.Places` as a test wants it."""

    def __init__(self) -> None:
        self.states: dict[str, PlaceState] = {}
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def state(self, conversation: ConversationRef, seconds: float) -> PlaceState:
        assert seconds > 0
        self.asked.append(conversation.conversation_id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.may_answer.wait()
        self.at_once -= 1
        return self.states.get(conversation.conversation_id, PlaceState.OPEN)


class Scene:
    """One life of an intake with the watch behind it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = Offset(database)
        self.places = ScriptedPlaces()
        self.signals = Signals()
        self.settings = some_settings(bindings=Bindings({CHANNEL: DiscordBindings()}))
        self.woken: list[str] = []
        self.rounds = 0
        self.intake = Intake(
            database, self.settings, self.woken.append, lambda _ref: None, self.signals
        )
        self.watch = PlacesWatch(
            database, self.settings, self.places, self.intake.put, self.signals
        )

    async def bind(self, thread: str = THREAD, limits: Limits | None = None) -> BindingId:
        async with self.database.transaction() as tx:
            where = await a_conversation(tx, thread, HOME)
            session = await a_session(tx, where, "fable")
            return await a_binding(tx, where, session, limits=limits)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [spawn("intake", self.intake.run()), spawn("watch", self.watch.run())]
        try:
            yield
        finally:
            for task in tasks:
                await end(task)

    async def told(self, *changes: tuple[PlaceState, ConversationRef] | PlaceState) -> None:
        """The network tells it, and it is taken in."""
        async with self.running():
            for change in changes:
                state, ref = change if isinstance(change, tuple) else (change, REF)
                self.watch.changed(PlaceChanged(ref, state))
            assert await self.intake.drained(30)

    async def reconciled(self) -> None:
        """Events flow again, and every place was asked after."""
        self.rounds += 1
        async with self.running():
            self.watch.connected()
            await self.signals.wait("places_reconciled", times=self.rounds)
            assert await self.intake.drained(30)

    async def binding(self, binding: BindingId) -> SessionBinding:
        async with self.database.read() as tx:
            found = await bindings.get(tx, binding)
        assert found is not None
        return found.binding

    async def status(self, binding: BindingId) -> tuple[BindingStatus, EndReason | None]:
        found = await self.binding(binding)
        return found.status, found.end_reason

    async def owed(self, thread: str = THREAD) -> int:
        async with self.database.read() as tx:
            where = await conversations.find(tx, a_ref(thread))
            return len(await deliveries.open_of(tx, where.id)) if where else 0

    async def is_closed(self, place: str = THREAD) -> bool:
        async with self.database.read() as tx:
            where = await conversations.find(tx, a_ref(place))
        assert where is not None
        return where.is_closed


ACTIVE = (BindingStatus.ACTIVE, None)
ARCHIVED = (BindingStatus.ENDED, EndReason.ARCHIVED)
GONE = (BindingStatus.ENDED, EndReason.CONVERSATION_GONE)


@pytest.fixture
def scene(database: Database) -> Scene:
    return Scene(database)


class TestAnEvent:
    async def test_of_the_archive_ends_the_binding_without_a_farewell(self, scene: Scene) -> None:
        """A farewell would take the thread out of the archive again."""
        binding = await scene.bind()
        await scene.told(PlaceState.ARCHIVED, PlaceState.ARCHIVED)
        assert await scene.status(binding) == ARCHIVED
        assert (await scene.owed(), await scene.is_closed()) == (0, False)

    async def test_of_a_deletion_ends_it_and_closes_the_conversation(self, scene: Scene) -> None:
        binding = await scene.bind()
        await scene.told(PlaceState.GONE, PlaceState.GONE)
        assert await scene.status(binding) == GONE
        assert (await scene.owed(), await scene.is_closed()) == (0, True)

    async def test_of_an_opening_lets_the_binding_go_on(self, scene: Scene) -> None:
        binding = await scene.bind()
        await scene.told(PlaceState.ARCHIVED, PlaceState.OPEN, PlaceState.OPEN)
        assert await scene.status(binding) == ACTIVE

    async def test_of_an_opening_does_not_lengthen_its_life(self, scene: Scene) -> None:
        binding = await scene.bind(limits=Limits(idle=timedelta(hours=1)))
        await scene.told(PlaceState.ARCHIVED)
        scene.clock.pass_by(3601)
        await scene.told(PlaceState.OPEN)
        assert await scene.status(binding) == ARCHIVED

    async def test_of_an_opening_brings_nothing_back_that_ended_otherwise(
        self, scene: Scene
    ) -> None:
        binding = await scene.bind()
        await scene.told(PlaceState.GONE, PlaceState.OPEN)
        assert await scene.status(binding) == GONE

    @pytest.mark.parametrize("state", [PlaceState.LOCKED, PlaceState.UNKNOWN, PlaceState.OPEN])
    async def test_of_anything_else_changes_nothing(self, scene: Scene, state: PlaceState) -> None:
        binding = await scene.bind()
        await scene.told(state)
        assert await scene.status(binding) == ACTIVE

    async def test_of_a_channels_deletion_takes_its_threads_along(self, scene: Scene) -> None:
        first, second = await scene.bind("500"), await scene.bind("501")
        async with scene.database.transaction() as tx:
            await a_conversation(tx)
            elsewhere = await a_conversation(tx, "600", "78")
            other = await a_binding(tx, elsewhere, await a_session(tx, elsewhere, "fable"))
        await scene.told((PlaceState.GONE, a_ref()))
        assert [await scene.status(one) for one in (first, second, other)] == [GONE, GONE, ACTIVE]
        assert [await scene.is_closed(one) for one in ("500", "501", "600")] == [True, True, False]

    async def test_of_a_channel_that_nobody_spoke_in_takes_them_along_too(
        self, scene: Scene
    ) -> None:
        binding = await scene.bind("500")
        await scene.told((PlaceState.GONE, a_ref()))
        assert await scene.status(binding) == GONE
        async with scene.database.read() as tx:
            assert await conversations.find(tx, a_ref()) is None

    async def test_of_a_place_that_nobody_knows_makes_no_row(self, scene: Scene) -> None:
        await scene.told((PlaceState.GONE, a_ref("800", HOME)), (PlaceState.OPEN, a_ref("801")))
        async with scene.database.read() as tx:
            assert await conversations.find(tx, a_ref("800")) is None
            assert await conversations.find(tx, a_ref("801")) is None

    async def test_keeps_its_place_among_the_messages(self, scene: Scene) -> None:
        """What is said after a deletion opens the conversation again; before it, it is closed by it."""
        await scene.bind()
        async with scene.running():
            scene.intake.put(a_message("one", message_id="1001", ref=REF, mentions=()))
            scene.watch.changed(PlaceChanged(REF, PlaceState.GONE))
            assert await scene.intake.drained(30)
            assert await scene.is_closed()
            scene.watch.changed(PlaceChanged(REF, PlaceState.GONE))
            scene.intake.put(a_message("two", message_id="1002", ref=REF, mentions=()))
            assert await scene.intake.drained(30)
        assert not await scene.is_closed()


class TestAfterAnAbsence:
    @pytest.mark.parametrize(
        ("state", "expected"),
        [
            (PlaceState.OPEN, ACTIVE),
            (PlaceState.LOCKED, ACTIVE),
            (PlaceState.UNKNOWN, ACTIVE),
            (PlaceState.ARCHIVED, ARCHIVED),
            (PlaceState.GONE, GONE),
        ],
    )
    async def test_only_certainty_ends_a_binding(
        self, scene: Scene, state: PlaceState, expected: tuple[BindingStatus, EndReason | None]
    ) -> None:
        binding = await scene.bind()
        scene.places.states[THREAD] = state
        await scene.reconciled()
        assert await scene.status(binding) == expected
        assert scene.places.asked == [THREAD]

    async def test_only_what_is_bound_is_asked_after(self, scene: Scene) -> None:
        await scene.bind("500")
        await scene.bind("501")
        await scene.told(PlaceState.ARCHIVED)
        await scene.reconciled()
        assert scene.places.asked == ["501"]

    async def test_a_thread_that_is_still_to_be_opened_is_not_gone(self, scene: Scene) -> None:
        """The process died between the commit that binds a sub-agent's thread and the call that opens it."""
        async with scene.database.transaction() as tx:
            await a_conversation(tx, HOME)
            child = await DiscordBindings().child_of(tx, a_ref(), "Look into it", THREAD)
            where = await conversations.ensure(tx, child, Place.THREAD)
            binding = await a_binding(tx, where, await a_session(tx, where, "fable"))
            (opening,) = await deliveries.open_of(tx, where.id)
        scene.places.states[THREAD] = PlaceState.GONE
        await scene.reconciled()
        assert await scene.status(binding) == ACTIVE
        assert scene.places.asked == []

        # Once it was there, its absence means what it says.
        async with scene.database.transaction() as tx:
            await deliveries.record(tx, opening, Begun())
            begun = await deliveries.get(tx, opening.id)
            assert begun
            await deliveries.record(tx, begun, Confirmed(), platform_id=PlatformId(THREAD))
        await scene.reconciled()
        assert await scene.status(binding) == GONE

    async def test_few_are_asked_after_at_once(self, scene: Scene) -> None:
        for number in range(500, 512):
            await scene.bind(str(number))
        await scene.reconciled()
        assert sorted(scene.places.asked) == [str(number) for number in range(500, 512)]
        assert scene.places.most_at_once <= 4

    async def test_each_connection_asks_anew(self, scene: Scene) -> None:
        await scene.bind()
        for _ in range(2):
            await scene.reconciled()
        assert scene.places.asked == [THREAD, THREAD]
