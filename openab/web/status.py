"""The status page: what is ready, and which turns are live."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from html import escape

import structlog
from aiohttp import web

from openab.web.health import Check, Checks, ask

log = structlog.stdlib.get_logger(__name__)

#: The live turns, each a row of named cells; all rows have the first one's names.
Turns = Callable[[], Awaitable[Sequence[Mapping[str, object]]]]

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="5"><title>openab</title>
<style>body{{font:15px/1.5 system-ui;margin:2em}}td,th{{text-align:left;padding:.1em 1.5em .1em 0}}\
.no{{color:#b00}}</style>
<h1>openab</h1>
<h2>Ready</h2>
{checks}
<h2>Live turns</h2>
{turns}
</html>
"""


def page(checks: Checks, turns: Turns) -> Callable[[web.Request], Awaitable[web.Response]]:
    """The page, made anew for each request."""

    async def answer(_: web.Request) -> web.Response:
        shown = _PAGE.format(checks=_checks(await ask(checks)), turns=await _turns(turns))
        return web.Response(text=shown, content_type="text/html")

    return answer


def _checks(found: Mapping[str, Check]) -> str:
    rows = [
        f'<tr><th>{escape(name)}<td class="{"yes" if check.ok else "no"}">'
        f"{'ok' if check.ok else 'not ok'}<td>{escape(check.reason)}"
        for name, check in found.items()
    ]
    return f"<table>{''.join(rows)}</table>"


async def _turns(turns: Turns) -> str:
    try:
        rows = await turns()
    except Exception:  # the rest of the page is still worth showing
        log.exception("live_turns_failed")
        return '<p class="no">The turns could not be read; the log says why.</p>'
    return _table(rows) if rows else "<p>None.</p>"


def _table(rows: Sequence[Mapping[str, object]]) -> str:
    names = list(rows[0])
    head = "".join(f"<th>{escape(name)}" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(row.get(name, '')))}" for name in names) for row in rows
    )
    return f"<table><tr>{head}{body}</table>"
