"""Values of variables in the text of a configuration."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.config.lexer import Kind, tokens
from openab.config.substitute import substitute

# Everything that TOML can hold: no lone surrogates, which no file in UTF-8 has either.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
# Pieces of which odd TOML is made.
PIECES = st.lists(
    st.sampled_from(
        ["'", '"', "'''", '"""', "#", "\n", "\\", "${A}", "${B:-x}", "${", "}", "=", "[", "k", " "]
    ),
    max_size=30,
).map("".join)


@pytest.mark.parametrize(
    "written", ['"{}"', "'{}'", '"""{}"""', "'''{}'''", '"""\n{}"""', "'''\n{}'''"]
)
@given(value=TEXTS)
def test_a_value_inside_quotes_is_read_back_as_it_is(written: str, value: str) -> None:
    text = f"k = {written.format('<${V}>')}\nafter = 1"

    read = tomllib.loads(substitute(text, {"V": value}).text)

    assert read == {"k": f"<{value}>", "after": 1}


@given(text=PIECES, value=st.from_regex(r"[a-z0-9.]*", fullmatch=True))
def test_comments_and_lines_never_change_in_however_odd_a_text(text: str, value: str) -> None:
    written = substitute(text, {"A": value, "B": value}).text

    assert _comments(written) == _comments(text)
    assert written.count("\n") == text.count("\n")


@given(comment=st.text(st.characters(exclude_characters="\n\r"), max_size=20), value=TEXTS)
def test_no_value_inside_quotes_begins_or_changes_a_comment(comment: str, value: str) -> None:
    text = f"a = \"${{A}}\" #{comment}${{A}}\nb = '''${{A}}''' # ${{GONE}}"

    substituted = substitute(text, {"A": value})

    assert _comments(substituted.text) == [f"#{comment}${{A}}", "# ${GONE}"]
    assert not substituted.mistakes


def _comments(text: str) -> list[str]:
    return [token.text for token in tokens(text) if token.kind is Kind.COMMENT]


@given(text=PIECES)
def test_tokens_joined_are_the_text(text: str) -> None:
    assert "".join(token.text for token in tokens(text)) == text


@given(text=PIECES)
def test_a_text_without_references_stays_as_it_is(text: str) -> None:
    plain = text.replace("$", "")

    assert substitute(plain, {"A": "x"}).text == plain


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("k = ${N}", {"k": 12}),
        ("k = [${N}, ${N}]", {"k": [12, 12]}),
        ('k = "${GONE:-fallback}"', {"k": "fallback"}),
        ('k = "${EMPTY:-fallback}"', {"k": "fallback"}),
        ('k = "${EMPTY}"', {"k": ""}),
        ('k = "${N:-fallback}"', {"k": "12"}),
        ("k = ${GONE:-7}", {"k": 7}),
        ('k = ${GONE:-"it\'s # fine"}', {"k": "it's # fine"}),
        ("k = '${GONE:-a\\b}'", {"k": "a\\b"}),
        ("k = 'a\\b \"c\" ${N}'", {"k": 'a\\b "c" 12'}),
        ("k = '''it's \\ ${N}'''", {"k": "it's \\ 12"}),
        ("'${N}' = 1", {"12": 1}),
        ('k = "\\u0024{N}"', {"k": "${N}"}),
        ('k = "${} ${a b}"', {"k": "${} ${a b}"}),
        ('k = 1 # ${GONE} "', {"k": 1}),
    ],
)
def test_examples(text: str, read: dict[str, object]) -> None:
    substituted = substitute(text, {"N": "12", "EMPTY": ""})

    assert not substituted.mistakes
    assert tomllib.loads(substituted.text) == read


def test_each_undefined_name_is_told_with_its_line_and_what_to_write() -> None:
    text = 'a = "${ONE}"\n# ${NOT_THIS}\nb = """\n\n${TWO}"""\nc = ${THREE}\n'

    mistakes = substitute(text, {}).mistakes

    assert [(each.line, each.message) for each in mistakes] == [
        (1, "${ONE} is not defined"),
        (5, "${TWO} is not defined"),
        (6, "${THREE} is not defined"),
    ]
    assert mistakes[0].remedy == "set ONE in the environment, or write ${ONE:-a default}"


def test_a_value_of_several_lines_needs_quotes() -> None:
    substituted = substitute("k = ${V}", {"V": "1\n[discord]"})

    assert "[discord]" not in substituted.text
    assert [each.remedy for each in substituted.mistakes] == ["put quotes around it"]


def test_a_reference_to_an_external_secret_is_refused() -> None:
    (mistake,) = substitute('\nk = "${secrets.token}"', {}).mistakes

    assert mistake.line == 2
    assert "[secrets] is not served" in mistake.message


def test_a_backslash_does_not_turn_a_value_into_an_escape() -> None:
    text = r'k = "\${V}"'

    assert substitute(text, {"V": "n"}).text == text
