"""Which users of the node are those of a pod with ``hostUsers: false``: no two pods have one in common.

    the administrator's word, the configuration ─► pool_of ─► IdPool ─┐
    the files ``userns`` of all pods on this node ────────────────────┤
    /etc/subuid, /etc/subgid ─► subordinate_ranges ───────────────────┴─► ids_of ─► IdRange ─► written ─► the pod's file

The files are all there is to know, so whoever reads them knows as much as who wrote them. ``pods.user_ids`` reads and
writes them. They are upstream's (pkg/kubelet/userns), and so are the messages of what is wrong with a pool.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from trikubelet.model.runtime_config import IdRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

HOST_IDS: Final = 1 << 16
"""As many ids, from 0 on, are the node's own; and as many a pod has, where the configuration does not say."""

IDS_END: Final = (1 << 32) - 1
"""The first id that cannot be mapped: to the kernel it is no user at all."""


_NUMBERS: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")


@dataclass(frozen=True, slots=True)
class Unsaid:
    """Nobody said whether ids are set aside, and ``why``, for whoever wants some."""

    why: str


SubordinateIds: TypeAlias = tuple[str, str] | Unsaid | None
"""What ``getsubids`` printed of the users and of the groups that the administrator set aside for the kubelet; None:
nothing is set aside."""


@dataclass(frozen=True, slots=True)
class IdPool:
    """Ids of the node that are for pods: ``length`` of them from ``first`` on, ``each`` to a pod; or, where that is
    ``unsaid``, none until the agent restarts."""

    first: int = HOST_IDS
    length: int = IDS_END - HOST_IDS
    each: int = HOST_IDS
    unsaid: Unsaid | None = None
    is_set_aside: bool = False
    """The administrator reserved it for the kubelet: the other lines of /etc/subuid and /etc/subgid do not count."""

    def ranges(self) -> Iterator[IdRange]:
        """Every range there is to give, the lowest first."""
        for place in range(self.length // self.each):
            yield self.range_at(place)

    def range_at(self, place: int) -> IdRange:
        """The range at a place; the lowest is at 0."""
        return IdRange(self.first + place * self.each, self.each)


class _Mapping(msgspec.Struct, frozen=True, rename="camel"):
    host_id: int
    container_id: int
    length: int


class _Mappings(msgspec.Struct, frozen=True, rename="camel"):
    uid_mappings: tuple[_Mapping, ...]
    gid_mappings: tuple[_Mapping, ...]


def pool_of(each: int, subordinate: SubordinateIds, pods_max: int) -> IdPool:
    """What there is for ``pods_max`` pods that get ``each`` ids. Where nothing is set aside, everything is for pods but
    the node's own. Raises ValueError for what will not do."""
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
    """The first id and the number of ids in a line as ``0: kubelet 65536 7208960``."""
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
    """What a file says. Raises ValueError for what neither this agent nor upstream's kubelet writes."""
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
    """What the file of a pod says that has these."""
    mapping = (_Mapping(ids.first, 0, ids.length),)
    return msgspec.json.encode(_Mappings(mapping, mapping))


def subordinate_ranges(content: str) -> Iterator[IdRange]:
    """The ranges in a file in the form of subuid(5), ``alice:100000:65536``, whose ids users of the node may take for
    their own containers. Malformed lines are skipped."""
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
    """The ids of a pod that gets a sandbox: those in its file, else one of the pool's free ranges, drawn by the pod's
    UID. Free is a range of which neither a pod nor a user of the node has an id.

    ``files``: those of all pods on the node, by UID. ``users``: the ids that users of the node may take for their
    containers. Raises ValueError if none is free, or if a file cannot be relied on, because then it is unknown what is
    free."""
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
    """What is wrong with the files of the pods on the node: each that cannot be read, and who has ids of another."""
    held = {}
    for uid, content in sorted(files.items()):
        try:
            held[uid] = read_of(uid, content)
        except ValueError as error:
            yield str(error)
    widest = ""  # of those that begin no later: the one that ends last
    for uid in sorted(held, key=lambda one: held[one].first):
        if widest and _overlap(held[widest], held[uid]):
            yield f"pods {widest} and {uid} have ids in common (see their files userns)"
        if not widest or _end(held[uid]) > _end(held[widest]):
            widest = uid


def read_of(uid: str, content: bytes) -> IdRange:
    """What the file of a pod says. Raises ValueError, naming it."""
    try:
        return read(content)
    except ValueError as error:
        raise ValueError(f"the file userns of pod {uid}: {error}") from error


def _spread(uid: str) -> int:
    """A number for each UID, all as likely as the others."""
    return int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=8).digest(), "big")


def _places(ids: IdRange, pool: IdPool) -> range:
    """The places of the pool's ranges that have an id of these. Those of a pod were given out of another pool if the
    configuration has changed since."""
    first, last = ((id_ - pool.first) // pool.each for id_ in (ids.first, _end(ids) - 1))
    return range(max(first, 0), min(last + 1, pool.length // pool.each))


def _overlap(one: IdRange, other: IdRange) -> bool:
    return one.first < _end(other) and other.first < _end(one)


def _end(ids: IdRange) -> int:
    return ids.first + ids.length
