"""The API's rules for changes of a pod: they apply to an edited manifest that gives the UID itself.

Without a UID the edited manifest is another pod, since the UID is a hash of its content (``static``). With one it is
the same pod, whose sandbox and containers exist already, and most changes need new ones. ``core.file_source`` checks
the pods of one file and those that moved between files, and keeps the pod that it has. (upstream: ValidatePodUpdate)
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
    """Return the paths of the fields that differ between two states of one pod but may not. The spec may only change in
    images, tolerations that are added or get another time, and a deadline that is added or shortened. The identity may
    not change."""
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
