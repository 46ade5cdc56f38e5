"""A turn from a mention to its answer, and every way in which it can end otherwise."""

from openab.domain.turn import Outcome, TurnState
from openab.storage.engine import Database
from tests.conformance.control_stage import on_stage


class TestTheMainJob:
    async def test_a_mention_becomes_a_thread_with_the_answer(self, database: Database) -> None:
        async with on_stage(database) as stage:
            message = stage.say("say hello")
            turn = await stage.settled(message)
            await stage.quiet()

        assert (turn.state, turn.outcome) == (TurnState.DONE, Outcome.COMPLETED)
        assert stage.channel.shown(message.message_id) == ["<@31>\nYou said: say hello"]
        assert stage.channel.message(message.message_id).reactions == {"🆗"}
