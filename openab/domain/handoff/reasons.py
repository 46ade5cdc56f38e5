"""Why a hand-off is refused or cannot be sent: one constant word each, and what it means."""

from enum import StrEnum


class Refusal(StrEnum):
    """Why a hand-off that came is not accepted; in the order in which it is checked."""

    #: The message is longer than anything that is read.
    TOO_LARGE = "too_large"
    #: The rest is no JSON: cut, followed by something, or nested without end.
    NOT_JSON = "not_json"
    #: Two readers could read two different envelopes.
    DUPLICATE_KEY = "duplicate_key"
    WRONG_SCHEMA = "wrong_schema"
    #: Its source is not the bot that wrote the message.
    WRONG_SOURCE = "wrong_source"
    #: The source is this bot.
    OWN_HANDOFF = "own_handoff"
    #: Not in the trusted ids; an empty list trusts nobody.
    SOURCE_NOT_TRUSTED = "source_not_trusted"
    WRONG_TARGET = "wrong_target"
    #: It is not exactly the plain mention of the target.
    WRONG_FIRST_LINE = "wrong_first_line"
    WRONG_EVENT_ID = "wrong_event_id"
    #: The expiry is no whole number.
    WRONG_EXPIRY = "wrong_expiry"
    EXPIRED = "expired"
    EXPIRES_TOO_LATE = "expires_too_late"
    WRONG_HOP_COUNT = "wrong_hop_count"
    #: It was written for another conversation, or its origin is malformed.
    WRONG_ORIGIN = "wrong_origin"
    #: There is no text, or it is blank.
    NO_TEXT = "no_text"
    #: The text holds half a character, which no agent could be given as it is.
    LONE_SURROGATE = "lone_surrogate"
    #: Discord said that the conversation is gone. From here on the gates speak that every message
    #: meets; they spend nothing either.
    CONVERSATION_GONE = "conversation_gone"
    DM_OFF = "dm_off"
    CHANNEL_NOT_ALLOWED = "channel_not_allowed"
    #: Bots have spoken as often as they may before a person does.
    BOT_TURN_CAP = "bot_turn_cap"
    #: The event id was accepted before.
    REPLAY = "replay"
    #: The receiver remembers as many ids as it can.
    REPLAY_CAPACITY = "replay_capacity"
    #: The source has had its ten in this minute; the id is not spent.
    RATE_LIMITED = "rate_limited"


class NotSent(StrEnum):
    """Why a hand-off that an agent asked for was not sent."""

    #: The directive's value is no bot's id.
    WRONG_TARGET = "wrong_target"
    OWN_ACCOUNT = "own_account"
    TARGET_NOT_TRUSTED = "target_not_trusted"
    #: Only Discord carries hand-offs.
    WRONG_CHANNEL = "wrong_channel"
    NO_TEXT = "no_text"
    LONE_SURROGATE = "lone_surrogate"
    TOO_LARGE = "too_large"
    #: The target is not in the conversation and could not be added.
    TARGET_ABSENT = "target_absent"
    #: It could not be sent while its envelope lived.
    EXPIRED = "expired"
    #: The network refused the message.
    REFUSED = "refused"
    #: It may have been sent; nobody can find out any more.
    UNCLEAR = "unclear"
    #: The conversation is gone.
    CONVERSATION_GONE = "conversation_gone"


#: For `openab why` and the line that people see; so are the remedies.
MEANINGS: dict[Refusal, str] = {
    Refusal.TOO_LARGE: "the message is longer than 100,000 bytes",
    Refusal.NOT_JSON: "what follows the mention is not one JSON object and nothing else",
    Refusal.DUPLICATE_KEY: "the envelope names a key twice",
    Refusal.WRONG_SCHEMA: "the schema is not openab.multibot.handoff.v1",
    Refusal.WRONG_SOURCE: "source_bot_id is not the bot that wrote the message",
    Refusal.OWN_HANDOFF: "the bot does not take hand-offs from itself",
    Refusal.SOURCE_NOT_TRUSTED: "the source is not in [discord].trusted_bot_ids",
    Refusal.WRONG_TARGET: "target_bot_id is another bot",
    Refusal.WRONG_FIRST_LINE: "the first line is not exactly the target's mention",
    Refusal.WRONG_EVENT_ID: "event_id is not a UUID",
    Refusal.WRONG_EXPIRY: "expires_at is not a whole number",
    Refusal.EXPIRED: "it came after expires_at",
    Refusal.EXPIRES_TOO_LATE: "expires_at is more than an hour ahead",
    Refusal.WRONG_HOP_COUNT: "hop_count is not 0",
    Refusal.WRONG_ORIGIN: "it was written for another conversation",
    Refusal.NO_TEXT: "payload.text is missing or blank",
    Refusal.LONE_SURROGATE: "payload.text holds half a character",
    Refusal.CONVERSATION_GONE: "Discord said that this conversation is gone",
    Refusal.DM_OFF: "direct messages are off",
    Refusal.CHANNEL_NOT_ALLOWED: "the channel is not in [discord].allowed_channels",
    Refusal.BOT_TURN_CAP: "bots have taken [discord].max_bot_turns turns since a person wrote",
    Refusal.REPLAY: "this event id was accepted before",
    Refusal.REPLAY_CAPACITY: "4096 hand-offs are remembered already",
    Refusal.RATE_LIMITED: "the source has sent ten hand-offs within a minute",
}

_MEND = "the sending bot has to write it anew and right"
REMEDIES: dict[Refusal, str] = dict.fromkeys(Refusal, _MEND) | {
    Refusal.TOO_LARGE: "ask for less",
    Refusal.OWN_HANDOFF: "name another bot",
    Refusal.SOURCE_NOT_TRUSTED: "add the bot's id there, if it is to be trusted; no restart is needed",
    Refusal.EXPIRED: "ask for it again",
    Refusal.WRONG_ORIGIN: "it has to be sent from the conversation that it is for",
    Refusal.CONVERSATION_GONE: "send it elsewhere",
    Refusal.DM_OFF: "send it in a channel or thread",
    Refusal.CHANNEL_NOT_ALLOWED: "add the channel there, or send it elsewhere",
    Refusal.BOT_TURN_CAP: "a person has to write here first; then send it again",
    Refusal.REPLAY: "nothing, if it was sent twice; new work needs a new event id",
    Refusal.REPLAY_CAPACITY: "send it again in ten minutes",
    Refusal.RATE_LIMITED: "send it again in a minute",
}
