"""Field selectors: upstream's grammar, and what is not in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.selectors import FieldTerm, parse_field_selector

KNOWN = ("status.phase", "spec.nodeName", "reason")


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ([], ""),
        ([("status.phase", "Failed", True)], "status.phase=Failed"),
        ([("status.phase", "Failed", True)], "status.phase==Failed,"),
        ([("spec.nodeName", "", True)], "spec.nodeName="),
        ([("spec.nodeName", "n1", True), ("status.phase", "Failed", False)], "spec.nodeName=n1,status.phase!=Failed"),
        ([("reason", "a,b=c\\", True)], r"reason=a\,b\=c\\"),
    ],
)
def test_terms_are_read_as_clients_write_them(terms: list[tuple[str, str, bool]], text: str) -> None:
    assert tuple(FieldTerm(*term) for term in terms) == parse_field_selector(text, KNOWN)


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("field label not supported: spec.color", "reason=a,spec.color=red"),
        ("'reason' is no field selector", "status.phase=a,reason"),
        ("no field selector", "reason=a=b"),
        ("no field selector", "=a"),
        ("no field selector", "reason in (a)"),
    ],
)
def test_what_is_no_selector_is_named(why: str, text: str) -> None:
    with pytest.raises(ValueError, match=why.replace("(", r"\(")):
        parse_field_selector(text, KNOWN)


@given(st.lists(st.tuples(st.sampled_from(KNOWN), st.text(), st.booleans()), max_size=4))
def test_every_value_can_be_written(terms: list[tuple[str, str, bool]]) -> None:
    def written(value: str) -> str:
        return "".join(f"\\{letter}" if letter in "\\,=" else letter for letter in value)

    text = ",".join(f"{path}{'=' if wanted else '!='}{written(value)}" for path, value, wanted in terms)
    assert tuple(FieldTerm(*term) for term in terms) == parse_field_selector(text, KNOWN)
