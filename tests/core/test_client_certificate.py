"""Which client certificate a node shows."""

from __future__ import annotations

import pytest

from trikubelet.core.client_certificate import shows_own
from trikubelet.model.certificates import Certificate

NAME = "system:node:w"


def lasting(begin: int, end: int, name: str = NAME) -> Certificate:
    return Certificate(name, ("system:nodes",), begin, end)


@pytest.mark.parametrize(
    ("expected", "own", "given", "now"),
    [
        (True, lasting(10, 20), lasting(0, 100), 15),
        (True, lasting(10, 20), lasting(10, 20), 15),
        (True, lasting(10, 20), None, 15),
        (True, lasting(10, 20), lasting(12, 14), 15),  # the newer one has ended
        (True, lasting(16, 20), lasting(0, 100), 15),  # not begun: a clock that is behind is no reason
        (False, lasting(10, 20), lasting(11, 100), 15),  # somebody put a newer one into the kubeconfig
        (False, lasting(10, 20), lasting(0, 100), 20),
        (False, lasting(10, 20), None, 20),
        (False, lasting(10, 20, "system:node:before"), lasting(0, 100), 15),  # of another node
        (False, lasting(10, 20, "system:node:before"), None, 15),
    ],
)
def test_a_nodes_own_certificate_is_shown_while_it_lasts_and_no_newer_one_was_given(
    expected: bool, own: Certificate, given: Certificate | None, now: int
) -> None:
    assert expected is shows_own(own, given, NAME, now)
