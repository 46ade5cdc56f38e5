"""Prints what was found in a configuration: a line for each, with its place and the remedy."""

from collections.abc import Iterable

import typer

from openab.config.fetch import shown_source
from openab.config.findings import Caution, Finding, Mistake


def tell_findings(
    source: str, cautions: Iterable[Caution], mistakes: Iterable[Mistake] = ()
) -> None:
    """To stderr: first the cautions, then the mistakes."""
    shown = shown_source(source)
    for kind, findings in (("caution", cautions), ("mistake", mistakes)):
        for finding in findings:
            typer.echo(_line(shown, kind, finding), err=True)


def _line(shown: str, kind: str, finding: Finding) -> str:
    place = shown if finding.line is None else f"{shown}:{finding.line}"
    path = f"{finding.path}: " if finding.path else ""
    remedy = f" ({finding.remedy})" if finding.remedy else ""
    return f"{place}: {kind}: {path}{finding.message}{remedy}"
