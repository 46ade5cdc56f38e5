"""The `openab` command: every word an operator can type."""

from typing import Annotated, ClassVar

import typer

from openab.cli.lazy import LazyGroup


class _Words(LazyGroup):
    modules: ClassVar = {
        "demo": "openab.cli.demo.word",
        "setup": "openab.cli.setup",
        "doctor": "openab.cli.doctor",
        "config": "openab.cli.config",
        "db": "openab.cli.db",
        "turns": "openab.cli.turns",
        "sessions": "openab.cli.sessions",
        "bindings": "openab.cli.bindings",
        "deliveries": "openab.cli.deliveries",
        "handoffs": "openab.cli.handoffs",
        "why": "openab.cli.why",
        "conformance": "openab.cli.conformance.word",
    }


app = typer.Typer(
    name="openab",
    cls=_Words,
    help="The broker that joins chat threads to coding agents and never loses a turn.",
    no_args_is_help=False,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"openab {version('openab')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def openab(
    context: typer.Context,
    source: Annotated[
        str | None, typer.Option("-c", "--config", metavar="FILE|URL", help="The configuration.")
    ] = None,
    *,
    version: Annotated[  # noqa: ARG001 - typer calls the callback
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Tell the version.")
    ] = False,
) -> None:
    """Without a word: `openab run`."""
    if context.invoked_subcommand is None:
        from openab.cli.run import start

        start(source or "config.toml")
    elif source is not None:
        word = context.invoked_subcommand
        raise typer.BadParameter(f"write it after the word: openab {word} -c {source}")


@app.command()
def run(
    source: Annotated[
        str, typer.Option("-c", "--config", metavar="FILE|URL", help="The configuration.")
    ] = "config.toml",
) -> None:
    """Start the broker. Exit codes: 0 stopped in order, 1 failed while running, 2 unusable configuration."""
    from openab.cli.run import start

    start(source)


def main() -> None:
    """The console script. Sub-commands are imported when they are asked for: start-up stays short."""
    app()
