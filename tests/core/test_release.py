"""Which release of Kubernetes a node reports, by the agent's own, the package's choice and the API server's."""

from __future__ import annotations

import pytest

from trikubelet.core.reported_release import reported_release


@pytest.mark.parametrize(
    ("expected", "chosen", "server"),
    [
        ("v1.37.2", "", ""),
        ("v1.37.2", "", "v1.37.0"),
        ("v1.37.2", "", "v1.37.9"),
        ("v1.37.2", "", "v1.38.0-beta.0"),
        ("v1.36.3", "", "v1.36.3"),
        ("v1.36.3", "", "v1.36.3-eks-1a2b3c"),
        ("v1.36.3", "", "v1.36.3+k3s1"),
        ("v1.36.0", "", "v1.36.0-rc.1"),
        ("v1.9.11", "", "v1.9.11"),
        ("v1.36.0", "", "1.36"),
        ("v1.37.2", "", "a version of its own"),
        ("v1.35.4", "v1.35.4", "v1.36.3"),
        ("v1.37.0", "v1.37.0", "v1.36.3"),
    ],
)
def test_reported_release_never_exceeds_the_servers_minor_version_unless_it_was_chosen(
    expected: str, chosen: str, server: str
) -> None:
    assert expected == reported_release(followed="v1.37.2", chosen=chosen, server=server)
