"""A broker's stand-in that opens an agent, says its pid and waits to be killed."""

import asyncio
import sys
from pathlib import Path

from tests.integration.acp_host import Host, a_spec


async def main() -> None:
    """Open one session and wait."""
    folder = Path(sys.argv[1])
    host = Host(folder)
    await host.open(a_spec(folder, "stay-on-eof"))
    sys.stdout.write(f"pid {host.agent().pid}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
