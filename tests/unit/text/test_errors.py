"""An error code has a name and a remedy, whatever the agent sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.text.errors import error_name, error_title, remedy


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (400, "Bad Request"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "Not Found"),
        (408, "Request Timeout"),
        (429, "Too Many Requests"),
        (500, "Internal Server Error"),
        (502, "Bad Gateway"),
        (503, "Service Unavailable"),
        (504, "Gateway Timeout"),
        (529, "Overloaded"),
        (-32700, "Parse Error"),
        (-32600, "Invalid Request"),
        (-32601, "Method Not Found"),
        (-32602, "Invalid Params"),
        (-32603, "Internal Error"),
        (-32000, "Server Error"),
        (-32002, "Server Error"),
        (-32099, "Server Error"),
        (-32100, "Error"),
        (-31999, "Error"),
        (200, "Error"),
        (0, "Error"),
        (None, "Error"),
    ],
)
def test_a_code_has_a_name(code: int | None, name: str) -> None:
    assert error_name(code) == name


@given(st.integers())
def test_every_code_has_a_title_and_a_remedy(code: int) -> None:
    assert error_title(code) == f"**{error_name(code)}** (code: {code})"
    assert remedy(code).endswith(".")


def test_the_remedy_follows_the_class() -> None:
    assert "API key" in remedy(401)
    assert remedy(403) == remedy(401)
    assert "in a moment" in remedy(429)
    assert "quota" in remedy(402)
    assert "less" in remedy(413)
    assert "update" in remedy(-32601)
    assert remedy(-32603) == remedy(None) == remedy(12345)
    assert error_title(None) == "**Error**"
