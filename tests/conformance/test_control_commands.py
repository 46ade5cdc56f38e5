"""Commands and their text twins: who may, what is done in one transaction, and what a kill leaves."""

import asyncio
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from openab.control import commands_reports
from openab.control.settings import Settings
from openab.domain.agent_events import AgentFailure, FailureKind
from openab.domain.gates import GatePolicy
from openab.domain.ids import AccountId, WorkerId
from openab.domain.message import Author, CommandKind, InboundMessage
from openab.domain.options import Choice, Option
from openab.domain.outbound import CommandAnswer
from openab.domain.turn import TurnState
from openab.ports.agent import AgentSession, AgentUnavailable
from openab.storage import conversations, deliveries, sessions, turns
from openab.storage.engine import Database
from openab.storage.sessions import Session
from openab.text import notices, replies
from tests.builders import ACCOUNT, a_ref, an_author, some_settings
from tests.conformance.control_stage import Stage, StageAgents, killed, on_stage
from tests.conformance.test_control_recovery import two_lives

BOB, OPERATOR = an_author("32"), an_author("1")
MODELS = Option(
    "model", "Model", "model", tuple(Choice(f"m{n}", f"Model {n}") for n in range(1, 31)), "m1"
)
AGENTS = Option(
    "agent", "Agent", "agent", tuple(Choice(f"a{n}", f"Agent {n}") for n in range(1, 27)), "a1"
)
EVERY = [
    CommandKind.CANCEL,
    CommandKind.CANCEL_ALL,
    CommandKind.RESET,
    CommandKind.MODELS,
    CommandKind.AGENTS,
    CommandKind.USAGE,
    CommandKind.SESSIONS,
    CommandKind.CHOOSE,
    CommandKind.PAGE,
]
_numbers = count(70_000)


def agents() -> StageAgents:
    return StageAgents(options=(MODELS, AGENTS))


async def used(
    stage: Stage,
    where: InboundMessage,
    kind: CommandKind,
    argument: str = "",
    *,
    values: tuple[str, ...] = (),
    author: Author | None = None,
) -> CommandAnswer:
    """Somebody uses a command in the thread of a message, another time."""
    command = stage.a_command(
        where.message_id,
        kind,
        argument,
        values=values,
        author=author,
        interaction=str(next(_numbers)),
    )
    return await stage.commands.answer(command)


async def session_of(database: Database, where: InboundMessage) -> Session:
    async with database.read() as tx:
        found = await sessions.get(tx, a_ref(where.message_id).session_key())
    assert found is not None
    return found


async def notices_in(database: Database, where: InboundMessage) -> list[str]:
    """The notices that are no turn's, in the thread of a message."""
    async with database.read() as tx:
        here = await conversations.find(tx, a_ref(where.message_id))
        assert here is not None
        rows = await deliveries.listed(tx)
    return [
        row["body"]
        for row in rows
        if row["conversation"] == here.id and row["key"].startswith("command:")
    ]


async def running(stage: Stage, text: str = "[[say=a]][[hang]]") -> InboundMessage:
    """A turn that an agent works on."""
    before = len(stage.agents.prompts)
    asked = stage.say(text)

    async def is_prompted() -> bool:
        return len(stage.agents.prompts) > before

    await stage.until(is_prompted)
    return asked


async def waiting(stage: Stage, where: InboundMessage, author: Author | None = None) -> Any:
    """A message in the thread of another one, whose turn has to wait."""
    said = stage.say("[[say=later]]", thread=where.message_id, author=author)

    async def is_queued() -> bool:
        return await stage.turn_of(said) is not None

    await stage.until(is_queued)
    return said


async def prompted_texts(stage: Stage) -> list[str]:
    return [prompt.content[-1].text for prompt in stage.agents.prompts]


class TestCancelAll:
    async def test_takes_back_all_of_ones_own_and_leaves_the_others(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            first = await running(stage)
            mine = [await waiting(stage, first) for _ in range(2)]
            theirs = await waiting(stage, first, BOB)
            told = await used(stage, first, CommandKind.CANCEL_ALL)
            assert told.text == replies.cancelled_all(waiting=2, is_running=True, of_others=1)
            for message in (first, *mine):
                assert (await stage.settled(message)).state is TurnState.CANCELLED
            assert (await stage.settled(theirs)).state is TurnState.DONE
        assert len(stage.agents.prompts) == 2

    async def test_an_operator_takes_back_everything(self, database: Database) -> None:
        async with on_stage(database) as stage:
            first = await running(stage)
            theirs = await waiting(stage, first, BOB)
            await used(stage, first, CommandKind.CANCEL_ALL, author=OPERATOR)
            for message in (first, theirs):
                assert (await stage.settled(message)).state is TurnState.CANCELLED

    async def test_its_text_twin_says_what_was_done(self, database: Database) -> None:
        async with on_stage(database) as stage:
            first = await running(stage)
            second = await waiting(stage, first)
            stage.say("!cancel-all", thread=first.message_id)
            assert (await stage.settled(second)).state is TurnState.CANCELLED
            assert (await stage.settled(first)).state is TurnState.CANCELLED
            await stage.quiet()
            (notice,) = await notices_in(database, first)
        assert "the running request ends within seconds" in notice

    async def test_a_repeated_interaction_does_nothing_more(self, database: Database) -> None:
        async with on_stage(database) as stage:
            first = await running(stage)
            command = stage.a_command(first.message_id, CommandKind.CANCEL_ALL, interaction="5")
            await stage.commands.answer(command)
            await stage.settled(first)
            later = await running(stage, "[[say=b]][[hang]]")
            again = await stage.commands.answer(command)
            assert again.text == replies.done_before()
            turn = await stage.turn_of(later)
            assert turn is not None
            assert turn.cancel_requested_at is None
            await used(stage, later, CommandKind.CANCEL)
            await stage.settled(later)


class TestReset:
    async def test_ends_everything_and_the_next_message_begins_anew(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            before = stage.say("remember the cat [[say=noted]]")
            await stage.settled(before)
            thread = before.message_id
            first = stage.say("[[say=a]][[hang]]", thread=thread)
            await stage.signals.wait("agent_prompted", times=2)
            second = await waiting(stage, before)
            told = await used(stage, before, CommandKind.RESET)
            assert told.text == replies.reset_done(waiting=1, is_running=True)
            for message in (first, second):
                assert (await stage.settled(message)).state is TurnState.CANCELLED
            await stage.signals.wait("session_ended")
            assert stage.agents.closed == [1]
            assert (await session_of(database, before)).acp_session_id is None

            again = stage.say("[[recall]]", thread=thread)
            assert (await stage.settled(again)).raw == "I remember 0 prompts."
            session = await session_of(database, before)
        assert (session.generation, session.ending) == (2, None)

    async def test_an_idle_session_is_ended_at_once(self, database: Database) -> None:
        async with on_stage(database) as stage:
            asked = stage.say("[[say=a]]")
            await stage.settled(asked)
            await stage.quiet()
            async with asyncio.timeout(15):
                stage.say("!reset", thread=asked.message_id)
                await stage.signals.wait("session_ended")
            assert stage.agents.closed == [1]
            await stage.quiet()
            (notice,) = await notices_in(database, asked)
        assert "forgotten" in notice

    async def test_a_transcript_does_not_bring_back_what_was_reset(
        self, database: Database
    ) -> None:
        async with on_stage(database, agents=StageAgents(can_restore=False)) as stage:
            asked = stage.say("the old secret")
            await stage.settled(asked)
            await used(stage, asked, CommandKind.RESET)
            await stage.signals.wait("session_ended")
            after = stage.say("the new matter", thread=asked.message_id)
            await stage.settled(after)
            name = stage.agents.prompts[-1]
            assert "the old secret" not in str(name.content)
        second = StageAgents("fake-2", can_restore=False)
        async with on_stage(database, channel=stage.channel, agents=second) as later:
            more = later.say("and now", thread=asked.message_id)
            await later.settled(more)
            told = str(later.agents.prompts[-1].content)
        assert "the new matter" in told
        assert "the old secret" not in told

    async def test_somebody_who_has_asked_nothing_here_is_refused(self, database: Database) -> None:
        async with on_stage(database) as stage:
            first = await running(stage)
            told = await used(stage, first, CommandKind.RESET, author=BOB)
            assert told.text == replies.reset_not_yours()
            turn = await stage.turn_of(first)
            assert turn is not None
            assert turn.cancel_requested_at is None
            assert (await session_of(database, first)).generation == 1
            await used(stage, first, CommandKind.RESET, author=OPERATOR)
            assert (await stage.settled(first)).state is TurnState.CANCELLED

    async def test_nobody_resets_what_holds_anothers_request(self, database: Database) -> None:
        async with on_stage(database) as stage:
            first = await running(stage)
            theirs = await waiting(stage, first, BOB)
            told = await used(stage, first, CommandKind.RESET)
            assert told.text == replies.reset_holds_others(BOB.display_name)
            assert (await session_of(database, first)).generation == 1
            await used(stage, first, CommandKind.CANCEL)
            assert (await stage.settled(theirs)).state is TurnState.DONE

    async def test_there_may_be_nothing_to_reset(self, database: Database) -> None:
        async with on_stage(database) as stage:
            told = await stage.press("4711", kind=CommandKind.RESET)
        assert told == replies.nothing_to_reset()

    async def test_an_agent_that_was_being_opened_is_not_prompted_any_more(
        self, database: Database
    ) -> None:
        opening, may_open = asyncio.Event(), asyncio.Event()

        class Slow(StageAgents):
            async def open(self, *args: Any) -> Any:
                opened = await super().open(*args)
                opening.set()
                await may_open.wait()
                return opened

        async with on_stage(database, agents=Slow()) as stage:
            asked = stage.say("[[say=a]]")
            await opening.wait()
            # The cancel is not seen before the agent is open.
            stage.dispatcher.wake = lambda *_args: None  # type: ignore[method-assign]
            await used(stage, asked, CommandKind.RESET)
            may_open.set()
            assert (await stage.settled(asked)).state is TurnState.CANCELLED
            assert stage.agents.prompts == []
            session = await session_of(database, asked)
        assert (session.generation, session.acp_session_id) == (2, None)


class TestAKill:
    """At any point of a reset: no message is lost, and none is run twice."""

    @pytest.mark.parametrize("point", ["uncommitted", "committed", "closed"])
    async def test_during_a_reset(
        self, migrated_address: str, point: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with two_lives(migrated_address) as (stage, heir):
            first = await running(stage)
            second = await waiting(stage, first)
            if point == "uncommitted":
                monkeypatch.setattr(sessions, "reset", _die)
                with pytest.raises(_Died):
                    await used(stage, first, CommandKind.RESET)
                monkeypatch.undo()
            else:
                # What follows the commit is cut off, or cut off only after the agent was closed.
                if point == "committed":
                    stage.endings.wake = lambda: None  # type: ignore[method-assign]
                    stage.agents.may_end.clear()
                await used(stage, first, CommandKind.RESET)
                if point == "closed":
                    await stage.signals.wait("session_ended")
            stage.agents.may_end.clear()
            await killed(stage)
            later = heir()
            async with later.database.transaction() as tx:
                await conversations.free_dead(tx, ACCOUNT, WorkerId("worker-1"), "proof-1")
            await later.start()
            after = later.say("[[say=after]]", thread=first.message_id)
            assert (await later.settled(after)).state is TurnState.DONE
            ended = [await later.settled(message) for message in (first, second)]
            ran = [prompt.turn for prompt in (*stage.agents.prompts, *later.agents.prompts)]
        assert len(ran) == len(set(ran))
        states = [turn.state for turn in ended]
        if point == "uncommitted":
            assert states == [TurnState.INTERRUPTED, TurnState.DONE]
            assert ended[1].id in ran
        else:
            assert states == [TurnState.CANCELLED, TurnState.CANCELLED]
            assert ended[1].id not in ran


class _Died(Exception):
    """The process is gone."""


async def _die(*_args: object) -> None:
    raise _Died


class TestOptions:
    async def test_thirty_models_are_paged_and_an_idle_agent_is_switched_at_once(
        self, database: Database
    ) -> None:
        async with on_stage(database, agents=agents()) as stage:
            asked = stage.say("[[say=a]]")
            await stage.settled(asked)
            shown = await used(stage, asked, CommandKind.MODELS)
            assert shown.menu is not None
            assert (len(shown.menu.items), shown.menu.pages) == (25, 2)
            second = await used(stage, asked, CommandKind.PAGE, "model:1")
            assert second.menu is not None
            assert [item.value for item in second.menu.items] == [f"m{n}" for n in range(26, 31)]
            picked = await used(stage, asked, CommandKind.CHOOSE, "model", values=("m30",))
            assert picked.text == replies.option_switched(MODELS, MODELS.choices[29])
            assert picked.menu is not None
            assert picked.menu.items[0].value == "m30"
            assert stage.agents.choices == [("model", "m30")]
            agents_shown = await used(stage, asked, CommandKind.AGENTS)
            assert agents_shown.menu is not None
            assert (len(agents_shown.menu.items), agents_shown.menu.pages) == (25, 2)

    async def test_a_pick_leaves_what_was_kept_of_the_others_meanwhile(
        self, database: Database
    ) -> None:
        async with on_stage(database, agents=agents()) as stage:
            asked = stage.say("[[say=a]]")
            turn = await stage.settled(asked)
            tell = stage.agents.set_option

            async def meanwhile(session: AgentSession, option_id: str, value: str) -> None:
                async with database.transaction() as tx:
                    known = await sessions.locked(tx, turn.session_key)
                    assert known is not None
                    others = [
                        one if one.option_id == option_id else replace(one, name="Renamed")
                        for one in known.options
                    ]
                    await sessions.remember_options(tx, turn.session_key, others)
                await tell(session, option_id, value)

            stage.agents.set_option = meanwhile  # type: ignore[method-assign]
            await used(stage, asked, CommandKind.CHOOSE, "model", values=("m30",))
            async with database.read() as tx:
                session = await sessions.get(tx, turn.session_key)
        assert session is not None
        kept = {one.option_id: one for one in session.options}
        assert kept.pop("model").current == "m30"
        assert {one.name for one in kept.values()} == {"Renamed"}

    async def test_a_choice_during_a_turn_counts_from_the_next_one_on(
        self, database: Database
    ) -> None:
        async with on_stage(database, agents=agents()) as stage:
            first = await running(stage)
            told = await used(stage, first, CommandKind.CHOOSE, "model", values=("m2",))
            assert told.text == replies.option_kept(MODELS, MODELS.choices[1])
            assert stage.agents.choices == []
            shown = await used(stage, first, CommandKind.MODELS)
            assert shown.menu is not None
            assert shown.menu.items[0].value == "m2"
            await used(stage, first, CommandKind.CANCEL)
            await stage.settled(first)
            for _ in range(2):
                again = stage.say("[[say=b]]", thread=first.message_id)
                await stage.settled(again)
            # Once: an agent that knows it is not told again.
            assert stage.agents.choices == [("model", "m2")]

    async def test_a_choice_is_set_again_after_a_restart_and_after_a_reset(
        self, database: Database
    ) -> None:
        async with on_stage(database, agents=agents()) as stage:
            asked = stage.say("[[say=a]]")
            await stage.settled(asked)
            stage.say("!models model 7", thread=asked.message_id)
            await stage.signals.wait("intake_committed", times=2)
        second = StageAgents("fake-2", options=(MODELS,))
        async with on_stage(database, channel=stage.channel, agents=second) as later:
            # No agent lives: the menu shows what was known last, and what waits.
            shown = await used(later, asked, CommandKind.MODELS)
            assert shown.menu is not None
            assert shown.menu.items[0].value == "m7"
            again = later.say("[[say=b]]", thread=asked.message_id)
            await later.settled(again)
            assert second.choices == [("model", "m7")]
            await used(later, asked, CommandKind.RESET)
            await later.signals.wait("session_ended")
            after = later.say("[[say=c]]", thread=asked.message_id)
            await later.settled(after)
        assert second.choices == [("model", "m7")] * 2

    async def test_what_the_agent_refuses_is_told_and_asked_no_more(
        self, database: Database
    ) -> None:
        async with on_stage(database, agents=agents()) as stage:
            asked = stage.say("[[say=a]]")
            await stage.settled(asked)
            stage.say("!models Model 9", thread=asked.message_id)
            await stage.signals.wait("intake_committed", times=2)
        fewer = replace(MODELS, choices=MODELS.choices[:3])
        second = StageAgents("fake-2", options=(fewer,))
        async with on_stage(database, channel=stage.channel, agents=second) as later:
            for _ in range(2):
                again = later.say("[[say=b]]", thread=asked.message_id)
                turn = await later.settled(again)
                assert turn.state is TurnState.DONE
            said = [row.body.content for row in await later.rows(turn.id)]
            assert not [text for text in said if "refuses" in text]
            async with database.read() as tx:
                rows = await deliveries.listed(tx)
            assert len([row for row in rows if ":option:" in row["key"]]) == 1
            told = await used(later, asked, CommandKind.CHOOSE, "model", values=("m9",))
            assert told.text == replies.option_gone()
        assert (await session_of(database, asked)).chosen == {}

    async def test_a_refusal_of_an_idle_agent_is_told_at_once(self, database: Database) -> None:
        async with on_stage(database, agents=agents()) as stage:
            asked = stage.say("[[say=a]]")
            await stage.settled(asked)
            live = next(iter(stage.agents._live.values()))
            shown = live.options
            live.options = (replace(MODELS, choices=MODELS.choices[:1]),)
            stage.agents.options = lambda session: shown  # type: ignore[method-assign]
            told = await used(stage, asked, CommandKind.CHOOSE, "model", values=("m5",))
            assert told.text == replies.option_refused("Model", "Model 5", "no such value: m5")
            assert (await session_of(database, asked)).chosen == {}

    async def test_an_agent_that_does_not_answer_is_told_at_its_next_prompt(
        self, database: Database
    ) -> None:
        async with on_stage(database, agents=agents()) as stage:
            asked = stage.say("[[say=a]]")
            await stage.settled(asked)
            tells = stage.agents.set_option

            async def silent(*_args: object) -> None:
                raise AgentUnavailable(AgentFailure(FailureKind.TRANSPORT, "no answer"))

            stage.agents.set_option = silent  # type: ignore[assignment]
            told = await used(stage, asked, CommandKind.CHOOSE, "model", values=("m5",))
            assert told.text == replies.option_kept(MODELS, MODELS.choices[4])
            stage.agents.set_option = tells  # type: ignore[method-assign]
            await stage.settled(stage.say("[[say=b]]", thread=asked.message_id))
        assert stage.agents.choices == [("model", "m5")]

    async def test_the_text_twin_lists_and_refuses_what_is_not_there(
        self, database: Database
    ) -> None:
        async with on_stage(database, agents=agents()) as stage:
            asked = stage.say("[[say=a]]")
            await stage.settled(asked)
            for text in ("!models", "!models nothing", "!agents a2"):
                stage.say(text, thread=asked.message_id)
            await stage.signals.wait("intake_committed", times=2)
            await stage.quiet()
            told = "\n".join(await notices_in(database, asked))
        assert "`Model 25`" in told
        assert "No single choice of Model is called `nothing`" in told
        assert "`Agent 2`, from the next request on" in told

    async def test_nothing_can_be_chosen_before_anything_was_asked(
        self, database: Database
    ) -> None:
        async with on_stage(database, agents=agents()) as stage:
            for kind in (CommandKind.MODELS, CommandKind.AGENTS):
                assert "to choose here" in await stage.press("4711", kind=kind)
            told = await stage.press("4711", "model:1", kind=CommandKind.PAGE, interaction="2")
        assert told == replies.not_in_use()


class TestReports:
    async def test_usage_is_what_the_agent_said_last_and_what_was_counted(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            asked = stage.say("[[usage=100:1000]][[say=a]][[usage=250:1000]]")
            await stage.settled(asked)
            told = (await used(stage, asked, CommandKind.USAGE)).text
            assert "250 of 1,000 tokens of context used (25 %)" in told
            assert "1 request," in told
            await used(stage, asked, CommandKind.RESET)
            told = (await used(stage, asked, CommandKind.USAGE)).text
            assert "has not said yet" in told
            assert "0 requests," in told

    async def test_usage_is_known_while_the_turn_runs(self, database: Database) -> None:
        async with on_stage(database) as stage:
            asked = await running(stage, "[[usage=7:10]][[say=a]][[hang]]")

            async def is_known() -> bool:
                return (await session_of(database, asked)).usage is not None

            await stage.until(is_known)
            told = (await used(stage, asked, CommandKind.USAGE)).text
            assert "7 of 10 tokens" in told
            await used(stage, asked, CommandKind.CANCEL)
            await stage.settled(asked)

    async def test_there_may_be_no_session(self, database: Database) -> None:
        async with on_stage(database) as stage:
            assert await stage.press("4711", kind=CommandKind.USAGE) == replies.no_session()
            told = await stage.press("4711", kind=CommandKind.SESSIONS, interaction="2")
        assert "No sessions yet" in told

    async def test_sessions_are_listed_with_their_state_and_paged(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(commands_reports, "PAGE_SIZE", 2)
        async with on_stage(database) as stage:
            asked = [stage.say("[[say=a]]") for _ in range(2)]
            for message in asked:
                await stage.settled(message)
            busy = await running(stage)
            await waiting(stage, busy)
            first = await used(stage, busy, CommandKind.SESSIONS)
            assert f"<#{busy.message_id}> · agent · working, 1 waiting" in first.text
            assert "Sessions 1 to 2 of 3" in first.text
            assert [button.custom_id for button in first.buttons] == ["openab:page:sessions:1"]
            second = await used(stage, busy, CommandKind.PAGE, "sessions:1")
            assert "Sessions 3 to 3 of 3" in second.text
            listed = first.text + second.text
            assert all(f"<#{one.message_id}> · agent · idle" in listed for one in asked)
            await used(stage, busy, CommandKind.CANCEL_ALL)
            await stage.settled(busy)

    async def test_sessions_of_other_channels_are_not_shown(self, database: Database) -> None:
        async with on_stage(database) as stage:
            asked = stage.say("[[say=a]]")
            await stage.settled(asked)
        policy = GatePolicy(AccountId(ACCOUNT), allowed_channels=frozenset({"5"}))
        async with on_stage(database, some_settings(policy=lambda: policy)) as later:
            command = replace(
                later.a_command("4711", CommandKind.SESSIONS), conversation=a_ref("4711", "5")
            )
            told = (await later.commands.answer(command)).text
        assert "No sessions yet" in told


class TestAStranger:
    @pytest.fixture
    def strict(self) -> Settings:
        policy = GatePolicy(AccountId(ACCOUNT), allowed_users=frozenset({"31"}))
        return some_settings(policy=lambda: policy)

    @pytest.mark.parametrize("kind", EVERY)
    async def test_is_refused_and_harms_nothing(
        self, database: Database, strict: Settings, kind: CommandKind
    ) -> None:
        async with on_stage(database, strict, agents=agents()) as stage:
            first = await running(stage)
            second = await waiting(stage, first)
            argument = {CommandKind.CHOOSE: "model", CommandKind.PAGE: "sessions:0"}.get(kind, "")
            told = await used(stage, first, kind, argument, values=("m2",), author=an_author("99"))
            assert told == CommandAnswer(notices.not_allowed_here())
            async with database.read() as tx:
                here = await conversations.find(tx, a_ref(first.message_id))
                assert here is not None
                states = [turn.state for turn in await turns.open_of(tx, here.id)]
            assert states == [TurnState.RUNNING, TurnState.QUEUED]
            session = await session_of(database, first)
            assert (session.generation, session.chosen) == (1, {})
            turn = await stage.turn_of(first)
            assert turn is not None
            assert turn.cancel_requested_at is None
            await used(stage, first, CommandKind.CANCEL)
            assert (await stage.settled(second)).state is TurnState.DONE

    @pytest.mark.parametrize("kind", EVERY)
    async def test_a_place_that_is_not_listed_is_refused_too(
        self, database: Database, kind: CommandKind
    ) -> None:
        policy = GatePolicy(AccountId(ACCOUNT), allowed_channels=frozenset({"5"}))
        async with on_stage(database, some_settings(policy=lambda: policy)) as stage:
            assert await stage.press("4711", kind=kind) == notices.not_allowed_here()

    async def test_one_who_is_allowed_but_has_asked_nothing_chooses_nothing(
        self, database: Database
    ) -> None:
        async with on_stage(database, agents=agents()) as stage:
            asked = stage.say("[[say=a]]")
            await stage.settled(asked)
            told = await used(stage, asked, CommandKind.CHOOSE, "model", values=("m2",), author=BOB)
            assert told.text == replies.option_not_yours()
            stage.say("!models m2", thread=asked.message_id, author=BOB)
            await stage.signals.wait("intake_committed", times=2)
            assert (await session_of(database, asked)).chosen == {}
            assert stage.agents.choices == []
