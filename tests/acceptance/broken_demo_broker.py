"""A broker with one of its promises broken, named by the first argument: the demo must notice."""

import secrets
import sys

broken = sys.argv.pop(1)

if broken == "nonce":
    from openab.channels.discord import bodies

    bodies._checked = lambda nonce: secrets.token_hex(12)
elif broken == "neutralising":
    import openab.text.neutralize as fence

    fence.neutralize = fence.wire_text
elif broken == "recovery":
    from openab.control.recovery import Recovered, Recovery

    async def leave_running(_self: Recovery) -> Recovered:
        """The turns of a dead owner stay as they are."""
        return Recovered()

    setattr(Recovery, "recover", leave_running)  # noqa: B010 - mypy minds an assignment to a method
else:
    sys.exit(f"nothing is called {broken}")

# Only now, so that everybody imports the broken one.
from openab.cli.main import main  # noqa: E402

main()
