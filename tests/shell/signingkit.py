"""A cluster in memory that signs certificates, or does not: what nodes that ask for one are tested on."""

from __future__ import annotations

import base64
import errno
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec
import trio

from shell.csikit import NoThreads
from shell.kube.authoritykit import Authority
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.kube.certificate_files import CertificateFiles
from trikubelet.model import k8s
from trikubelet.model.api import SIGNING_REQUESTS, PatchKind, Selection
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import MemoryApi
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trikubelet.kit.threads import ThreadPool

P = ParamSpec("P")
R = TypeVar("R")

LIFE_SECONDS = 3600
NO_THREADS: ThreadPool = NoThreads()  # type: ignore[assignment]


class FullDisk:
    """Owns until when nothing can be written, in seconds from now on, and how often that was ``refused``."""

    def __init__(self, seconds: float) -> None:
        self._until = trio.current_time() + seconds
        self.refused = 0

    def before(self, write: Callable[P, R]) -> Callable[P, R]:
        """Return the same, once there is room."""

        def written(*args: P.args, **more: P.kwargs) -> R:
            if trio.current_time() < self._until:
                self.refused += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(*args, **more)

        return written


class SigningCluster:
    """A server that signs, after a while, what a node asks for; and the node's files."""

    def __init__(self, directory: Path) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock.now_ns)
        self.api = MemoryApi(self.server)
        self.store = CertificateFiles(directory, "kubelet-client", self.clock)
        self.authority = Authority(LIFE_SECONDS)

    def requests(self) -> list[k8s.CertificateSigningRequest]:
        page = self.server.list(SIGNING_REQUESTS, Selection())
        return [msgspec.json.decode(item.raw, type=k8s.CertificateSigningRequest) for item in page.items]

    def decide(self, status: dict[str, object], name: str, subresource: str = "status") -> None:
        self.server.patch(SIGNING_REQUESTS, name, {"status": status}, kind=PatchKind.MERGE, subresource=subresource)

    def deny(self, name: str) -> None:
        condition = {"type": "Denied", "status": "True", "reason": "Policy", "message": "not in this cluster"}
        self.decide({"conditions": [condition]}, name, "approval")

    def give(self, name: str, certificate_pem: bytes) -> None:
        """Let a request be signed, with whatever it is."""
        self.decide({"certificate": base64.b64encode(certificate_pem).decode()}, name)

    def sign_all(self) -> None:
        for request in self.requests():
            if request.status is None or not request.status.certificate:
                pem = base64.b64decode(request.spec.request)
                at = datetime.fromtimestamp(self.clock.now_ns() // SECOND_NS, UTC)
                self.give(request.metadata.name, self.authority.sign(pem, at))

    async def keep_signing(self) -> None:
        while True:
            await trio.sleep(5)
            self.sign_all()
