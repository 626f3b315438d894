"""A tiny protobuf writer for the tests: lists as a runtime would send them, maps and items in any order."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field_number: int, value: int) -> bytes:
    return varint(field_number << 3) + varint(value) if value else b""


def message(field_number: int, body: bytes) -> bytes:
    return varint(field_number << 3 | 2) + varint(len(body)) + body


def text(field_number: int, value: str) -> bytes:
    return message(field_number, value.encode()) if value else b""


@dataclass(frozen=True)
class Sandbox:
    id: str
    uid: str
    state: int = 0
    attempt: int = 0
    created_at: int = 0
    labelled: bool = True


@dataclass(frozen=True)
class Container:
    id: str
    uid: str
    state: int = 1
    name: str = "c"
    attempt: int = 0
    created_at: int = 0
    sandbox_id: str = "s"
    labelled: bool = True


@dataclass
class Node:
    """What a runtime holds; ``lists`` says it in an order of its own each time."""

    chance: random.Random = field(default_factory=lambda: random.Random(0))
    sandboxes: list[Sandbox] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)

    def lists(self) -> tuple[list[bytes], list[bytes]]:
        return self._chunks(self.sandboxes, self._sandbox), self._chunks(self.containers, self._container)

    def filtered(self, uid: str) -> tuple[list[bytes], list[bytes]]:
        """What is listed of one pod, for which runtimes look at the label alone."""
        sandboxes = [sandbox for sandbox in self.sandboxes if sandbox.labelled and sandbox.uid == uid]
        return Node(self.chance, sandboxes, [one for one in self.containers if one.labelled and one.uid == uid]).lists()

    def _chunks(self, items, write) -> list[bytes]:
        items = self.chance.sample(items, len(items))
        cut = self.chance.randint(0, len(items))
        return [b"".join(message(1, write(item)) for item in part) for part in (items[:cut], items[cut:])]

    def _labels(self, labels: dict[str, str], at: int) -> bytes:
        pairs = self.chance.sample(sorted(labels.items()), len(labels))
        return b"".join(message(at, text(1, key) + text(2, value)) for key, value in pairs)

    def _parts(self, parts: list[bytes]) -> bytes:
        return b"".join(self.chance.sample(parts, len(parts)))

    def _sandbox(self, sandbox: Sandbox) -> bytes:
        labels = {"app": "x"} | ({"io.kubernetes.pod.uid": sandbox.uid} if sandbox.labelled else {})
        meta = text(1, f"pod-{sandbox.uid}") + text(2, sandbox.uid) + text(3, "ns") + number(4, sandbox.attempt)
        return self._parts(
            [
                text(1, sandbox.id),
                message(2, meta),
                number(3, sandbox.state),
                number(4, sandbox.created_at),
                self._labels(labels, 5),
                self._labels({"note": "unread"}, 6),
                text(7, "runc"),
            ]
        )

    def _container(self, container: Container) -> bytes:
        labels = {"io.kubernetes.container.name": container.name}
        if container.labelled:
            labels |= {
                "io.kubernetes.pod.uid": container.uid,
                "io.kubernetes.pod.name": f"pod-{container.uid}",
                "io.kubernetes.pod.namespace": "ns",
            }
        return self._parts(
            [
                text(1, container.id),
                text(2, container.sandbox_id),
                message(3, text(1, container.name) + number(2, container.attempt)),
                message(4, text(1, "image")),
                number(6, container.state),
                number(7, container.created_at),
                self._labels(labels, 8),
            ]
        )
