"""The file in which a package sets the version that the agent reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trikubelet import __version__
from trikubelet.app.release import chosen_release, reported_version
from trikubelet.model.errors import StartFailed
from trikubelet.model.upstream import FOLLOWED, KUBERNETES_VERSION

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("", ""),
        ("", "# nothing but a remark\n\n"),
        ("v1.36.3", "v1.36.3\n"),
        ("v1.36.3", "# why\n\n  1.36.3  # pinned\n"),
        (KUBERNETES_VERSION, KUBERNETES_VERSION),
    ],
)
def test_chosen_release_is_the_one_line_of_its_file(expected: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "kubernetes-version"
    file.write_text(text)

    assert expected == chosen_release(file)


def test_without_a_file_no_release_is_chosen(tmp_path: Path) -> None:
    assert "" == chosen_release(tmp_path / "kubernetes-version")


@pytest.mark.parametrize(
    ("expected", "content"),
    [
        (':1: "1.36" is not a release of Kubernetes (write one version such as v1.36.3)', b"1.36"),
        (':2: "v1.36.3-rc.1" is not a release of Kubernetes (write', b"#\nv1.36.3-rc.1"),
        (":3: more than one version (write one", b"v1.36.3\n\nv1.36.4"),
        (f":1: v1.{FOLLOWED.minor + 1}.0 is newer than the release", f"v1.{FOLLOWED.minor + 1}.0".encode()),
        (": 'utf-8' codec can't decode", b"\xff\xfe"),
        (": it is larger than 4096 bytes (remove it", b"#" * 5000),
    ],
)
def test_chosen_release_that_cannot_be_reported_is_refused_with_file_and_line(
    expected: str, content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "kubernetes-version"
    file.write_bytes(content)

    with pytest.raises(StartFailed) as refused:
        chosen_release(file)

    assert str(file) in str(refused.value)
    assert expected in str(refused.value)


def test_directory_in_the_place_of_the_chosen_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match=r"cannot read .*: Is a directory"):
        chosen_release(tmp_path)


def test_reported_version_has_the_agents_own_version_behind_the_release() -> None:
    assert f"{KUBERNETES_VERSION}+trikubelet.{__version__}" == reported_version()
    assert f"v1.36.3+trikubelet.{__version__}" == reported_version(server="v1.36.3")
