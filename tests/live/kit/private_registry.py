"""A real registry that knows its users: Debian's docker-registry on loopback, with htpasswd, and images we put there.

Started by the ``private_registry`` fixture and made known to a containerd by `Containerd.trust`. ``registry.py`` is of
our own and can be told to fail; this is what registries are like. Every image in it is ``images.PULLED`` under a name
of its own, so that nobody who pulls one has the others.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import tarfile
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from . import marked, places
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
    """Owns the registry's process and its directory, from entry to exit."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self.port = free_port()

    def __enter__(self) -> Self:
        with ExitStack() as made:
            self._start(made.enter_context(marked.directory()), made)
            self._made = made.pop_all()
        return self

    def _start(self, root: Path, made: ExitStack) -> None:
        """Has it answer; what it takes to end that again goes to ``made``."""
        known = subprocess.run(
            [places.program("htpasswd"), "-nbB", USER, PASSWORD], check=True, capture_output=True, text=True
        )
        (root / "htpasswd").write_text(known.stdout.strip() + "\n")
        (root / "config.yml").write_text(
            "version: 0.1\n"
            "log: {level: warn}\n"
            f"storage: {{filesystem: {{rootdirectory: {root}/store}}}}\n"
            f"http: {{addr: '127.0.0.1:{self.port}'}}\n"
            f"auth: {{htpasswd: {{realm: live, path: {root}/htpasswd}}}}\n"
        )
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

    def push(self, repository: str, *, platform: str = "") -> str:
        """Put the image there as ``repository:1``; the name to pull it by. ``platform``: it says that it is for that
        architecture only."""
        with tarfile.open(self._archive) as layout:

            def read(member: str) -> bytes:
                file = layout.extractfile(member)
                assert file is not None
                return file.read()

            [listed] = json.loads(read("index.json"))["manifests"]
            raw = read(f"blobs/{listed['digest'].replace(':', '/')}")
            manifest = json.loads(raw)
            for blob in (manifest["config"], *manifest["layers"]):
                self._push_blob(repository, read(f"blobs/{blob['digest'].replace(':', '/')}"))
        if platform:
            self._put_manifest(repository, listed["digest"], raw, _MANIFEST)
            one = {"mediaType": _MANIFEST, "digest": listed["digest"], "size": len(raw)}
            one["platform"] = {"architecture": platform, "os": "linux"}
            raw = json.dumps({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [one]}).encode()
        self._put_manifest(repository, "1", raw, _INDEX if platform else _MANIFEST)
        return f"{self.address}/{repository}:1"

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
