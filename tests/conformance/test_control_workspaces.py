"""Where a session works: what its first message asks for, what the settings give it, and that it stays so."""

import pytest

from openab.control.settings import ReplySettings, Settings, WorkspaceSettings
from openab.domain.agent_events import AgentFailure, FailureKind
from openab.domain.message import CommandKind, InboundMessage
from openab.domain.turn import TurnState
from openab.ports.agent import AgentRefused
from openab.ports.workspaces import Fault, Unsaved
from openab.storage import sessions
from openab.storage.engine import Database
from openab.storage.sessions import Session
from tests.builders import a_ref, some_settings
from tests.conformance.control_stage import Stage, on_stage

USUAL = "/tmp"


def working(per_thread: str = "off") -> Settings:
    told = ReplySettings(final="fresh", ping_requester=False)
    folders = WorkspaceSettings({"api": "/srv/api", "web": "/srv/web"}, per_thread)
    return some_settings(workspace=folders, replies=lambda: told)


def folders(stage: Stage) -> list[str]:
    """Where the agents that run now work."""
    return [live.spec.working_dir for live in stage.agents._live.values()]


def prompted(stage: Stage) -> list[str]:
    return [prompt.content[-1].text for prompt in stage.agents.prompts]


def said(stage: Stage) -> list[str]:
    posted = [call.body for call in stage.channel.calls_of("create_message")]
    return [body.content for body in posted if body and not body.silent]


async def session_of(database: Database, thread: str) -> Session:
    async with database.read() as tx:
        found = await sessions.get(tx, a_ref(thread, "77").session_key())
    assert found is not None
    return found


async def ended(stage: Stage, text: str, thread: str | None = None) -> InboundMessage:
    message = stage.say(text, thread=thread)
    await stage.settled(message)
    await stage.quiet()
    return message


class TestTheFirstMessage:
    async def test_names_the_folder_and_the_thread_and_the_agent_reads_neither(
        self, database: Database
    ) -> None:
        async with on_stage(database, working()) as stage:
            text = "[[ws:@api]]\n[[title:The <@1> login]]\nmend the login"
            message = await ended(stage, text)
            kept = await session_of(database, message.message_id)
            assert folders(stage) == ["/srv/api"]
        assert prompted(stage) == ["mend the login"]
        assert stage.channel.titles[message.message_id] == "The login"
        assert (kept.working_dir, kept.is_placed) == ("/srv/api", True)

    async def test_without_directives_changes_nothing(self, database: Database) -> None:
        async with on_stage(database, working()) as stage:
            message = await ended(stage, "[[other:x]] mend it")
            assert folders(stage) == [USUAL]
        assert prompted(stage) == ["[[other:x]] mend it"]
        assert stage.channel.titles[message.message_id] == "[[other:x]] mend it"

    async def test_only_the_first_one_counts(self, database: Database) -> None:
        async with on_stage(database, working()) as stage:
            first = await ended(stage, "[[ws:@api]] one")
            await ended(stage, "[[ws:@web]] two", first.message_id)
            assert folders(stage) == ["/srv/api"]
        assert prompted(stage) == ["one", "[[ws:@web]] two"]

    @pytest.mark.parametrize("written", ["@none", "api", "/etc", "@../x"])
    async def test_an_unknown_folder_is_refused_and_the_next_message_may_name_another(
        self, database: Database, written: str
    ) -> None:
        async with on_stage(database, working()) as stage:
            first = await ended(stage, f"[[ws:{written}]] one")
            turn = await stage.turn_of(first)
            assert stage.agents.prompts == []
            await ended(stage, "[[ws:@web]] two", first.message_id)
            assert folders(stage) == ["/srv/web"]
        assert turn is not None
        assert turn.state is TurnState.FAILED
        assert f"There is no workspace {written} here. Known are: @api, @web." in said(stage)[0]

    @pytest.mark.parametrize("fault", [Fault.MISSING, Fault.OUTSIDE_HOME])
    async def test_one_that_leads_nowhere_good_is_refused_once(
        self, database: Database, fault: Fault
    ) -> None:
        async with on_stage(database, working()) as stage:
            stage.workspaces.refuse = fault
            first = await ended(stage, "[[ws:@api]] one")
            await ended(stage, "two", first.message_id)
            assert folders(stage) == [USUAL]
        assert "The workspace @api leads" in said(stage)[0]
        assert prompted(stage) == ["two"]

    async def test_is_still_the_first_one_while_no_agent_could_be_opened(
        self, database: Database
    ) -> None:
        async with on_stage(database, working()) as stage:
            failure = AgentFailure(FailureKind.AUTH_REQUIRED, "log in")
            stage.agents.refuse_open = AgentRefused(failure)
            first = await ended(stage, "[[ws:@api]] one")
            await ended(stage, "again", first.message_id)
            assert folders(stage) == ["/srv/api"]


class TestPerThread:
    async def test_each_thread_gets_a_worktree_of_its_own_once(self, database: Database) -> None:
        async with on_stage(database, working("worktree")) as stage:
            one, two = await ended(stage, "one"), await ended(stage, "two")
            await ended(stage, "three", one.message_id)
            own = [f"/own/{message.message_id}{USUAL}" for message in (one, two)]
            assert sorted(folders(stage)) == sorted(own)
        assert stage.workspaces.made == [
            ("worktree", one.message_id, USUAL),
            ("worktree", two.message_id, USUAL),
        ]

    async def test_the_folder_that_was_asked_for_is_what_it_is_a_worktree_of(
        self, database: Database
    ) -> None:
        async with on_stage(database, working("worktree")) as stage:
            message = await ended(stage, "[[ws:@api]] one")
        assert stage.workspaces.made == [("worktree", message.message_id, "/srv/api")]

    async def test_an_empty_folder_unless_one_was_asked_for(self, database: Database) -> None:
        async with on_stage(database, working("folder")) as stage:
            one = await ended(stage, "one")
            assert folders(stage) == [f"/own/{one.message_id}"]
            await ended(stage, "[[ws:@api]] two")
            assert "/srv/api" in folders(stage)
        assert stage.workspaces.made == [("folder", one.message_id, "")]

    @pytest.mark.parametrize(
        ("fault", "words"),
        [(Fault.NOT_A_REPOSITORY, "is no Git repository: /tmp."), (Fault.NO_GIT, "not installed")],
    )
    async def test_what_prevents_it_is_told_and_the_agent_is_not_started(
        self, database: Database, fault: Fault, words: str
    ) -> None:
        async with on_stage(database, working("worktree")) as stage:
            stage.workspaces.refuse = fault
            await ended(stage, "one")
            assert folders(stage) == []
        assert words in said(stage)[0]
        assert "The request was not started." in said(stage)[0]

    async def test_one_that_was_removed_is_restored(self, database: Database) -> None:
        async with on_stage(database, working("worktree")) as stage:
            one = await ended(stage, "one")
            stage.workspaces.gone.add(f"/own/{one.message_id}{USUAL}")
            await ended(stage, "two", one.message_id)
        assert [how for how, _, _ in stage.workspaces.made] == ["worktree", "restored"]

    async def test_a_session_stays_where_it_began_when_the_setting_changes(
        self, database: Database
    ) -> None:
        async with on_stage(database, working()) as stage:
            one = await ended(stage, "one")
            await stage.quiet()
        async with on_stage(
            database, working("worktree"), channel=stage.channel, agents=stage.agents
        ) as later:
            await ended(later, "two", one.message_id)
            assert folders(later) == [USUAL]
        assert later.workspaces.made == []


class TestAReset:
    async def test_gives_the_next_session_a_fresh_look_at_its_folder(
        self, database: Database
    ) -> None:
        async with on_stage(database, working("worktree")) as stage:
            one = await ended(stage, "[[ws:@api]] one")
            stage.workspaces.left = Unsaved(3, 1)
            await stage.press(one.message_id, kind=CommandKind.RESET)
            await ended(stage, "two", one.message_id)
        assert stage.workspaces.made == [("worktree", one.message_id, "/srv/api")] * 2
        assert "it holds 3 uncommitted files and 1 commit found nowhere else." in said(stage)[-1]
        assert said(stage)[-1].endswith("You said: two")

    async def test_lets_the_next_message_name_another_folder(self, database: Database) -> None:
        async with on_stage(database, working()) as stage:
            one = await ended(stage, "[[ws:@api]] one")
            await stage.press(one.message_id, kind=CommandKind.RESET)
            two = await ended(stage, "[[ws:@web]] two", one.message_id)
            kept = await session_of(database, one.message_id)
        assert prompted(stage)[-1] == "two"
        assert kept.working_dir == "/srv/web"
        assert two.text


async def test_a_kill_between_the_folder_and_its_row_makes_no_second_one(
    database: Database,
) -> None:
    """The port's calls may be repeated: what was not kept is asked for again, for the same thread."""
    stage = Stage(database, working("worktree"))
    await stage.start()
    stage.agents.refuse_open = AgentRefused(AgentFailure(FailureKind.NOT_FOUND, "gone"))
    message = await ended(stage, "one")
    async with database.transaction() as tx:
        await sessions.ask_for_workspace(tx, a_ref(message.message_id, "77").session_key(), None)
    await ended(stage, "two", message.message_id)
    await stage.stop()
    assert stage.workspaces.made == [("worktree", message.message_id, USUAL)] * 2
    kept = await session_of(database, message.message_id)
    assert kept.working_dir == f"/own/{message.message_id}{USUAL}"
