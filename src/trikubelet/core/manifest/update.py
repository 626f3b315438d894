"""What may change in a pod that exists: the rules of the API for a manifest that was edited and gives the UID itself.

Without one the edited manifest is another pod, since the UID is made of what it says (``static``). With one it is the
same pod, whose sandbox and containers are there already, and most of it can only be had by recreating them.
``core.file_source`` asks, of one file's pods and of those that moved between files, and keeps the pod that it has.
(upstream: ValidatePodUpdate)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from trikubelet.model.api_names import attributes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec

    from trikubelet.model.k8s import Container, Pod

_LISTS: Final = ("initContainers", "containers")


def unchangeable(before: Pod, now: Pod) -> tuple[str, ...]:
    """The paths of the fields that differ between two states of one pod and may not: all of the spec but images, a
    deadline that comes or comes closer, and tolerations that are added or get another time; and who it is."""
    return (*_changed(before.metadata, now.metadata, "metadata", ("name", "namespace")), *_of_spec(before, now))


def _of_spec(before: Pod, now: Pod) -> Iterator[str]:
    old, new = before.spec, now.spec
    others = [name for name in attributes(type(new)) if name not in (*_LISTS, "activeDeadlineSeconds", "tolerations")]
    yield from _changed(old, new, "spec", others)
    if not {replace(one, toleration_seconds=None) for one in old.tolerations} <= {
        replace(one, toleration_seconds=None) for one in new.tolerations
    }:
        yield "spec.tolerations"
    sooner = new.active_deadline_seconds is not None and (
        old.active_deadline_seconds is None or new.active_deadline_seconds <= old.active_deadline_seconds
    )
    if old.active_deadline_seconds != new.active_deadline_seconds and not sooner:
        yield "spec.activeDeadlineSeconds"
    yield from _of_containers(old.init_containers, new.init_containers, "spec.initContainers")
    yield from _of_containers(old.containers, new.containers, "spec.containers")


def _of_containers(before: tuple[Container, ...], now: tuple[Container, ...], path: str) -> Iterator[str]:
    if len(before) != len(now):
        yield path
        return
    names = [name for name in attributes(type(now[0])) if name != "image"] if now else []
    for n, (old, new) in enumerate(zip(before, now, strict=True)):
        yield from _changed(old, new, f"{path}[{n}]", names)


def _changed(
    before: msgspec.Struct, now: msgspec.Struct, path: str, names: list[str] | tuple[str, ...]
) -> Iterator[str]:
    there = attributes(type(now))
    yield from (f"{path}.{name}" for name in names if getattr(before, there[name]) != getattr(now, there[name]))
