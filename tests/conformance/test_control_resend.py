"""What could not be delivered is owed anew once, by whoever may say so, and then its turn is judged anew."""

from collections.abc import AsyncIterator

import pytest

from openab.control.resend import Resent, Verdict, resend
from openab.domain.delivery import DeadReason, DeliveryState
from openab.domain.message import Author, CommandKind, InboundMessage
from openab.domain.outbound import Button
from openab.domain.turn import TurnState
from openab.ports.channel import ChannelRejected, Refusal
from openab.storage import reactions
from openab.storage.deliveries import Delivery
from openab.storage.engine import Database
from openab.storage.turns import Turn
from tests.builders import HOME, an_author, some_settings
from tests.conformance.control_stage import Stage, on_stage
from tests.fakes.channel import Call

SEND = "create_message"
STRANGER, OPERATOR = an_author("77"), an_author("1")


@pytest.fixture
async def stage(database: Database) -> AsyncIterator[Stage]:
    settings = some_settings(mode=lambda *_: "final")
    async with on_stage(database, settings) as made:
        yield made


def is_answer(call: Call) -> bool:
    return bool(call.body and "the answer" in call.body.content)


async def a_lost_answer(stage: Stage, refusal: Refusal = Refusal.BLOCKED) -> InboundMessage:
    """A turn whose answer the network refused."""
    stage.channel.fail(SEND, ChannelRejected(refusal, refusal.value), when=is_answer)
    message = stage.say("[[say=the answer]]")
    assert (await stage.settled(message)).state is TurnState.FAILED
    return message


async def the_turn(stage: Stage, message: InboundMessage) -> Turn:
    turn = await stage.turn_of(message)
    assert turn is not None
    return turn


async def the_dead(stage: Stage, message: InboundMessage) -> Delivery:
    rows = await stage.rows((await the_turn(stage, message)).id)
    (dead,) = (row for row in rows if row.state is DeliveryState.DEAD)
    return dead


async def pressed(
    stage: Stage, message: InboundMessage, what: str, author: Author, number: int = 1
) -> str:
    return await stage.press(
        message.message_id, what, author=author, kind=CommandKind.RESEND, interaction=f"90{number}"
    )


async def the_buttons(stage: Stage, place: str) -> tuple[Button, ...]:
    """The buttons of the one notice there that has some, once it is posted."""
    await stage.channel.until(lambda one: [m for m in one.posted(place) if m.body.buttons])
    (notice,) = (one for one in stage.channel.posted(place) if one.body.buttons)
    return notice.body.buttons


def answers(stage: Stage, message: InboundMessage) -> int:
    return sum("the answer" in text for text in stage.channel.shown(message.message_id))


async def asked_outside(stage: Stage, what: str) -> Resent:
    """As the command line does."""
    async with stage.database.transaction() as tx:
        return await resend(tx, what, "the command line")


async def test_the_button_of_the_notice_sends_it_once_and_the_turn_is_done(stage: Stage) -> None:
    message = await a_lost_answer(stage)
    dead = await the_dead(stage, message)
    (button,) = await the_buttons(stage, message.message_id)
    what = button.custom_id.removeprefix("openab:resend:")
    assert what == dead.id
    assert "sent again" in await pressed(stage, message, what, an_author(), 1)
    for number in (1, 2, 3):
        assert "before" in await pressed(stage, message, what, an_author(), number)
    assert (await asked_outside(stage, what)).verdict is Verdict.DONE_BEFORE
    turn = await stage.settled(message)
    await stage.quiet()
    assert turn.state is TurnState.DONE
    assert answers(stage, message) == 1
    rows = await stage.rows(turn.id)
    again = next(row for row in rows if row.version == 2)
    assert again.key == dead.key.replace(":v1", ":v2")
    assert again.nonce != dead.nonce
    assert "answer_owed_anew" in await stage.log_of(turn.id)
    async with stage.database.read() as tx:
        (known,) = await reactions.of_turn(tx, turn.id)
    assert known.shown == ("🆗",)


async def test_only_the_requester_or_an_operator_may(stage: Stage) -> None:
    message = await a_lost_answer(stage)
    dead = await the_dead(stage, message)
    assert "Only Name 31" in await pressed(stage, message, dead.id, STRANGER, 1)
    assert (await the_turn(stage, message)).state is TurnState.FAILED
    assert "sent again" in await pressed(stage, message, dead.id, OPERATOR, 2)
    assert (await stage.settled(message)).state is TurnState.DONE


async def test_one_that_is_lost_again_can_be_sent_again(stage: Stage) -> None:
    message = await a_lost_answer(stage)
    dead = await the_dead(stage, message)
    stage.channel.fail(SEND, ChannelRejected(Refusal.BLOCKED, "no"), when=is_answer)
    await asked_outside(stage, dead.id)
    assert (await stage.settled(message)).state is TurnState.FAILED
    rows = await stage.rows((await the_turn(stage, message)).id)
    second = next(row for row in rows if row.version == 2)
    assert (await asked_outside(stage, dead.id)).verdict is Verdict.DONE_BEFORE
    assert (await asked_outside(stage, second.id)).verdict is Verdict.OWED
    assert (await stage.settled(message)).state is TurnState.DONE
    assert answers(stage, message) == 1


async def test_while_no_broker_runs_it_waits_for_one(database: Database) -> None:
    settings = some_settings(mode=lambda *_: "final")
    async with on_stage(database, settings) as stage:
        message = await a_lost_answer(stage)
        dead = await the_dead(stage, message)
    assert (await asked_outside(stage, dead.id)).count == 1
    assert (await the_turn(stage, message)).state is TurnState.ANSWERED
    async with on_stage(database, settings, channel=stage.channel) as after:
        assert (await after.settled(message)).state is TurnState.DONE
    assert answers(stage, message) == 1


async def test_all_dead_parts_of_a_turn_that_could_not_be_written_go_together(
    stage: Stage,
) -> None:
    stage.channel.fail(SEND, ChannelRejected(Refusal.FORBIDDEN, "no"), times=2)
    message = stage.say("[[words=450]]")
    turn = await stage.settled(message)
    assert turn.state is TurnState.FAILED
    (button,) = await the_buttons(stage, HOME)
    assert button.custom_id == f"openab:resend:{turn.id}"
    assert "2 messages" in await pressed(stage, message, turn.id, an_author())
    assert (await stage.settled(message)).state is TurnState.DONE
    assert len(stage.channel.posted(message.message_id)) == 2


async def test_an_agents_failure_stays_one_though_its_notice_arrives(stage: Stage) -> None:
    stage.channel.fail(SEND, ChannelRejected(Refusal.BLOCKED, "no"))
    message = stage.say("[[fail=-32603:broken]]")
    await stage.settled(message)
    dead = await the_dead(stage, message)
    await asked_outside(stage, dead.id)
    assert (await stage.settled(message)).state is TurnState.FAILED
    assert not (await the_dead(stage, message)).platform_id


async def test_what_arrived_or_never_was_is_not_sent(stage: Stage) -> None:
    message = stage.say("[[say=the answer]]")
    turn = await stage.settled(message)
    (sent,) = await stage.rows(turn.id)
    for what in (sent.id, turn.id, "nobody", ""):
        assert "Nothing" in await pressed(stage, message, what, OPERATOR)
        assert (await asked_outside(stage, what)).verdict is Verdict.NOTHING
    await stage.quiet()
    assert answers(stage, message) == 1


async def test_what_was_superseded_is_not_sent(stage: Stage) -> None:
    stage.channel.fail(SEND, ChannelRejected(Refusal.REFERENCE_INVALID, "no"))
    message = stage.say("[[say=the answer]]", thread="500")
    turn = await stage.settled(message)
    first = min(await stage.rows(turn.id), key=lambda row: row.version)
    assert first.dead_reason is DeadReason.SUPERSEDED
    assert (await asked_outside(stage, first.id)).verdict is Verdict.NOTHING
