"""Discord's permission rules, and what is missing in Discord's own words."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

from openab.channels.discord.permissions import (
    NEEDED,
    effective_permissions,
    invite_url,
    missing,
)

ALL = sum(NEEDED.values())
VIEW, SEND = NEEDED["View Channels"], NEEDED["Send Messages"]


def lacking(
    *,
    everyone: int = 0,
    role: int = 0,
    owner: str = "1",
    overwrites: tuple[tuple[str, int, int], ...] = (),
) -> tuple[str, ...]:
    """What bot 5 with role 20 lacks in a channel of guild 10; an overwrite is (id, allow, deny)."""
    guild: dict[str, Any] = {
        "id": "10",
        "owner_id": owner,
        "roles": [
            {"id": "10", "permissions": str(everyone)},
            {"id": "20", "permissions": str(role)},
            {"id": "30", "permissions": str(1 << 3)},
        ],
    }
    channel = {
        "permission_overwrites": [
            {"id": who, "allow": str(allow), "deny": str(deny)} for who, allow, deny in overwrites
        ]
    }
    member = {"user": {"id": "5"}, "roles": ["20"]}
    return missing(effective_permissions(guild, member, channel))


def test_rights_add_up_over_roles() -> None:
    assert lacking(everyone=VIEW, role=ALL & ~VIEW) == ()


def test_what_is_missing_is_named_in_discords_words() -> None:
    assert lacking(everyone=ALL & ~(1 << 35)) == ("Create Public Threads",)


def test_without_view_nothing_works() -> None:
    assert lacking(everyone=ALL & ~VIEW) == tuple(NEEDED)


def test_an_administrator_and_an_owner_lack_nothing() -> None:
    assert lacking(role=1 << 3) == ()
    assert lacking(owner="5") == ()


def test_a_roles_overwrite_beats_everyones_and_the_members_beats_both() -> None:
    denied = ("10", 0, SEND)

    assert lacking(everyone=ALL, overwrites=(denied,)) == ("Send Messages",)
    assert lacking(everyone=ALL, overwrites=(denied, ("20", SEND, 0))) == ()
    assert lacking(everyone=ALL, overwrites=(("20", SEND, 0), ("5", 0, SEND))) == ("Send Messages",)


def test_another_roles_overwrite_and_rights_are_not_ours() -> None:
    assert lacking(everyone=VIEW, overwrites=(("30", ALL, 0),)) != ()


def test_the_invite_asks_for_exactly_what_is_needed() -> None:
    asked = parse_qs(urlsplit(invite_url("123")).query)

    assert asked == {
        "client_id": ["123"],
        "scope": ["bot applications.commands"],
        "permissions": [str(ALL)],
    }
