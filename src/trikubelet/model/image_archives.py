"""Records of the image directory: its archives, and the images that each of them has."""

from __future__ import annotations

from trikubelet.model.frozen import Frozen


class ArchivedImage(Frozen):
    """One image of an archive. ``name``: in full, as runtimes list it; ``written``: as the archive has it;
    ``reference``: the annotation ``org.opencontainers.image.ref.name``, by which skopeo chooses from an OCI layout."""

    name: str
    written: str
    reference: str = ""


class Archive(Frozen):
    """One file of the image directory. ``is_docker``: it is what ``docker save`` writes, and no OCI layout alone;
    ``problem``: why it cannot be used; then it has no images."""

    path: str
    images: tuple[ArchivedImage, ...] = ()
    is_docker: bool = False
    problem: str = ""
    size_bytes: int = 0
    changed_ns: int = 0

    def find(self, name: str) -> ArchivedImage | None:
        """Return the image of that full name, if the archive has it."""
        return next((one for one in self.images if one.name == name), None)
