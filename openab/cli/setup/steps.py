"""The questions of `openab setup`, in order; each is asked until its answer can be used."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import typer

from openab.agents.environment import agent_environment
from openab.app.diagnosis.account import portal
from openab.app.diagnosis.agent import told, try_agent
from openab.app.diagnosis.candidates import KEY_VARIABLES, KNOWN, Candidate, on_this_machine
from openab.app.diagnosis.first_look import Looked, first_look
from openab.app.diagnosis.machine import working_folder
from openab.app.diagnosis.remedies import FAILURES
from openab.app.diagnosis.report import Level
from openab.channels.discord.permissions import NEEDED, invite_url
from openab.channels.discord.rest import DEFAULT_API_BASE, TokenRefused
from openab.cli.printing import safe
from openab.cli.quiet import quiet_logs
from openab.cli.setup.answers import (
    TOKEN_VARIABLE,
    Answers,
    NotUnderstood,
    read_channels,
    read_command,
    read_token,
    read_users,
)
from openab.config.paths import expand_home, user_home
from openab.domain.errors import OpenabError
from openab.ports.agent import AgentSpec

Result = TypeVar("Result")
_INTRODUCTION = """\
openab setup: five questions, and nothing is written before you have seen it.

Make a bot at https://discord.com/developers/applications (New Application, Bot, Reset Token)
and switch on its Message Content Intent there."""


class Steps:
    """One run of the questions. `api_base`: empty for Discord's own."""

    def __init__(self, environ: Mapping[str, str], api_base: str) -> None:
        self._environ = environ
        self._api_base = api_base
        self._redactor = quiet_logs()

    def ask(self) -> Answers:
        """Everything that the file needs. Raises typer.Abort or typer.Exit where a person gives up."""
        typer.echo(_INTRODUCTION)
        token, looked = self._token()
        _tell_intents(looked)
        looked = self._invited(token, looked)
        channels = self._channels(looked)
        users = _until_understood(
            'Who may give it work? "all", or user ids separated by commas', read_users, "all"
        )
        working_dir = self._working_dir()
        inherit_env = self._inherit_env()
        agent = self._agent(working_dir, inherit_env)
        return Answers(
            token=token,
            is_token_in_file=self._token_in_file(),
            agent=agent,
            working_dir=working_dir,
            channels=channels,
            users=users,
            inherit_env=inherit_env,
            api_base=self._api_base,
        )

    def _token(self) -> tuple[str, Looked]:
        given = self._environ.get(TOKEN_VARIABLE, "")
        use_given = bool(given) and typer.confirm(
            f"\nUse the token in ${TOKEN_VARIABLE}?", default=True
        )
        while True:
            try:
                token = read_token(given if use_given else _hidden("\nBot token (not shown)"))
                self._redactor.add(token)
                return token, self._look(token)
            except NotUnderstood as error:
                typer.echo(str(error))
            except TokenRefused:
                typer.echo("Discord does not accept this token; reset it and copy it again.")
            except OpenabError as error:
                typer.echo(f"Discord cannot be asked: {safe(str(error))}")
                if not typer.confirm("Try again?", default=True):
                    raise typer.Exit(1) from None
                continue
            use_given = False

    def _look(self, token: str) -> Looked:
        looked = asyncio.run(first_look(token, self._api_base or DEFAULT_API_BASE))
        typer.echo(f"It is {safe(looked.identity.name)} ({looked.identity.account}).")
        return looked

    def _invited(self, token: str, looked: Looked) -> Looked:
        typer.echo("\nThe address that invites it, with exactly what it needs:")
        typer.echo(f"  {invite_url(looked.identity.application_id)}")
        typer.echo(f"  ({', '.join(NEEDED)})")
        while not looked.guilds:
            typer.echo("It is in no server yet. Open the address in a browser and invite it.")
            if not typer.confirm("Look again? (no: go on without)", default=True):
                return looked
            try:
                looked = self._look(token)
            except OpenabError as error:
                typer.echo(f"Discord cannot be asked: {safe(str(error))}")
        return looked

    def _channels(self, looked: Looked) -> tuple[str, ...] | None:
        shown = [(guild.name, access) for guild in looked.guilds for access in guild.channels]
        typer.echo("\nText channels that it sees:" if shown else "\nIt sees no text channel yet.")
        for number, (guild, access) in enumerate(shown, 1):
            lacks = f"  lacks {', '.join(access.missing)}" if access.missing else ""
            typer.echo(
                f"  {number:>3}  {safe(guild)} #{safe(access.channel_name)} ({access.channel}){lacks}"
            )
        question = 'Where should it listen? "all", or numbers or ids separated by commas'
        listed = [access for _, access in shown]
        return _until_understood(question, lambda typed: read_channels(typed, listed), "all")

    def _working_dir(self) -> str:
        while True:
            typed = typer.prompt("\nThe folder that the agent works in", default=str(Path.cwd()))
            path = expand_home(typed.strip(), user_home(self._environ)).absolute()
            if not _is_utf8(str(path)):
                typer.echo("This name is not UTF-8, so the file could not hold it.")
                continue
            found = working_folder(path)
            if found.level is not Level.FAILURE:
                return str(path)
            typer.echo(safe(f"{found.told} ({found.remedy})"))

    def _inherit_env(self) -> tuple[str, ...]:
        present = tuple(name for name in KEY_VARIABLES if self._environ.get(name))
        if present and typer.confirm(f"Hand {', '.join(present)} on to the agent?", default=True):
            return present
        return ()

    def _agent(self, working_dir: str, inherit_env: tuple[str, ...]) -> Candidate:
        found = on_this_machine(self._environ)
        typer.echo("\nAgents on this machine:" if found else "\nNone of the known agents is here:")
        for number, each in enumerate(found, 1):
            typer.echo(f"  {number:>3}  {each}")
        if not found:
            typer.echo(f"  {', '.join(map(str, KNOWN))}")

        def read(typed: str) -> Candidate:
            number = typed.strip()
            if number.isascii() and number.isdigit() and 1 <= int(number) <= len(found):
                return found[int(number) - 1]
            return read_command(typed)

        while True:
            question = "Which one? A number, or a command line" if found else "Its command line"
            chosen = _until_understood(question, read, "1" if found else None)
            if self._agent_works(chosen, working_dir, inherit_env):
                return chosen
            if typer.confirm("Take it nevertheless?", default=False):
                return chosen

    def _agent_works(self, chosen: Candidate, folder: str, inherit_env: tuple[str, ...]) -> bool:
        typer.echo(f"Trying {safe(str(chosen))} …")
        env = agent_environment(self._environ, {}, inherit_env)
        spec = AgentSpec(chosen.command, chosen.command, chosen.args, folder, env)
        tried = asyncio.run(try_agent(spec))
        if tried.failure is None:
            typer.echo(safe(f"It answers as {tried.name or 'an agent'} {tried.version}.".strip()))
            return True
        typer.echo(safe(f"It does not work: {told(tried.failure)}"))
        typer.echo(FAILURES[tried.failure.kind])
        return False

    def _token_in_file(self) -> bool:
        typer.echo(
            f"\nThe token can stay out of the file: then ${TOKEN_VARIABLE} has to be set wherever "
            "openab runs.\nOr it stands in the file, which only you can read (and the agent, "
            "which runs as you)."
        )
        return typer.confirm("Put the token into the file?", default=False)


def _tell_intents(looked: Looked) -> None:
    if looked.identity.message_content:
        typer.echo("Its Message Content Intent is switched on.")
        return
    typer.echo("Its Message Content Intent is off; without it Discord refuses the connection.")
    typer.echo(f"Switch it on: {portal(looked.identity.application_id)}")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _hidden(question: str) -> str:
    return str(typer.prompt(question, hide_input=True, default="", show_default=False))


def _until_understood(question: str, read: Callable[[str], Result], default: str | None) -> Result:
    while True:
        try:
            return read(typer.prompt(question, default=default))
        except NotUnderstood as error:
            typer.echo(safe(str(error)))
