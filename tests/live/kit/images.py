"""The images the live tests run, made on the spot: no registry is asked, and every machine gets the same digests.

Called by ``containerd.py`` once per containerd, which imports the archive written here. The programs are compiled from
``tests/live/programs`` with the machine's C compiler and wrapped, with a busybox userland, into one OCI layout whose
manifests carry the names they are to be known by. Well-known public names are given to the same contents, so that the
manifests under ``examples/manifests/containerd`` run unchanged where no registry can be reached.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from . import places

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

REGISTRY = "registry.trikubelet.test"
PAUSE = f"{REGISTRY}/pause:1"
BUSYBOX = f"{REGISTRY}/busybox:1"
TESTPROG = f"{REGISTRY}/testprog:1"
WEB = f"{REGISTRY}/web:1"
NAMED = f"{REGISTRY}/named:1"  # runs as nobody, by name
PULLED = f"{REGISTRY}/pulled:1"  # the one image that is not imported: registry.py has it

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


@dataclass(frozen=True)
class Layer:
    """A layer that images share below their own, packed once."""

    packed: bytes
    unpacked_digest: str

    @classmethod
    def of(cls, content: bytes) -> Self:
        """The layer with the contents of a tar archive."""
        return cls(gzip.compress(content, compresslevel=1, mtime=0), f"sha256:{hashlib.sha256(content).hexdigest()}")


@dataclass(frozen=True)
class Image:
    """One image to be: the names it gets, what is in its layer above ``base``, and how it starts.

    ``files`` maps a path without a leading slash to its bytes, or to a string for a symbolic link's target; every file
    is executable, and those named in ``setuid`` run as their owner, root. ``entrypoint``, ``command`` and ``user`` are
    the image's own, which a pod may override, and so is ``search_path``.
    """

    names: tuple[str, ...]
    files: Mapping[str, bytes | str]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    directories: tuple[str, ...] = field(default=("dev", "etc", "proc", "root", "sys", "tmp", "var"))
    setuid: frozenset[str] = frozenset()
    search_path: str = "/bin:/sbin:/usr/bin:/usr/sbin"
    base: Layer | None = None


def compile_program(name: str) -> bytes:
    """The static binary of ``programs/<name>.c``. Raises CalledProcessError, its output kept, and NotInstalled."""
    source = places.LIVE / "programs" / f"{name}.c"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Os", "-static", "-s"]
    # The linker seeks in its output, so it cannot be a pipe.
    with open(os.memfd_create(name), "rb") as out:
        target = f"/proc/self/fd/{out.fileno()}"
        command = [str(places.program("gcc")), *flags, "-o", target, str(source)]
        subprocess.run(command, check=True, capture_output=True, pass_fds=[out.fileno()])
        out.seek(0)
        return out.read()


def all_images() -> tuple[Image, ...]:
    """Every image of the live tests, the last being the one to pull. Raises NotInstalled when a compiler or busybox is
    missing."""
    testprog = compile_program("testprog")
    userland = busybox_userland()
    serve = ("/bin/testprog", "serve", "80", "/usr/share/nginx/html")
    welcome = b"a stand-in for a web server\n"
    return (
        Image((PAUSE,), {"pause": compile_program("pause")}, entrypoint=("/pause",)),
        Image((BUSYBOX, "docker.io/library/busybox:1.36"), userland, command=("sh",)),
        Image((NAMED,), userland, command=("sh",), user="nobody"),
        Image((TESTPROG,), {**userland, "bin/testprog": testprog}, entrypoint=("/bin/testprog",)),
        Image(
            (WEB, "docker.io/library/nginx:1.28"),
            {**userland, "bin/testprog": testprog, "usr/share/nginx/html/index.html": welcome},
            entrypoint=serve,
        ),
        # Contents of its own: CRI removes an image under all its names, and the imported ones must stay.
        Image((PULLED,), {"bin/testprog": testprog, "etc/pulled": b"yes\n"}, entrypoint=("/bin/testprog",)),
    )


def busybox_userland() -> dict[str, bytes | str]:
    """The files of a small system: every applet of this machine's busybox, and users. Raises NotInstalled."""
    busybox = places.program("busybox")
    applets = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    return {f"bin/{applet}": "busybox" for applet in applets} | {
        "bin/busybox": busybox.resolve().read_bytes(),
        "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        "etc/group": b"root:x:0:\nnogroup:x:65534:\nnobodys:x:4000:nobody\n",
    }


def imported() -> Path:
    """The OCI layout tar with every image but `PULLED`, made in the cache unless it is there. Raises NotInstalled."""
    return archived("imported", lambda: all_images()[:-1])


def pulled() -> Path:
    """The OCI layout tar with `PULLED` alone, as `imported`."""
    return archived("pulled", lambda: all_images()[-1:])


def archived(kind: str, make: Callable[[], Sequence[Image]], *ingredients: bytes) -> Path:
    """The OCI layout tar of what ``make`` makes of our programs, busybox and ``ingredients``, made in the cache unless
    it is there. Raises NotInstalled."""
    recipe = hashlib.sha256(ARCHITECTURE.encode())
    sources = sorted((places.LIVE / "programs").glob("*.c"))
    for source in (*sources, places.program("busybox"), places.LIVE / "kit" / "images.py"):
        recipe.update(source.read_bytes())
    for ingredient in ingredients:
        recipe.update(ingredient)
    path = places.cache() / "images" / f"{kind}-{recipe.hexdigest()[:16]}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(f".{os.getpid()}")
        write_layout(half, make())
        half.rename(path)
    return path


def names() -> tuple[str, ...]:
    """The names `imported` holds, without building anything."""
    return (PAUSE, BUSYBOX, "docker.io/library/busybox:1.36", TESTPROG, NAMED, WEB, "docker.io/library/nginx:1.28")


def write_layout(path: Path, images: Sequence[Image]) -> None:
    """Writes ``images`` to ``path`` as one OCI image layout. The same images give the same bytes."""
    blobs: dict[str, bytes] = {}
    index = []
    for image in images:
        manifest = _manifest(image, blobs)
        for name in image.names:
            # containerd takes the full name from the first annotation, other tools the tag from the second.
            tags = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rsplit(":", 1)[1]}
            index.append({**manifest, "annotations": tags})
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as layout:
        _add(layout, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(layout, "index.json", json.dumps({"schemaVersion": 2, "manifests": index}).encode())
        for digest, content in sorted(blobs.items()):
            _add(layout, f"blobs/sha256/{digest}", content)


def _manifest(image: Image, blobs: dict[str, bytes]) -> dict[str, object]:
    layers = [*([image.base] if image.base else []), Layer.of(_layer(image))]
    config = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": {
            "Entrypoint": list(image.entrypoint),
            "Cmd": list(image.command),
            "User": image.user,
            "Env": [f"PATH={image.search_path}"],
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.unpacked_digest for layer in layers]},
    }
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": _blob(json.dumps(config).encode(), f"{kind}.config.v1+json", blobs),
        "layers": [_blob(layer.packed, f"{kind}.layer.v1.tar+gzip", blobs) for layer in layers],
    }
    return {
        **_blob(json.dumps(manifest).encode(), f"{kind}.manifest.v1+json", blobs),
        "platform": {"architecture": ARCHITECTURE, "os": "linux"},
    }


def _blob(content: bytes, media_type: str, blobs: dict[str, bytes]) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _layer(image: Image) -> bytes:
    out = io.BytesIO()
    parents = {str(parent) for name in image.files for parent in _parents(name)}
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as layer:
        for name in sorted(parents | set(image.directories)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            layer.addfile(entry)
        for name, content in sorted(image.files.items()):
            _add(layer, name, content, 0o4755 if name in image.setuid else 0o755)
    return out.getvalue()


def _parents(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _add(tar: tarfile.TarFile, name: str, content: bytes | str, mode: int = 0o755) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode = mode
    if isinstance(content, str):
        entry.type, entry.linkname = tarfile.SYMTYPE, content
        tar.addfile(entry)
    else:
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
