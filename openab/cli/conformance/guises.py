"""Messages that only look like a hand-off to this bot: quoted, edited, by others, to others, other JSON."""

from openab.cli.conformance.bench import Bench, Check, Sent, Tried
from openab.cli.conformance.envelopes import Draft, envelope, new_probe
from openab.cli.conformance.rest import RefusedByDiscord, Rest

_UNTRUSTED = "refuses one of a bot that it does not trust"
_WEBHOOK = "takes a webhook's envelope for plain text"
_OTHER_JSON = "takes other JSON after a mention for ordinary text"
_NO_ORDINARY = "it answers no ordinary mentions; set allow_bot_messages for that"


async def guises(bench: Bench, thread: str, stranger: Rest | None) -> None:
    """Say them all, then a fence."""
    found = [
        await _text(bench, thread, "a quotation", "> {first}\n> {rest}"),
        await _text(bench, thread, "a block of code", "```\n{first}\n{rest}\n```"),
        await _text(bench, thread, "one after other words", "Look:\n{first}\n{rest}"),
        await _text(bench, thread, "one with words after the mention", "{first} please\n{rest}"),
        await _edited(bench, thread),
        await _to_another(bench, thread),
        await _by_webhook(bench, thread),
        await _by_stranger(bench, thread, stranger),
    ]
    await _other_json(bench, thread)
    unfounded = await bench.fence(thread)
    for rule, check, why in found:
        bench.claim(rule, check, why or unfounded)


async def _text(bench: Bench, thread: str, told: str, shape: str) -> tuple[str, Check, str]:
    draft = envelope(bench.setting(thread))
    first, _, rest = draft.content.partition("\n")
    said = shape.replace("{first}", first).replace("{rest}", rest)
    message = await bench.say(thread, said)
    return f"makes no hand-off of {told}", _no_handoff(bench, draft, message), ""


async def _edited(bench: Bench, thread: str) -> tuple[str, Check, str]:
    draft = envelope(bench.setting(thread))
    message = await bench.say(thread, "this message is going to be edited")
    path = f"/channels/{thread}/messages/{message}"
    pinged = {"parse": [], "users": [bench.target]}
    await bench.rest.call("PATCH", path, {"content": draft.content, "allowed_mentions": pinged})
    return "makes no hand-off of an edit", _no_handoff(bench, draft, message), ""


async def _to_another(bench: Bench, thread: str) -> tuple[str, Check, str]:
    setting = bench.setting(thread)
    draft = envelope(setting).changed(target_bot_id=setting.tester)
    draft.first_line = f"<@{setting.tester}>"
    message = await bench.say(thread, draft.content)

    def check() -> str:
        is_heard = bool(bench.watch.digests(draft.probe))
        wrong = f"message {message} started a turn" if is_heard else ""
        return wrong or bench.without_receipt(message)()

    return "ignores what is addressed to another bot", check, ""


async def _by_webhook(bench: Bench, thread: str) -> tuple[str, Check, str]:
    draft = envelope(bench.setting(thread))
    try:
        path = f"/channels/{bench.channel}/webhooks"
        hook = await bench.rest.call("POST", path, {"name": "conformance"})
    except RefusedByDiscord as refused:
        told = f"the tester may make no webhook ({refused.code})"
        return _WEBHOOK, lambda: "", told
    address = f"/webhooks/{hook['id']}/{hook['token']}"
    body = {"content": draft.content, "allowed_mentions": {"parse": [], "users": [bench.target]}}
    made = await bench.rest.call("POST", f"{address}?wait=true&thread_id={thread}", body)
    await bench.rest.call("DELETE", address)
    return _WEBHOOK, _no_handoff(bench, draft, str(made["id"])), ""


async def _by_stranger(bench: Bench, thread: str, stranger: Rest | None) -> tuple[str, Check, str]:
    if stranger is None:
        return _UNTRUSTED, lambda: "", "needs --stranger, the token of another bot"
    me = await stranger.get("/users/@me")
    draft = envelope(bench.setting(thread)).changed(source_bot_id=str(me["id"]))
    message = await stranger.post_message(thread, draft.content, bench.target)

    def check() -> str:
        is_heard = bool(bench.watch.digests(draft.probe))
        return f"message {message} started a turn" if is_heard else ""

    return _UNTRUSTED, check, ""


async def _other_json(bench: Bench, thread: str) -> None:
    """It is answered, if ordinary mentions are, and is not refused as a hand-off."""
    is_taken = await bench.try_mention(thread)
    probe = new_probe()
    document = f'{{"schema":"example.other.v1","note":"{probe}"}}'
    message = await bench.say(thread, f"<@{bench.target}>\n{document}")
    is_answered = is_taken and await bench.is_heard(probe, message)

    def check() -> str:
        missing = "it was not answered" if is_taken and not is_answered else ""
        return missing or bench.without_receipt(message)()

    bench.claim(_OTHER_JSON, check, "" if is_taken else _NO_ORDINARY)


def _no_handoff(bench: Bench, draft: Draft, message: str) -> Check:
    check = bench.no_handoff(draft.probe, draft.digest, message)
    thread = draft.document["origin_channel_id"]
    bench.strays.append(Tried(Sent(draft, message, thread, bench.pace.now()), check))
    return check
