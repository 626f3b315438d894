"""Files of variables: a table of the format, a shell's opinion of it, and any text at all."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.containers.env_file import EnvFile, read_env_file

GOOD = [
    pytest.param("val2", "   KEY1='val1'\n\t\tKEY2='val2'\nKEY3='val3'\n", id="leading whitespace"),
    pytest.param("bar", "# comment\n\nKEY1='foo'\n   # another\n\t\nKEY2='bar'\n", id="blank lines and comments"),
    pytest.param("foo#notcomment", "KEY2='foo#notcomment'\n", id="a hash in a value"),
    pytest.param("  foo  bar  ", "KEY2='  foo  bar  '\n", id="whitespace in a value"),
    pytest.param("foo=bar=baz", "KEY2='foo=bar=baz'\n", id="equals signs in a value"),
    pytest.param("bar", "KEY1='foo'\nKEY2='bar' # comment\n", id="a comment behind a value"),
    pytest.param("bar", "KEY2='bar'  \t", id="whitespace behind a value, and no end of line"),
    pytest.param("$VAR ${HOME} $(id) `id`", "KEY2='$VAR ${HOME} $(id) `id`'", id="nothing is expanded"),
    pytest.param("a\\nb\\\\", "KEY2='a\\nb\\\\'", id="nothing is escaped"),
    pytest.param('say "hi"', "KEY2='say \"hi\"'", id="double quotes in a value"),
    pytest.param("one\n\n  two\n# three", "KEY1='x'\nKEY2='one\n\n  two\n# three'\n", id="several lines"),
    pytest.param("中文 🌍", "KEY2='中文 🌍'\n", id="any character"),
    pytest.param("", "KEY2=''\n", id="an empty value"),
    pytest.param("", "KEY2= \t\nKEY1='x'\n", id="a blank after the equals sign"),
    pytest.param("", "KEY2= ", id="a blank after the equals sign, and no end of line"),
    pytest.param("", "KEY2= # comment\nKEY1='x'\n", id="a comment after the equals sign"),
    pytest.param("bar", "KEY1= # comment\nKEY2='bar'\n", id="a comment after the equals sign of another name"),
]


def value_of(text: str, key: str) -> str | None:
    found = read_env_file(text.encode(), [key])
    if key not in found.values and found.wrong:
        raise ValueError(found.wrong)
    return found.values.get(key)


@pytest.mark.parametrize(("expected", "text"), GOOD)
def test_a_value_is_what_stands_between_the_quotes_and_a_shell_agrees(expected: str, text: str) -> None:
    assert expected == value_of(text, "KEY2")
    shell = subprocess.run(["sh", "-c", 'eval "$1"; printf %s "$KEY2"', "sh", text], capture_output=True, check=True)
    assert expected == shell.stdout.decode()


def test_the_first_of_two_counts_and_nothing_behind_it_is_looked_at() -> None:
    assert "1" == value_of("A='1'\nA='2'\nrubbish", "A")
    assert None is value_of("A='1'\n", "B")
    assert None is value_of("", "A")
    assert "windows" == value_of("A='1'\r\nB='windows'\r\n", "B")


def test_of_many_names_all_are_found_in_one_pass_and_no_other_value_is_kept() -> None:
    text = b"OTHER='x'\nA='1'\nB='2'\nA='3'\nC='4'\nrubbish"

    assert EnvFile({"A": "1", "B": "2"}, "", len(text)) == read_env_file(text, ["B", "A"])
    wrong = EnvFile({"A": "1", "C": "4"}, "line 6: it is not NAME='value'", len(text))
    assert wrong == read_env_file(text, ["A", "MISSING", "C"])
    assert EnvFile({}, "it is not UTF-8", 1) == read_env_file(b"\xff", ["A"])


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("line 2: it is not NAME='value'", "KEY1='foo'\nINVALID_LINE\nKEY2='bar'\n"),
        ("line 1: it is not NAME='value'", "='foo'\nKEY2='bar'"),
        ("line 1: whitespace before '=' is not allowed", "KEY2 = 'val'"),
        ("line 1: unexpected content after whitespace following '='", "KEY2= 'val'"),
        ("line 1: unexpected content after whitespace following '='", "KEY2=\tval\n"),
        ("line 1: unexpected content after whitespace following '='", "KEY1= 'val1'\nKEY2='val2'\n"),
        ("line 1: value must be enclosed in single quotes", "KEY2=#bar"),
        ("line 2: value must be enclosed in single quotes", "\nKEY2=bar\n"),
        ("line 1: value must be enclosed in single quotes", 'KEY2="bar"'),
        ("line 1: value must be enclosed in single quotes", "KEY2="),
        ("line 1: unexpected content after closing quote", "KEY2='foo''bar'"),
        ("line 3: unexpected content after closing quote", "\nKEY2='foo\n'bar"),
        ("line 1: unexpected content after closing quote", "KEY2='foo'#bar"),
        ("line 2: unexpected content after closing quote", "KEY2='bar\nKEY3='baz'\n"),
        ("line 1: the closing quote is missing", "KEY2='bar"),
    ],
)
def test_what_is_not_in_the_format_is_reported_by_its_line_alone(expected: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{expected}$"):
        value_of(text, "KEY2")


NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="='#\"$"), min_size=1, max_size=5)
VALUES = st.text(st.characters(exclude_characters="'", exclude_categories=["Cs"]), max_size=20)


@given(
    st.dictionaries(NAMES, VALUES, min_size=1), st.sampled_from(["", "# c\n", "\n \t"]), st.sampled_from(["", " #x'"])
)
def test_whatever_is_written_in_the_format_is_read_back(values: dict[str, str], before: str, behind: str) -> None:
    text = "".join(f"{before}{name}='{value}'{behind}\n" for name, value in values.items())

    assert values == {name: value_of(text, name) for name in values}


@given(
    st.lists(st.sampled_from(["A", "=", "'", "#", "\n", " ", "\\", "A='b'"])).map("".join), st.sampled_from(["A", "B"])
)
def test_of_any_text_there_is_a_value_no_value_or_a_line_that_is_wrong(text: str, key: str) -> None:
    try:
        value = value_of(text, key)
    except ValueError as error:
        line = int(str(error).split()[1].rstrip(":"))
    else:
        line = 1
        assert value is None or f"{key}='{value}'" in text or (value == "" and f"{key}= " in text)
    assert 1 <= line <= text.count("\n") + 1
