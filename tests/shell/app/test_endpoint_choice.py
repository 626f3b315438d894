"""Which runtime an agent takes when it is told, and when it is not."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from trikubelet.app.endpoint import DEFAULT, EMBEDDED, FAKE, choose_endpoint


@pytest.mark.parametrize(
    ("expected", "named", "standalone"),
    [
        ("unix:///x.sock", "unix:///x.sock", True),
        ("unix:///x.sock", "unix:///x.sock", False),
        (EMBEDDED, "embedded:", True),
        (EMBEDDED, "embedded://", False),
        (FAKE, "fake:", True),
        (EMBEDDED, "", True),
        (DEFAULT, "", False),
    ],
)
def test_a_named_runtime_is_taken_and_none_means_the_default_or_the_embedded_one(
    expected: str, named: str, standalone: bool, tmp_path: Path
) -> None:
    assert expected == choose_endpoint(named, standalone=standalone, root=tmp_path).endpoint


def test_standalone_takes_the_first_well_known_socket_that_exists_and_says_why() -> None:
    # A Unix socket's path must be short, and pytest's are not.
    with tempfile.TemporaryDirectory() as place, socket.socket(socket.AF_UNIX) as sock:
        os.makedirs(f"{place}/run/crio")
        sock.bind(f"{place}/run/crio/crio.sock")
        found = choose_endpoint("", standalone=True, root=Path(place))
    assert "unix:///run/crio/crio.sock" == found.endpoint
    assert "exists" in found.reason
