"""Negative controls: the SDK's own client on the same agents, and why its transport is not ours.

When one of these fails after an update of the SDK, our own guard may have become unnecessary.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest

from tests.integration.acp_host import AGENT


class Client:
    """As little of a client as the SDK needs."""

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        """Take an update."""


@asynccontextmanager
async def stock(folder: Path, mode: str) -> AsyncIterator[Any]:
    """The SDK's connection to the scripted agent, as it ships."""
    arguments = [AGENT, "--delay", "0", "--state-dir", str(folder), "--mode", mode]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.defpath},
    )
    connection = acp.connect_to_agent(Client(), process.stdin, process.stdout)  # type: ignore[arg-type]
    try:
        yield connection
    finally:
        process.kill()
        await connection.close()
        await process.communicate()


async def a_turn(connection: Any) -> None:
    capabilities = acp.schema.ClientCapabilities(terminal=True)
    await connection.initialize(1, client_capabilities=capabilities)
    session = (await connection.new_session(cwd="/", mcp_servers=[])).session_id
    await connection.prompt(session_id=session, prompt=[acp.text_block("[[say=x]]")])


async def test_a_json_scalar_on_stdout_kills_the_stock_connection(tmp_path: Path) -> None:
    async with stock(tmp_path, "noise") as connection:
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(a_turn(connection), 60)


@pytest.mark.parametrize("mode", ["string-ids", "loud-stderr"])
async def test_string_ids_and_a_full_stderr_hang_the_stock_client(
    tmp_path: Path, mode: str
) -> None:
    async with stock(tmp_path, mode) as connection:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(a_turn(connection), 1)
