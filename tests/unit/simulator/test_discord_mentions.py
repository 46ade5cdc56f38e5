"""Who a message notifies in the loopback Discord, and what an edit cannot do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.simulator.discord import LoopbackDiscord, Message
from openab.simulator.discord.errors import Json, Refused
from openab.simulator.discord.mentions import allowed

SILENT = 1 << 12


class Scene:
    def __init__(self) -> None:
        self.discord = LoopbackDiscord()
        self.channel = self.discord.add_channel("general")
        self.bot = self.discord.add_bot("Sol")
        self.alice = self.discord.add_person("alice")
        self.bob = self.discord.add_person("bob")

    async def said(self, text: str, rule: Json | None = None, flags: int = 0) -> Message:
        return await self.bot.say(self.channel.id, text, allowed_mentions=rule, flags=flags)


async def test_without_a_rule_everything_pings() -> None:
    scene = Scene()
    assert (await scene.said(scene.alice.mention)).pings == {scene.alice.id}
    assert (await scene.said(f"<@!{scene.alice.id}>")).pings == {scene.alice.id}
    assert {scene.alice.id, scene.bob.id} <= (await scene.said("@here")).pings
    role = scene.discord.add_role(scene.discord.guild, "staff", scene.bob.id)
    assert (await scene.said(f"<@&{role.id}>")).pings == {scene.bob.id}


async def test_a_rule_names_who_may_be_pinged() -> None:
    scene = Scene()
    both = f"{scene.alice.mention} {scene.bob.mention} @everyone"
    assert (await scene.said(both, {"parse": []})).pings == frozenset()
    only = await scene.said(both, {"parse": [], "users": [scene.alice.id]})
    assert only.pings == {scene.alice.id}
    assert only.mention_ids == [scene.alice.id]
    assert (await scene.said(both, {"parse": []}, SILENT)).pings == frozenset()


async def test_a_silent_message_highlights_and_notifies_nobody() -> None:
    scene = Scene()
    silent = await scene.said(scene.alice.mention, None, SILENT)
    assert silent.mention_ids == [scene.alice.id]
    assert silent.pings == frozenset()


async def test_everyone_needs_its_permission() -> None:
    scene = Scene()
    scene.discord.deny(scene.bot.id, scene.channel.id, "mention_everyone")
    said = await scene.said("@everyone")
    assert not said.mention_everyone
    assert said.pings == frozenset()


async def test_a_reply_pings_unless_told_not_to() -> None:
    scene = Scene()
    asked = await scene.alice.say(scene.channel.id, "?")
    rules: list[Json | None] = [None, {"parse": []}, {"parse": [], "replied_user": True}]
    answers = [
        await scene.bot.say(scene.channel.id, "!", reply_to=asked, allowed_mentions=rule)
        for rule in rules
    ]
    assert [one.pings for one in answers] == [{scene.alice.id}, frozenset(), {scene.alice.id}]


async def test_an_edit_highlights_but_notifies_nobody() -> None:
    scene = Scene()
    said = await scene.said("...")
    await scene.bot.edit(said, scene.alice.mention)
    assert said.mention_ids == [scene.alice.id]
    assert said.pings == frozenset()
    assert said.contents == ["...", scene.alice.mention]


async def test_who_does_not_see_the_channel_is_not_notified() -> None:
    scene = Scene()
    scene.discord.deny(scene.alice.id, scene.channel.id, "view_channel")
    assert (await scene.said(scene.alice.mention)).pings == frozenset()


@pytest.mark.parametrize(
    "rule",
    [
        {"parse": ["users"], "users": ["1"]},
        {"parse": ["roles"], "roles": ["1"]},
        {"parse": ["nobody"]},
        {"users": [str(number) for number in range(101)]},
    ],
)
def test_contradictory_rules_are_refused(rule: Json) -> None:
    with pytest.raises(Refused) as refusal:
        allowed(rule)
    assert refusal.value.code == 50035


@given(st.text(alphabet="<@!&>0123456789everyonh \n`", max_size=60))
async def test_with_an_empty_rule_no_text_pings(text: str) -> None:
    scene = Scene()
    said = await scene.said(f"x{text}{scene.alice.mention}", {"parse": []})
    assert said.pings == frozenset()
    assert said.mention_ids == []
