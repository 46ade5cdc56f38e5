"""`openab doctor` as a process against the loopback Discord."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openab.app.account_lock import AccountLock
from openab.simulator.discord import Bot, Channel, LoopbackDiscord
from openab.storage.engine import Database
from openab.storage.upgrade import prepare
from tests.builders import HOME, a_binding, a_conversation, a_session, a_spawn
from tests.commands import Ended, environment, openab


@pytest.fixture
async def discord() -> AsyncIterator[LoopbackDiscord]:
    async with LoopbackDiscord() as running:
        yield running


class Bench:
    """A machine with one configuration, and `doctor` on it."""

    def __init__(self, folder: Path, discord: LoopbackDiscord) -> None:
        self.folder, self.discord = folder, discord
        self.agent_args = ["-m", "openab.simulator.agent"]
        self.working_dir = folder

    def write(self, bot: Bot, *channels: Channel, more: str = "") -> None:
        """A configuration that keeps its token in the environment."""
        ids = [each.id for each in channels]
        listen = f"allowed_channels = {ids!r}" if ids else "allow_all_channels = true"
        self.token = bot.token
        (self.folder / "config.toml").write_text(
            f'[discord]\nbot_token = "${{DISCORD_BOT_TOKEN}}"\n{listen}\n'
            f'allowed_users = ["111111111111111111"]\napi_base = "{self.discord.api_base}"\n'
            f"[agent]\ncommand = '{sys.executable}'\nargs = {self.agent_args!r}\n"
            f"working_dir = '{self.working_dir}'\n{more}"
        )

    async def doctor(self) -> Ended:
        """Run it to its end."""
        repository = str(Path(__file__).parents[2])
        more = {"DISCORD_BOT_TOKEN": self.token, "PYTHONPATH": repository}
        return await openab("doctor", env=environment(self.folder, **more), folder=self.folder)


@pytest.fixture
def bench(tmp_path: Path, discord: LoopbackDiscord) -> Bench:
    return Bench(tmp_path, discord)


async def test_all_is_well(bench: Bench, discord: LoopbackDiscord) -> None:
    bot, channel = discord.add_bot("sol"), discord.add_channel("dev")
    bench.write(bot, channel)

    ended = await bench.doctor()

    assert ended.code == 0, ended.out + ended.err
    assert [line[0] for line in ended.out.splitlines()[:-1]] == ["✓"] * 12
    assert f"✓ token: it is sol ({bot.id})" in ended.out
    assert f"✓ permissions: #dev ({channel.id}): all" in ended.out
    assert "✓ agent: " in ended.out
    assert "openab run brings it to" in ended.out
    assert "database: sqlite:///" in ended.err
    assert bot.token not in ended.out + ended.err
    assert not (bench.folder / ".openab").exists()


async def test_each_part_that_fails_is_named_with_its_remedy(
    bench: Bench, discord: LoopbackDiscord
) -> None:
    bot = discord.add_bot("sol", message_content=False)
    dev, secret, gone = (discord.add_channel(name) for name in ("dev", "secret", "gone"))
    discord.deny(bot.id, dev.id, "create_public_threads", "add_reactions")
    discord.deny(bot.id, secret.id, "view_channel")
    discord.delete_channel(gone.id)
    bench.agent_args += ["--mode", "not-acp"]
    bench.write(bot, dev, secret, gone)

    ended = await bench.doctor()

    assert ended.code == 1
    lines = ended.out.splitlines()
    assert any(line.startswith("✗ agent: ") and "→" in line for line in lines)
    assert any(
        line.startswith("✗ message content: ") and f"applications/{bot.id}/bot" in line
        for line in lines
    )
    assert any(
        line.startswith(
            f"✗ permissions: #dev ({dev.id}) lacks Create Public Threads, Add Reactions"
        )
        for line in lines
    )
    for channel in (secret, gone):
        assert any(line.startswith(f"✗ permissions: channel {channel.id}") for line in lines)
    assert lines[-1] == "14 checks, 0 to think about, 5 failed."


async def test_an_agent_that_wants_a_login_is_told(bench: Bench, discord: LoopbackDiscord) -> None:
    bench.agent_args += ["--mode", "auth"]
    bench.write(discord.add_bot("sol"), discord.add_channel("dev"))

    ended = await bench.doctor()

    assert ended.code == 1
    assert "→ log in to the agent once as the user that runs openab" in ended.out


async def test_what_is_bound_and_does_not_fit_is_told(
    bench: Bench, discord: LoopbackDiscord
) -> None:
    url = f"sqlite:///{bench.folder}/openab.db"
    await prepare(url, auto_upgrade=True)
    database = await Database.open(url)
    async with database.transaction() as tx:
        home, thread = await a_conversation(tx), await a_conversation(tx, "80", HOME)
        await a_binding(tx, thread, await a_session(tx, thread, "terra"))
        await a_spawn(tx, home)
    await database.close()
    more = f"[database]\nurl = '{url}'\n[discord.thread_bindings]\nenabled = false\n"
    bench.write(discord.add_bot("sol"), discord.add_channel("dev"), more=more)

    ended = await bench.doctor()

    assert ended.code == 0, ended.out
    for name in ("luna", "terra"):
        (line,) = [line for line in ended.out.splitlines() if f"bindings: {name} " in line]
        assert line.startswith("! ")
        assert f"→ write [agents.{name}] again" in line
    assert "! bindings: 1 kept, but not followed" in ended.out


async def test_every_named_agent_is_tried_as_the_default_one_is(
    bench: Bench, discord: LoopbackDiscord
) -> None:
    arguments = ["-m", "openab.simulator.agent"]
    more = (
        f"[agents.luna]\ncommand = '{sys.executable}'\nargs = {arguments!r}\n"
        f"working_dir = '{bench.folder}'\n"
        f"[agents.terra]\ncommand = 'there-is-no-such-agent'\nworking_dir = '{bench.folder}'\n"
        f"[agents.vega]\ncommand = 'x'\nworking_dir = '{bench.folder}/gone'\n"
    )
    bench.write(discord.add_bot("sol"), discord.add_channel("dev"), more=more)

    ended = await bench.doctor()

    assert ended.code == 1
    assert "✓ agent: " in ended.out
    assert "✓ agents.luna: " in ended.out
    assert "✗ agents.terra: " in ended.out
    assert "or correct [agents.terra].command" in ended.out
    assert f"✗ working directory of agents.vega: {bench.folder}/gone does not exist" in ended.out
    assert "! agents.vega: not tried without its working directory" in ended.out


async def test_a_token_that_is_refused_and_a_discord_out_of_reach_are_told_apart(
    bench: Bench, discord: LoopbackDiscord
) -> None:
    bench.write(discord.add_bot("sol"), discord.add_channel("dev"))
    bench.token = "not.the.token"
    refused = await bench.doctor()
    config = bench.folder / "config.toml"
    config.write_text(config.read_text().replace(discord.api_base, "http://127.0.0.1:1/api/v10"))
    unreachable = await bench.doctor()

    assert (refused.code, unreachable.code) == (1, 1)
    assert "✗ token: Discord does not accept the token" in refused.out
    assert "✗ Discord: http://127.0.0.1:1/api/v10 cannot be asked" in unreachable.out


async def test_lists_that_let_everybody_in_and_readable_secrets_are_warnings(
    bench: Bench, discord: LoopbackDiscord
) -> None:
    bot, channel = discord.add_bot("sol"), discord.add_channel("dev")
    discord.deny(bot.id, channel.id, "add_reactions")
    bench.write(bot)
    config = bench.folder / "config.toml"
    text = config.read_text().replace("${DISCORD_BOT_TOKEN}", bot.token)
    config.write_text(text.replace('["111111111111111111"]', "[]"))
    config.chmod(0o644)

    ended = await bench.doctor()

    assert ended.code == 0, ended.out
    for told in (
        "! secrets: a secret stands in config.toml, which others can read → chmod 600 config.toml",
        "! people: everybody in its channels may give the agent work → list their ids",
        "! channels: it listens in every channel that it sees",
        f"! permissions: #dev ({channel.id}) lacks Add Reactions",
    ):
        assert told in ended.out
    assert ended.out.count("an empty list means") == 0


async def test_another_process_that_serves_the_account_is_information(
    bench: Bench, discord: LoopbackDiscord
) -> None:
    bot = discord.add_bot("sol")
    bench.write(bot, discord.add_channel("dev"))
    (bench.folder / ".openab").mkdir(mode=0o700)

    with AccountLock(bench.folder / ".openab" / "locks", "discord", bot.id):
        ended = await bench.doctor()

    assert ended.code == 0, ended.out
    assert "✓ other processes: process" in ended.out
    assert "already serves discord account" in ended.out


async def test_a_configuration_that_cannot_be_used_exits_2_with_every_mistake(
    bench: Bench, discord: LoopbackDiscord
) -> None:
    bench.write(discord.add_bot("sol"), more="[pool]\nmax_sessions = 0\n[discordd]\n")

    ended = await bench.doctor()

    assert ended.code == 2
    assert "pool.max_sessions" in ended.err
    assert "discordd" in ended.err
    assert ended.out == ""


@pytest.mark.parametrize("is_listed", [True, False])
async def test_who_has_sub_agents_is_told_where_they_have_no_face(
    bench: Bench, discord: LoopbackDiscord, *, is_listed: bool
) -> None:
    bot, dev, lab = discord.add_bot("sol"), discord.add_channel("dev"), discord.add_channel("lab")
    discord.grant(bot.id, lab.id, "manage_webhooks")
    switch = "[discord.thread_bindings]\nspawn_subagent_sessions = true\n"
    agent = f"[agents.helper]\ncommand = '{sys.executable}'\nargs = {bench.agent_args!r}\n"
    agent += f"working_dir = '{bench.folder}'\n"
    channels = (dev, lab) if is_listed else ()
    bench.write(bot, *channels, more=switch + agent)
    told = [line for line in (await bench.doctor()).out.splitlines() if "personas" in line]
    assert len(told) == 1
    assert told[0].startswith(f"! personas: #dev ({dev.id}): ")
    assert "Manage Webhooks" in told[0]
    bench.write(bot, *channels, more=agent)
    assert "personas" not in (await bench.doctor()).out
