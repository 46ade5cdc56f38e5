"""A database address as people write it, turned into the one that the engine takes; pure text work."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from openab.domain.errors import Rejected

#: The variable that beats the configuration file, in every command and in alembic.
DATABASE_URL_VARIABLE = "OPENAB_DATABASE_URL"

_SQLITE = ("sqlite", "sqlite+aiosqlite")
_POSTGRES = ("postgres", "postgresql", "postgresql+asyncpg")
_EXAMPLES = 'write "sqlite:///~/.openab/openab.db" or "postgresql://USER:PASSWORD@HOST/DATABASE"'
_SSL_WORDS = frozenset(("disable", "allow", "prefer", "require", "verify-ca", "verify-full"))
# asyncpg takes these from the environment only; in the address they would break the connection.
_BY_VARIABLE = {
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "passfile": "PGPASSFILE",
    "options": "PGOPTIONS",
}


class DatabaseUrlInvalid(Rejected):
    """The address cannot be used; `remedy` says what to write instead. Never tells the password."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message} ({remedy})")
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """A checked address. `url` may hold the password; `masked` is the one to print."""

    dialect: str
    url: str
    masked: str
    #: The file of an SQLite database, `~` expanded; None for a server.
    file: str | None = None

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file on this machine, and so for one machine only."""
        return self.dialect == "sqlite"

    def __repr__(self) -> str:
        return f"DatabaseAddress({self.masked!r})"


def database_address(
    environ: Mapping[str, str], configured: str = "", *, home: str, folder: str
) -> DatabaseAddress:
    """The address in use: the variable's, else the configured one, else a file in `folder`.

    Raises DatabaseUrlInvalid.
    """
    written = environ.get(DATABASE_URL_VARIABLE) or configured
    return parse_database_url(written or f"sqlite:///{folder}/openab.db", home)


def parse_database_url(written: str, home: str) -> DatabaseAddress:
    """Check and translate one address; `home` stands for `~`. Raises DatabaseUrlInvalid."""
    scheme, separator, rest = written.strip().partition("://")
    if scheme.lower() in _SQLITE and separator:
        return _sqlite(rest, home)
    if scheme.lower() in _POSTGRES and separator:
        return _postgres(rest)
    # What stands before `://` can be shown; without it, all of it might be a password.
    shown = f"{scheme}:// is not served" if separator else "this is no database address"
    raise DatabaseUrlInvalid(shown, _EXAMPLES)


def _sqlite(rest: str, home: str) -> DatabaseAddress:
    host, slash, path = rest.partition("/")
    path, question, _ = path.partition("?")
    if host or not slash:
        raise DatabaseUrlInvalid("an SQLite address has three slashes", _EXAMPLES)
    if question:
        raise DatabaseUrlInvalid(
            "an SQLite address takes no parameters", "remove everything from ?"
        )
    if path in ("", ":memory:"):
        raise DatabaseUrlInvalid("the database must be a file, to outlive the process", _EXAMPLES)
    if path == "~" or path.startswith("~/"):
        path = home.rstrip("/") + path[1:]
    # The engine decodes %XX in a database's name; a file's name is meant as it stands.
    encoded = path.replace("%", "%25")
    return DatabaseAddress("sqlite", f"sqlite+aiosqlite:///{encoded}", f"sqlite:///{path}", path)


def _postgres(rest: str) -> DatabaseAddress:
    try:
        parts = urlsplit(f"postgresql://{rest}")
        user, password, port = parts.username, parts.password, parts.port
    except ValueError:
        raise DatabaseUrlInvalid(
            "the address cannot be read", "write special characters of the password as %XX"
        ) from None
    if parts.fragment or "@" in parts.path:
        raise DatabaseUrlInvalid("the password holds /, ? or #", "write them as %2F, %3F and %23")
    query = _postgres_query(parts.query)
    if not parts.path.strip("/"):
        raise DatabaseUrlInvalid("the database's name is missing", _EXAMPLES)
    place = _host(parts.hostname) + (f":{port}" if port is not None else "") + parts.path + query
    return DatabaseAddress(
        "postgresql",
        f"postgresql+asyncpg://{_login(user, password)}{place}",
        f"postgresql://{_login(user, '***' if password is not None else None)}{place}",
    )


def _host(host: str | None) -> str:
    return f"[{host}]" if host and ":" in host else host or ""


def _login(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    secret = "" if password is None else f":{quote(unquote(password), safe='*')}"
    return f"{quote(unquote(user), safe='')}{secret}@"


def _postgres_query(query: str) -> str:
    kept = dict(_postgres_parameter(*each) for each in parse_qsl(query, keep_blank_values=True))
    written = "&".join(f"{key}={quote(value, safe='/')}" for key, value in kept.items())
    return f"?{written}" if written else ""


def _postgres_parameter(key: str, value: str) -> tuple[str, str]:
    if key in ("sslmode", "ssl"):
        if value not in _SSL_WORDS:
            raise DatabaseUrlInvalid(
                f"sslmode cannot be {value!r}", 'write "require" or "verify-full"'
            )
        return "ssl", value
    if key in ("host", "port"):
        return key, value
    if key in _BY_VARIABLE:
        raise DatabaseUrlInvalid(
            f"{key} cannot stand in the address", f"set {_BY_VARIABLE[key]} instead"
        )
    raise DatabaseUrlInvalid(f"the parameter {key} is not served", "remove it from the address")
