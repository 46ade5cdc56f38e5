"""The router's truth table, every row by name and every combination against a second reading of it."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.domain.binding import BindingStatus, SessionBinding, TargetKind
from openab.domain.destination import Destination, Mode, Reason, resolve
from openab.domain.ids import (
    AccountId,
    BindingId,
    ChannelName,
    ConversationRef,
    PlatformId,
    SessionKey,
)

NOW = datetime(2026, 7, 1, tzinfo=UTC)
KEY = SessionKey("net:1:50:luna")
Resolve = Callable[..., Destination]
Rows = Sequence[SessionBinding]


def at(conversation: str, account: str = "1", channel: str = "net") -> ConversationRef:
    return ConversationRef(ChannelName(channel), AccountId(account), PlatformId(conversation))


def bound(
    where: ConversationRef, status: BindingStatus = BindingStatus.ACTIVE, name: str = ""
) -> SessionBinding:
    return SessionBinding(
        binding_id=BindingId(name or f"{where.channel}/{where.account}/{where.conversation_id}"),
        target_session_key=KEY,
        target_kind=TargetKind.SUBAGENT,
        conversation=where,
        status=status,
        bound_at=NOW,
        bound_by="",
        last_activity_at=NOW,
    )


A, B, UNBOUND = at("10"), at("20"), at("30")
#: The same id on another side is another place.
OTHER_ACCOUNT, OTHER_CHANNEL = at("10", account="2"), at("10", channel="web")


@pytest.mark.parametrize(
    ("key", "places", "requester", "fail_closed", "reason", "goes_to"),
    [
        ("", [A], A, True, Reason.MISSING_TARGET_SESSION, None),
        (" \t", [A], A, True, Reason.MISSING_TARGET_SESSION, None),
        ("", [], None, False, Reason.MISSING_TARGET_SESSION, None),
        (KEY, [], A, True, Reason.NO_ACTIVE_BINDING, None),
        (KEY, [], None, False, Reason.NO_ACTIVE_BINDING, None),
        # What is not bound at all comes before what is wrong with the requester.
        (KEY, [], at(""), True, Reason.NO_ACTIVE_BINDING, None),
        (KEY, [A], at("10", channel=""), True, Reason.INVALID_REQUESTER, None),
        (KEY, [A], at("10", channel=" "), False, Reason.INVALID_REQUESTER, None),
        (KEY, [A], at(""), True, Reason.INVALID_REQUESTER, None),
        (KEY, [A], at("  "), False, Reason.INVALID_REQUESTER, None),
        (KEY, [A], A, True, Reason.REQUESTER_MATCH, A),
        (KEY, [A, B], A, True, Reason.REQUESTER_MATCH, A),
        (KEY, [A, B], B, True, Reason.REQUESTER_MATCH, B),
        (KEY, [A, OTHER_ACCOUNT, OTHER_CHANNEL], A, True, Reason.REQUESTER_MATCH, A),
        # The only one on the requester's side; how many there are elsewhere does not matter.
        (KEY, [A], UNBOUND, True, Reason.REQUESTER_MATCH, A),
        (KEY, [OTHER_CHANNEL, A, OTHER_ACCOUNT], UNBOUND, True, Reason.REQUESTER_MATCH, A),
        (KEY, [A, B], UNBOUND, True, Reason.NO_REQUESTER_MATCH, None),
        (KEY, [A, B], UNBOUND, False, Reason.NO_REQUESTER_MATCH, None),
        (KEY, [OTHER_ACCOUNT], A, True, Reason.NO_REQUESTER_MATCH, None),
        (KEY, [OTHER_CHANNEL], A, False, Reason.NO_REQUESTER_MATCH, None),
        (KEY, [A], None, True, Reason.MISSING_REQUESTER, None),
        (KEY, [A], None, False, Reason.SINGLE_ACTIVE_BINDING, A),
        (KEY, [A, B], None, False, Reason.MISSING_REQUESTER, None),
        (KEY, [A, OTHER_CHANNEL], None, False, Reason.MISSING_REQUESTER, None),
    ],
)
def test_each_row(
    key: str,
    places: list[ConversationRef],
    requester: ConversationRef | None,
    fail_closed: bool,
    reason: Reason,
    goes_to: ConversationRef | None,
) -> None:
    found = resolve(SessionKey(key), list(map(bound, places)), requester, fail_closed=fail_closed)
    assert found.reason is reason
    assert (found.binding.conversation if found.binding else None) == goes_to
    assert found.mode is (Mode.BOUND if goes_to else Mode.FALLBACK)


def second_reading(
    key: str,
    bindings: Sequence[SessionBinding],
    requester: ConversationRef | None,
    *,
    fail_closed: bool,
) -> tuple[str, str, SessionBinding | None]:
    """The same table read by somebody else: each row with its condition, the first that holds."""
    active = {one.conversation: one for one in bindings if one.status == "active"}
    blank = requester is not None and not (
        requester.channel.strip() and requester.conversation_id.strip()
    )
    exact = active.get(requester) if requester else None
    beside = [
        one
        for where, one in active.items()
        if requester and (where.channel, where.account) == (requester.channel, requester.account)
    ]
    (only,) = active.values() if len(active) == 1 else (None,)
    rows: list[tuple[object, str, SessionBinding | None]] = [
        (not key.strip(), "missing-target-session", None),
        (not active, "no-active-binding", None),
        (blank, "invalid-requester", None),
        (exact, "requester-match", exact),
        (len(beside) == 1, "requester-match", beside[0] if beside else None),
        (requester, "no-requester-match", None),
        (fail_closed, "missing-requester", None),
        (only, "single-active-binding", only),
        (True, "missing-requester", None),
    ]
    reason, binding = next((word, one) for holds, word, one in rows if holds)
    return ("bound" if binding else "fallback", reason, binding)


def combinations_of_everything() -> Iterator[
    tuple[str, list[SessionBinding], ConversationRef | None, bool]
]:
    places = [A, B, OTHER_ACCOUNT, OTHER_CHANNEL]
    sets: list[list[SessionBinding]] = [
        [bound(where, status) for where, status in zip(chosen, statuses, strict=True)]
        for count in range(4)
        for chosen in combinations(places, count)
        for statuses in product(BindingStatus, repeat=count)
    ]
    # A place's tombstones stand beside its active binding.
    sets += [[bound(A, BindingStatus.ENDED, "old"), *one] for one in sets]
    requesters = [None, A, B, UNBOUND, OTHER_ACCOUNT, OTHER_CHANNEL, at("30", channel="web")]
    requesters += [at(""), at(" "), at("10", channel=""), at("10", account="3")]
    yield from product(("", " ", KEY), sets, requesters, (True, False))


def disagreements(other: Resolve) -> int:
    """In how many combinations a router does something else than the second reading says."""
    found = 0
    for key, bindings, requester, closed in combinations_of_everything():
        made = other(SessionKey(key), bindings, requester, fail_closed=closed)
        said = (made.mode.value, made.reason.value, made.binding)
        found += said != second_reading(key, bindings, requester, fail_closed=closed)
    return found


def test_every_combination_is_read_the_same_way_twice() -> None:
    assert sum(1 for _ in combinations_of_everything()) > 10_000
    assert disagreements(resolve) == 0


def _open_by_default(
    key: SessionKey, bindings: Rows, requester: ConversationRef | None, *, fail_closed: bool
) -> Destination:
    return resolve(key, bindings, requester, fail_closed=fail_closed and requester is not None)


def _any_state(
    key: SessionKey, bindings: Rows, requester: ConversationRef | None, *, fail_closed: bool
) -> Destination:
    alive = [bound(one.conversation) for one in bindings]
    return resolve(key, alive, requester, fail_closed=fail_closed)


def _first_neighbour(
    key: SessionKey, bindings: Rows, requester: ConversationRef | None, *, fail_closed: bool
) -> Destination:
    found = resolve(key, bindings, requester, fail_closed=fail_closed)
    if found.reason is not Reason.NO_REQUESTER_MATCH:
        return found
    return resolve(key, bindings[:1], requester, fail_closed=fail_closed)


@pytest.mark.parametrize("wrong", [_open_by_default, _any_state, _first_neighbour])
def test_a_router_that_reads_it_otherwise_is_noticed(wrong: Resolve) -> None:
    assert disagreements(wrong) > 10


refs = st.builds(at, st.sampled_from("123"), st.sampled_from("12"), st.sampled_from(["net", "web"]))
some = st.lists(
    st.builds(bound, refs, st.sampled_from(BindingStatus)),
    unique_by=lambda one: one.conversation,
    max_size=6,
)


@given(some, refs | st.none(), st.booleans(), st.randoms())
def test_the_order_of_the_rows_and_what_is_over_decide_nothing(
    bindings: list[SessionBinding],
    requester: ConversationRef | None,
    closed: bool,
    chance: Random,
) -> None:
    found = resolve(KEY, bindings, requester, fail_closed=closed)
    mixed = [one for one in bindings if one.status is BindingStatus.ACTIVE]
    chance.shuffle(mixed)
    assert resolve(KEY, mixed, requester, fail_closed=closed) == found


@given(some, refs | st.none())
def test_a_closed_router_finds_only_what_is_active_and_beside_the_requester(
    bindings: list[SessionBinding], requester: ConversationRef | None
) -> None:
    found = resolve(KEY, bindings, requester)
    assert (found.mode is Mode.BOUND) == (found.binding is not None)
    if found.binding is not None:
        where = found.binding.conversation
        assert requester is not None
        assert found.binding.status is BindingStatus.ACTIVE
        assert (where.channel, where.account) == (requester.channel, requester.account)
