"""Assigns users of the node to pods with ``hostUsers: false``: no two pods share one.

    the administrator's reservation, the configuration ─► pool_of ─► IdPool ─┐
    the files ``userns`` of all pods on this node ───────────────────────────┤
    /etc/subuid, /etc/subgid ─► subordinate_ranges ──────────────────────────┴─► ids_of ─► IdRange ─► written ─► file

The files are the only state, so a reader of the files knows as much as their writer. ``pods.user_ids`` reads and writes
them. They are upstream's (pkg/kubelet/userns), and so are the error texts about a pool.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime_config import IdRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

HOST_IDS: Final = 1 << 16
"""The number of ids, from 0 on, that are the node's own; and the default number of ids of a pod."""

IDS_END: Final = (1 << 32) - 1
"""The first id that cannot be mapped: for the kernel it is no user."""


_NUMBERS: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")


class Unsaid(Frozen):
    """It is unknown if ids are reserved. ``why``: the reason, for pods that need some."""

    why: str


SubordinateIds: TypeAlias = tuple[str, str] | Unsaid | None
"""The output of ``getsubids`` for the users and the groups that the administrator reserved for the kubelet; None:
nothing is reserved."""


class IdPool(Frozen):
    """Ids of the node for pods: ``length`` of them from ``first`` on, ``each`` to a pod. If ``unsaid``, none until the
    agent restarts."""

    first: int = HOST_IDS
    length: int = IDS_END - HOST_IDS
    each: int = HOST_IDS
    unsaid: Unsaid | None = None
    is_set_aside: bool = False
    """The administrator reserved it for the kubelet: the other lines of /etc/subuid and /etc/subgid do not count."""

    def ranges(self) -> Iterator[IdRange]:
        """Yield every range of the pool, the lowest first."""
        for place in range(self.length // self.each):
            yield self.range_at(place)

    def range_at(self, place: int) -> IdRange:
        """Return the range at a place; the lowest is at 0."""
        return IdRange(self.first + place * self.each, self.each)


class _Mapping(msgspec.Struct, frozen=True, rename="camel"):
    host_id: int
    container_id: int
    length: int


class _Mappings(msgspec.Struct, frozen=True, rename="camel"):
    uid_mappings: tuple[_Mapping, ...]
    gid_mappings: tuple[_Mapping, ...]


def pool_of(each: int, subordinate: SubordinateIds, pods_max: int) -> IdPool:
    """Return the pool for ``pods_max`` pods that get ``each`` ids. If nothing is reserved, it is all but the node's own
    ids. Raises ValueError for an unsuitable reservation."""
    if isinstance(subordinate, Unsaid):
        return IdPool(each, 0, each, subordinate)
    first, length = (each, IDS_END - each) if subordinate is None else _set_aside(*subordinate)
    if first % each:
        raise ValueError(f"kubelet user assigned ID {first} is not a multiple of {each}")
    if first < each:
        raise ValueError(f"kubelet user assigned ID {first} must be greater or equal to {each}")
    if subordinate is not None and length % each:
        raise ValueError(f"kubelet user assigned IDs length {length} is not a multiple of {each}")
    pool = IdPool(first, min(length, IDS_END - first), each, is_set_aside=subordinate is not None)
    if pool.length // each < pods_max:
        raise ValueError(f"kubelet user assigned IDs are not enough to support {pods_max} pods")
    return pool


def _set_aside(users: str, groups: str) -> tuple[int, int]:
    """Return the first id and the number of ids in a line like ``0: kubelet 65536 7208960``."""
    if users != groups:
        raise ValueError('mismatched subuids and subgids for user "kubelet"')
    lines = users.strip().splitlines()
    if len(lines) != 1:
        raise ValueError(f"error parsing line {users!r}: it must contain only one line")
    try:
        _, _, first, length = lines[0].split()
        return int(first), int(length)
    except ValueError as error:
        raise ValueError(f"invalid line {lines[0]!r}") from error


def read(content: bytes) -> IdRange:
    """Return the ids in a file. Raises ValueError for content that neither this agent nor upstream's kubelet writes."""
    try:
        found = msgspec.json.decode(content, type=_Mappings)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"invalid user namespace mappings file: {error}") from error
    if len(found.uid_mappings) != 1 or found.uid_mappings != found.gid_mappings:
        raise ValueError("invalid user namespace configuration: GID and UID mapping should be identical, and one")
    (one,) = found.uid_mappings
    if one.container_id != 0:
        raise ValueError("invalid user namespace configuration: UID 0 must be mapped")
    if one.length < 1 or one.host_id < HOST_IDS or one.host_id + one.length > IDS_END:
        raise ValueError(f"{one.length} ids from {one.host_id} on are out of range")
    return IdRange(one.host_id, one.length)


def written(ids: IdRange) -> bytes:
    """Return the content of the file of a pod with these ids."""
    mapping = (_Mapping(ids.first, 0, ids.length),)
    return msgspec.json.encode(_Mappings(mapping, mapping))


def subordinate_ranges(content: str) -> Iterator[IdRange]:
    """Yield the ranges in a file in the form of subuid(5), ``alice:100000:65536``, whose ids users of the node may use
    for their own containers. Malformed lines are skipped."""
    for line in content.splitlines():
        _, _, numbers = line.partition(":")
        first, _, count = numbers.partition(":")
        if (match := _NUMBERS.fullmatch(f"{first}:{count}")) is not None and int(match[2]):
            yield IdRange(int(match[1]), int(match[2]))


def ids_of(
    uid: str,
    files: Mapping[str, bytes],
    pool: IdPool,
    users: Iterable[IdRange] = (),
) -> IdRange:
    """Return the ids of a pod that gets a sandbox: those in its file, else a free range of the pool, chosen by the
    pod's UID. A range is free if neither a pod nor a user of the node has an id in it.

    ``files``: those of all pods on the node, by UID. ``users``: the ids that users of the node may use for their
    containers. Raises ValueError if none is free, or if a file is unreadable, because then the free ids are unknown."""
    held = {other: read_of(other, content) for other, content in files.items()}
    if uid in held:
        if sharers := sorted(other for other, ids in held.items() if other != uid and _overlap(ids, held[uid])):
            raise ValueError(f"pods {uid} and {', '.join(sharers)} have ids in common (see their files userns)")
        return held[uid]
    if pool.unsaid is not None:
        raise ValueError(pool.unsaid.why)
    taken = {place for ids in (*held.values(), *users) for place in _places(ids, pool)}
    free = [place for place in range(pool.length // pool.each) if place not in taken]
    if not free:
        raise ValueError("could not find an empty slot to allocate a user namespace")
    return pool.range_at(free[_spread(uid) % len(free)])


def problems(files: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the faults in the files of the node's pods: unreadable ones, and pods that share ids."""
    held = {}
    for uid, content in sorted(files.items()):
        try:
            held[uid] = read_of(uid, content)
        except ValueError as error:
            yield str(error)
    widest = ""  # of the ranges so far: the one that ends last
    for uid in sorted(held, key=lambda one: held[one].first):
        if widest and _overlap(held[widest], held[uid]):
            yield f"pods {widest} and {uid} have ids in common (see their files userns)"
        if not widest or _end(held[uid]) > _end(held[widest]):
            widest = uid


def read_of(uid: str, content: bytes) -> IdRange:
    """Return the ids in the file of a pod. Raises ValueError, naming the pod."""
    try:
        return read(content)
    except ValueError as error:
        raise ValueError(f"the file userns of pod {uid}: {error}") from error


def _spread(uid: str) -> int:
    """Return a number for a UID, uniformly distributed."""
    return int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=8).digest(), "big")


def _places(ids: IdRange, pool: IdPool) -> range:
    """Return the indices of the pool's ranges that contain an id of these. A pod's ids may come from another pool if
    the configuration has changed since."""
    first, last = ((id_ - pool.first) // pool.each for id_ in (ids.first, _end(ids) - 1))
    return range(max(first, 0), min(last + 1, pool.length // pool.each))


def _overlap(one: IdRange, other: IdRange) -> bool:
    return one.first < _end(other) and other.first < _end(one)


def _end(ids: IdRange) -> int:
    return ids.first + ids.length
