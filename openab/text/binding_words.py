"""What people read of bindings: that a conversation is bound, until when, and why it is not any more.

Names come from outside: they are put on one line, cut short and made inert here.
"""

from collections.abc import Callable

from openab.domain.binding import EndReason, Limits, SessionBinding, TargetKind
from openab.domain.durations import spelled
from openab.domain.ids import home_of, named_agent
from openab.text.menus import inert_line
from openab.text.neutralize import neutralize

_LONGEST_NAME = 40
#: The key of a binding's metadata that names who asked for it, as people call them.
ASKED_BY = "by"
#: Of one that was asked for elsewhere: the conversation where.
ASKED_IN = "in"


def begun(binding: SessionBinding) -> str:
    """The first word in a conversation that is bound: to what, for whom, how long, and how it ends."""
    person = binding.metadata.get(ASKED_BY, "")
    place = binding.metadata.get(ASKED_IN, "")
    where = f" in <#{_inert(place)}>" if place else ""
    by = f", as {_inert(person)} asked{where}" if person else ""
    return (
        f"🔗 What is said here goes to {_target(binding)} from now on{by}. {_lasts(binding)} "
        "`/unfocus` ends it, `/session idle` and `/session max-age` change how long it lasts."
    )


def ended(binding: SessionBinding) -> str:
    """The last word: why it is over, where what is said here goes from now on, and the way back."""
    why = _WHY.get(binding.end_reason or EndReason.UNFOCUSED, _unfocused)(binding)
    at_work = "It is still at work: what it finds is shown where it was asked for."
    told = (why, _next(binding), at_work if binding.is_busy else "", _way_back(binding))
    return f"👋 {' '.join(filter(None, told))}"


def _target(binding: SessionBinding) -> str:
    agent = named_agent(binding.target_session_key)
    if binding.target_kind is TargetKind.SUBAGENT and agent:
        return f"the sub-agent **{_inert(agent)}**"
    home = home_of(binding.target_session_key)
    return (
        f"the session of <#{home}>"
        if home
        else f"the session `{_inert(binding.target_session_key, 120)}`"
    )


def _way_back(binding: SessionBinding) -> str:
    if binding.end_reason is EndReason.REPLACED:
        return ""
    agent, home = named_agent(binding.target_session_key), home_of(binding.target_session_key)
    is_at_home = home == binding.conversation.conversation_id
    if binding.target_kind is TargetKind.SUBAGENT and agent and is_at_home:
        return f"`/focus session:{_inert(agent)}` brings it back."
    return f"`/focus session:{home or _inert(binding.target_session_key, 120)}` brings it back."


def _lasts(binding: SessionBinding) -> str:
    ends = _ends(binding.limits)
    if binding.expires_at is not None:
        ends = [f"<t:{int(binding.expires_at.timestamp())}:f> at the latest", *ends]
    return f"It lasts until {', or until '.join(ends)}." if ends else "It lasts until it is ended."


def _ends(limits: Limits) -> list[str]:
    idle, oldest = limits.idle, limits.max_age
    told = [f"nothing has happened here for {spelled(idle)}"] if idle is not None else []
    return [*told, f"it is {spelled(oldest)} old"] if oldest is not None else told


def _idle(binding: SessionBinding) -> str:
    idle = binding.limits.idle
    time = f" for {spelled(idle)}" if idle is not None else " for a long time"
    return f"Nothing has happened here{time}, so {_target(binding)} has left this conversation."


def _too_old(binding: SessionBinding) -> str:
    oldest = binding.limits.max_age
    time = f" after {spelled(oldest)}" if oldest is not None else ""
    return f"The time of {_target(binding)} in this conversation is over{time}."


def _expired(binding: SessionBinding) -> str:
    return f"The time that was given to {_target(binding)} in this conversation is over."


def _unfocused(binding: SessionBinding) -> str:
    return f"This conversation does not talk to {_target(binding)} any more."


def _replaced(binding: SessionBinding) -> str:
    return f"This conversation was bound to something else, so {_target(binding)} has left it."


def _next(binding: SessionBinding) -> str:
    if binding.end_reason is EndReason.REPLACED:
        return "What the other one is stands below."
    return "What is said here from now on is for this conversation's own session."


def _inert(text: str, room: int = _LONGEST_NAME) -> str:
    return neutralize(inert_line(text, room)).replace("`", "'") or "somebody"


_WHY: dict[EndReason, Callable[[SessionBinding], str]] = {
    EndReason.IDLE: _idle,
    EndReason.MAX_AGE: _too_old,
    EndReason.EXPIRED: _expired,
    EndReason.REPLACED: _replaced,
    EndReason.UNFOCUSED: _unfocused,
}
