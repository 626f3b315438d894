"""Which client certificate a node shows."""

from __future__ import annotations

import pytest

from trikubelet.core.client_certificate import counts_as_held, shows_own
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.model.certificates import Certificate

NAME = "system:node:w"
MINUTE_NS = 60 * SECOND_NS


def lasting(begin: int, end: int, name: str = NAME) -> Certificate:
    """From one minute to another."""
    return Certificate(name, ("system:nodes",), begin * MINUTE_NS, end * MINUTE_NS)


@pytest.mark.parametrize(
    ("expected", "own", "given", "now"),
    [
        (True, lasting(100, 200), lasting(0, 1000), 150),
        (True, lasting(100, 200), lasting(100, 200), 150),
        (True, lasting(100, 200), None, 150),
        (True, lasting(100, 200), lasting(105, 1000), 150),  # given just before: signers have it begin earlier
        (True, lasting(100, 200), lasting(120, 140), 150),  # the newer one has ended
        (True, lasting(160, 200), lasting(0, 1000), 150),  # not begun: a clock that is behind is no reason
        (False, lasting(100, 200), lasting(111, 1000), 150),  # somebody put a newer one into the kubeconfig
        (False, lasting(100, 200), lasting(0, 1000), 200),
        (False, lasting(100, 200), None, 200),
        (False, lasting(100, 200, "system:node:before"), lasting(0, 1000), 150),  # of another node
        (False, lasting(100, 200, "system:node:before"), None, 150),
    ],
)
def test_a_nodes_own_certificate_is_shown_while_it_lasts_and_no_newer_one_was_given(
    expected: bool, own: Certificate, given: Certificate | None, now: int
) -> None:
    assert expected is shows_own(own, given, NAME, now * MINUTE_NS)


@pytest.mark.parametrize(
    ("expected", "own", "given"),
    [
        (True, lasting(100, 200), None),
        (True, lasting(0, 150, "system:node:before"), None),  # how an end is dealt with is not asked here
        (False, lasting(100, 200, "system:node:before"), None),
        (False, lasting(100, 200), lasting(111, 1000)),
    ],
)
def test_a_certificate_that_lasts_and_is_not_shown_counts_for_nothing(
    expected: bool, own: Certificate, given: Certificate | None
) -> None:
    assert expected is counts_as_held(own, given, NAME, 150 * MINUTE_NS)
