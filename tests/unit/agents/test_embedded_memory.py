"""What the embedded host forgets, so that a broker that lives for months does not grow."""

import pytest

from openab.agents.acp.session import AcpSession
from openab.agents.host import embedded
from openab.agents.host.embedded import EmbeddedAgents
from openab.agents.host.journal import Journal
from openab.agents.limits import Sizes
from openab.domain.agent_events import EndKind, Position, PromptEnded
from openab.domain.ids import AccountId, Incarnation, SessionKey, TurnId
from openab.ports.agent import AgentSession, StaleEpoch

LIFE = Incarnation("life-1")
TURN = TurnId("t1")


def a_host() -> EmbeddedAgents:
    return EmbeddedAgents(database_id="db", account=AccountId("1"), incarnation=LIFE)


def a_session(number: int, epoch: int = 1) -> AgentSession:
    return AgentSession("db", SessionKey(f"discord:1:{number}"), 1, epoch)


async def test_a_journal_that_nobody_reads_is_forgotten_when_it_has_ended() -> None:
    host = a_host()
    journal = host._journals[TURN] = Journal(LIFE, Sizes())
    journal.begin()
    await host.ack(TURN, Position(LIFE, 0), outcome=True)
    assert TURN in host._journals
    journal.add(PromptEnded(EndKind.CANCELLED))
    await host.ack(TurnId("another"), Position(LIFE, 0), outcome=True)
    assert TURN in host._journals
    other = host._journals[TurnId("another")] = Journal(LIFE, Sizes())
    assert other.ended
    await host.ack(TurnId("another"), Position(LIFE, 0), outcome=True)
    assert not host._journals


async def test_of_many_sessions_the_idle_ones_are_forgotten_and_the_open_ones_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded, "_KNOWN_SESSIONS", 3)
    host = a_host()
    for number in range(6):
        await host.close(a_session(number, epoch=2))
    kept = AcpSession.__new__(AcpSession)
    host._entries["db", "discord:1:0", 1].session = kept
    host._journals[TURN] = Journal(LIFE, Sizes())
    await host.ack(TURN, Position(LIFE, 0), outcome=True)
    assert [key for _, key, _ in host._entries] == ["discord:1:0", "discord:1:4", "discord:1:5"]
    assert host.unwritten(a_session(5, epoch=2), TURN, 1, 1, LIFE)
    await host.close(a_session(1, epoch=3))
    forgotten = host.unwritten(a_session(1, epoch=3), TURN, 1, 1, LIFE)
    assert not forgotten, "it may have been given a prompt before it was forgotten"
    with pytest.raises(StaleEpoch):
        await host.close(a_session(5, epoch=1))
