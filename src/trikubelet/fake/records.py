"""The sandboxes and containers of the fake runtime, and their CRI messages: in a list, and as a status.

    created ──start──► running ──stop, churn or a user──► exited
       └──start failed────────────────────────────────────► exited (128, StartError)

Plain records, changed by ``population.Population`` only. A list's element is kept in parts, because on a real runtime
the order inside every label and annotation map differs from list to list: ``lists`` joins the parts again each time.
Times are nanoseconds since the epoch, 0 for "not yet", as the CRI has them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHARED_ENTRIES_MAX: Final = 4096
"""Map entries kept for reuse: a pod's containers repeat most of each other's, and of their neighbours'."""


class Entry(NamedTuple):
    """One element of a list reply in parts. ``head`` begins with the element's tag and length, which are independent of
    the order of the maps; the parts of ``labels`` and ``annotations`` may be in any order."""

    head: bytes
    labels: tuple[bytes, ...]
    annotations: tuple[bytes, ...]
    tail: bytes


@dataclass(slots=True, eq=False)
class Sandbox:
    """One pod sandbox. ``ours``: the fake runtime generated it, and restarts its containers itself by churn; the others
    are an agent's, which restarts them. ``containers`` by id, oldest first."""

    id: str
    uid: str
    name: str
    namespace: str
    attempt: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    created_at: int
    ip: str = ""
    handler: str = ""
    ready: bool = True
    ours: bool = False
    log_directory: str = ""
    options: pb.NamespaceOption | None = None
    containers: dict[str, Container] = field(default_factory=dict)

    @property
    def _state(self) -> pb.PodSandboxState:
        return pb.SANDBOX_READY if self.ready else pb.SANDBOX_NOTREADY

    @property
    def metadata(self) -> pb.PodSandboxMetadata:
        """Its name, namespace, pod UID and attempt."""
        return pb.PodSandboxMetadata(name=self.name, uid=self.uid, namespace=self.namespace, attempt=self.attempt)

    def entry(self) -> Entry:
        """As ``ListPodSandbox`` shows it."""
        head = pb.PodSandbox(id=self.id, metadata=self.metadata, state=self._state, created_at=self.created_at)
        tail = pb.PodSandbox(runtime_handler=self.handler)
        labels = tuple(_sandbox_label(*pair) for pair in self.labels.items())
        annotations = tuple(_sandbox_annotation(*pair) for pair in self.annotations.items())
        return _entry(head.SerializeToString(), labels, annotations, tail.SerializeToString())

    def status(self) -> pb.PodSandboxStatus:
        """As ``PodSandboxStatus`` shows it. A sandbox that has ended has no address."""
        return pb.PodSandboxStatus(
            id=self.id,
            metadata=self.metadata,
            state=self._state,
            created_at=self.created_at,
            network=pb.PodSandboxNetworkStatus(ip=self.ip if self.ready else ""),
            linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=self.options)),
            labels=self.labels,
            annotations=self.annotations,
            runtime_handler=self.handler,
        )

    def reply(self) -> bytes:
        """The answer to a question for its status."""
        return pb.PodSandboxStatusResponse(status=self.status()).SerializeToString()


@dataclass(slots=True, eq=False)
class Container:
    """One container. ``image_id`` is the image's digest, ``image_ref`` where it came from."""

    id: str
    sandbox: Sandbox
    name: str
    attempt: int
    image: str
    image_ref: str
    image_id: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    created_at: int
    mounts: Sequence[pb.Mount] = ()
    log_path: str = ""
    command: tuple[str, ...] = ()
    resources: pb.LinuxContainerResources | None = None
    state: pb.ContainerState = pb.CONTAINER_CREATED
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def uid(self) -> str:
        """Its pod's UID."""
        return self.sandbox.uid

    @property
    def metadata(self) -> pb.ContainerMetadata:
        """Its name and attempt."""
        return pb.ContainerMetadata(name=self.name, attempt=self.attempt)

    @property
    def _image(self) -> pb.ImageSpec:
        return pb.ImageSpec(image=self.image_id, user_specified_image=self.image)

    def entry(self) -> Entry:
        """As ``ListContainers`` shows it."""
        head = pb.Container(
            id=self.id,
            pod_sandbox_id=self.sandbox.id,
            metadata=self.metadata,
            image=self._image,
            image_ref=self.image_ref,
            state=self.state,
            created_at=self.created_at,
        )
        tail = pb.Container(image_id=self.image_id)
        labels = tuple(_container_label(*pair) for pair in self.labels.items())
        annotations = tuple(_container_annotation(*pair) for pair in self.annotations.items())
        return _entry(head.SerializeToString(), labels, annotations, tail.SerializeToString())

    def status(self) -> pb.ContainerStatus:
        """As ``ContainerStatus`` shows it."""
        return pb.ContainerStatus(
            id=self.id,
            metadata=self.metadata,
            state=self.state,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            exit_code=self.exit_code,
            image=self._image,
            image_ref=self.image_ref,
            reason=self.reason,
            message=self.message,
            labels=self.labels,
            annotations=self.annotations,
            mounts=self.mounts,
            log_path=self.log_path,
            image_id=self.image_id,
            resources=None if self.resources is None else pb.ContainerResources(linux=self.resources),
        )

    def reply(self) -> bytes:
        """The answer to a question for its status."""
        return pb.ContainerStatusResponse(status=self.status()).SerializeToString()


# A message's bytes are the concatenation of its fields', so a map's entry can be serialised, and moved, by itself.


@lru_cache(_SHARED_ENTRIES_MAX)
def _sandbox_label(key: str, value: str) -> bytes:
    return pb.PodSandbox(labels={key: value}).SerializeToString()


@lru_cache(_SHARED_ENTRIES_MAX)
def _sandbox_annotation(key: str, value: str) -> bytes:
    return pb.PodSandbox(annotations={key: value}).SerializeToString()


@lru_cache(_SHARED_ENTRIES_MAX)
def _container_label(key: str, value: str) -> bytes:
    return pb.Container(labels={key: value}).SerializeToString()


@lru_cache(_SHARED_ENTRIES_MAX)
def _container_annotation(key: str, value: str) -> bytes:
    return pb.Container(annotations={key: value}).SerializeToString()


def _entry(head: bytes, labels: tuple[bytes, ...], annotations: tuple[bytes, ...], tail: bytes) -> Entry:
    length = len(head) + sum(map(len, labels)) + sum(map(len, annotations)) + len(tail)
    return Entry(_ELEMENT + _varint(length) + head, labels, annotations, tail)


_ELEMENT: Final = b"\n"
"""Field 1, a message: the elements of every list reply, whole or streamed."""


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
