"""Image archives: reads which images a tar archive has, and chooses the commands that import one.

    index.json of an OCI layout ──┐
    manifest.json of docker save ─┴► names in full ─► the runtime's commands: ctr for containerd, skopeo for CRI-O

Pure. The CRI has no call that imports an archive, so the runtime's own program does it. (docs/decisions/0045)
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from trikubelet.core.image_names import normalized
from trikubelet.model.errors import ImportFailed
from trikubelet.model.image_archives import Archive, ArchivedImage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

T = TypeVar("T")

LAYOUT, INDEX, MANIFEST = "oci-layout", "index.json", "manifest.json"
MEMBERS: Final = frozenset({LAYOUT, INDEX, MANIFEST})
"""The members of an archive that say which images it has."""

CONTAINERD, CRIO = "containerd", "cri-o"
CONTAINERD_NAMESPACE: Final = "k8s.io"
PROGRAMS: Final[Mapping[str, tuple[str, str]]] = {
    CONTAINERD: ("ctr", "it is part of containerd"),
    CRIO: ("skopeo", "install the package skopeo"),
}
"""The program that imports for a runtime, and where it comes from."""

_CONTAINERD_NAME: Final = "io.containerd.image.name"
_OCI_NAME: Final = "org.opencontainers.image.ref.name"
_SNAPSHOTTER: Final = "io.containerd.snapshotter.v1."
_COMPRESSED: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2"}
MAGIC_BYTES: Final = max(map(len, _COMPRESSED))


class _Described(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _Index(msgspec.Struct, frozen=True):
    manifests: list[_Described]


class _Saved(msgspec.Struct, frozen=True):
    tags: list[str] | None = msgspec.field(name="RepoTags", default=None)


def compression(begin: bytes) -> str:
    """Return the program that compressed a file which begins so; "" if none did."""
    return next((name for magic, name in _COMPRESSED.items() if begin.startswith(magic)), "")


def archive_of(path: str, members: Mapping[str, bytes]) -> Archive:
    """Return the archive with its images. ``members``: the contents of those of `MEMBERS` that it has. Raises
    ValueError."""
    is_layout = LAYOUT in members and INDEX in members
    if not is_layout and MANIFEST not in members:
        raise ValueError(f"it has neither {LAYOUT} with {INDEX} (OCI) nor {MANIFEST} (docker save)")
    # Both are in what docker writes since version 25: containerd then reads the layout.
    images = dict.fromkeys(_of_layout(members[INDEX]) if is_layout else _of_docker(members[MANIFEST]))
    if not images:
        remedy = "save the image by its name and tag"
        raise ValueError(f"none of its images has a full name ({remedy})")
    return Archive(path, tuple(images), is_docker=MANIFEST in members)


def _of_layout(index: bytes) -> Iterator[ArchivedImage]:
    for one in _decoded(INDEX, index, _Index).manifests:
        annotations = one.annotations or {}
        reference = annotations.get(_OCI_NAME, "")
        # Like containerd: a reference without any of these is a tag, and the archive does not say of which name.
        written = annotations.get(_CONTAINERD_NAME) or (reference if set("/:@") & set(reference) else "")
        yield from _image(written, reference)


def _of_docker(manifest: bytes) -> Iterator[ArchivedImage]:
    for one in _decoded(MANIFEST, manifest, list[_Saved]):
        for tag in one.tags or ():
            yield from _image(tag)


def _image(written: str, reference: str = "") -> Iterator[ArchivedImage]:
    with suppress(ValueError):  # a name that no pod can have either
        if written:
            yield ArchivedImage(normalized(written), written, reference)


def _decoded(member: str, content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{member}: {error}") from error


def snapshotter(mount_points: Sequence[str]) -> str:
    """Return the name of containerd's snapshotter, from where the CRI says that images are; "" if it cannot be told."""
    names = (place.rstrip("/").rpartition("/")[2] for place in mount_points)
    return next((name.removeprefix(_SNAPSHOTTER) for name in names if name.startswith(_SNAPSHOTTER)), "")


def commands(
    runtime: str, socket: str, archive: Archive, image: ArchivedImage, snapshotter: str = ""
) -> Sequence[tuple[str, ...]]:
    """Return the commands that import an image, one after the other. ``runtime``: its name by the CRI; ``socket``: the
    path of its socket. Raises ImportFailed for a runtime that none can import into."""
    if runtime == CONTAINERD:
        ctr = _ctr(socket)
        # An image that is unpacked for another snapshotter than the CRI's takes the space twice.
        unpacked = ("--snapshotter", snapshotter) if snapshotter else ()
        found = [(*ctr, "import", *unpacked, archive.path)]
        if not archive.is_docker and image.written != image.name:
            found.append((*ctr, "tag", "--force", image.written, image.name))  # it takes an OCI layout's names as given
        return found
    if runtime == CRIO:
        return [("skopeo", "copy", "--quiet", _skopeo_source(archive, image), f"containers-storage:{image.name}")]
    raise ImportFailed(unsupported(runtime))


def undo(runtime: str, socket: str, images: Sequence[ArchivedImage]) -> tuple[str, ...]:
    """Return the command that removes images that a failed import may have left; empty if it leaves none. ctr 1.6
    records an image before it unpacks its layers, so one with a damaged layer would count as present."""
    names = dict.fromkeys(name for image in images for name in (image.written, image.name))
    return (*_ctr(socket), "remove", *names) if runtime == CONTAINERD and names else ()


def _ctr(socket: str) -> tuple[str, ...]:
    return ("ctr", "--address", socket, "--namespace", CONTAINERD_NAMESPACE, "images")


def unsupported(runtime: str) -> str:
    """Return why a runtime cannot import archives, and what to do."""
    return (
        f"not supported: archives cannot be imported into the runtime {runtime or 'unknown'} "
        "(use containerd, or CRI-O with skopeo, or leave out --image-directory)"
    )


def _skopeo_source(archive: Archive, image: ArchivedImage) -> str:
    if archive.is_docker:
        return f"docker-archive:{archive.path}:{image.written}"
    if len(archive.images) == 1:
        return f"oci-archive:{archive.path}"
    if not image.reference:
        raise ImportFailed(
            f"skopeo cannot choose {image.written} from its {len(archive.images)} images "
            f"(write each image into a file of its own)"
        )
    return f"oci-archive:{archive.path}:{image.reference}"
