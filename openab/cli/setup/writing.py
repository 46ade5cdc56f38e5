"""Shows the file with the token masked, and writes it for its owner alone."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import typer

from openab.cli.findings import tell_findings
from openab.cli.setup.answers import TOKEN_VARIABLE, Answers, config_text, masked
from openab.config.findings import ConfigInvalid
from openab.config.load import check

_ONLY_OURS = 0o600


def offer(answers: Answers, output: Path, environ: Mapping[str, str]) -> bool:
    """Show it, ask, write it, and say how to go on; whether it was written."""
    text = config_text(answers)
    # A file that `openab config check` refuses is never written.
    try:
        check(text, {**environ, TOKEN_VARIABLE: answers.token}, str(output))
    except ConfigInvalid as invalid:
        tell_findings(str(output), invalid.cautions, invalid.mistakes)
        return False
    typer.echo(f"\n{output}:\n")
    typer.echo(masked(text, answers.token))
    question = f"{output} exists. Replace it?" if output.exists() else "Write it?"
    if not typer.confirm(question, default=not output.exists()):
        typer.echo("Nothing was written.")
        return False
    write(output, text)
    _tell_next(answers, output)
    return True


def write(output: Path, text: str) -> None:
    """Whole or not at all, and never readable for others, not even for a moment."""
    target = output.resolve()
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _ONLY_OURS)
    try:
        with open(file, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a descriptor, no path
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _tell_next(answers: Answers, output: Path) -> None:
    typer.echo(f"Written: {output} (only you can read it). Next:")
    if not answers.is_token_in_file:
        typer.echo(f"  export {TOKEN_VARIABLE}=…   # for good: in the service's environment file")
    given = "" if str(output) == "config.toml" else f" -c {output}"
    typer.echo(f"  openab doctor{given}")
    typer.echo(f"  openab run{given}")
