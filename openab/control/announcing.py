"""Tells an agent, once in a session, how and to whom it can give work: other bots, and sub-agents."""

from openab.control.handoff_owing import refusal, sized
from openab.control.services import Services
from openab.domain.handoff import room
from openab.domain.ids import PlatformId
from openab.domain.message import Place
from openab.storage import spawns
from openab.storage.conversations import Conversation
from openab.storage.turns import Turn
from openab.text import spawn_words
from openab.text.handoff_words import MOST_ANNOUNCED, Peer, announcement
from openab.text.output import Intent


async def announced(services: Services, where: Conversation, turn: Turn) -> str:
    """What is said; nothing where nobody can be given work from here."""
    told = (await _bots(services, where, turn), await _sub_agents(services, where, turn))
    return "\n\n".join(filter(None, told))


async def _sub_agents(services: Services, where: Conversation, turn: Turn) -> str:
    settings = services.settings
    names = sorted(settings.named_agents())
    if not settings.binding.spawns.is_on or where.place is not Place.THREAD or not names:
        return ""
    async with services.database.read() as tx:
        above = await spawns.of_session(tx, turn.session_key)
    depth = 1 + (above.depth if above else 0)
    return spawn_words.announcement(names) if depth <= settings.binding.spawns.depth else ""


async def _bots(services: Services, where: Conversation, turn: Turn) -> str:
    settings = services.settings
    if not settings.announces_handoffs:
        return ""
    trusted = (PlatformId(bot) for bot in settings.policy().trusted_bots)
    possible = (bot for bot in trusted if refusal(settings, where, bot) is None)
    bots = sorted(possible, key=lambda bot: (not _is_here(where, bot), bot))[:MOST_ANNOUNCED]
    if not bots:
        return ""
    channel = services.channel(lambda: True)
    await services.bot_names.learn(channel, bots, settings.call.total_seconds())
    peers = [Peer(bot, settings.bot_name(bot), is_here=_is_here(where, bot)) for bot in bots]
    least = min(room(sized(settings, where, turn, Intent(bot))) for bot in bots)
    return announcement(peers, least)


def _is_here(where: Conversation, bot: str) -> bool:
    return bot in where.bots.other_bots
