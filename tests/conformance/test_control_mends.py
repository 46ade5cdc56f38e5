"""What the control plane does when a claim, a lease, a row or a stop goes wrong: nobody is left waiting."""

import time
from datetime import timedelta

import pytest
import sqlalchemy as sa

from openab.control import owner, persist
from openab.control.owner import ConversationOwner
from openab.domain.ids import ConversationId, TurnId
from openab.domain.message import InboundMessage
from openab.domain.turn import Outcome, TurnState
from openab.ports.agent import StaleEpoch
from openab.storage import schema
from openab.storage.conversations import Conversation, Ownership
from openab.storage.engine import CommitUnknown, Database, DatabaseUnavailable
from openab.storage.renewal import Renewal
from tests.builders import Offset, a_claim, some_settings
from tests.conformance.control_stage import Stage, on_stage

#: Longer than any lease of a stage by its own clock.
_LATER = 4000.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persist, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(owner, "RETRY_SECONDS", 0.01)


async def lease_of(stage: Stage, message: InboundMessage) -> tuple[ConversationId, int, str | None]:
    """Conversation, epoch and lease owner of a message's turn."""
    turn = await stage.turn_of(message)
    assert turn is not None
    async with stage.database.read() as tx:
        query = sa.select(schema.conversations).where(
            schema.conversations.c.id == turn.conversation
        )
        row = (await tx.execute(query)).one()
    return turn.conversation, row.epoch, row.lease_owner


def owner_of(stage: Stage) -> ConversationOwner:
    (held,) = stage.dispatcher._held.values()
    return held.owner


def failed_renewal() -> Renewal:
    return Renewal(time.monotonic(), failure=DatabaseUnavailable("away"))


class TestAnOrphan:
    async def test_of_a_claim_in_doubt_is_given_back_when_its_lease_is_renewed(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            claim, doubted = stage.dispatcher._claim, 0

            async def in_doubt(held: list[ConversationId]) -> list[tuple[Conversation, Ownership]]:
                nonlocal doubted
                claims = await claim(held)
                if claims and not doubted:
                    doubted += 1
                    raise CommitUnknown("the connection broke")
                return claims

            stage.dispatcher._claim = in_doubt  # type: ignore[method-assign]
            message = stage.say("hi")

            async def is_orphaned() -> bool:
                return doubted == 1 and not stage.dispatcher._is_claiming

            await stage.until(is_orphaned)
            conversation, epoch, worker = await lease_of(stage, message)
            assert worker == "worker-1"
            stage.dispatcher.renewed(Renewal(time.monotonic(), {conversation: epoch}))
            turn = await stage.settled(message)
        assert turn.state is TurnState.DONE

    async def test_is_not_what_is_being_claimed_at_that_moment(self, database: Database) -> None:
        async with on_stage(database) as stage:
            claim = stage.dispatcher._claim

            async def slow(held: list[ConversationId]) -> list[tuple[Conversation, Ownership]]:
                claims = await claim(held)
                epochs = {one.conversation: one.epoch for _, one in claims}
                stage.dispatcher.renewed(Renewal(time.monotonic(), epochs))
                return claims

            stage.dispatcher._claim = slow  # type: ignore[method-assign]
            message = stage.say("[[hang]]")
            await stage.let_it_be_seen()
            assert not stage.dispatcher._orphans
            _, epoch, worker = await lease_of(stage, message)
        assert (epoch, worker) == (1, "worker-1")

    async def test_is_not_left_by_an_owner_that_ended_while_the_epoch_was_its_own(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            stage.agents.refuse_open = StaleEpoch("an agent's epoch from nowhere")
            turn = await stage.settled(stage.say("hi"))
        assert turn.outcome is Outcome.INTERRUPTED


class TestALeaseThatRanOutByOurOwnClock:
    async def test_is_taken_again_and_the_turn_completes(self, database: Database) -> None:
        settings = some_settings(placeholder_age=timedelta(hours=9))
        async with on_stage(database, settings) as stage:
            stage.agents.may_end.clear()
            message = stage.say("[[say=all of it]]")
            await stage.signals.wait("agent_prompted")
            (held,) = stage.dispatcher._held.values()
            stage.clock.extra += _LATER
            assert not stage.services.leases.holds(held.ownership)
            stage.dispatcher.renewed(failed_renewal())

            async def is_ours_again() -> bool:
                return stage.services.leases.holds(held.ownership)

            await stage.until(is_ours_again)
            stage.agents.may_end.set()
            turn = await stage.settled(message)
        assert turn.state is TurnState.DONE
        assert turn.raw == "all of it"

    async def test_is_lost_only_when_somebody_else_claimed(self, database: Database) -> None:
        clock = Offset(database)
        async with on_stage(database) as stage:
            message = stage.say("[[hang]]")
            await stage.let_it_be_seen()
            clock.pass_by(30)
            ((where, _),) = await a_claim(database, "another")
            stage.clock.extra += _LATER
            stage.dispatcher.renewed(failed_renewal())
            await stage.quiet()
            turn = await stage.turn_of(message)
            _, epoch, worker = await lease_of(stage, message)
            assert not stage.agents._live
        assert turn is not None
        assert turn.state is TurnState.RUNNING
        assert (epoch, worker) == (where.epoch, "another")

    async def test_is_not_claimed_by_our_own_dispatcher(self, database: Database) -> None:
        clock = Offset(database)
        async with on_stage(database) as stage:
            stage.agents.may_end.clear()
            message = stage.say("hi")
            await stage.let_it_be_seen()
            stage.agents.may_end.clear()
            _, before, _ = await lease_of(stage, message)
            clock.pass_by(30)
            # It claims for others meanwhile, so it has looked.
            other = stage.say("[[say=other]]")
            stage.agents.may_end.set()
            assert (await stage.settled(other)).state is TurnState.DONE
            turn = await stage.settled(message)
            _, after, _ = await lease_of(stage, message)
        assert turn.state is TurnState.DONE
        assert after == before


async def test_a_wish_made_while_wishes_are_written_is_kept(database: Database) -> None:
    async with on_stage(database) as stage:
        message = stage.say("[[hang]]")
        await stage.let_it_be_seen()
        turn = await stage.turn_of(message)
        assert turn is not None
        reactions = owner_of(stage)._reactions
        write, meanwhile = reactions._write_wish, ["🔥"]

        async def slow(*told: object) -> None:
            await write(*told)  # type: ignore[arg-type]
            if meanwhile:
                reactions.wish(turn.id, meanwhile.pop())
                reactions.wish(TurnId("nobody's"), "🤔")

        reactions._write_wish = slow  # type: ignore[method-assign,assignment]
        stage.dispatcher.wish_reaction(turn.id, "🤔")

        async def is_shown() -> bool:
            return stage.channel.message(message.message_id).reactions == {"🔥"}

        await stage.until(is_shown)
