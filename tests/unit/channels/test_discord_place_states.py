"""What an event tells of a thread or a channel."""

from typing import Any

import pytest

from openab.channels.discord.place_states import place_deleted, thread_changed
from openab.domain.ids import AccountId
from openab.ports.places import PlaceState

ACCOUNT = AccountId("900")


def a_thread(**metadata: Any) -> dict[str, Any]:
    return {"id": "500", "type": 11, "parent_id": "77", "thread_metadata": metadata}


@pytest.mark.parametrize(
    ("metadata", "state"),
    [
        ({"archived": False}, PlaceState.OPEN),
        ({"archived": False, "locked": False}, PlaceState.OPEN),
        ({"archived": True, "locked": False}, PlaceState.ARCHIVED),
        ({"archived": True, "locked": True}, PlaceState.ARCHIVED),
        ({"archived": False, "locked": True}, PlaceState.LOCKED),
    ],
)
def test_a_thread_that_changed(metadata: dict[str, Any], state: PlaceState) -> None:
    change = thread_changed(a_thread(**metadata), ACCOUNT)
    ref = change.conversation
    assert change.state is state
    assert (ref.account, ref.conversation_id, ref.parent_conversation_id) == (ACCOUNT, "500", "77")


@pytest.mark.parametrize("raw", [{"id": "500"}, {"thread_metadata": {}}, a_thread()])
def test_what_is_no_changed_thread_is_an_error(raw: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError)):
        thread_changed(raw, ACCOUNT)


def test_a_deleted_thread_is_known_with_its_channel() -> None:
    change = place_deleted({"id": "500", "type": 11, "parent_id": "77"}, ACCOUNT)
    assert change.state is PlaceState.GONE
    assert change.conversation.parent_conversation_id == "77"


def test_a_deleted_channels_category_is_no_conversation() -> None:
    change = place_deleted({"id": "77", "type": 0, "parent_id": "1"}, ACCOUNT)
    assert change.conversation.parent_conversation_id is None
