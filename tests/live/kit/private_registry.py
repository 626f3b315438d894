"""A real registry: Debian's docker-registry on loopback, with images we put there, and a password unless it is open.

Started by the ``private_registry`` fixture and made known to a containerd by `Containerd.trust`. ``registry.py`` is of
our own and can be told to fail; this is what registries are like. Every image in the fixture's is ``images.PULLED``
under a name of its own, so that nobody who pulls one has the others. As a program it is an open one with stand-ins for
public images, which runs until it is killed:

    python -m live.kit.private_registry PORT
"""

from __future__ import annotations

import base64
import hashlib
import json
import signal
import subprocess
import sys
import tarfile
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from . import images, marked, places
from .daemon import await_that
from .network import free_port

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

START_SECONDS_MAX = 60.0
USER, PASSWORD = "ada", "lovelace"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"


class PrivateRegistry:
    """Owns the registry's process and its directory, from entry to exit. ``archive``: the OCI layout whose images can
    be pushed; ``is_open``: it asks for no password."""

    def __init__(self, archive: Path, *, port: int = 0, is_open: bool = False) -> None:
        self._archive = archive
        self._is_open = is_open
        self.port = port or free_port()

    def __enter__(self) -> Self:
        with ExitStack() as made:
            self._start(made.enter_context(marked.directory()), made)
            self._made = made.pop_all()
        return self

    def _start(self, root: Path, made: ExitStack) -> None:
        """Has it answer; what it takes to end that again goes to ``made``."""
        (root / "config.yml").write_text(
            "version: 0.1\n"
            "log: {level: warn}\n"
            f"storage: {{filesystem: {{rootdirectory: {root}/store}}}}\n"
            f"http: {{addr: '127.0.0.1:{self.port}'}}\n"
        )
        if not self._is_open:
            self._ask_for_password(root)
        log = made.enter_context((root / "log").open("wb"))
        self._process = subprocess.Popen(
            [places.program("docker-registry"), "serve", root / "config.yml"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        made.callback(self._process.wait)
        made.callback(self._process.kill)
        await_that(self._answers, START_SECONDS_MAX, lambda: f"no answer; its log: {(root / 'log').read_text()}")

    def _ask_for_password(self, root: Path) -> None:
        known = subprocess.run(
            [places.program("htpasswd"), "-nbB", USER, PASSWORD], check=True, capture_output=True, text=True
        )
        (root / "htpasswd").write_text(known.stdout.strip() + "\n")
        with (root / "config.yml").open("a") as configuration:
            configuration.write(f"auth: {{htpasswd: {{realm: live, path: {root}/htpasswd}}}}\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._made.close()

    @property
    def address(self) -> str:
        """Host and port; it speaks plain HTTP."""
        return f"127.0.0.1:{self.port}"

    def docker_config(self, password: str = PASSWORD) -> str:
        """What ``docker login`` would have written, the password being right unless another is given."""
        auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
        return json.dumps({"auths": {self.address: {"auth": auth}}})

    def push(self, repository: str, *, tag: str = "1", image: str = "", platform: str = "") -> str:
        """Put an image there as ``repository:tag``; the name to pull it by. ``image``: its name in the archive, where
        that has several; ``platform``: it says that it is for that architecture only."""
        with tarfile.open(self._archive) as layout:

            def read(member: str) -> bytes:
                file = layout.extractfile(member)
                assert file is not None
                return file.read()

            manifests = json.loads(read("index.json"))["manifests"]
            [listed] = [one for one in manifests if image in ("", one["annotations"]["io.containerd.image.name"])]
            raw = read(f"blobs/{listed['digest'].replace(':', '/')}")
            manifest = json.loads(raw)
            for blob in (manifest["config"], *manifest["layers"]):
                self._push_blob(repository, read(f"blobs/{blob['digest'].replace(':', '/')}"))
        if platform:
            self._put_manifest(repository, listed["digest"], raw, _MANIFEST)
            one = {"mediaType": _MANIFEST, "digest": listed["digest"], "size": len(raw)}
            one["platform"] = {"architecture": platform, "os": "linux"}
            raw = json.dumps({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [one]}).encode()
        self._put_manifest(repository, tag, raw, _INDEX if platform else _MANIFEST)
        return f"{self.address}/{repository}:{tag}"

    def by_digest(self, image: str) -> str:
        """The name of the same image by its digest, as the registry tells it."""
        name, _, tag = image.removeprefix(f"{self.address}/").rpartition(":")
        told = self._ask("HEAD", f"/v2/{name}/manifests/{tag}").headers["Docker-Content-Digest"]
        return f"{self.address}/{name}@{told}"

    def _push_blob(self, repository: str, content: bytes) -> None:
        begun = self._ask("POST", f"/v2/{repository}/blobs/uploads/")
        place = str(begun.headers["Location"])
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        joined = f"{place}{'&' if '?' in place else '?'}digest={digest}"
        self._ask("PUT", joined, content, "application/octet-stream")

    def _put_manifest(self, repository: str, reference: str, raw: bytes, kind: str) -> None:
        self._ask("PUT", f"/v2/{repository}/manifests/{reference}", raw, kind)

    def _ask(self, method: str, place: str, body: bytes = b"", kind: str = "") -> Any:
        url = place if place.startswith("http") else f"http://{self.address}{place}"
        request = urllib.request.Request(url, body, method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode())
        request.add_header("Accept", f"{_MANIFEST}, {_INDEX}")
        if kind:
            request.add_header("Content-Type", kind)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply

    def _answers(self) -> bool:
        assert self._process.poll() is None, "the registry has ended"
        try:
            self._ask("GET", "/v2/")
        except OSError:
            return False
        return True


STAND_INS = (
    ("library/nginx", "1.28", images.WEB),
    ("library/nginx", "1.29", images.WEB),
    *(("pause", tag, images.PAUSE) for tag in ("3.6", "3.8", "3.10")),
)
"""Public images, by repository and tag, and what is served for them."""


def _main(port: int) -> None:
    with PrivateRegistry(images.imported(), port=port, is_open=True) as registry:
        for repository, tag, image in STAND_INS:
            registry.push(repository, tag=tag, image=image)
        print("ready", flush=True)
        signal.pause()


if __name__ == "__main__":
    _main(int(sys.argv[1]))
