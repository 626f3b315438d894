"""What tests/recorded keeps is what a real API server says: its types of a pod, and its verdict on each pod of
tests/corpus. When another version says something else, ``make record`` writes it down and ``make test`` tells what our
own validation then has to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from corpus.verdicts import recorded
from live.kit.record import TYPES, pod_types, server_of, verdicts_of

if TYPE_CHECKING:
    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow


def test_the_record_is_what_the_api_server_says(control_plane: ControlPlane) -> None:
    with server_of(control_plane) as server:
        assert TYPES.read_text() == pod_types(server.schemas())
        assert recorded() == verdicts_of(server)
