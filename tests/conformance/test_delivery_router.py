"""The router over real rows: each completion to its own conversation, judged at this moment, and every decision told."""

from collections.abc import Sequence
from typing import Any

import pytest
import structlog

from openab.domain.binding import EndReason
from openab.domain.destination import Destination, EventKind, Mode, Reason
from openab.domain.ids import ConversationRef, SessionKey
from openab.routing.router import resolve_destination
from tests.conformance.binding_stage import HOUR, Network


async def routed(
    net: Network, session: SessionKey, requester: ConversationRef | None, **how: bool
) -> Destination:
    async with net.database.transaction() as tx:
        return await resolve_destination(
            tx, net.bindings, EventKind.TASK_COMPLETION, session, requester, **how
        )


async def test_two_sessions_of_one_requester_go_each_to_its_own(net: Network) -> None:
    one, other = await net.session("40"), await net.session("41")
    first, second = await net.bind(one, "50"), await net.bind(other, "51")
    for session, binding in ((one, first), (other, second)):
        found = await routed(net, session, net.ref("30"))
        assert found == Destination(binding, Mode.BOUND, Reason.REQUESTER_MATCH)


async def test_what_is_over_is_no_destination_though_nobody_noted_it(net: Network) -> None:
    session = await net.session("40")
    made = await net.bind(session, idle=HOUR)
    net.clock.pass_by(3601)
    found = await routed(net, session, net.ref("50"))
    assert (found.mode, found.reason) == (Mode.FALLBACK, Reason.NO_ACTIVE_BINDING)
    # Deciding writes nothing.
    assert await net.active() == [made.binding_id]


@pytest.mark.parametrize("reason", EndReason)
async def test_an_ended_binding_is_no_destination_even_before_its_farewell(
    net: Network, reason: EndReason
) -> None:
    session = await net.session("40")
    await net.unbind((await net.bind(session)).binding_id, reason)
    found = await routed(net, session, net.ref("50"))
    assert found.reason is Reason.NO_ACTIVE_BINDING


async def test_of_two_places_the_requesters_own_is_it_and_else_none(net: Network) -> None:
    session = await net.session("40")
    _, second = await net.bind(session, "50"), await net.bind(session, "51")
    assert (await routed(net, session, net.ref("51"))).binding == second
    found = await routed(net, session, net.ref("30"))
    assert (found.binding, found.reason) == (None, Reason.NO_REQUESTER_MATCH)


async def test_without_a_requester_it_is_closed_unless_somebody_opens_it(net: Network) -> None:
    session = await net.session("40")
    made = await net.bind(session)
    assert (await routed(net, session, None)).reason is Reason.MISSING_REQUESTER
    found = await routed(net, session, None, fail_closed=False)
    assert found == Destination(made, Mode.BOUND, Reason.SINGLE_ACTIVE_BINDING)


@pytest.mark.parametrize("key", ["", "  ", "net:1:2"])
async def test_a_session_that_is_none_has_no_destination(net: Network, key: str) -> None:
    found = await routed(net, SessionKey(key), net.ref("50"))
    reason = Reason.NO_ACTIVE_BINDING if key.strip() else Reason.MISSING_TARGET_SESSION
    assert found == Destination(None, Mode.FALLBACK, reason)


class TestTheLog:
    def decisions(self, seen: Sequence[Any]) -> list[Any]:
        return [one for one in seen if one["event"] == "delivery_routed"]

    async def test_tells_every_decision_with_its_reason(self, net: Network) -> None:
        session = await net.session("40")
        await net.bind(session)
        with structlog.testing.capture_logs() as seen:
            await routed(net, session, net.ref("30"))
            await routed(net, session, None)
        told = {"event": "delivery_routed", "kind": "task_completion", "session": session}
        assert self.decisions(seen) == [
            {**told, "mode": "bound", "reason": "requester-match", "destination": "50", "log_level": "info"},
            {**told, "mode": "fallback", "reason": "missing-requester", "destination": None, "log_level": "info"},
        ]  # fmt: skip

    async def test_tells_nothing_that_was_not_committed(self, net: Network) -> None:
        session = await net.session("40")

        async def route_and_fail() -> None:
            async with net.database.transaction() as tx:
                await resolve_destination(
                    tx, net.bindings, EventKind.TASK_COMPLETION, session, net.ref("50")
                )
                raise ZeroDivisionError

        with structlog.testing.capture_logs() as seen:
            with pytest.raises(ZeroDivisionError):
                await route_and_fail()
            assert self.decisions(seen) == []
