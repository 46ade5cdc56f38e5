"""Reads request bodies into drafts and changes, refusing wrong forms as Discord does (50035)."""

from dataclasses import dataclass
from typing import Any

from openab.simulator.discord.errors import Json, invalid_form, refused
from openab.simulator.discord.posting import Draft
from openab.simulator.discord.records import Attachment
from openab.simulator.discord.world import World

#: A nonce has at most 25 characters (Discord API documentation).
MAX_NONCE = 25
#: Bytes a bot may upload in one file (Discord API documentation).
MAX_UPLOAD = 10 * 1024 * 1024
#: The component type of a select menu of texts, and its limits (Discord API documentation).
SELECT, MAX_OPTIONS, MAX_PLACEHOLDER = 3, 25, 150


@dataclass(frozen=True)
class Upload:
    """One `files[n]` part of a multipart body."""

    index: str
    filename: str
    content: bytes
    content_type: str


def draft(world: World, body: Json, uploads: list[Upload]) -> Draft:
    """A message to create; types are checked before any rule."""
    nonce = body.get("nonce")
    if nonce is not None and len(str(nonce)) > MAX_NONCE:
        text = f"Must be {MAX_NONCE} or fewer in length."
        raise invalid_form("nonce", "BASE_TYPE_MAX_LENGTH", text)
    return Draft(
        content=_string(body, "content"),
        flags=_integer(body, "flags"),
        nonce=nonce,
        allowed_mentions=_object(body, "allowed_mentions"),
        reference=_reference(body),
        components=_components(body),
        embeds=_objects(body, "embeds"),
        attachments=[file(world, upload) for upload in uploads],
    )


def changes(body: Json) -> Json:
    """An edit; keys that are absent stay absent, since they mean *leave it*."""
    wanted: Json = {}
    if "content" in body:
        wanted["content"] = _string(body, "content")
    if "components" in body:
        wanted["components"] = _components(body)
    if "embeds" in body:
        wanted["embeds"] = _objects(body, "embeds")
    if "flags" in body:
        wanted["flags"] = _integer(body, "flags")
    return wanted | {"allowed_mentions": _object(body, "allowed_mentions")}


def file(world: World, upload: Upload) -> Attachment:
    """A file as an attachment; too large is 40005."""
    if len(upload.content) > MAX_UPLOAD:
        raise refused(40005)
    identity = world.snowflakes.next()
    return Attachment(identity, upload.filename, upload.content, upload.content_type)


def _wrong(key: str, kind: str) -> Exception:
    return invalid_form(key, "BASE_TYPE_BAD_TYPE", f"Could not interpret value as {kind}.")


def _string(body: Json, key: str) -> str:
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise _wrong(key, "string")
    return str(value)


def _integer(body: Json, key: str) -> int:
    value = body.get(key) or 0
    if not isinstance(value, int):
        raise _wrong(key, "int")
    return value


def _object(body: Json, key: str) -> Json | None:
    value: Any = body.get(key)
    if value is not None and not isinstance(value, dict):
        raise _wrong(key, "dictionary")
    return value


def _objects(body: Json, key: str) -> list[Json]:
    value: Any = body.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _wrong(key, "list")
    return value


def _reference(body: Json) -> Json | None:
    reference = _object(body, "message_reference")
    if reference is not None and not str(reference.get("message_id", "")).isdigit():
        path = "message_reference.message_id"
        raise invalid_form(path, "BASE_TYPE_REQUIRED", "This field is required")
    return reference


def _components(body: Json) -> list[Json]:
    rows = _objects(body, "components")
    for place, row in enumerate(rows):
        for inner, item in enumerate(row.get("components") or []):
            if len(str(item.get("custom_id") or "")) > 100:
                path = f"components.{place}.components.{inner}.custom_id"
                text = "Must be between 1 and 100 in length."
                raise invalid_form(path, "BASE_TYPE_BAD_LENGTH", text)
            if item.get("type") == SELECT:
                _check_select(item, f"components.{place}.components.{inner}")
    return rows


def _check_select(item: Json, path: str) -> None:
    """A select menu has 1 to 25 options with single values; their texts have at most 100 characters."""
    options = item.get("options") or []
    if not 1 <= len(options) <= MAX_OPTIONS:
        text = f"Must be between 1 and {MAX_OPTIONS} in length."
        raise invalid_form(f"{path}.options", "BASE_TYPE_BAD_LENGTH", text)
    if len({option.get("value") for option in options}) < len(options):
        text = "The specified option value is already used"
        raise invalid_form(f"{path}.options", "COMPONENT_OPTION_VALUE_DUPLICATED", text)
    for number, option in enumerate(options):
        for key in ("label", "value", "description"):
            text = str(option.get(key) or "")
            if len(text) > 100 or (not text and key != "description"):
                where = f"{path}.options.{number}.{key}"
                told = "Must be between 1 and 100 in length."
                raise invalid_form(where, "BASE_TYPE_BAD_LENGTH", told)
    if len(str(item.get("placeholder") or "")) > MAX_PLACEHOLDER:
        text = f"Must be {MAX_PLACEHOLDER} or fewer in length."
        raise invalid_form(f"{path}.placeholder", "BASE_TYPE_MAX_LENGTH", text)


def buttons(rows: list[Json]) -> list[Json]:
    """Every component that is no row, however deep."""
    found: list[Json] = []
    for item in rows:
        inner = item.get("components") or []
        found += buttons(inner) if inner else [item]
    return found
