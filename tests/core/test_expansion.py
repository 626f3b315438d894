"""``$(VAR)``: a table of upstream's rules, and a twin that reads letter by letter and must agree on any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.containers.allowance import Allowance, of_container
from trikubelet.core.containers.expansion import expand, without_value

VALUES = {"A": "one", "B": "$(A)", "EMPTY": "", "with space": "two"}


def expanded(text: str) -> str:
    return expand(text, VALUES, of_container(), "x")


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("plain", "plain", id="no reference"),
        pytest.param("one", "$(A)", id="a reference"),
        pytest.param("x-one-one-y", "x-$(A)-$(A)-y", id="several"),
        pytest.param("$(A)", "$(B)", id="a value is not expanded again"),
        pytest.param("--", "-$(EMPTY)-", id="an empty value"),
        pytest.param("$(UNKNOWN)", "$(UNKNOWN)", id="an unknown name stays"),
        pytest.param("two", "$(with space)", id="any name that is known"),
        pytest.param("$(A)", "$$(A)", id="escaped"),
        pytest.param("$one", "$$$(A)", id="a dollar sign before a reference"),
        pytest.param("$$(A)", "$$$$(A)", id="two dollar signs and no reference"),
        pytest.param("$A", "$A", id="no parentheses, no reference"),
        pytest.param("$()", "$()", id="no name"),
        pytest.param("$(A", "$(A", id="not closed"),
        pytest.param("$(A$(A)", "$(A$(A)", id="a name may hold anything up to the parenthesis"),
        pytest.param("one)", "$(A))", id="closed twice"),
        pytest.param("one$", "$(A)$", id="a dollar sign at the end"),
        pytest.param("$", "$$", id="one escaped dollar sign"),
    ],
)
def test_references_are_replaced(expected: str, text: str) -> None:
    assert expected == expanded(text)


PIECES = st.sampled_from(["$", "$$", "(", ")", "$(A)", "$(B)", "$(C)", "A", "B", " ", "\n", "é"])


def twin(text: str, values: dict[str, str]) -> str:
    out, at = "", 0
    while at < len(text):
        pair = text[at : at + 2]
        closing = text.find(")", at) if pair == "$(" else -1
        if closing >= 0:
            out += values.get(text[at + 2 : closing], text[at : closing + 1])
            at = closing + 1
        else:
            out += "$" if pair == "$$" else text[at]
            at += 2 if pair == "$$" else 1
    return out


@given(st.lists(PIECES).map("".join))
def test_any_text_expands_as_letter_by_letter(text: str) -> None:
    assert twin(text, VALUES) == expanded(text)


@given(st.text())
def test_an_escaped_text_comes_back_as_it_was(text: str) -> None:
    assert text == expanded(text.replace("$", "$$"))


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param([], "$(A)/$$(UNKNOWN)/$B", id="all are known"),
        pytest.param(["EMPTY", "UNKNOWN"], "$(UNKNOWN)/$(A)/$(EMPTY)/$(UNKNOWN)", id="each once, in order"),
    ],
)
def test_names_without_a_value_are_reported(expected: list[str], text: str) -> None:
    assert expected == without_value(text, VALUES)


@pytest.mark.parametrize("text", ["$(" * 1_000_000, "$" * 999_999, "$()" * 500_000])
def test_no_text_takes_longer_than_it_is_long(text: str) -> None:
    # A search that begins again at every dollar sign takes hours, which the test's timeout ends.
    assert len(text) >= len(expanded(text))
    assert [""] * text.startswith("$()") == without_value(text, VALUES)


def test_what_grows_too_large_is_refused_before_it_is_joined_and_named() -> None:
    allowance = Allowance(10, "the words")

    assert "one-one" == expand("$(A)-$(A)", VALUES, allowance, "first")
    assert "one" == expand("$(A)", VALUES, allowance, "second")
    with pytest.raises(ValueError, match=r"^third: with it the words are larger than 10 bytes$"):
        expand("x" * 50, VALUES, allowance, "third")


def test_what_grows_is_counted_in_bytes() -> None:
    assert "é" * 5 == expand("é" * 5, {}, Allowance(10, "the words"), "x")
    with pytest.raises(ValueError, match="larger than 10 bytes"):
        expand("é" * 5 + "x", {}, Allowance(10, "the words"), "x")
