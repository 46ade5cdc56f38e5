"""May this event start a turn? Ordered checks, each with its own reason word; one verdict.

Pure: what the database and the configuration know comes in as values. The order is OpenAB's, with
its defects mended (other bots are noted and counted before this is asked; a stranger who did not
address the bot is not told off; edits and presentation messages are never input).
"""

from openab.domain.gates.absence import CAUGHT_UP, MOST_CAUGHT_UP, SKIPPED, after_absence
from openab.domain.gates.access import (
    may_join,
    may_press,
    place_refusal,
)
from openab.domain.gates.bot_turns import BotTurns, cap_of, counted, exceeds_cap, warns, warns_as
from openab.domain.gates.handoffs import claim_of, judge_handoff, may_claim
from openab.domain.gates.messages import judge
from openab.domain.gates.policy import BotMode, ConversationFacts, GatePolicy, UserMode
from openab.domain.gates.reactions import judge_reaction, mapped_text, plain_emoji
from openab.domain.gates.reasons import REASONS, in_words
from openab.domain.gates.verdicts import Disposition, Verdict

__all__ = [
    "CAUGHT_UP",
    "MOST_CAUGHT_UP",
    "REASONS",
    "SKIPPED",
    "BotMode",
    "BotTurns",
    "ConversationFacts",
    "Disposition",
    "GatePolicy",
    "UserMode",
    "Verdict",
    "after_absence",
    "cap_of",
    "claim_of",
    "counted",
    "exceeds_cap",
    "in_words",
    "judge",
    "judge_handoff",
    "judge_reaction",
    "mapped_text",
    "may_claim",
    "may_join",
    "may_press",
    "place_refusal",
    "plain_emoji",
    "warns",
    "warns_as",
]
