"""May a message start a turn: the decision table, in the order of the checks."""

from dataclasses import replace
from itertools import product

import pytest

from openab.domain.gates import (
    BotMode,
    ConversationFacts,
    Disposition,
    GatePolicy,
    Verdict,
    judge,
    may_join,
    may_press,
)
from openab.domain.message import (
    Attachment,
    AuthorKind,
    CommandKind,
    InboundMessage,
    MessageKind,
    Place,
)
from tests.builders import ACCOUNT, a_message, a_ref, an_author

OPEN = GatePolicy(ACCOUNT, allow_dm=True)
STRANGE = ConversationFacts()
INVOLVED = ConversationFacts(is_involved=True)
MENTIONS = replace(OPEN, bot_mode=BotMode.MENTIONS)
BOT, WEBHOOK = an_author("50", AuthorKind.BOT), an_author("60", AuthorKind.WEBHOOK)


def mentioning(**changes: object) -> InboundMessage:
    return replace(a_message("build it"), **changes)  # type: ignore[arg-type]


def plain(**changes: object) -> InboundMessage:
    return mentioning(mentioned_users=frozenset(), **changes)


def verdict(
    message: InboundMessage,
    facts: ConversationFacts = STRANGE,
    policy: GatePolicy = OPEN,
    text: str = "build it",
) -> Verdict:
    return judge(message, text, facts, policy)


def told(
    message: InboundMessage,
    facts: ConversationFacts = STRANGE,
    policy: GatePolicy = OPEN,
    text: str = "build it",
) -> tuple[Disposition, str]:
    found = verdict(message, facts, policy, text)
    return found.disposition, found.reason


TURN = (Disposition.TURN, "accepted")


def ignored(reason: str) -> tuple[Disposition, str]:
    return Disposition.IGNORED, reason


class TestAHuman:
    @pytest.mark.parametrize(
        ("place", "mentions", "involved", "expected"),
        [
            (Place.CHANNEL, True, False, TURN),
            (Place.CHANNEL, True, True, TURN),
            (Place.CHANNEL, False, False, ignored("not_mentioned")),
            (Place.CHANNEL, False, True, ignored("not_mentioned")),
            (Place.THREAD, True, False, TURN),
            (Place.THREAD, False, True, TURN),
            (Place.THREAD, False, False, ignored("not_involved")),
            (Place.DM, False, False, TURN),
            (Place.DM, True, False, TURN),
        ],
    )
    def test_is_heard_where_they_address_the_bot(
        self, place: Place, mentions: bool, involved: bool, expected: tuple[Disposition, str]
    ) -> None:
        message = mentioning(place=place) if mentions else plain(place=place)
        assert told(message, ConversationFacts(is_involved=involved)) == expected

    def test_opens_a_thread_only_from_a_channel(self) -> None:
        opening = {
            place for place in Place if verdict(mentioning(place=place), INVOLVED).opens_thread
        }
        assert opening == {Place.CHANNEL}

    def test_is_not_heard_in_a_direct_message_unless_that_is_on(self) -> None:
        shut = replace(OPEN, allow_dm=False)
        assert told(mentioning(place=Place.DM), policy=shut) == ignored("dm_off")


class TestTheLists:
    @pytest.mark.parametrize(
        ("place", "conversation", "parent", "is_allowed"),
        [
            (Place.CHANNEL, "77", None, True),
            (Place.CHANNEL, "78", None, False),
            (Place.THREAD, "500", "77", True),
            (Place.THREAD, "77", "5", True),
            (Place.THREAD, "500", "78", False),
            # A channel's parent is its category, which nobody allowed.
            (Place.CHANNEL, "78", "77", False),
            (Place.DM, "78", None, True),
        ],
    )
    def test_a_channel_is_allowed_itself_or_by_its_parent(
        self, place: Place, conversation: str, parent: str | None, is_allowed: bool
    ) -> None:
        policy = replace(OPEN, allowed_channels=frozenset({"77"}))
        message = mentioning(place=place, conversation=a_ref(conversation, parent))
        expected = TURN if is_allowed else ignored("channel_not_allowed")
        assert told(message, policy=policy) == expected

    @pytest.mark.parametrize(
        ("message", "facts", "expected"),
        [
            (mentioning(), STRANGE, (Disposition.REFUSED, "user_not_allowed")),
            (plain(place=Place.DM), STRANGE, (Disposition.REFUSED, "user_not_allowed")),
            (plain(place=Place.THREAD), INVOLVED, ignored("user_not_allowed")),
            (plain(place=Place.THREAD), STRANGE, ignored("not_involved")),
            (plain(), STRANGE, ignored("not_mentioned")),
        ],
    )
    def test_only_a_stranger_who_addressed_the_bot_is_told_off(
        self, message: InboundMessage, facts: ConversationFacts, expected: tuple[Disposition, str]
    ) -> None:
        policy = replace(OPEN, allowed_users=frozenset({"32"}))
        assert told(message, facts, policy) == expected

    def test_a_written_empty_list_of_users_lets_nobody_in_here(self) -> None:
        # The configuration turns a written empty list into None, which means everybody.
        assert told(mentioning(), policy=replace(OPEN, allowed_users=frozenset())) == (
            Disposition.REFUSED,
            "user_not_allowed",
        )

    def test_commands_obey_the_same_lists(self) -> None:
        policy = replace(OPEN, allowed_channels=frozenset({"77"}), allowed_users=frozenset({"31"}))
        ann, bob = an_author("31"), an_author("32")
        thread, channel, direct = Place.THREAD, Place.CHANNEL, Place.DM
        assert may_press(ann, thread, "500", "77", policy) is None
        assert may_press(ann, thread, "500", "78", policy) == "channel_not_allowed"
        assert may_press(ann, channel, "500", "77", policy) == "channel_not_allowed"
        assert may_press(bob, channel, "77", None, policy) == "user_not_allowed"
        assert may_press(bob, channel, "78", None, OPEN) is None
        # A list of channels says nothing of direct messages; the list of people does.
        assert may_press(ann, direct, "5", None, policy) is None
        assert may_press(bob, direct, "5", None, policy) == "user_not_allowed"
        assert may_press(ann, direct, "5", None, replace(policy, allow_dm=False)) == "dm_off"

    def test_threads_are_joined_where_we_listen(self) -> None:
        policy = replace(OPEN, allowed_channels=frozenset({"77"}))
        assert may_join("500", "77", policy)
        assert may_join("77", "1", policy)
        assert not may_join("500", "78", policy)
        assert may_join("500", "78", OPEN)


class TestAnotherBot:
    @pytest.mark.parametrize("author", [BOT, WEBHOOK])
    @pytest.mark.parametrize(
        ("mode", "trusted", "mentions", "expected"),
        [
            (BotMode.OFF, (), True, ignored("bots_off")),
            (BotMode.OFF, (), False, ignored("bots_off")),
            (BotMode.OFF, ("50", "60"), True, TURN),
            (BotMode.OFF, ("50", "60"), False, ignored("bots_off")),
            (BotMode.MENTIONS, (), True, TURN),
            (BotMode.MENTIONS, (), False, ignored("bot_without_mention")),
            (BotMode.MENTIONS, ("99",), True, ignored("bot_not_trusted")),
            (BotMode.MENTIONS, ("50", "60"), True, TURN),
            (BotMode.MENTIONS, ("50", "60"), False, ignored("bot_without_mention")),
        ],
    )
    def test_is_heard_only_as_the_mode_and_the_trust_say(
        self,
        author: object,
        mode: BotMode,
        trusted: tuple[str, ...],
        mentions: bool,
        expected: tuple[Disposition, str],
    ) -> None:
        policy = replace(OPEN, bot_mode=mode, trusted_bots=frozenset(trusted))
        changes = {"author": author, "place": Place.THREAD}
        message = mentioning(**changes) if mentions else plain(**changes)
        assert told(message, INVOLVED, policy) == expected

    def test_is_not_held_to_the_list_of_users(self) -> None:
        policy = replace(MENTIONS, allowed_users=frozenset({"31"}))
        assert told(mentioning(author=BOT), policy=policy) == TURN

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"text": "-# ⏳ <@900> at work", "silent": True}, "presentation"),
            ({"text": "-# x", "silent": True, "from_history": True}, "presentation"),
            ({"text": "<@900> go", "silent": True, "from_history": True}, "presentation_history"),
            ({"text": "<@900> go", "edited": True, "from_history": True}, "presentation_history"),
            ({"text": "<@900> go", "edited": True}, "edited"),
        ],
    )
    def test_what_only_shows_is_never_input_in_any_mode(
        self, changes: dict[str, object], reason: str
    ) -> None:
        for author, mode, trusted, place in product(
            (BOT, WEBHOOK), BotMode, ((), ("50", "60")), (Place.CHANNEL, Place.THREAD)
        ):
            policy = replace(OPEN, bot_mode=mode, trusted_bots=frozenset(trusted))
            message = mentioning(author=author, place=place, **changes)
            assert told(message, INVOLVED, policy) == ignored(reason)

    def test_a_loud_message_that_looks_like_presentation_is_ordinary(self) -> None:
        message = mentioning(author=BOT, text="-# <@900> hi")
        assert told(message, policy=MENTIONS) == TURN


class TestWhatIsNeverInput:
    def test_our_own_message_is_an_echo_whatever_else_it_is(self) -> None:
        own = an_author("900", AuthorKind.SELF)
        for changes in ({}, {"edited": True}, {"kind": MessageKind.SYSTEM}):
            message = mentioning(author=own, **changes)
            assert told(message) == (Disposition.ECHO, "own_message")

    def test_system_messages_and_live_edits(self) -> None:
        assert told(mentioning(kind=MessageKind.SYSTEM)) == ignored("system_message")
        assert told(mentioning(edited=True)) == ignored("edited")

    def test_a_humans_message_that_was_edited_before_we_read_it_counts(self) -> None:
        assert told(mentioning(edited=True, from_history=True)) == TURN

    def test_a_reply_counts(self) -> None:
        assert told(mentioning(kind=MessageKind.REPLY)) == TURN

    def test_nothing_but_the_mention(self) -> None:
        assert told(mentioning(), text=" \n") == ignored("empty")
        file = Attachment("a.txt", "text/plain", 3, "https://x")
        assert told(mentioning(attachments=(file,)), text="") == TURN

    def test_a_conversation_that_is_gone(self) -> None:
        assert told(mentioning(), ConversationFacts(is_closed=True)) == ignored("conversation_gone")


class TestTextCommands:
    @pytest.mark.parametrize("text", ["!cancel", " !cancel\n"])
    def test_exactly_the_word_is_a_command(self, text: str) -> None:
        found = verdict(mentioning(), text=text)
        assert found == Verdict(Disposition.COMMAND, "text_command", command=CommandKind.CANCEL)

    @pytest.mark.parametrize(
        "text", ["!cancel it", "please !cancel", "/cancel", "/x", "!CANCEL", "! cancel", "!restart"]
    )
    def test_anything_else_goes_to_the_agent(self, text: str) -> None:
        assert told(mentioning(), text=text) == TURN

    def test_it_passes_the_same_gates(self) -> None:
        thread = plain(place=Place.THREAD)
        assert told(thread, STRANGE, text="!cancel") == ignored("not_involved")
        policy = replace(OPEN, allowed_users=frozenset({"1"}))
        assert told(thread, INVOLVED, policy, "!cancel") == ignored("user_not_allowed")
