"""The environment an agent gets: empty, plus an allow-list, plus what the configuration names."""

import re
from collections.abc import Mapping, Sequence

#: What any program needs to run as its user; nothing here is a secret.
ALWAYS = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
_REFERENCE = re.compile(r"\$\{(\w+)\}")


def agent_environment(
    parent: Mapping[str, str], explicit: Mapping[str, str], inherit: Sequence[str]
) -> dict[str, str]:
    """The complete environment for an agent.

    `explicit` beats everything; a value that is exactly `${NAME}` is taken from `parent`, and
    left out when it is not there. `inherit` names are taken from `parent` unless set explicitly.
    """
    wanted = {name for name in parent if name in ALWAYS or name.startswith("LC_")}
    wanted.update(inherit)
    env = {name: parent[name] for name in sorted(wanted) if name in parent}
    for name, value in explicit.items():
        reference = _REFERENCE.fullmatch(value)
        env.pop(name, None)
        if reference is None:
            env[name] = value
        elif reference[1] in parent:
            env[name] = parent[reference[1]]
    return env
