"""Every claim of the demo holds for a good evening, and does not for one that is spoilt in its point."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from openab.cli.demo import scripts
from openab.cli.demo.brokers import DemoBroker
from openab.cli.demo.evidence import Evidence
from openab.cli.demo.play import DONE, TAKEN, Asked, Cast, Story
from openab.cli.demo.proofs import CLAIMS, joined, prove
from openab.cli.demo.sightings import Change, Watch
from openab.simulator.discord import Bot, FaultHandle, LoopbackDiscord, Message, Request
from openab.simulator.discord.fault_kinds import commit_then_drop
from openab.text.continuation import OPENING
from openab.text.neutralize import neutralize
from openab.text.notices import went_on_after_restart

#: What Sol hands over, and what Luna answers.
_WORK = "Proofread it, <@1>, and tell @everyone."
_WORK_DONE = f"I read it: {scripts.LAST_WORDS[scripts.HAND_OVER]}"
_CODE = ["```python\none = 1\n", "two = 2\n```\n\nAll 45 cases pass with the fix."]


@dataclass
class Evening:
    """A small evening in which everything went well, played by hand."""

    discord: LoopbackDiscord
    cast: Cast
    story: Story
    watch: Watch

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.cast, self.story, self.watch.sightings)

    @property
    def sol(self) -> Bot:
        return self.cast.sol.bot

    def failed(self) -> set[str]:
        return {proof.claim for proof in prove(self.evidence) if not proof.holds}

    def last_of(self, bot: Bot) -> Message:
        shown = self.discord.messages(str(self.story.thread))
        return next(one for one in reversed(shown) if one.author.id == bot.id)

    def journal(self, bot: Bot, content: str, nonce: str, *users: str) -> Request:
        request = self.discord.journal.begin(
            method="POST", path="/m", template="/m", route="create_message", connection=1, query={}
        )
        allowed = {"parse": [], "users": list(users), "replied_user": False}
        request.bot_id, request.channel_id = bot.id, self.story.thread
        request.body = {"content": content, "nonce": nonce, "allowed_mentions": allowed}
        return request

    async def write(self, bot: Bot, content: str, *users: str) -> Message:
        self.journal(bot, content, f"nonce of {content[:9]}", *users)
        return await bot.say(str(self.story.thread), content, allowed_mentions={"parse": []})

    async def hand_over(self, content: str, *users: str) -> Message:
        self.journal(self.sol, content, "nonce of the hand-off", *users)
        pinged = {"parse": [], "users": list(users)}
        return await self.sol.say(str(self.story.thread), content, allowed_mentions=pinged)

    async def ask(self, cue: str, endings: dict[Bot, str], place: str) -> None:
        message = await self.cast.ann.say(place, cue)
        by_bot = {bot.id: emoji for bot, emoji in endings.items()}
        self.story.asked[cue] = Asked(cue, message, by_bot)
        for bot, emoji in endings.items():
            await bot.react(message, emoji)


def _note(broker: DemoBroker, event: str, **message: Any) -> None:
    with broker.agent_log.open("a", encoding="utf-8") as log:
        log.write(json.dumps({"event": event, "message": message}) + "\n")


def _prompted(
    broker: DemoBroker,
    session: str,
    text: str,
    said: str = "",
    tool: str = "",
    before: str = "sender",
) -> None:
    prompt = [{"type": "text", "text": before}, {"type": "text", "text": text}]
    _note(broker, "in", method="session/prompt", params={"sessionId": session, "prompt": prompt})
    for update in (
        {"sessionUpdate": "tool_call", "title": tool} if tool else {},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": said}},
    ):
        _note(broker, "out", method="session/update", params={"update": update})


def _evening(folder: Path) -> Evening:
    discord = LoopbackDiscord()
    ann = discord.add_person("Ann")
    sol, luna = (DemoBroker(discord.add_bot(name), folder / name, ()) for name in ("Sol", "Luna"))
    for broker in (sol, luna):
        broker.folder.mkdir()
    cast = Cast(discord, ann, sol, luna, discord.add_channel("general").id)
    return Evening(discord, cast, Story(), Watch(discord, ann.id))


@pytest.fixture
async def evening(tmp_path: Path) -> Evening:
    evening = _evening(tmp_path)
    await _first_turn(evening)
    await _second_bot(evening)
    await _killed_turn(evening)
    await _afterwards(evening)
    await _handed_over(evening)
    return evening


async def _first_turn(evening: Evening) -> None:
    sol, luna, clock = evening.sol, evening.cast.luna.bot, evening.discord.clock
    said = f"@everyone and {luna.mention}:\n\n{_CODE[0]}{_CODE[1]}"
    _note(evening.cast.sol, "out", id=1, result={"sessionId": "s-1"})
    _prompted(evening.cast.sol, "s-1", scripts.RED_BUILD, said, tool="pytest")
    await evening.ask(scripts.RED_BUILD, {sol: DONE}, evening.cast.channel)
    await sol.open_thread(evening.story.asked[scripts.RED_BUILD].message, "red build")
    clock.advance(1.5)
    placeholder = await evening.write(sol, "-# ⏳ starting")
    clock.advance(3)
    await sol.edit(placeholder, "-# ⏳ 3s")
    clock.advance(2)
    first = neutralize(f"✅ `pytest`\n\n{said.removesuffix(_CODE[1])}```")
    await sol.edit(placeholder, first, allowed_mentions={"parse": []})
    second = f"```python\n{_CODE[1]}"
    await evening.write(sol, second)
    dropped = FaultHandle(commit_then_drop(), 1, evening.discord.world.changed)
    dropped.hit(evening.discord.journal.requests[-1])
    evening.story.dropped = dropped
    evening.journal(sol, second, f"nonce of {second[:9]}")
    clock.advance(10)


async def _second_bot(evening: Evening) -> None:
    sol, luna = evening.cast.sol, evening.cast.luna
    place = str(evening.story.thread)
    _note(luna, "out", id=1, result={"sessionId": "l-1"})
    for broker, session in ((sol, "s-1"), (luna, "l-1")):
        _prompted(broker, session, f"<@1> {scripts.SECOND_OPINION}", "Yes.")
    await evening.ask(scripts.SECOND_OPINION, {sol.bot: DONE, luna.bot: DONE}, place)
    await evening.write(luna.bot, "Yes.", evening.cast.ann.id)


async def _killed_turn(evening: Evening) -> None:
    sol, luna = evening.cast.sol, evening.cast.luna
    _prompted(sol, "s-1", scripts.MIGRATION, "Step one. Step two.", tool="docs")
    _prompted(luna, "l-1", scripts.MIGRATION, "Later.")
    endings = {sol.bot: DONE, luna.bot: DONE}
    await evening.ask(scripts.MIGRATION, endings, str(evening.story.thread))
    evening.story.orphan = await evening.write(sol.bot, "-# ⏳ writing\n\nStep one.")
    evening.story.killed_at = evening.discord.clock.monotonic()
    _note(sol, "in", method="session/resume", params={"sessionId": "s-1"})
    evening.discord.clock.advance(2)
    await sol.bot.edit(evening.story.orphan, "-# 🔄 recovering\n\nStep one.")
    _prompted(sol, "s-1", scripts.MIGRATION, "Step three.", tool="more docs", before=OPENING)
    tools = "✅ `docs`\n✅ `more docs`"
    answer = f"{tools}\n\nStep one.\n\n{went_on_after_restart()}\n\nStep three."
    await evening.write(sol.bot, answer)
    await sol.bot.delete(evening.story.orphan)


async def _afterwards(evening: Evening) -> None:
    sol, luna = evening.cast.sol, evening.cast.luna
    _prompted(sol, "s-1", scripts.STILL_THERE)
    _prompted(luna, "l-1", scripts.STILL_THERE)
    endings = {sol.bot: DONE, luna.bot: DONE}
    await evening.ask(scripts.STILL_THERE, endings, str(evening.story.thread))
    lunas = f"1. {scripts.SECOND_OPINION}\n2. {scripts.MIGRATION}"
    await evening.write(sol.bot, f"1. {scripts.RED_BUILD}\n{lunas}")
    await evening.write(luna.bot, lunas)


async def _handed_over(evening: Evening) -> None:
    sol, luna = evening.cast.sol, evening.cast.luna
    evening.discord.clock.advance(10)
    said = f"[[handoff:{luna.bot.id}]]\n{_WORK}"
    _prompted(sol, "s-1", scripts.HAND_OVER, said)
    _prompted(luna, "l-1", scripts.HAND_OVER, "Gladly.")
    endings = {sol.bot: DONE, luna.bot: DONE}
    await evening.ask(scripts.HAND_OVER, endings, str(evening.story.thread))
    await evening.write(luna.bot, "Gladly.")
    await evening.write(sol.bot, neutralize(_WORK))
    written = (
        json.dumps({"payload": {"text": _WORK}}).replace("<", "\\u003c").replace("@", "\\u0040")
    )
    evening.story.handoff = await evening.hand_over(f"{luna.bot.mention}\n{written}", luna.bot.id)
    await evening.write(sol.bot, "-# 🤝 The message above hands work to Luna.")
    await luna.bot.react(evening.story.handoff, TAKEN)
    await luna.bot.react(evening.story.handoff, DONE)
    _prompted(luna, "l-1", _WORK, _WORK_DONE)
    await evening.write(luna.bot, _WORK_DONE)


async def test_every_claim_holds_for_a_good_evening(evening: Evening) -> None:
    assert [proof for proof in prove(evening.evidence) if not proof.holds] == []


async def test_nothing_is_proved_by_an_evening_that_did_not_take_place(tmp_path: Path) -> None:
    assert _evening(tmp_path).failed() == {claim for claim, _ in CLAIMS}


async def _late_placeholder(evening: Evening) -> None:
    seen = evening.watch.sightings
    at = next(n for n, one in enumerate(seen) if one.content == "-# ⏳ starting")
    seen[at] = replace(seen[at], at=seen[at].at + 1)


async def _silence(evening: Evening) -> None:
    seen = evening.watch.sightings
    seen.remove(next(one for one in seen if one.content == "-# ⏳ 3s"))


async def _many_writes(evening: Evening) -> None:
    for number in range(6):
        evening.journal(evening.sol, "", str(number))


async def _no_allowed_mentions(evening: Evening) -> None:
    evening.discord.journal.requests[-1].fields.pop("allowed_mentions")


async def _everything_parsed(evening: Evening) -> None:
    evening.discord.journal.requests[-1].fields["allowed_mentions"]["parse"] = ["everyone"]


async def _luna_is_named(evening: Evening) -> None:
    evening.journal(evening.sol, "look", "1", evening.cast.luna.bot.id)


async def _live_mention_for_a_moment(evening: Evening) -> None:
    message = evening.last_of(evening.sol)
    content = message.content
    await evening.sol.edit(message, f"<@{evening.cast.luna.bot.id}>")
    await evening.sol.edit(message, content)


async def _two_nonces(evening: Evening) -> None:
    assert evening.story.dropped
    evening.story.dropped.requests[0].fields["nonce"] = "another"


async def _part_twice(evening: Evening) -> None:
    assert evening.story.dropped
    await evening.write(evening.sol, evening.story.dropped.requests[0].fields["content"])


async def _text_lost(evening: Evening) -> None:
    part = next(
        one for one in evening.discord.messages(str(evening.story.thread)) if "two =" in one.content
    )
    await evening.sol.edit(part, part.content.replace("two = 2\n", ""))


async def _prompt_by_a_bot(evening: Evening) -> None:
    _prompted(evening.cast.luna, "l-1", "⏳ starting")


async def _prompt_lost(evening: Evening) -> None:
    evening.cast.luna.agent_log.write_text("")


async def _orphan_stays(evening: Evening) -> None:
    await evening.write(evening.sol, "-# ⏳ 3s · writing")


async def _two_endings(evening: Evening) -> None:
    del evening.story.asked[scripts.STILL_THERE]
    await evening.write(evening.sol, went_on_after_restart())


async def _ending_with_invented_text(evening: Evening) -> None:
    shown = evening.discord.messages(str(evening.story.thread))
    ending = next(one for one in shown if went_on_after_restart() in one.content)
    await evening.sol.edit(ending, ending.content + " Step four.")


async def _first_half_lost(evening: Evening) -> None:
    shown = evening.discord.messages(str(evening.story.thread))
    ending = next(one for one in shown if went_on_after_restart() in one.content)
    await evening.sol.edit(ending, ending.content.replace("Step one.\n\n", ""))


async def _placeholder_never_moves_again(evening: Evening) -> None:
    orphan, killed_at = evening.story.orphan, evening.story.killed_at
    assert orphan
    assert killed_at
    kept = [
        one
        for one in evening.watch.sightings
        if one.message_id != orphan.id or one.at <= killed_at or one.change is Change.DELETED
    ]
    evening.watch.sightings[:] = kept


async def _two_reactions(evening: Evening) -> None:
    await evening.sol.react(evening.story.asked[scripts.MIGRATION].message, "😱")


async def _another_session(evening: Evening) -> None:
    _note(evening.cast.sol, "out", id=9, result={"sessionId": "s-2"})


async def _forgotten(evening: Evening) -> None:
    await evening.sol.edit(_memory(evening, evening.sol), "I remember nothing.")


async def _shared_memory(evening: Evening) -> None:
    luna = evening.cast.luna.bot
    message = _memory(evening, luna)
    await luna.edit(message, f"{message.content}\n3. {scripts.RED_BUILD}")


def _memory(evening: Evening, bot: Bot) -> Message:
    shown = evening.discord.messages(str(evening.story.thread))
    return next(one for one in shown if one.author.id == bot.id and "1. " in one.content)


async def _handed_over_twice(evening: Evening) -> None:
    assert evening.story.handoff
    await evening.hand_over(evening.story.handoff.content, evening.cast.luna.bot.id)


async def _handed_over_to_everybody(evening: Evening) -> None:
    assert evening.story.handoff
    ids = frozenset({evening.cast.luna.bot.id, evening.cast.ann.id})
    evening.story.handoff.pings = ids


async def _work_is_changed(evening: Evening) -> None:
    assert evening.story.handoff
    message = evening.story.handoff
    message.content = message.content.replace("Proofread", "Rewrite")


async def _work_arrives_twice(evening: Evening) -> None:
    _prompted(evening.cast.luna, "l-1", _WORK, _WORK_DONE)


async def _directive_is_shown(evening: Evening) -> None:
    await evening.write(evening.sol, "[[handoff:1]]")


async def _no_receipt(evening: Evening) -> None:
    assert evening.story.handoff
    await evening.cast.luna.bot.unreact(evening.story.handoff, TAKEN)


async def _work_is_not_done(evening: Evening) -> None:
    luna = evening.cast.luna.bot
    await luna.delete(evening.last_of(luna))


async def _request_is_not_shown(evening: Evening) -> None:
    shown = evening.discord.messages(str(evening.story.thread))
    await evening.sol.delete(next(one for one in shown if one.content == neutralize(_WORK)))


@pytest.mark.parametrize(
    ("spoil", "number"),
    [
        (_late_placeholder, 0),
        (_silence, 1),
        (_many_writes, 2),
        (_no_allowed_mentions, 3),
        (_everything_parsed, 3),
        (_luna_is_named, 3),
        (_live_mention_for_a_moment, 4),
        (_two_nonces, 5),
        (_part_twice, 5),
        (_text_lost, 6),
        (_prompt_by_a_bot, 7),
        (_prompt_lost, 7),
        (_orphan_stays, 8),
        (_placeholder_never_moves_again, 8),
        (_first_half_lost, 9),
        (_two_endings, 9),
        (_ending_with_invented_text, 9),
        (_two_reactions, 10),
        (_another_session, 11),
        (_forgotten, 11),
        (_shared_memory, 12),
        (_handed_over_twice, 13),
        (_handed_over_to_everybody, 13),
        (_work_is_changed, 14),
        (_work_arrives_twice, 14),
        (_work_arrives_twice, 7),
        (_directive_is_shown, 15),
        (_no_receipt, 15),
        (_work_is_not_done, 15),
        (_request_is_not_shown, 15),
    ],
)
async def test_a_spoilt_evening_is_not_proved(
    evening: Evening, spoil: Callable[[Evening], Awaitable[None]], number: int
) -> None:
    await spoil(evening)
    assert CLAIMS[number][0] in evening.failed()


async def test_a_fence_left_open_is_told(evening: Evening) -> None:
    shown = evening.discord.messages(str(evening.story.thread))
    part = next(one for one in shown if "two =" in one.content)
    await evening.sol.edit(part, part.content.replace("```\n\n", "\n\n"))
    (lossless,) = (one for one in prove(evening.evidence) if one.claim == CLAIMS[6][0])
    assert not lossless.holds
    assert "open fence" in lossless.found


def test_parts_are_joined_without_the_fences_of_the_cuts() -> None:
    parts = ["a\n```py\none\n```", "```py\ntwo\n```", "```py\nthree\n```\nend"]
    assert joined(parts) == "a\n```py\none\ntwo\nthree\n```\nend"


async def test_a_change_that_nobody_can_see_is_no_sighting(evening: Evening) -> None:
    before = len(evening.watch.sightings)
    message = evening.last_of(evening.sol)
    await evening.sol.edit(message, message.content)
    await evening.sol.delete(message)
    assert [one.change for one in evening.watch.sightings[before:]] == [Change.DELETED]
