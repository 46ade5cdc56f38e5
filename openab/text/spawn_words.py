"""What agents and people are told of sub-agents: that one begins, is refused, has finished."""

from collections.abc import Sequence

from openab.domain.destination import Fallback, Reason
from openab.domain.ids import PlatformId
from openab.domain.message import defuse
from openab.domain.spawn import SpawnRefusal
from openab.domain.turn import Outcome
from openab.text.measure import shorten
from openab.text.menus import inert_line
from openab.text.neutralize import neutralize
from openab.text.titles import thread_title

_LONGEST_NAME = 40
_LONGEST_TASK = 1900
#: More sub-agents than these no agent is told of.
_MOST_ANNOUNCED = 20
#: So much of an answer is told to the session that asked for it.
_LONGEST_ANSWER = 100_000


def _name(agent: str) -> str:
    return f"**{neutralize(inert_line(agent, _LONGEST_NAME)) or '(no name)'}**"


def starter(agent: str, requester: str, task: str) -> str:
    """The message in the parent that a sub-agent's thread hangs on."""
    person = inert_line(requester, _LONGEST_NAME)
    told = f"🧵 {_name(agent)} is given a task for {person}: {thread_title(task, (), agent)}"
    # The whole at once: a foreign bot may wake at a mention that would ping nobody.
    return neutralize(told)


def announcement(names: Sequence[str]) -> str:
    """Stands before an agent's first prompt: how and to whom it can give a task."""
    listed = "\n".join(f"- {name}" for name in names[:_MOST_ANNOUNCED])
    return (
        "You can give a task to a sub-agent, which works in a thread of its own while you are free. To "
        "do so, make the line\n[[spawn:NAME]]\nthe very first line of your whole answer, before "
        "anything else you say, also before your first tool call. Everything you say below it is the "
        "task: the sub-agent gets exactly that text and knows nothing of this conversation, so it must "
        "be complete in itself. People read it too. You are told when it has finished; if it cannot be "
        "started, the people here are told why. Sub-agents:\n"
        f"{listed}"
    )


def opened(agent: str, thread: PlatformId) -> str:
    """Where a task went, said where it was asked for."""
    return f"🧵 {_name(agent)} works on it in <#{thread}>."


def undelivered(agent: str, thread: PlatformId, trouble: str) -> str:
    """What cannot be said in a sub-agent's thread; `trouble` tells what and why."""
    return f"🧵 {_name(agent)} in <#{thread}>: {trouble}"


def echoed_task(task: str) -> str:
    """The task as people read it in the sub-agent's thread; the agent gets the whole of it."""
    return shorten(neutralize(task), _LONGEST_TASK)


def refused(agent: str, refusal: SpawnRefusal, *, by_command: bool = False) -> str:
    """Why no sub-agent was started, and what helps whoever asked: an agent, or a person by a command."""
    why, remedy = _WHY[refusal]
    if by_command:
        remedy = _TO_PEOPLE.get(refusal, remedy)
    return f"⚠️ No sub-agent {_name(agent)} was started (`{refusal.value}`): {why}. {remedy}"


def finished(
    agent: str, outcome: Outcome, shown_in: PlatformId | None, answer: str, trouble: str = ""
) -> str:
    """What the session that gave the task is told, marked as no person's word.

    `shown_in`: where people read the answer; None: they have not been shown it. `trouble`: what
    people were told of why it failed.
    """
    seen = (
        f"which people read in <#{shown_in}>," if shown_in else "which people have not been shown,"
    )
    said = "\n\n".join(text for text in (trouble, answer.strip()) if text)
    told = (
        f"Its answer, {seen} follows:\n\n{defuse(shorten(said, _LONGEST_ANSWER))}"
        if said
        else "It said nothing."
    )
    return (
        f"[openab: your sub-agent {agent!r} {_ENDS[outcome]}. This is no person's message; answer "
        f"the people here if there is something to tell them.]\n\n{told}"
    )


def reported(agent: str, outcome: Outcome) -> str:
    """Stands in front of an answer that is shown where it was asked for, since no thread is bound to it."""
    return (
        f"🧵 {_name(agent)} {_ENDS[outcome]}, and no thread is bound to it any more, "
        "so its answer is shown here."
    )


def kept_back(agent: str, outcome: Outcome, reason: Reason, fallback: Fallback) -> str:
    """An answer is shown nowhere, for the time being or for good."""
    why = (
        "several conversations are bound to it and none of them is this one"
        if reason is Reason.NO_REQUESTER_MATCH
        else "no place belongs to it"
    )
    fate = (
        "Its answer is kept and shown once exactly one is (`/unfocus` in the others, or `/focus` here)."
        if fallback is Fallback.HOLD
        else "Its answer is shown nowhere; `turns.raw` in the database has it."
    )
    return f"⚠️ {_name(agent)} {_ENDS[outcome]}, but {why} (`{reason.value}`). {fate}"


def dropped(agent: str, days: int) -> str:
    """A kept answer that was never shown is given up."""
    return (
        f"⚠️ The answer of {_name(agent)} was kept for {days} days, and in all that time no single place "
        "belonged to it: it is not shown any more. Give the task again if it still matters."
    )


_ENDS = {
    Outcome.COMPLETED: "has finished the task",
    Outcome.FAILED: "has failed at the task",
    Outcome.CANCELLED: "was cancelled",
    Outcome.INTERRUPTED: "was interrupted",
}
_WHY = {
    SpawnRefusal.SWITCHED_OFF: (
        "sub-agents are switched off",
        "An operator can set `spawn_subagent_sessions = true` in `[discord.thread_bindings]`.",
    ),
    SpawnRefusal.UNKNOWN_AGENT: (
        "no agent of this name is configured",
        "Use a name that stands as `[agents.NAME]` in the configuration.",
    ),
    SpawnRefusal.NO_TASK: ("there is no task", "Write the task below the directive."),
    SpawnRefusal.NO_THREADS_HERE: (
        "no thread can be opened here",
        "Ask in a channel of a server that this bot may use (`allowed_channels`), or in a thread there.",
    ),
    SpawnRefusal.TOO_DEEP: (
        "a sub-agent may not start sub-agents this deep",
        "Ask the main agent, or raise `max_subagent_depth`.",
    ),
    SpawnRefusal.TOO_MANY: (
        "as many as are allowed are at work already",
        "Wait until one has finished, or raise `max_subagents`.",
    ),
    SpawnRefusal.TOO_MANY_IN_A_ROW: (
        "too many have followed one another without a person's word between",
        "Write a message to go on.",
    ),
    SpawnRefusal.NO_STARTER: (
        "the message that its thread was to hang on is not in the channel, or nobody can tell whether it is",
        "See whether the bot may write there, and ask again.",
    ),
}
#: What helps a person is not what helps an agent.
_TO_PEOPLE = {
    SpawnRefusal.NO_TASK: "Fill in the `task`.",
    SpawnRefusal.TOO_DEEP: "Ask in the thread that started it, or raise `max_subagent_depth`.",
}
