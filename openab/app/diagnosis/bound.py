"""Does what is bound or at work fit the configuration: agents that are gone, bindings that nobody follows?"""

from collections import Counter
from collections.abc import Collection, Iterator

from openab.app.diagnosis.report import Found, warning
from openab.domain.binding import BindingStatus
from openab.domain.errors import OpenabError
from openab.domain.ids import SessionKey, named_agent
from openab.storage.binding_listing import Listing, list_bindings

_PART = "bindings"
#: More than these nobody looks at one by one.
_MOST = 10_000


async def bound(url: str, configured: Collection[str], *, is_followed: bool) -> list[Found]:
    """What is to be thought about; nothing where the database cannot be read, which its own check tells."""
    try:
        listing = await list_bindings(url, only_open=True, limit=_MOST)
    except (OpenabError, OSError):
        return []
    return [*_unserved(listing, configured), *_unfollowed(listing, is_followed=is_followed)]


def _unserved(listing: Listing, configured: Collection[str]) -> Iterator[Found]:
    wanted = Counter(
        filter(None, (named_agent(SessionKey(line.session_key)) for line in listing.bindings))
    )
    wanted.update(line.agent for line in listing.spawns)
    for name in sorted(wanted.keys() - set(configured)):
        told = f"{name} is not configured any more, but bindings or tasks of sub-agents are for it"
        remedy = f"write [agents.{name}] again, or type /unfocus there; see: openab bindings --open"
        yield warning(_PART, told, remedy)


def _unfollowed(listing: Listing, *, is_followed: bool) -> Iterator[Found]:
    kept = sum(line.state == BindingStatus.ACTIVE for line in listing.bindings)
    if kept and not is_followed:
        told = f"{kept} kept, but not followed: they are switched off"
        yield warning(_PART, told, "set enabled = true in [discord.thread_bindings]")
