"""``$(VAR)``: a table of upstream's rules, and a twin that reads letter by letter and must agree on any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.containers.expansion import expand, without_value

VALUES = {"A": "one", "B": "$(A)", "EMPTY": "", "with space": "two"}


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
    assert expected == expand(text, VALUES)


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
    assert twin(text, VALUES) == expand(text, VALUES)


@given(st.text())
def test_an_escaped_text_comes_back_as_it_was(text: str) -> None:
    assert text == expand(text.replace("$", "$$"), VALUES)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param([], "$(A)/$$(UNKNOWN)/$B", id="all are known"),
        pytest.param(["EMPTY", "UNKNOWN"], "$(UNKNOWN)/$(A)/$(EMPTY)/$(UNKNOWN)", id="each once, in order"),
    ],
)
def test_names_without_a_value_are_told(expected: list[str], text: str) -> None:
    assert expected == without_value(text, VALUES)
