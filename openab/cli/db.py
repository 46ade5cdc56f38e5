"""`openab db`: upgrade, look at, check and vacuum the database."""

import typer

from openab.cli.database import ConfigOption, chosen_database, run

app = typer.Typer(
    help="The database: its schema and its space.", no_args_is_help=True, add_completion=False
)


@app.command()
def upgrade(config: ConfigOption = None) -> None:
    """Bring the schema to what this openab needs. Brokers of the previous release may go on."""
    from openab.storage import upgrade as schema

    address = chosen_database(config)
    before = run(schema.check(address.url))
    after = run(schema.upgrade(address.url))
    if before.found == after.found:
        typer.echo(f"schema {after.found}, nothing to do")
    else:
        typer.echo(f"schema {before.found or 'none'} -> {after.found}")


@app.command()
def current(config: ConfigOption = None) -> None:
    """Print the schema's revision."""
    from openab.storage import upgrade as schema

    typer.echo(run(schema.current(chosen_database(config).url)) or "no tables")


@app.command()
def check(config: ConfigOption = None) -> None:
    """Exit 0 if this openab can run on the schema, 1 if not, saying what to do."""
    from openab.storage import upgrade as schema

    state = run(schema.prepare(chosen_database(config).url, auto_upgrade=False))
    typer.echo(f"schema {state.found}, as needed")


@app.command()
def vacuum(config: ConfigOption = None) -> None:
    """Give the space of deleted rows back. Brokers may go on: they wait for three seconds at most."""
    from openab.storage import space

    done = run(space.vacuum(chosen_database(config).url))
    typer.echo(f"{_shown(done.before)} -> {_shown(done.after)}")
    if done.told:
        typer.echo(done.told)


def _shown(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB"
