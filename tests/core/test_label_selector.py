"""Label selectors, term by term."""

from __future__ import annotations

import pytest

from trikubelet.core.selectors import parse_selector

LABELS = {"app": "web", "tier": "front", "example.com/owner": "me"}


@pytest.mark.parametrize(
    ("holds", "selector"),
    [
        (True, ""),
        (True, "app=web"),
        (True, "app==web"),
        (False, "app=api"),
        (False, "app!=web"),
        (True, "app!=api"),
        (True, "missing!=x"),
        (True, "app=web,tier=front"),
        (False, "app=web, tier=back"),
        (True, "app in (api, web)"),
        (False, "app in (api)"),
        (False, "missing in (api)"),
        (False, "app notin (api, web),tier"),
        (True, "missing notin (a),tier"),
        (True, "example.com/owner"),
        (True, "!missing"),
        (False, "!app"),
        (False, "app="),
    ],
)
def test_a_selector_chooses_by_labels(holds: bool, selector: str) -> None:
    assert holds == parse_selector(selector)(LABELS)


@pytest.mark.parametrize("wrong", ["=web", "app=web tier", "app in web", "a b", ",", "app in (a", "app>3"])
def test_what_is_no_selector_is_refused_with_what_to_write(wrong: str) -> None:
    with pytest.raises(ValueError, match="is no label selector: write KEY=VALUE"):
        parse_selector(wrong)
