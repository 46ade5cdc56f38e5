"""Lifecycles as tables: an illegal event changes nothing, every state can be reached and left."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.domain import delivery, turn
from openab.domain.delivery import DeadReason, DeliveryState
from openab.domain.errors import IllegalTransition
from openab.domain.machine import Machine
from openab.domain.turn import Outcome, TurnState

TURN_EVENTS: list[object] = [
    turn.Claimed(),
    turn.CancelledQueued(),
    turn.AgentLost(),
    turn.Ended(Outcome.COMPLETED),
    turn.SettledDone(),
    turn.SettledFailed(),
    turn.SettledCancelled(),
    turn.SettledInterrupted(),
    turn.RowDead(),
    turn.OwedAnew(),
]
DELIVERY_EVENTS: list[object] = [
    delivery.Begun(),
    delivery.Confirmed(),
    delivery.Postponed(),
    delivery.Doubtful(),
    delivery.GivenUp(DeadReason.REFUSED),
]
MACHINES: list[tuple[Machine[Any], list[object]]] = [
    (turn.LIFECYCLE, TURN_EVENTS),
    (delivery.LIFECYCLE, DELIVERY_EVENTS),
]


def reachable(machine: Machine[Any], start: StrEnum) -> set[StrEnum]:
    found, todo = {start}, [start]
    while todo:
        for target in machine.table[todo.pop()].values():
            if target not in found:
                found.add(target)
                todo.append(target)
    return found


def stuck(machine: Machine[Any]) -> Iterator[StrEnum]:
    """States from which no final one can be reached."""
    for state in machine.table:
        if not reachable(machine, state) & machine.terminal:
            yield state


@pytest.mark.parametrize(("machine", "events"), MACHINES)
@given(choices=st.lists(st.integers(0, 100), max_size=30))
def test_whatever_happens_only_arrows_change_a_state(
    machine: Machine[Any], events: list[object], choices: list[int]
) -> None:
    state = machine.initial
    for choice in choices:
        event = events[choice % len(events)]
        if machine.allows(state, type(event)):
            assert state not in machine.terminal or type(event) in machine.reopened[state]
            state = machine.next(state, event)
        else:
            before = state
            with pytest.raises(IllegalTransition):
                state = machine.next(state, event)
            assert state == before
    assert state in machine.table


@pytest.mark.parametrize("machine", [machine for machine, _ in MACHINES])
def test_every_state_is_reached_and_every_open_one_can_end(machine: Machine[Any]) -> None:
    assert reachable(machine, machine.initial) == set(machine.table)
    assert not list(stuck(machine))
    assert machine.open | machine.terminal == set(machine.table)
    assert not machine.open & machine.terminal


def test_a_state_without_a_way_out_is_noticed() -> None:
    state = DeliveryState
    lame = Machine(
        initial=state.PENDING,
        table={
            state.PENDING: {delivery.Begun: state.SENDING, delivery.GivenUp: state.DEAD},
            state.SENDING: {delivery.Doubtful: state.SENDING},
            state.DEAD: {},
        },
    )
    assert list(stuck(lame)) == [state.SENDING]


def test_the_final_states_are_the_ones_of_the_design() -> None:
    assert turn.LIFECYCLE.terminal == {
        TurnState.DONE,
        TurnState.FAILED,
        TurnState.CANCELLED,
        TurnState.INTERRUPTED,
    }
    assert delivery.LIFECYCLE.terminal == {DeliveryState.SENT, DeliveryState.DEAD}


def test_only_a_queued_turn_is_cancelled_directly() -> None:
    allowing = [s for s in TurnState if turn.LIFECYCLE.allows(s, turn.CancelledQueued)]
    assert allowing == [TurnState.QUEUED]


def test_only_a_failed_turn_is_owed_something_again() -> None:
    allowing = [s for s in TurnState if turn.LIFECYCLE.allows(s, turn.OwedAnew)]
    assert allowing == [TurnState.FAILED]
    assert turn.LIFECYCLE.next(TurnState.FAILED, turn.OwedAnew()) is TurnState.ANSWERED
    assert "failed --> answered: OwedAnew" in turn.LIFECYCLE.to_mermaid()


def test_nothing_is_sent_without_a_committed_try() -> None:
    leading_to_sent = [
        s for s, arrows in delivery.LIFECYCLE.table.items() if DeliveryState.SENT in arrows.values()
    ]
    assert leading_to_sent == [DeliveryState.SENDING, DeliveryState.UNKNOWN]


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.COMPLETED, TurnState.DONE),
        (Outcome.FAILED, TurnState.FAILED),
        (Outcome.CANCELLED, TurnState.CANCELLED),
        (Outcome.INTERRUPTED, TurnState.INTERRUPTED),
    ],
)
def test_a_settled_turn_takes_the_state_of_its_outcome(outcome: Outcome, state: TurnState) -> None:
    event = turn.settled(outcome, any_dead=False)
    assert turn.LIFECYCLE.next(TurnState.ANSWERED, event) is state
    dead = turn.settled(outcome, any_dead=True)
    assert turn.LIFECYCLE.next(TurnState.ANSWERED, dead) is TurnState.FAILED


def test_the_diagram_has_every_arrow() -> None:
    drawn = delivery.LIFECYCLE.to_mermaid()
    for state, arrows in delivery.LIFECYCLE.table.items():
        for event, target in arrows.items():
            assert f"{state} --> {target}: {event.__name__}" in drawn
