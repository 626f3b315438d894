"""The doctor on the image directory: damaged archives, missing programs, and writers that are not trusted."""

from __future__ import annotations

import pytest

from trikubelet.core.doctor.images import IMAGES, judge_image_directory
from trikubelet.model.finding import Finding, error, good, warning
from trikubelet.model.image_archives import Archive, ArchivedImage

APP, OTHER = ArchivedImage("r.io/app:1", "r.io/app:1"), ArchivedImage("r.io/other:1", "r.io/other:1")
ARCHIVES = (Archive("/i/a.tar", (APP, OTHER)), Archive("/i/b.tar", (APP,)), Archive("/i/c.tar", problem="is damaged"))
DAMAGED = error(IMAGES, "/i/c.tar is damaged", "replace the file, or remove it")
COUNTED = good(IMAGES, "2 images in 2 archives of /i")


@pytest.mark.parametrize("runtime", ["containerd", "cri-o", ""])
def test_each_damaged_archive_is_an_error_and_the_images_are_counted_once(runtime: str) -> None:
    found = judge_image_directory("/i", ARCHIVES, runtime, {"ctr", "skopeo"}, others_write=False)
    assert [DAMAGED, COUNTED] == list(found)
    [one] = judge_image_directory("/i", [Archive("/i/a.tar", (APP,))], runtime, {"ctr", "skopeo"}, others_write=False)
    assert "1 image in 1 archive of /i" == one.found


@pytest.mark.parametrize(
    ("found", "runtime"),
    [
        ("the program ctr, which imports for containerd, is not on the agent's PATH", "containerd"),
        ("the program skopeo, which imports for cri-o, is not on the agent's PATH", "cri-o"),
        (
            "not supported: archives cannot be imported into the runtime docker "
            "(use containerd, or CRI-O with skopeo, or leave out --image-directory)",
            "docker",
        ),
    ],
)
def test_a_runtime_without_a_program_that_imports_is_an_error(found: str, runtime: str) -> None:
    first, *_ = judge_image_directory("/i", (), runtime, (), others_write=False)
    assert ("error", found, True) == (first.severity.value, first.found, bool(first.remedy))


def test_a_directory_that_others_can_write_to_is_a_warning() -> None:
    said = "other users can write to /i, and so choose what pods run"
    expected: list[Finding] = [
        warning(IMAGES, said, "chown root /i; chmod go-w /i"),
        good(IMAGES, "0 images in 0 archives of /i"),
    ]
    assert expected == list(judge_image_directory("/i", (), "containerd", {"ctr"}, others_write=True))
