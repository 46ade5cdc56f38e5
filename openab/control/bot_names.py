"""What other bots are called, as far as the network tells; looked up once in the life of a process."""

import asyncio
from collections.abc import Iterable

from openab.domain.errors import OpenabError
from openab.domain.ids import PlatformId
from openab.ports.channel import Channel

#: A turn does not wait longer than this for mere names.
_LONGEST_SECONDS = 2.0


class BotNames:
    """Names by id. Nothing depends on them but what people and agents read."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, bot: str) -> str:
        """What is known; empty: nothing."""
        return self._names.get(bot, "")

    async def learn(self, channel: Channel, bots: Iterable[str], seconds: float) -> None:
        """Ask for those that are not known yet; whoever does not answer stays without a name."""
        unknown = [PlatformId(bot) for bot in bots if bot not in self._names]
        within = min(seconds, _LONGEST_SECONDS)
        await asyncio.gather(*(self._ask(channel, bot, within) for bot in unknown))

    async def _ask(self, channel: Channel, bot: PlatformId, seconds: float) -> None:
        try:
            self._names[bot] = await channel.user_name(bot, seconds)
        except OpenabError:
            # It is asked again at the next occasion.
            return
