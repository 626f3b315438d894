"""The images that upstream's end-to-end suite asks for, under upstream's names, made on the spot.

Called by ``suite.py``, which serves them from loopback as ``registry.k8s.io``: the suite's pods pull them as they would
from there. Which versions it wants, the suite is asked. What is upstream's own program in them (agnhost, nonewprivs) is
built from upstream's source by ``packaging/control-plane``; the userland round it is this machine's busybox, with this
machine's bash and curl. Of nginx, kitten and nautilus no more is upstream's than the names and the
files that specs read.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from . import images, places
from .images import Image

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

REGISTRY: Final = "registry.k8s.io"
_SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # busybox's own image has it
_AGNHOST: Final = ("agnhost", "localhost.crt", "localhost.key")


def archive(suite: Path) -> Path:
    """The OCI layout tar with each image of ``suite`` (its directory) that can be made here. Raises NotInstalled."""
    names = wanted(suite)
    built = [suite / name for name in (*_AGNHOST, "nonewprivs")]
    ours = [places.program("curl"), places.program("bash"), Path(__file__)]
    said = "\n".join(names).encode()
    return images.archived("suite", lambda: _made(names, suite), said, *(path.read_bytes() for path in built + ours))


def wanted(suite: Path) -> list[str]:
    """The names of the images that the suite may use, those that can be made here. Raises CalledProcessError."""
    told = subprocess.run([suite / "e2e.test", "--list-images"], check=True, capture_output=True, text=True).stdout
    return sorted(name for name in told.split() if name.startswith(f"{REGISTRY}/") and _kind(name) in _MAKERS)


def _made(names: Sequence[str], suite: Path) -> list[Image]:
    kinds = {_kind(name): tuple(other for other in names if _kind(other) == _kind(name)) for name in names}
    return [_MAKERS[kind](of, suite) for kind, of in kinds.items()]


def _kind(name: str) -> str:
    return name.rpartition("/")[2].partition(":")[0]


def _agnhost(names: tuple[str, ...], suite: Path) -> Image:
    own: dict[str, bytes | str] = {name: (suite / name).read_bytes() for name in _AGNHOST} | {"agnhost-2": "agnhost"}
    users = {
        "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/:/bin/sh\n",
        "etc/group": b"root:x:0:\ngroup-defined-in-image:x:50000:user-defined-in-image\n",
    }
    files = with_libraries(places.program("curl")) | own | users
    directories = (*Image((), {}).directories, "uploads")
    return _image(names, files, entrypoint=("/agnhost",), command=("pause",), directories=directories)


def _image(names: tuple[str, ...], more: Mapping[str, bytes | str], **settings: Any) -> Image:
    """An image with a userland and ``more``. It has two shells. Busybox's is ``/bin/sh``, for the suite compares what
    that says of a file it cannot write. The other, bash, is what is found for ``sh``: up to 1.35 busybox's keeps
    variables from a command whose names no script could say (``data-1``), and the suite looks for one."""
    shell = places.program("bash").resolve()
    links: dict[str, bytes | str] = {"bin/bash": str(shell), "usr/bin/sh": str(shell)}
    files = {**images.busybox_userland(), **links, **with_libraries(shell), **more}
    return Image(names, files, search_path=_SEARCH_PATH, **settings)


def with_libraries(program: Path) -> dict[str, bytes | str]:
    """A program of this machine and every library it is linked to, each where the program looks for it."""
    told = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    paths = [Path(word) for word in told.split() if word.startswith("/")]
    return {str(path)[1:]: path.read_bytes() for path in (program, *paths)}


def _busybox(names: tuple[str, ...], suite: Path) -> Image:
    return _image(names, {}, command=("sh",))


def _nonroot(names: tuple[str, ...], suite: Path) -> Image:
    return _image(names, {}, command=("sh",), user="1234")


def _nonewprivs(names: tuple[str, ...], suite: Path) -> Image:
    files = {"bin/nnp": (suite / "nonewprivs").read_bytes()}
    return _image(names, files, command=("nnp",), setuid=frozenset({"bin/nnp"}))


def _pause(names: tuple[str, ...], suite: Path) -> Image:
    return Image(names, {"pause": images.compile_program("pause")}, entrypoint=("/pause",), user="65535:65535")


def _nginx(names: tuple[str, ...], suite: Path) -> Image:
    return _serving(names, "/usr/share/nginx/html", {"usr/share/nginx/html/index.html": b"a stand-in for nginx\n"})


def _animal(names: tuple[str, ...], suite: Path) -> Image:
    """One of the two between which upstream's demonstration of updates changes."""
    data = b'{"image": "%s.jpg"}\n' % _kind(names[0]).encode()
    return _serving(names, "/", {"data.json": data, "etc/os-release": b'NAME="a stand-in for Alpine Linux"\n'})


def _serving(names: tuple[str, ...], directory: str, files: dict[str, bytes | str]) -> Image:
    program: dict[str, bytes | str] = {"bin/testprog": images.compile_program("testprog")}
    return _image(names, program | files, command=("/bin/testprog", "serve", "80", directory))


_MAKERS: Final[dict[str, Callable[[tuple[str, ...], Path], Image]]] = {
    "agnhost": _agnhost,
    "busybox": _busybox,
    "kitten": _animal,
    "nautilus": _animal,
    "nginx": _nginx,
    "nonewprivs": _nonewprivs,
    "nonroot": _nonroot,
    "pause": _pause,
}
