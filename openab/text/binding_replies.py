"""What people read in answer to a command about bindings or sub-agents: what was done, and what they can do.

Names come from outside: they are put on one line, cut short and made inert here.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from openab.domain.binding import BindingCode, EndReason, SessionBinding
from openab.domain.durations import LONGEST, SHORTEST, spelled
from openab.domain.ids import PlatformId, SessionKey, home_of, named_agent
from openab.text.measure import shorten
from openab.text.menus import inert_line
from openab.text.neutralize import neutralize

_ROOM = 1900
_FOCUSED = "✅ What is said here goes to"
_LONGEST_NAME = 120
_MOST_LISTED = 10
_ENDS = {
    EndReason.IDLE: "if nothing happens here",
    EndReason.MAX_AGE: "because of its age",
    EndReason.EXPIRED: "since it was made for so long",
}


def switched_off() -> str:
    """A command about bindings where there are none."""
    return (
        "Bindings are switched off for this bot. Whoever runs it can set `enabled = true` in "
        "`[discord.thread_bindings]`."
    )


def for_people() -> str:
    """A bot typed it."""
    return "⛔ Only people can bind conversations."


def not_in_a_channel() -> str:
    """A text channel has no session of its own: each request there opens a thread."""
    return (
        "⛔ A text channel cannot be bound: each request there gets a thread of its own. Use this in "
        "a thread."
    )


def no_session_named() -> str:
    """A focus on nothing."""
    return (
        "❌ Say which session: the link, id or mention of its thread, its key, or the name of a "
        "sub-agent. `/sessions` lists them."
    )


def resumed(agents_id: str) -> str:
    """The session here has another memory from the next message on."""
    return (
        f"🔁 The next message here goes to the agent's own session {_code(agents_id)}. If the agent "
        "does not know it any more, it says so and begins with nothing."
    )


def resume_not_yours() -> str:
    """An agent's own session id tells nobody whose it is."""
    return "⛔ Only an operator can resume a session by the agent's own id."


def resume_elsewhere() -> str:
    """What is said here goes to another session."""
    return "⛔ This conversation is bound to another session: `/unfocus` first."


def resume_busy() -> str:
    """Somebody waits for the session that is here."""
    return "⛔ A request is waiting or running here: let it end, or `/cancel-all`, and try again."


def unknown_session(typed: str) -> str:
    """Nothing is called so, as far as this person may know."""
    return f"❌ No session is found under {_code(typed)}. `/sessions` lists them; name its thread."


def several_sessions(typed: str, keys: Sequence[SessionKey]) -> str:
    """More than one is called so: each is listed with its place and its key."""
    lines = [
        f"❌ {_code(typed)} is {len(keys)} sessions. Use the key of one of them:",
        *(f"• {_place_of(key)} · {_code(key)}" for key in keys[:_MOST_LISTED]),
        *([f"… and {len(keys) - _MOST_LISTED} more"] if len(keys) > _MOST_LISTED else []),
    ]
    return shorten("\n".join(lines), _ROOM)


def session_not_yours() -> str:
    """A session of a place that the person may not use, or has no part in."""
    return (
        "⛔ That session is not yours to bring here: ask something in its own conversation first, or "
        "let an operator do it."
    )


def binding_not_yours() -> str:
    """What somebody else has bound."""
    return "⛔ Only who bound this conversation, or an operator, can change that."


def agent_not_configured(agent: str) -> str:
    """The session's agent was taken out of the configuration."""
    return (
        f"❌ Nobody can go on with that session: the agent {_code(agent)} is not configured any "
        f"more. Whoever runs this bot can add it to `[agents]`."
    )


def own_session() -> str:
    """A focus on the session that the conversation has anyway."""
    return "That is this conversation's own session: it talks to it already."


def own_session_instead() -> str:
    """A focus on the conversation's own session where something else is bound."""
    return "That is this conversation's own session. `/unfocus` brings it back."


def focused(binding: SessionBinding) -> str:
    """From now on the conversation talks to it."""
    return f"{_FOCUSED} {_target(binding)} from now on. {_end(binding)}"


def focused_before(binding: SessionBinding) -> str:
    """It was bound to the same session already."""
    return f"This conversation talks to {_target(binding)} already. {_end(binding)}"


def focus_refused(code: BindingCode, why: str) -> str:
    """The channel or openab itself cannot bind this."""
    told = neutralize(inert_line(why, _LONGEST_NAME))
    return f"❌ This conversation cannot be bound (`{code.value}`): {told}."


def unfocused() -> str:
    """It is over."""
    return "✅ This conversation talks to its own session again."


def is_told_by_notice(answer: str) -> bool:
    """Whether people there read the same in the notice that a binding begins or ends with."""
    return answer == unfocused() or answer.startswith(_FOCUSED)


def nothing_bound() -> str:
    """There is no binding here."""
    return "This conversation talks to its own session: nothing is bound here. `/focus` binds one."


def bound(binding: SessionBinding) -> str:
    """What is bound here, since when and until when."""
    limits = binding.limits
    return (
        f"🔗 This conversation talks to {_target(binding)} since {_moment(binding.bound_at)}. "
        f"Silence: {_limit(limits.idle)}, age: {_limit(limits.max_age)}. {_end(binding)}"
    )


def limits_changed(binding: SessionBinding) -> str:
    """It lasts so long from now on."""
    limits = binding.limits
    return f"✅ Silence: {_limit(limits.idle)}, age: {_limit(limits.max_age)}. {_end(binding)}"


def over_at_once() -> str:
    """It was older already than it may become now."""
    return "✅ With that its time is over: this conversation talks to its own session again."


def no_duration(typed: str) -> str:
    """What was typed is no duration, or is too short or too long."""
    return (
        f"❌ {_code(typed)} is no duration: write `90m`, `24h`, `2d`, or `off`; at least "
        f"{spelled(SHORTEST)} and at most {spelled(LONGEST)}."
    )


def spawn_begun(agent: str, channel: PlatformId) -> str:
    """The task is owed; its thread follows."""
    return (
        f"🧵 {_code(agent)} is given the task. Its thread opens in <#{channel}> in a moment, and "
        "its answer comes there."
    )


def _target(binding: SessionBinding) -> str:
    key = binding.target_session_key
    agent = named_agent(key)
    who = f"the sub-agent {_code(agent)}" if agent else "the session"
    return f"{who} of {_place_of(key)}"


def _place_of(key: SessionKey) -> str:
    home = home_of(key)
    return f"<#{home}>" if home else _code(key)


def _end(binding: SessionBinding) -> str:
    end, idle = binding.ends_at(), binding.limits.idle
    silence = f"after `{spelled(idle)}` of silence" if binding.is_busy and idle else ""
    if end is not None:
        at, reason = end
        sooner = f", or before that {silence}, but not while it works" if silence else ""
        return f"It ends {_moment(at)} {_ENDS.get(reason, '')}{sooner}; `/unfocus` ends it now."
    if silence:
        return f"It does not end while it works, then {silence}; `/unfocus` ends it now."
    return "It does not end by itself; `/unfocus` ends it."


def _limit(limit: timedelta | None) -> str:
    return "off" if limit is None else f"`{spelled(limit)}`"


def _moment(at: datetime) -> str:
    return f"<t:{int(at.timestamp())}:R>"


def _code(text: str) -> str:
    return f"`{_name(text)}`"


def _name(text: str) -> str:
    return neutralize(inert_line(text, _LONGEST_NAME).replace("`", "'")) or "(nothing)"
