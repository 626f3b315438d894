"""The images that upstream's node suite asks for, under upstream's names, made on the spot.

Called by ``node_suite.py``, which imports them and serves them from loopback as ``registry.k8s.io``. The suite's own
release lists the names (``imagenames`` in ``packaging/node-conformance``). agnhost, nonewprivs, pause and the sample
device plugin are upstream's programs, built from its source; the userland below them is a small Debian, or Debian's
busybox. ``suite_images.py`` makes those of the conformance tests, which need no Debian.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from . import images
from .images import Image, Layer
from .suite_images import REGISTRY, with_libraries

if TYPE_CHECKING:
    from collections.abc import Sequence

_SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HARD_CODED: Final = f"{REGISTRY}/e2e-test-images/busybox:1.36.1-1"
"""Some specs name it themselves instead of asking the suite's list."""
_AGNHOST: Final = ("agnhost", "localhost.crt", "localhost.key")
_KITTEN: Final = ("data.json", "kitten.jpg")
_ALPINE: Final = b'NAME="Alpine Linux"\nID=alpine\nPRETTY_NAME="Alpine Linux (a stand-in)"\n'
"""One spec reads from a mounted image that it was made on Alpine."""
_USERS: Final[dict[str, bytes | str]] = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
    "etc/group": b"root:x:0:\nusers:x:100:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
}
_AGNHOST_USERS: Final[dict[str, bytes | str]] = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33:www-data:/var/www:/bin/false\n"
    b"nobody:x:65534:65534:nobody:/home:/bin/false\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n",
    "etc/group": b"root:x:0:\nwww-data:x:33:\nuser-defined-in-image:x:1000:\n"
    b"group-defined-in-image:x:50000:user-defined-in-image\nnogroup:x:65534:\n",
}


def archive(programs: Path, userland: Path) -> Path:
    """Return the OCI layout tar with each image of the suite, made in the cache unless it is there. ``programs`` and
    ``userland`` are the directories that ``packaging/node-conformance`` builds. Raises NotInstalled."""
    names = wanted(programs)
    ingredients = [f"{programs.name} {userland.name}".encode(), "\n".join(names).encode(), Path(__file__).read_bytes()]
    return images.archived("node-suite", lambda: made(names, programs, userland), *ingredients)


def wanted(programs: Path) -> list[str]:
    """Return the names of all images that this release's suites may use. Raises CalledProcessError."""
    told = subprocess.run([programs / "imagenames"], check=True, capture_output=True, text=True).stdout
    return sorted({*told.split(), _HARD_CODED})


def made(names: Sequence[str], programs: Path, userland: Path) -> list[Image]:
    """Make those images of the suite that it uses on a node; others of ``names`` are passed over."""
    debian = Layer.of((userland / "debian.tar").read_bytes())
    busybox = userland / "busybox"

    def read(*files: str) -> dict[str, bytes | str]:
        return {name: (programs / name).read_bytes() for name in files}

    def on_debian(kind: str, files: dict[str, bytes | str], *command: str, **more: Any) -> list[Image]:
        # Upstream's are on Alpine, whose busybox has applets that the specs run there, too.
        applets: dict[str, bytes | str] = {
            "usr/local/bin/busybox": busybox.read_bytes(),
            "usr/local/bin/nmeter": "busybox",
        }
        settings = {"command": command, "directories": (), "base": debian, **more}
        return _images(kind, names, applets | files, **settings)

    def on_busybox(kind: str, files: dict[str, bytes | str], **settings: Any) -> list[Image]:
        return _images(kind, names, _busybox_userland(busybox) | files, **settings)

    agnhost = read(*_AGNHOST) | {"agnhost-2": "agnhost"} | _AGNHOST_USERS
    kitten = agnhost | read(*_KITTEN) | {"etc/os-release": _ALPINE}
    return [
        *on_debian("agnhost", agnhost, "pause", entrypoint=("/agnhost",), directories=("uploads",)),
        *on_debian("kitten", kitten, "test-webserver", entrypoint=("/agnhost",)),
        *on_debian("nginx", {}, "nginx", "-g", "daemon off;"),
        *on_debian("nonroot", {}, "bash", user="1234"),
        *on_debian("glibc-dns-testing", {}, "bash"),
        *on_debian("ipc-utils", {}, "/bin/sh"),
        *on_busybox("busybox", {}, command=("sh",)),
        *on_busybox(
            "nonewprivs",
            {"usr/local/bin/nnp": (programs / "nonewprivs").read_bytes()},
            command=("nnp",),
            setuid=frozenset({"usr/local/bin/nnp"}),
        ),
        *on_busybox(
            "sample-device-plugin",
            {"sampledeviceplugin": (programs / "sample-device-plugin").read_bytes()},
            entrypoint=("/sampledeviceplugin", "-alsologtostderr"),
        ),
        *_images("pause", names, read("pause"), entrypoint=("/pause",), user="65535:65535"),
    ]


def _images(kind: str, names: Sequence[str], files: dict[str, bytes | str], **settings: Any) -> list[Image]:
    """Return one image for each tag of ``kind``: two tags of upstream's are two images, which specs tell apart."""
    tags = [name for name in names if name.startswith(f"{REGISTRY}/") and f"/{kind}:" in name]
    settings = {"search_path": _SEARCH_PATH, **settings}
    return [Image((name,), {**files, "etc/image-name": f"{name}\n".encode()}, **settings) for name in tags]


def _busybox_userland(busybox: Path) -> dict[str, bytes | str]:
    """Return the files of a small system round a busybox that is linked dynamically, as upstream's is."""
    applets = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    program = {f"bin/{applet}": "busybox" for applet in applets} | {"bin/busybox": busybox.read_bytes()}
    libraries = {name: content for name, content in with_libraries(busybox).items() if not name.endswith("/busybox")}
    return libraries | _USERS | {"usr/bin/env": "../../bin/busybox"} | program
