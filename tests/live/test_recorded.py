"""The files of tests/recorded agree with a real API server: its types of a pod, and its verdict on each pod of
tests/corpus. When another version differs, ``make record`` writes the files anew and ``make test`` shows what our own
validation then has to do. The types are those of the release that is followed; an older server has fewer fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from corpus.verdicts import recorded
from live.kit.record import TYPES, pod_types, server_of, verdicts_of
from trikubelet.model.upstream import FOLLOWED

if TYPE_CHECKING:
    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow


def members(types: str) -> dict[str, set[str]]:
    """Return the members of each type."""
    return {name: set(of.split()) for name, _, of in (line.partition(": ") for line in types.splitlines())}


def test_the_record_is_what_the_api_server_says(control_plane: ControlPlane) -> None:
    with server_of(control_plane) as server:
        theirs, ours = (members(text) for text in (pod_types(server.schemas()), TYPES.read_text()))
        assert {} == {name: more for name, of in theirs.items() if (more := of - ours.get(name, set()))}
        if server.minor() == FOLLOWED:
            assert theirs == ours
        assert recorded() == verdicts_of(server)
