"""``$(VAR)``: a table of upstream's rules, and a twin of one line that must agree on any text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.containers.expansion import expand

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
    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return match[0] if match[1] is None else values.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)|\$.", one, text, flags=re.DOTALL)


@given(st.lists(PIECES).map("".join))
def test_any_text_expands_as_a_regular_expression_would_have_it(text: str) -> None:
    assert twin(text, VALUES) == expand(text, VALUES)


@given(st.text())
def test_an_escaped_text_comes_back_as_it_was(text: str) -> None:
    assert text == expand(text.replace("$", "$$"), VALUES)
