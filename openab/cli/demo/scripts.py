"""What Ann says in the demo, and what the two scripted agents do about it."""

import json
from collections.abc import Sequence

from openab.text.continuation import OPENING

#: (cue, steps), and for one that only an interrupted agent plays: what it is told before.
Play = tuple[str, str] | tuple[str, str, str]
Step = tuple[str, str]

#: Ann's sentences; they are the cues by which the agents know their part.
RED_BUILD = "the build is red since this morning. Can you find out why?"
SECOND_OPINION = "Sol blames the comment rule of the tokenizer. Do you agree?"
MIGRATION = "thanks! Now write the migration guide, please."
STILL_THERE = "are you both still there? What did I ask you so far?"
HAND_OVER = "the guide can go out. Let Luna proofread it first, please."

_FIXED = "All 45 cases pass with the fix."
_SUITE = "\n".join(
    f'    assert parse("case {n}").tokens == EXPECTED[{n}], "case {n} of the regression suite"'
    for n in range(1, 46)
)
_LONG_ANSWER = (
    "I found it: since commit `4f1c2aa` the tokenizer drops the last token of a line that ends in "
    "a comment. @everyone who touched it should know, <@{luna}> most of all. This regression suite "
    "shows it:\n\n"
    f"```python\nfrom parser import parse\n\n\ndef test_every_case():\n{_SUITE}\n```\n\n"
    f"{_FIXED}"
)
_FIXES = "both lines get fixes for a year."
_GUIDE = (
    "# Moving to version 3\n\n"
    "Version 3 keeps the token that stands before a comment. Most programs need no change; these "
    "three steps find out whether yours does.\n\n"
    "1. Run the regression suite above against your own grammar. A case that fails names the rule "
    "that relied on the lost token.\n"
)
_REST = (
    "2. Search your code for `skip_comment()`. Where its result is thrown away, nothing changes; "
    "where it is compared with `None`, compare with an empty list instead.\n"
    "3. Regenerate the cached tables with `parser cache --clear`. Tables of version 2 are refused "
    "with a clear message, they are never misread.\n\n"
    f"If a step surprises you, pin `parser<3` and write to us; {_FIXES}"
)
#: What Sol hands over: mentions, a fence and an emoji of several code points, to arrive as they are.
_PROOFREAD = "Please proofread the migration guide above"
_REQUEST = (
    f"{_PROOFREAD}, <@{{luna}}>, and compare its second step with this:\n\n"
    "```python\nif skip_comment(line) == []:\n    print('<@everyone> knows')\n```\n\n"
    "Say what is wrong, or that it is ready. Thank you! 👩\u200d💻"
)
_READY = "nothing is wrong, it is ready to go out."


def _script(*steps: Step) -> str:
    """Steps as the scripted agent reads them."""
    return f"[[script={json.dumps([list(step) for step in steps])}]]"


def _streamed(text: str, size: int = 24) -> list[Step]:
    return [("say", text[at : at + size]) for at in range(0, len(text), size)]


def _tool(kind: str, title: str, seconds: float) -> Step:
    return "tool", f"{kind}:{title}:{seconds:.2f}"


def sols_plays(luna: str, pace: float) -> list[Play]:
    """What Sol does on each cue; it tries to ping everybody, and Luna. `pace` scales its waits."""
    return [
        (
            RED_BUILD,
            _script(
                ("think", "Where to look first?"),
                _tool("search", "grep -rn tokenize src", 1.5 * pace),
                _tool("execute", "pytest -x tests/parser", 6.5 * pace),
                _tool("edit", "src/parser/tokenizer.py", 1.0 * pace),
                ("delay", str(0.03 * pace)),
                *_streamed(_LONG_ANSWER.replace("{luna}", luna)),
            ),
        ),
        (SECOND_OPINION, _script(("say", f"Over to you, <@{luna}>: a second pair of eyes helps."))),
        (
            MIGRATION,
            _script(
                # At any pace longer than an edit interval: people must see the live message go on.
                _tool("read", "docs/migration-3.md", 2.5),
                ("delay", str(0.1 * pace)),
                *_streamed(_REST),
            ),
            OPENING,
        ),
        (
            MIGRATION,
            _script(
                _tool("read", "docs/upgrading.md", 1.0 * pace),
                ("delay", str(0.4 * pace)),
                *_streamed(_GUIDE),
                # Its broker is killed meanwhile, however slow the machine is.
                ("wait", "600"),
            ),
        ),
        (STILL_THERE, "[[recall]]"),
        (
            HAND_OVER,
            _script(("say", f"[[handoff:{luna}]]\n"), *_streamed(_REQUEST.replace("{luna}", luna))),
        ),
    ]


def lunas_plays(pace: float) -> list[Play]:
    """What Luna does: in a thread in which she has a part she hears everything that Ann says."""
    return [
        (
            SECOND_OPINION,
            _script(
                _tool("read", "src/parser/tokenizer.py", 1.5 * pace),
                *_streamed("Yes. The comment rule eats the token before it; the fix is right."),
            ),
        ),
        (MIGRATION, _script(("say", "That one is for Sol. I will proofread it afterwards."))),
        (STILL_THERE, "[[recall]]"),
        (HAND_OVER, _script(("say", "Gladly, as soon as Sol hands it to me."))),
        (
            _PROOFREAD,
            # At once: each live message counts in the proof of few writes.
            _script(("say", f"I read all three steps and compared the second: {_READY}")),
        ),
    ]


#: With what a long answer ends.
LAST_WORDS = {RED_BUILD: _FIXED, MIGRATION: _FIXES, HAND_OVER: _READY}
CUES: Sequence[str] = (RED_BUILD, SECOND_OPINION, MIGRATION, STILL_THERE, HAND_OVER)
