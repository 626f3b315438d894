"""Image archives: which images they have by their index, and the commands that import one."""

from __future__ import annotations

import json

import pytest

from trikubelet.core.image_archives import archive_of, commands, compression, snapshotter, undo
from trikubelet.model.errors import ImportFailed
from trikubelet.model.image_archives import Archive, ArchivedImage

NAME, REFERENCE = "io.containerd.image.name", "org.opencontainers.image.ref.name"
BUSYBOX = "docker.io/library/busybox:1.36"
SOCKET = "/run/containerd/containerd.sock"
CTR = ("ctr", "--address", SOCKET, "--namespace", "k8s.io", "images")


def layout(*annotations: dict[str, str] | None) -> dict[str, bytes]:
    index = {"schemaVersion": 2, "manifests": [{"digest": "sha256:1", "annotations": one} for one in annotations]}
    return {"oci-layout": b"{}", "index.json": json.dumps(index).encode()}


def saved(*tags: list[str] | None) -> dict[str, bytes]:
    return {"manifest.json": json.dumps([{"Config": "c", "RepoTags": one, "Layers": []} for one in tags]).encode()}


@pytest.mark.parametrize(
    ("names", "members"),
    [
        ([BUSYBOX], saved(["busybox:1.36"])),
        ([BUSYBOX, "r.io/app:2"], saved(["busybox:1.36", "r.io/app:2"])),
        ([BUSYBOX, "r.io/app:2"], saved(["busybox:1.36"], None, ["r.io/app:2"])),
        ([BUSYBOX], layout({NAME: BUSYBOX, REFERENCE: "1.36"})),
        ([BUSYBOX], layout({REFERENCE: "busybox:1.36"}, {REFERENCE: "latest"}, None)),
        (["docker.io/library/busybox:latest"], layout({REFERENCE: "docker.io/library/busybox"})),
        ([BUSYBOX], {**saved(["another:1"]), **layout({NAME: BUSYBOX})}),
        ([BUSYBOX], saved(["busybox:1.36", "busybox:1.36", "No Name"])),
    ],
)
def test_an_archive_lists_its_images_by_their_full_names(names: list[str], members: dict[str, bytes]) -> None:
    assert names == [image.name for image in archive_of("/a.tar", members).images]


@pytest.mark.parametrize(
    ("why", "members"),
    [
        (r"neither oci-layout with index.json \(OCI\) nor manifest.json \(docker save\)", {}),
        ("neither oci-layout", {"index.json": b"{}"}),
        ("neither oci-layout", {"oci-layout": b"{}"}),
        (r"index.json: Object missing required field `manifests`", {"oci-layout": b"", "index.json": b"{}"}),
        (r"index.json: .* - at `\$.manifests\[0\].annotations", layout({"a": 1})),  # type: ignore[dict-item]
        ("manifest.json: JSON is malformed", {"manifest.json": b"[{]"}),
        ("manifest.json: Input data was truncated", {"manifest.json": b""}),
        ("none of its images has a full name", saved(None)),
        ("none of its images has a full name", layout({REFERENCE: "latest"})),
        ("none of its images has a full name", layout()),
    ],
)
def test_an_archive_without_usable_names_is_refused(why: str, members: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match=why):
        archive_of("/a.tar", members)


@pytest.mark.parametrize(
    ("expected", "begin"),
    [
        ("gzip", b"\x1f\x8b\x08"),
        ("zstd", b"\x28\xb5\x2f\xfd"),
        ("xz", b"\xfd7zXZ\0"),
        ("bzip2", b"BZh9"),
        ("", b"oci-"),
    ],
)
def test_a_compressed_file_is_recognized_by_its_first_bytes(expected: str, begin: bytes) -> None:
    assert expected == compression(begin)


def test_containerd_imports_by_ctr_and_an_oci_layouts_short_name_is_tagged() -> None:
    docker = archive_of("/a.tar", saved(["busybox:1.36"]))
    short = archive_of("/b.tar", layout({REFERENCE: "busybox:1.36"}))
    full = archive_of("/c.tar", layout({NAME: BUSYBOX}))

    assert [(*CTR, "import", "/a.tar")] == commands("containerd", SOCKET, docker, docker.images[0])
    assert [(*CTR, "import", "--snapshotter", "native", "/c.tar")] == commands(
        "containerd", SOCKET, full, full.images[0], "native"
    )
    assert [(*CTR, "import", "/b.tar"), (*CTR, "tag", "--force", "busybox:1.36", BUSYBOX)] == commands(
        "containerd", SOCKET, short, short.images[0]
    )


def test_images_that_a_failed_import_may_have_left_are_removed_by_all_their_names() -> None:
    images = archive_of("/b.tar", layout({REFERENCE: "busybox:1.36"}, {NAME: "r.io/app:2"})).images
    assert (*CTR, "remove", "busybox:1.36", BUSYBOX, "r.io/app:2") == undo("containerd", SOCKET, images)
    assert () == undo("containerd", SOCKET, ())
    assert () == undo("cri-o", SOCKET, images)


@pytest.mark.parametrize(
    ("source", "members"),
    [
        ("docker-archive:/a.tar:busybox:1.36", saved(["busybox:1.36"], ["r.io/app:2"])),
        ("oci-archive:/a.tar", layout({NAME: BUSYBOX})),
        ("oci-archive:/a.tar:busybox:1.36", layout({REFERENCE: "busybox:1.36"}, {REFERENCE: "r.io/app:2"})),
    ],
)
def test_crio_imports_by_skopeo(source: str, members: dict[str, bytes]) -> None:
    archive = archive_of("/a.tar", members)
    copy = ("skopeo", "copy", "--quiet", source, f"containers-storage:{BUSYBOX}")
    assert [copy] == commands("cri-o", SOCKET, archive, archive.images[0])


def test_skopeo_cannot_choose_from_images_without_a_reference() -> None:
    archive = archive_of("/a.tar", layout({NAME: BUSYBOX}, {NAME: "r.io/app:2"}))
    with pytest.raises(ImportFailed, match=f"skopeo cannot choose {BUSYBOX} from its 2 images"):
        commands("cri-o", SOCKET, archive, archive.images[0])


@pytest.mark.parametrize("runtime", ["docker", "fake", ""])
def test_other_runtimes_are_not_supported_and_named(runtime: str) -> None:
    archive = Archive("/a.tar", (ArchivedImage(BUSYBOX, BUSYBOX),))
    with pytest.raises(ImportFailed, match=rf"^not supported: .* runtime {runtime or 'unknown'} \(use containerd"):
        commands(runtime, SOCKET, archive, archive.images[0])


@pytest.mark.parametrize(
    ("expected", "places"),
    [
        ("overlayfs", ["/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"]),
        ("native", ["/", "/x/io.containerd.snapshotter.v1.native/"]),
        ("", ["/var/lib/containers/storage/overlay-images"]),
        ("", []),
    ],
)
def test_the_snapshotter_is_the_last_part_of_the_images_place(expected: str, places: list[str]) -> None:
    assert expected == snapshotter(places)
