"""The whole decision table: author, mention, place, modes and lists → verdict, each reason explained."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import pytest

from openab.domain.gates import (
    CAUGHT_UP,
    REASONS,
    SKIPPED,
    BotMode,
    ConversationFacts,
    Disposition,
    GatePolicy,
    UserMode,
    Verdict,
    judge,
    judge_reaction,
)
from openab.domain.ids import PlatformId
from openab.domain.message import Author, AuthorKind, InboundMessage, MessageKind, Place
from tests.builders import ACCOUNT, a_message, a_reaction, a_ref, an_author

HUMAN = an_author("31")
STRANGER = an_author("32")
BOT = an_author("50", AuthorKind.BOT)
TRUSTED = an_author("51", AuthorKind.BOT)
HOOK = an_author("60", AuthorKind.WEBHOOK)
SELF = an_author(ACCOUNT, AuthorKind.SELF)
OUR_ROLE, MANAGED, PEERS, OTHER_ROLE = "7001", "7002", "7003", "7004"
#: What stands in the text, and whether it is addressed to us, or to others.
MENTIONS: dict[str, dict[str, set[str]]] = {
    "none": {},
    "us": {"mentioned_users": {ACCOUNT}},
    "our role": {"mentioned_roles": {OUR_ROLE}},
    "our managed role": {"mentioned_roles": {MANAGED}, "managed_roles": {MANAGED}},
    "a foreign role": {"mentioned_roles": {OTHER_ROLE}},
    "a person": {"mentioned_users": {"33"}},
    "another bot": {"mentioned_users": {"52"}, "mentioned_bots": {"52"}},
    "a peers' role": {"mentioned_roles": {PEERS}},
    "us and another bot": {"mentioned_users": {ACCOUNT, "52"}, "mentioned_bots": {"52"}},
    "our role and a peers'": {"mentioned_roles": {OUR_ROLE, PEERS}},
}
TO_US = {"us", "our role", "our managed role", "us and another bot", "our role and a peers'"}
TO_OTHERS = {"another bot", "a peers' role"}


@dataclass(frozen=True)
class Row:
    author: Author
    mention: str
    place: Place
    channel_listed: bool
    facts: ConversationFacts
    policy: GatePolicy

    @property
    def message(self) -> InboundMessage:
        found = {
            key: frozenset(map(PlatformId, ids)) for key, ids in MENTIONS[self.mention].items()
        }
        where = "77" if self.channel_listed else "78"
        ref = a_ref(f"5{where}", where) if self.place is Place.THREAD else a_ref(where)
        plain = a_message("go", author=self.author, place=self.place, ref=ref, mentions=())
        return replace(plain, **found)  # type: ignore[arg-type]

    @property
    def verdict(self) -> Verdict:
        return judge(self.message, "go", self.facts, self.policy)


def rows() -> Iterator[Row]:
    facts = [
        ConversationFacts(involved, has_other_bot=other, is_capped=capped)
        for involved, other, capped in product((False, True), repeat=3)
    ]
    policies = [
        GatePolicy(
            ACCOUNT, frozenset({"77"}), frozenset({HUMAN.id}), bot_mode, trusted, dm, user_mode,
            frozenset({OUR_ROLE}), peers,
        )
        for bot_mode, trusted, dm, user_mode, peers in product(
            BotMode, (frozenset(), frozenset({TRUSTED.id})), (False, True), UserMode,
            (frozenset(), frozenset({PEERS})),
        )
    ]  # fmt: skip
    authors = (HUMAN, STRANGER, BOT, TRUSTED, HOOK)
    places = [(place, listed) for place in Place for listed in (True, False)]
    for author, mention, where, known, policy in product(
        authors, MENTIONS, places, facts, policies
    ):
        if _matters(author, where, known, policy):
            yield Row(author, mention, *where, known, policy)


def _matters(
    author: Author, where: tuple[Place, bool], facts: ConversationFacts, policy: GatePolicy
) -> bool:
    """Leaves out what differs only in something that cannot be looked at there."""
    place, listed = where
    about_bots = policy.bot_mode is not BotMode.OFF or policy.trusted_bots or facts.is_capped
    if about_bots and not author.is_other_bot:
        return False
    return listed if place is Place.DM else policy.allow_dm


@pytest.fixture(scope="module")
def table() -> list[tuple[Row, Verdict]]:
    return [(row, row.verdict) for row in rows()]


def expected(row: Row) -> str:
    """The reason, said a second time: as the rules are told to people, not as they are coded."""
    bot, facts, policy = row.author.is_other_bot, row.facts, row.policy
    mentioned, trusted = row.mention in TO_US, row.author.id in policy.trusted_bots
    if bot and (reason := _bot(row, mentioned=mentioned, trusted=trusted)):
        return reason
    if row.place is Place.DM:
        return "dm_off" if not policy.allow_dm else _listed(row)
    if not row.channel_listed:
        return "channel_not_allowed"
    if mentioned:
        return _listed(row)
    if row.mention in TO_OTHERS and _minds(row):
        return "meant_for_other_bot"
    if row.place is Place.CHANNEL:
        return "not_mentioned"
    if not facts.is_involved:
        return "not_involved"
    if not bot and policy.user_mode is UserMode.MENTIONS:
        return "mention_needed"
    if not bot and policy.user_mode is UserMode.MULTIBOT_MENTIONS and facts.has_other_bot:
        return "mention_needed_among_bots"
    return _listed(row)


def _minds(row: Row) -> bool:
    """Peers are listed; or a bot is named where other bots make a mention necessary."""
    others_matter = row.policy.user_mode is UserMode.MULTIBOT_MENTIONS
    return bool(row.policy.peer_roles) or (others_matter and row.mention == "another bot")


def _bot(row: Row, *, mentioned: bool, trusted: bool) -> str:
    if row.facts.is_capped:
        return "bot_turn_cap"
    if trusted and mentioned:
        return ""
    if row.policy.bot_mode is BotMode.OFF:
        return "bots_off"
    if row.policy.trusted_bots and not trusted:
        return "bot_not_trusted"
    return "" if mentioned or row.policy.bot_mode is BotMode.ALL else "bot_without_mention"


def _listed(row: Row) -> str:
    is_listed = row.author.is_other_bot or row.author is HUMAN
    return "accepted" if is_listed else "user_not_allowed"


def test_every_combination_that_matters(table: list[tuple[Row, Verdict]]) -> None:
    for row, verdict in table:
        assert verdict.reason == expected(row), row
        assert verdict.reason in REASONS, row
        assert verdict.disposition is _disposition(row, verdict), row
    assert len(table) > 50_000


def _disposition(row: Row, verdict: Verdict) -> Disposition:
    if verdict.reason == "accepted":
        return Disposition.TURN
    # Only a stranger who addressed us is told.
    addressed = row.mention in TO_US or row.place is Place.DM
    is_told = verdict.reason == "user_not_allowed" and addressed
    return Disposition.REFUSED if is_told else Disposition.IGNORED


def test_a_thread_is_opened_only_in_a_channel_and_a_run_is_gathered_only_in_mode_all(
    table: list[tuple[Row, Verdict]],
) -> None:
    for row, verdict in table:
        if verdict.disposition is Disposition.TURN:
            assert verdict.opens_thread == (row.place is Place.CHANNEL), row
            all_bots = row.policy.bot_mode is BotMode.ALL
            assert verdict.gathers_run == (row.author.is_other_bot and all_bots), row


ALL_BOTS = GatePolicy(ACCOUNT, bot_mode=BotMode.ALL)


class TestARunOfOneBot:
    def test_its_later_messages_need_no_mention_even_in_a_channel(self) -> None:
        plain = a_message("more", author=BOT, mentions=())
        assert judge(plain, "more", ConversationFacts(), ALL_BOTS).reason == "not_mentioned"
        open_run = ConversationFacts(has_open_run=True)
        found = judge(plain, "more", open_run, ALL_BOTS)
        assert found == Verdict(Disposition.TURN, "joined_run", gathers_run=True)

    def test_a_person_joins_no_bots_run(self) -> None:
        plain = a_message("more", mentions=())
        open_run = ConversationFacts(has_open_run=True)
        assert judge(plain, "more", open_run, ALL_BOTS).reason == "not_mentioned"

    @pytest.mark.parametrize(("messages", "reason"), [(1000, "accepted"), (1001, "bot_loop")])
    def test_a_thousand_without_a_person_are_a_loop(self, messages: int, reason: str) -> None:
        plain = a_message("more", author=BOT, mentions=(), place=Place.THREAD)
        facts = ConversationFacts(is_involved=True, bot_messages=messages)
        assert judge(plain, "more", facts, ALL_BOTS).reason == reason


def test_every_reason_is_said_and_every_one_said_is_explained(
    table: list[tuple[Row, Verdict]],
) -> None:
    said = {verdict.reason for _, verdict in table} | set(_special())
    # Said of what was read from history, and by whoever could not even judge.
    assert said | {CAUGHT_UP, *SKIPPED, "unreadable", "handoff_for_other_bot"} == set(REASONS)


def _special() -> Iterator[str]:
    """What the table leaves out: messages that are never input, reactions, and the rare ones."""
    involved = ConversationFacts(is_involved=True)
    for message, text in (
        (a_message(author=SELF), "go"),
        (replace(a_message(), kind=MessageKind.SYSTEM), "go"),
        (replace(a_message("-# hi", author=BOT), silent=True), "go"),
        (replace(a_message(author=BOT), silent=True, from_history=True), "go"),
        (replace(a_message(), edited=True), "go"),
        (a_message(), ""),
        (a_message(), "!cancel"),
    ):
        yield judge(message, text, involved, GatePolicy(ACCOUNT)).reason
    plain = a_message("more", author=BOT, mentions=())
    yield judge(plain, "more", ConversationFacts(has_open_run=True), ALL_BOTS).reason
    yield judge(plain, "more", ConversationFacts(bot_messages=1001), ALL_BOTS).reason
    yield judge(a_message(), "go", ConversationFacts(is_closed=True), ALL_BOTS).reason
    among = ConversationFacts(is_involved=True, has_other_bot=True)
    for reaction, facts in (
        (a_reaction(), involved),
        (a_reaction(author=SELF), involved),
        (a_reaction(author=BOT), involved),
        (a_reaction(place=Place.CHANNEL), involved),
        (a_reaction(message_author="31"), among),
    ):
        yield judge_reaction(reaction, "go", facts, GatePolicy(ACCOUNT)).reason
