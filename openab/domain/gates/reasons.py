"""What each reason word means and what can be done about it, for `openab why`."""

from openab.domain.gates.verdicts import Disposition
from openab.domain.handoff import MEANINGS, REMEDIES, Refusal

REASONS: dict[str, str] = {
    "accepted": "it started a turn",
    "caught_up": "it was said while openab was away, and started a turn when it was back",
    "too_old": "it was said while openab was away, more than [discord].backfill_minutes before it "
    "was read; send it again",
    "too_many": "it was said while openab was away, behind 50 others of this conversation; send it "
    "again",
    "joined_run": "it was added to the turn that the same bot's message before it started",
    "reaction": "it started a turn with the text that [reactions.mapping] gives the emoji",
    "text_command": "it is a command to the broker itself",
    "own_message": "the bot wrote it",
    "system_message": "only ordinary messages and replies are input",
    "presentation": "it is another openab's placeholder or notice, which is never input",
    "presentation_history": "a bot's silent or edited message read from history is never input",
    "edited": "edits never start a turn; write a new message",
    "bot_turn_cap": "bots have taken [discord].max_bot_turns turns since a person wrote; "
    "a person must write here first",
    "bot_loop": "a thousand bot messages came without a person's; a person must write here first",
    "handoff_for_other_bot": "it is a hand-off, or claims to be one, and its first line does not name "
    "this bot",
    "bots_off": "messages of bots are off: set [discord].allow_bot_messages or trusted_bot_ids",
    "bot_not_trusted": "the bot is not in [discord].trusted_bot_ids",
    "bot_without_mention": "a bot must mention this bot to be heard",
    "conversation_gone": "Discord said that this conversation is gone",
    "dm_off": "direct messages are off: set [discord].allow_dm",
    "channel_not_allowed": "the channel is not in [discord].allowed_channels",
    "meant_for_other_bot": "it mentions another bot, or a role of other bots, and not this bot; mention it",
    "not_mentioned": "in a channel the bot answers only when it is mentioned",
    "not_involved": "the bot has no part in this thread; mention it",
    "mention_needed": 'the bot must be mentioned: [discord].allow_user_messages is "mentions"',
    "mention_needed_among_bots": "another bot has spoken in this thread, so the bot must be "
    'mentioned; with [discord].allow_user_messages = "involved" it need not',
    "user_not_allowed": "the author is not in [discord].allowed_users",
    "empty": "there is neither text nor an attachment",
    "own_reaction": "the bot reacted itself",
    "bot_reaction": "reactions of bots start nothing",
    "reaction_outside_thread": "a reaction starts a turn only in a thread or a direct message",
    "reaction_among_bots": "where other bots speak, only a reaction on this bot's own message counts",
    "unreadable": "it could not be understood; the log of that moment says why",
}


def in_words(disposition: Disposition, word: str) -> str:
    """What became of an event, and why, and what can be done; empty for a word that nobody knows."""
    if disposition is Disposition.HANDOFF:
        return "a valid hand-off; it started a turn of its own"
    if disposition is Disposition.REFUSED and word in set(Refusal):
        refusal = Refusal(word)
        return f"a hand-off, refused: {MEANINGS[refusal]}; {REMEDIES[refusal]}"
    return REASONS.get(word, "")
