"""A chat network in memory that keeps the channel port, says what it was told, and fails by script."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from openab.domain.errors import OpenabError
from openab.domain.ids import MessageRef, PlatformId
from openab.domain.outbound import MessageBody
from openab.ports.channel import ChannelRejected, DeliveryUnknown, Refusal, SeenMessage

_START = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
_LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the port, as it came."""

    method: str
    conversation_id: PlatformId
    message_id: PlatformId | None = None
    body: MessageBody | None = None
    nonce: str | None = None
    #: A thread's title or a reaction's emoji.
    word: str = ""


@dataclass(slots=True)
class Posted:
    """A message as it stands."""

    message_id: PlatformId
    conversation_id: PlatformId
    author_id: PlatformId
    body: MessageBody
    sent_at: datetime
    nonce: str | None = None
    deleted: bool = False
    #: Every content it has shown, first to last.
    contents: list[str] = field(default_factory=list)
    reactions: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Fault:
    method: str
    error: OpenabError | None
    commits: bool
    times: int
    when: Callable[[Call], bool]


@dataclass(slots=True)
class _Thread:
    archived: bool = False
    locked: bool = False


class RecordingChannel:
    """Fulfils `openab.ports.channel.Channel`. Every conversation exists until `close_conversation`."""

    def __init__(self, account: str = "900", first_id: int = 5000) -> None:
        self.account = PlatformId(account)
        #: Every call that was made, failed ones included.
        self.calls: list[Call] = []
        self.titles: dict[PlatformId, str] = {}
        #: What users are called, and who was added to which threads.
        self.names: dict[str, str] = {}
        self.members: dict[PlatformId, set[PlatformId]] = {}
        self._messages: dict[PlatformId, Posted] = {}
        self._nonces: dict[str, PlatformId] = {}
        self._threads: dict[PlatformId, _Thread] = {}
        #: Every channel's webhooks that are ours, the oldest first; deleted ones are taken out.
        self.webhooks: dict[PlatformId, list[PlatformId]] = {}
        self._gone: set[PlatformId] = set()
        self._faults: list[_Fault] = []
        self._faults_end = asyncio.Event()
        self._next_id = first_id
        self._changed = asyncio.Condition()

    # What a test does and sees.

    def say(self, conversation_id: str, text: str, author: str = "31") -> MessageRef:
        """Somebody else posts a message."""
        return self._post(PlatformId(conversation_id), PlatformId(author), MessageBody(text), None)

    def fail(
        self,
        method: str,
        error: OpenabError,
        *,
        commits: bool = False,
        times: int = 1,
        when: Callable[[Call], bool] = lambda call: True,
    ) -> None:
        """Let the next fitting calls fail; with `commits` they are carried out all the same."""
        self._faults.append(_Fault(method, error, commits, times, when))

    def hang(
        self,
        method: str,
        *,
        commits: bool = False,
        times: int = 1,
        when: Callable[[Call], bool] = lambda call: True,
    ) -> None:
        """Let the next fitting calls take all their time and end unknown."""
        self._faults_end.clear()
        self._faults.append(_Fault(method, None, commits, times, when))

    def end_faults(self) -> None:
        """From now on everything is carried out; calls that hang have no answer at once."""
        self._faults.clear()
        self._faults_end.set()

    def archive(self, thread: str, *, locked: bool = False) -> None:
        """A moderator archives a thread."""
        self._threads[PlatformId(thread)] = _Thread(archived=True, locked=locked)

    def delete_webhook(self, webhook: str) -> None:
        """A moderator deletes a webhook."""
        for known in self.webhooks.values():
            known[:] = [one for one in known if one != webhook]

    def close_conversation(self, conversation_id: str) -> None:
        """The conversation is deleted."""
        self._gone.add(PlatformId(conversation_id))

    def posted(self, conversation_id: str) -> list[Posted]:
        """What people see there now, in order."""
        return [
            one
            for one in self._messages.values()
            if one.conversation_id == conversation_id and not one.deleted
        ]

    def shown(self, conversation_id: str) -> list[str]:
        """The texts that people see there now, in order."""
        return [one.body.content for one in self.posted(conversation_id)]

    def message(self, message_id: str) -> Posted:
        """One message, deleted or not."""
        return self._messages[PlatformId(message_id)]

    def calls_of(self, method: str) -> list[Call]:
        """The calls of one method."""
        return [call for call in self.calls if call.method == method]

    async def until(
        self, probe: Callable[["RecordingChannel"], object], within: float = 60.0
    ) -> None:
        """Wait until `probe` is truthy; it is asked again after every call. TimeoutError otherwise."""
        async with asyncio.timeout(within), self._changed:
            await self._changed.wait_for(lambda: bool(probe(self)))

    # The port.

    async def create_message(
        self, conversation_id: PlatformId, body: MessageBody, nonce: str, seconds: float
    ) -> PlatformId:
        call = Call("create_message", conversation_id, body=body, nonce=nonce)
        made: list[PlatformId] = []
        await self._call(call, seconds, lambda: made.append(self._create(call, body, nonce)))
        return made[0]

    async def edit_message(self, ref: MessageRef, body: MessageBody, seconds: float) -> None:
        call = Call("edit_message", ref.conversation_id, ref.message_id, body)
        await self._call(call, seconds, lambda: self._edit(ref, body))

    async def delete_message(self, ref: MessageRef, seconds: float) -> None:
        call = Call("delete_message", ref.conversation_id, ref.message_id)
        await self._call(call, seconds, lambda: self._delete(ref))

    async def open_thread(self, trigger: MessageRef, title: str, seconds: float) -> PlatformId:
        call = Call("open_thread", trigger.conversation_id, trigger.message_id, word=title)
        await self._call(call, seconds, lambda: self._open(trigger, title))
        return trigger.message_id

    async def find_webhook(self, parent: PlatformId, seconds: float) -> PlatformId | None:
        await self._call(Call("find_webhook", parent), seconds, lambda: self._existing(parent))
        return next(iter(self.webhooks.get(parent, [])), None)

    async def make_webhook(self, parent: PlatformId, seconds: float) -> PlatformId:
        made: list[PlatformId] = []
        call = Call("make_webhook", parent)
        await self._call(call, seconds, lambda: made.append(self._make_webhook(parent)))
        return made[0]

    async def post_as_persona(
        self,
        thread: PlatformId,
        parent: PlatformId,
        webhook: PlatformId,
        body: MessageBody,
        seconds: float,
    ) -> PlatformId:
        call = Call("post_as_persona", thread, body=body, word=webhook)
        made: list[PlatformId] = []
        post = partial(self._post_as, thread, parent, webhook, body)
        await self._call(call, seconds, lambda: made.append(post()))
        return made[0]

    async def unarchive(self, conversation_id: PlatformId, seconds: float) -> None:
        call = Call("unarchive", conversation_id)
        await self._call(call, seconds, lambda: self._unarchive(conversation_id))

    async def add_thread_member(self, thread: PlatformId, user: PlatformId, seconds: float) -> None:
        call = Call("add_thread_member", thread, word=user)
        await self._call(call, seconds, lambda: self._join(thread, user))

    async def user_name(self, user: PlatformId, seconds: float) -> str:
        call = Call("user_name", user)
        await self._call(call, seconds, lambda: None)
        return self.names.get(user, "")

    async def add_reaction(self, ref: MessageRef, emoji: str, seconds: float) -> None:
        call = Call("add_reaction", ref.conversation_id, ref.message_id, word=emoji)
        await self._call(call, seconds, lambda: self._standing(ref).reactions.add(emoji))

    async def remove_reaction(self, ref: MessageRef, emoji: str, seconds: float) -> None:
        call = Call("remove_reaction", ref.conversation_id, ref.message_id, word=emoji)
        await self._call(call, seconds, lambda: self._unreact(ref, emoji))

    async def history(
        self, conversation_id: PlatformId, *, after: PlatformId, limit: int, seconds: float
    ) -> Sequence[SeenMessage]:
        call = Call("history", conversation_id)
        await self._call(call, seconds, lambda: self._existing(conversation_id))
        found = [one for one in self.posted(conversation_id) if int(one.message_id) > int(after)]
        return [_seen(one) for one in found[:limit]]

    async def fetch_message(self, ref: MessageRef, seconds: float) -> SeenMessage | None:
        call = Call("fetch_message", ref.conversation_id, ref.message_id)
        await self._call(call, seconds, lambda: None)
        found = self._messages.get(ref.message_id)
        gone = found is None or found.deleted or ref.conversation_id in self._gone
        return None if found is None or gone else _seen(found)

    # How it does it.

    async def _call(self, call: Call, seconds: float, act: Callable[[], object]) -> None:
        fault = self._fault_of(call)
        self.calls.append(call)
        try:
            if fault is None or fault.commits:
                act()
        finally:
            await self._tell()
        if fault is None:
            return
        if fault.error is not None:
            raise fault.error
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._faults_end.wait()
        raise DeliveryUnknown("no answer")

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _fault_of(self, call: Call) -> _Fault | None:
        for fault in self._faults:
            if fault.method == call.method and fault.times and fault.when(call):
                fault.times -= 1
                return fault
        return None

    def _create(self, call: Call, body: MessageBody, nonce: str) -> PlatformId:
        self._existing(call.conversation_id)
        _may_stand(body)
        earlier = self._nonces.get(nonce)
        if earlier is not None:
            if self._messages[earlier].deleted:
                raise ChannelRejected(Refusal.MESSAGE_GONE, "the nonce's message is gone", 10008)
            return earlier
        self._wake(call.conversation_id)
        return self._post(call.conversation_id, self.account, body, nonce).message_id

    def _make_webhook(self, parent: PlatformId) -> PlatformId:
        self._existing(parent)
        self._next_id += 1
        made = PlatformId(str(self._next_id))
        self.webhooks.setdefault(parent, []).append(made)
        return made

    def _post_as(
        self, thread: PlatformId, parent: PlatformId, webhook: PlatformId, body: MessageBody
    ) -> PlatformId:
        if webhook not in self.webhooks.get(parent, []):
            raise ChannelRejected(Refusal.WEBHOOK_GONE, "there is no such webhook", 10015)
        self._existing(thread)
        _may_stand(body)
        self._wake(thread)
        return self._post(thread, webhook, body, None).message_id

    def _post(
        self, conversation: PlatformId, author: PlatformId, body: MessageBody, nonce: str | None
    ) -> MessageRef:
        self._next_id += 1
        message_id = PlatformId(str(self._next_id))
        sent_at = _START + timedelta(seconds=self._next_id)
        posted = Posted(message_id, conversation, author, body, sent_at, nonce)
        posted.contents.append(body.content)
        self._messages[message_id] = posted
        if nonce is not None:
            self._nonces[nonce] = message_id
        return MessageRef(conversation, message_id)

    def _edit(self, ref: MessageRef, body: MessageBody) -> None:
        _may_stand(body)
        message = self._standing(ref)
        message.body = replace(body, silent=message.body.silent)
        message.contents.append(body.content)

    def _delete(self, ref: MessageRef) -> None:
        if ref.conversation_id not in self._gone and ref.message_id in self._messages:
            self._open_to_changes(ref.conversation_id)
            self._messages[ref.message_id].deleted = True

    def _open(self, trigger: MessageRef, title: str) -> None:
        self._standing(trigger)
        if trigger.message_id in self._threads:
            raise ChannelRejected(Refusal.THREAD_EXISTS, "it has a thread", 160004)
        self._threads[trigger.message_id] = _Thread()
        self.titles[trigger.message_id] = title

    def _join(self, thread: PlatformId, user: PlatformId) -> None:
        self._existing(thread)
        self._open_to_changes(thread)
        self.members.setdefault(thread, set()).add(user)

    def _unarchive(self, conversation_id: PlatformId) -> None:
        self._existing(conversation_id)
        self._wake(conversation_id)

    def _wake(self, conversation_id: PlatformId) -> None:
        thread = self._threads.get(conversation_id)
        if thread is None:
            return
        if thread.locked:
            raise ChannelRejected(Refusal.LOCKED, "the thread is locked", 160005)
        thread.archived = False

    def _unreact(self, ref: MessageRef, emoji: str) -> None:
        message = self._messages.get(ref.message_id)
        if message is not None and not message.deleted:
            self._open_to_changes(ref.conversation_id)
            message.reactions.discard(emoji)

    def _standing(self, ref: MessageRef) -> Posted:
        self._existing(ref.conversation_id)
        message = self._messages.get(ref.message_id)
        if message is None or message.deleted:
            raise ChannelRejected(Refusal.MESSAGE_GONE, "there is no such message", 10008)
        self._open_to_changes(ref.conversation_id)
        return message

    def _open_to_changes(self, conversation_id: PlatformId) -> None:
        thread = self._threads.get(conversation_id)
        if thread is not None and thread.archived:
            raise ChannelRejected(Refusal.ARCHIVED, "the thread is archived", 50083)

    def _existing(self, conversation_id: PlatformId) -> None:
        if conversation_id in self._gone:
            raise ChannelRejected(Refusal.CONVERSATION_GONE, "there is no such channel", 10003)


def _may_stand(body: MessageBody) -> None:
    if not body.content.strip() or len(body.content) > _LONGEST:
        raise ChannelRejected(Refusal.INVALID_BODY, "empty or too long", 50035)


def _seen(posted: Posted) -> SeenMessage:
    # As on Discord, history does not tell a nonce.
    return SeenMessage(posted.message_id, posted.author_id, posted.body.content, posted.sent_at)
