"""A channel and its thread as people see them, drawn for a terminal."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from openab.cli.demo.sightings import PRESENTATION
from openab.simulator.discord import Channel, Message
from openab.simulator.discord.world import World
from openab.text.fences import Fence, after_line
from openab.text.mentions import mentioned_ids
from openab.text.neutralize import ZERO_WIDTH_SPACE

#: Longer messages are folded: so many lines of the beginning and of the end are drawn.
_TOP, _BOTTOM = 8, 4
_CODE = "│ "
_FACES = ("bold magenta", "bold blue")


class Painter:
    """Draws messages; knows who is called what."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: Only what is newer than this message is drawn.
        self.after = 0

    def everything(self, channel: Channel) -> RenderableType:
        """The channel, and under it each thread that was opened from one of its messages."""
        drawn: list[RenderableType] = []
        for message in _standing(channel):
            if int(message.id) > self.after:
                head = Text(f"# {channel.name}", style="bold")
                drawn += [head, Padding(self.message(message), (0, 0, 0, 1))]
            thread = self._world.channels.get(message.id)
            if thread is not None:
                drawn += [Text(f" ╰─ 🧵 {thread.name}", style="bold"), self._thread(thread)]
        return Group(*drawn)

    def _thread(self, thread: Channel) -> RenderableType:
        messages = [one for one in _standing(thread) if int(one.id) > self.after]
        return Group(*(Padding(self.message(one), (1, 0, 0, 4)) for one in messages))

    def message(self, message: Message) -> RenderableType:
        """One message: who, what, and the reactions below."""
        lines: list[RenderableType] = [self._head(message)]
        lines += [Padding(one, (0, 0, 0, 2)) for one in self._body(message)]
        if message.reactions:
            lines.append(Padding(_reactions(message.reactions), (0, 0, 0, 2)))
        return Group(*lines)

    def _head(self, message: Message) -> Text:
        author = message.author
        style = _FACES[int(author.id) % len(_FACES)] if author.is_bot else "bold green"
        head = Text.assemble((author.name, style), (" BOT" if author.is_bot else "", "dim"))
        if message.referenced:
            head.append(f"  ↪ to {message.referenced.author.name}", "dim")
        if message.edited_at:
            head.append("  (edited)", "dim")
        return head

    def _body(self, message: Message) -> Iterator[Text]:
        content = message.content
        is_live = content.startswith(PRESENTATION)
        fence: Fence | None = None
        lines: list[Text] = []
        for line in self.plain(content).split("\n"):
            before, fence = fence, after_line(fence, line)
            if (before is None) != (fence is None):
                continue
            lines.append(_code(line) if fence else _prose(line))
        yield from folded(lines, newest_last=is_live)

    def plain(self, content: str) -> str:
        """The text with living mentions by name; inert ones stay the letters they are."""
        for user_id in mentioned_ids(content).users:
            user = self._world.users.get(user_id)
            for form in (f"<@{user_id}>", f"<@!{user_id}>") if user else ():
                content = content.replace(form, f"@{user.name if user else ''}")
        return content.replace(ZERO_WIDTH_SPACE, "")

    def name(self, user_id: str) -> str:
        """What an account is called."""
        user = self._world.users.get(user_id)
        return user.name if user else "somebody"


def folded(lines: Sequence[Text], *, newest_last: bool = False) -> list[Text]:
    """Long messages without their middle; of a live one the end is what matters."""
    top, bottom = (_BOTTOM, _TOP) if newest_last else (_TOP, _BOTTOM)
    hidden = len(lines) - top - bottom
    if hidden < 2:
        return list(lines)
    mark = Text(f"⋯ {hidden} more lines", style="dim italic")
    return [*lines[:top], mark, *lines[-bottom:]]


def _standing(channel: Channel) -> list[Message]:
    messages = channel.messages.values()
    return [one for one in messages if not one.deleted and not one.is_system]


def _code(line: str) -> Text:
    return Text(_CODE + line, style="cyan", no_wrap=True, overflow="ellipsis")


def _prose(line: str) -> Text:
    if line.startswith(PRESENTATION):
        return Text(line.removeprefix(PRESENTATION), style="italic yellow")
    text = Text()
    for number, piece in enumerate(line.split("`")):
        text.append(piece, style="cyan" if number % 2 else "")
    return text


def _reactions(reactions: Mapping[str, Sequence[str]]) -> Text:
    return Text("  ".join(f"[{emoji} {len(users)}]" for emoji, users in reactions.items()))
