"""`openab setup`, on a terminal and without one, against the loopback Discord."""

import shlex
import stat
import sys
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openab.simulator.discord import LoopbackDiscord
from tests.commands import Terminal, environment, openab


@pytest.fixture
async def discord() -> AsyncIterator[LoopbackDiscord]:
    async with LoopbackDiscord() as running:
        yield running


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A machine with one known agent on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    agent = folder / "codex-acp"
    agent.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m openab.simulator.agent "$@"\n'
    )
    agent.chmod(0o755)
    return environment(
        tmp_path, PATH=f"{folder}:/usr/bin:/bin", PYTHONPATH=str(Path(__file__).parents[2])
    )


async def _to_the_channels(
    terminal: Terminal, discord: LoopbackDiscord, token: str, name: str
) -> None:
    await terminal.expect("Bot token")
    await terminal.hides()
    terminal.type(token)
    await terminal.expect(f"It is {name}")
    await terminal.expect("https://discord.com/oauth2/authorize?client_id=")
    await terminal.expect("scope=bot+applications.commands&permissions=309237713984")


async def _to_the_preview(terminal: Terminal, *, channels: str, into_file: bool) -> None:
    await terminal.expect("Where should it listen?")
    terminal.type(channels)
    await terminal.expect("Who may give it work?")
    terminal.type("111111111111111111, 222222222222222222")
    await terminal.expect("The folder that the agent works in")
    terminal.type("")
    await terminal.expect("1  codex-acp")
    await terminal.expect("Which one?")
    terminal.type("1")
    await terminal.expect("It answers as scripted-agent")
    await terminal.expect("Put the token into the file?")
    terminal.type("y" if into_file else "")


async def test_it_writes_a_file_that_works_and_is_private(
    discord: LoopbackDiscord, env: dict[str, str], tmp_path: Path
) -> None:
    bot, channel = discord.add_bot("sol"), discord.add_channel("dev")
    discord.deny(bot.id, channel.id, "add_reactions")

    async with Terminal(
        "setup", "--api-base", discord.api_base, env=env, folder=tmp_path
    ) as terminal:
        await _to_the_channels(terminal, discord, bot.token, "sol")
        await terminal.expect(f"1  Loopback #dev ({channel.id})  lacks Add Reactions")
        await _to_the_preview(terminal, channels="1", into_file=False)
        await terminal.expect('bot_token = "${DISCORD_BOT_TOKEN}"')
        await terminal.expect("Write it?")
        terminal.type("")
        await terminal.expect("export DISCORD_BOT_TOKEN=")
        await terminal.expect("openab doctor")
        await terminal.expect("openab run")
        code = await terminal.ended()

    written = tmp_path / "config.toml"
    assert code == 0
    assert bot.token not in terminal.shown
    assert bot.token not in written.read_text()
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    told = tomllib.loads(written.read_text())
    assert told["discord"]["allowed_channels"] == [channel.id]
    assert told["discord"]["allowed_users"] == ["111111111111111111", "222222222222222222"]
    assert told["agent"]["command"] == "codex-acp"
    checked = await openab(
        "config", "check", env={**env, "DISCORD_BOT_TOKEN": bot.token}, folder=tmp_path
    )
    assert checked.code == 0, checked.err


async def test_the_token_stands_in_the_file_only_when_chosen_and_is_masked_on_the_screen(
    discord: LoopbackDiscord, env: dict[str, str], tmp_path: Path
) -> None:
    bot = discord.add_bot("sol", message_content=False)
    discord.add_channel("dev")
    output = tmp_path / "bot.toml"
    output.write_text("old")
    output.chmod(0o644)

    async with Terminal(
        "setup", "-o", str(output), "--api-base", discord.api_base, env=env, folder=tmp_path
    ) as terminal:
        await terminal.expect("Bot token")
        await terminal.hides()
        terminal.type("no token, surely")
        await terminal.expect("a token holds only")
        await terminal.expect("Bot token")
        await terminal.hides()
        terminal.type("an.unknown.one")
        await terminal.expect("Discord does not accept this token")
        await _to_the_channels(terminal, discord, bot.token, "sol")
        await _to_the_preview(terminal, channels="all", into_file=True)
        await terminal.expect('bot_token = "***"')
        await terminal.expect("exists. Replace it?")
        terminal.type("y")
        await terminal.expect(f"openab run -c {output}")
        code = await terminal.ended()

    assert code == 0
    assert "Its Message Content Intent is off" in terminal.shown
    assert bot.token not in terminal.shown
    assert tomllib.loads(output.read_text())["discord"]["bot_token"] == bot.token
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    checked = await openab("config", "check", "-c", str(output), env=env, folder=tmp_path)
    assert checked.code == 0, checked.err


async def test_a_file_that_is_there_stays_when_nobody_says_yes(
    discord: LoopbackDiscord, env: dict[str, str], tmp_path: Path
) -> None:
    bot = discord.add_bot("sol")
    output = tmp_path / "config.toml"
    output.write_text("old")

    async with Terminal(
        "setup", "--api-base", discord.api_base, env=env, folder=tmp_path
    ) as terminal:
        await _to_the_channels(terminal, discord, bot.token, "sol")
        await _to_the_preview(terminal, channels="all", into_file=False)
        await terminal.expect("exists. Replace it?")
        terminal.type("")
        await terminal.expect("Nothing was written.")
        code = await terminal.ended()

    assert code == 1
    assert output.read_text() == "old"
    assert not _half_written(tmp_path)


def _half_written(folder: Path) -> list[Path]:
    return list(folder.glob(".config*"))


async def test_an_agent_that_does_not_work_is_told_and_another_one_can_be_typed(
    discord: LoopbackDiscord, env: dict[str, str], tmp_path: Path
) -> None:
    bot = discord.add_bot("sol")

    async with Terminal(
        "setup", "--api-base", discord.api_base, env=env, folder=tmp_path
    ) as terminal:
        await _to_the_channels(terminal, discord, bot.token, "sol")
        await terminal.expect("Where should it listen?")
        terminal.type("9")
        await terminal.expect("'9' is not an id")
        terminal.type("all")
        await terminal.expect("Who may give it work?")
        terminal.type("")
        await terminal.expect("The folder that the agent works in")
        terminal.type("/nowhere/at/all")
        await terminal.expect("/nowhere/at/all does not exist (mkdir -p /nowhere/at/all)")
        terminal.type("")
        await terminal.expect("Which one?")
        terminal.type("no-such-agent --acp")
        await terminal.expect("It does not work:")
        await terminal.expect("Take it nevertheless?")
        terminal.type("n")
        await terminal.expect("Which one?")
        terminal.type("codex-acp --mode auth")
        await terminal.expect("log in to the agent once")
        await terminal.expect("Take it nevertheless?")
        terminal.type("y")
        await terminal.expect("Put the token into the file?")


async def test_without_a_terminal_it_says_how_to_do_it_by_hand(
    env: dict[str, str], tmp_path: Path
) -> None:
    ended = await openab("setup", env=env, folder=tmp_path)

    assert ended.code == 0
    assert 'bot_token = "${DISCORD_BOT_TOKEN}"' in ended.out
    assert "openab doctor" in ended.out
    assert not (tmp_path / "config.toml").exists()
