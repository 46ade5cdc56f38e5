"""Rules for threads: start, join, archive, rename (Discord API documentation)."""

from openab.simulator.discord import happenings
from openab.simulator.discord.errors import Json, invalid_form, refused
from openab.simulator.discord.records import (
    HAS_THREAD,
    PUBLIC_THREAD,
    TEXT_CHANNEL,
    THREAD_CREATED,
    THREAD_STARTER,
    Channel,
    Message,
    ThreadState,
    User,
)
from openab.simulator.discord.world import World

_AUTO_ARCHIVE_MINUTES = frozenset({60, 1440, 4320, 10080})


def checked_name(name: object) -> str:
    """A channel's name: 1 to 100 characters, else 50035."""
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= 100:
        text = "Must be between 1 and 100 in length."
        raise invalid_form("name", "BASE_TYPE_BAD_LENGTH", text)
    return name.strip()


def checked_auto_archive(minutes: object) -> int:
    """One of Discord's four durations, else 50035."""
    if minutes not in _AUTO_ARCHIVE_MINUTES:
        text = "Value must be one of {60, 1440, 4320, 10080}."
        raise invalid_form("auto_archive_duration", "BASE_TYPE_CHOICES", text)
    return int(str(minutes))


def start(
    world: World, parent: Channel, owner: User, name: str, *, starter: Message | None, minutes: int
) -> Channel:
    """Open a public thread. From a message it takes the message's id; a second time is 160004."""
    if parent.type != TEXT_CHANNEL:
        raise refused(50024)
    if starter and starter.id in world.channels:
        raise refused(160004)
    now = world.clock.wall()
    thread = Channel(
        id=starter.id if starter else world.snowflakes.next(),
        type=PUBLIC_THREAD,
        name=name,
        guild_id=parent.guild_id,
        parent_id=parent.id,
        thread=ThreadState(owner.id, now, now, auto_archive_minutes=minutes),
    )
    world.channels[thread.id] = thread
    if thread.thread:
        thread.thread.members[owner.id] = now
    happenings.channel_changed(world, "THREAD_CREATE", thread, newly_created=True)
    _announce(world, parent, thread, owner, starter)
    return thread


def _announce(
    world: World, parent: Channel, thread: Channel, owner: User, starter: Message | None
) -> None:
    """The system messages: a thread's starter in it, or 'thread created' in its parent."""
    reference: Json = {"type": 0, "guild_id": thread.guild_id}
    if starter is None:
        reference["channel_id"] = thread.id
        _system_message(world, parent, owner, THREAD_CREATED, thread.name, reference, None)
        return
    starter.flags |= HAS_THREAD
    happenings.message_updated(world, starter)
    reference |= {"channel_id": parent.id, "message_id": starter.id}
    _system_message(world, thread, owner, THREAD_STARTER, "", reference, starter)


def _system_message(
    world: World,
    channel: Channel,
    author: User,
    kind: int,
    content: str,
    reference: Json,
    referenced: Message | None,
) -> None:
    message = Message(
        world.snowflakes.next(),
        channel.id,
        author,
        content,
        world.clock.wall(),
        type=kind,
        reference=reference,
        referenced=referenced,
    )
    channel.messages[message.id] = message
    channel.last_message_id = message.id
    happenings.message_created(world, message)


def wake(world: World, channel: Channel, author: User) -> None:
    """Sending un-archives, unless the thread is locked (160005 without MANAGE_THREADS)."""
    state = channel.thread
    if state is None:
        return
    if state.locked and not world.may(author.id, channel, "manage_threads"):
        raise refused(160005)
    if state.archived:
        archive(world, channel, archived=False)


def archive(world: World, channel: Channel, *, archived: bool) -> None:
    """Archive or un-archive, and tell."""
    state = channel.thread
    if state is None:
        raise refused(50024)
    state.archived = archived
    state.archived_at = world.clock.wall()
    happenings.channel_changed(world, "THREAD_UPDATE", channel)


def delete(world: World, channel: Channel) -> None:
    """Delete a channel or thread: from then on it is 10003. A channel's threads go with it, untold."""
    name = "THREAD_DELETE" if channel.thread else "CHANNEL_DELETE"
    happenings.channel_changed(world, name, channel)
    channel.deleted = True
    for other in world.channels.values():
        if other.thread and other.parent_id == channel.id:
            other.deleted = True


def join(world: World, channel: Channel, user_id: str) -> None:
    """Make somebody a member; a second time is done already, an archived thread is 50083."""
    state = channel.thread
    if state is None:
        raise refused(50024)
    if state.archived:
        raise refused(50083)
    if user_id in state.members:
        return
    state.members[user_id] = world.clock.wall()
    happenings.thread_joined(world, channel, user_id)


def leave(world: World, channel: Channel, user_id: str) -> None:
    """End a membership."""
    state = channel.thread
    if state is None:
        raise refused(50024)
    state.members.pop(user_id, None)
    world.changed.notify()


def join_by_message(world: World, channel: Channel, message: Message) -> None:
    """Who speaks in a thread joins it; whom a person mentions there joins, too."""
    joining = [] if message.author.webhook else [message.author.id]
    if not message.author.is_bot:
        joining += [one for one in message.mention_ids if world.sees(one, channel)]
    for user_id in joining:
        join(world, channel, user_id)


def modify(world: World, channel: Channel, user: User, changes: Json) -> None:
    """PATCH of a thread: who may, in which state, and what then is told."""
    state = channel.thread
    if state is None:
        raise refused(50024)
    _may_modify(world, channel, user, changes)
    if state.archived and changes.get("archived") is not False:
        raise refused(50083)
    name = checked_name(changes["name"]) if "name" in changes else channel.name
    if "auto_archive_duration" in changes:
        state.auto_archive_minutes = checked_auto_archive(changes["auto_archive_duration"])
    channel.name = name
    state.locked = bool(changes.get("locked", state.locked))
    if "archived" in changes and bool(changes["archived"]) is not state.archived:
        archive(world, channel, archived=bool(changes["archived"]))
        return
    happenings.channel_changed(world, "THREAD_UPDATE", channel)


def _may_modify(world: World, channel: Channel, user: User, changes: Json) -> None:
    state = channel.thread
    if state is None or world.may(user.id, channel, "manage_threads"):
        return
    wakes_only = set(changes) == {"archived"} and not changes["archived"] and not state.locked
    owns = state.owner_id == user.id and "locked" not in changes and not state.locked
    if not (wakes_only or owns):
        raise refused(50013)
