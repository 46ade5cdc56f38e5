"""New row ids: 20 random hexadecimal digits, short enough to be a Discord nonce as well."""

import secrets


def new_id() -> str:
    """An id that no other row has: 80 random bits."""
    return secrets.token_hex(10)
