"""The answer as people get it: without narration where that is wished, its tables converted."""

import asyncio

from openab.control.settings import ReplySettings
from openab.text.answer import AnswerFold
from openab.text.narration import Narration, delivered_of
from openab.text.tables import convert

#: Parsing a longer text takes longer than the loop may stand still.
_SHORT = 4000


async def delivered_answer(fold: AnswerFold, mode: str, replies: ReplySettings) -> str:
    """What the final of a turn holds that was shown in this mode; call it outside of any transaction."""
    narration = Narration(is_streamed=mode == "stream", is_wanted=replies.narration)
    return await with_tables(delivered_of(fold, narration), replies)


async def with_tables(answer: str, replies: ReplySettings) -> str:
    """The answer with its tables converted; call it outside of any transaction."""
    if len(answer) <= _SHORT:
        return convert(answer, replies.tables)
    return await asyncio.to_thread(convert, answer, replies.tables)
