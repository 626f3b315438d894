"""The API server's pods as a source: an informer on the memory server, and the slot it fills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from trikubelet.core.names import API_SOURCE, CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE, source_of
from trikubelet.core.timestamps import rfc3339_nano
from trikubelet.kit.outage import Outage
from trikubelet.kit.slot import Slot
from trikubelet.kube.informer import Informer
from trikubelet.model.api import PODS, PatchKind, Selection
from trikubelet.model.objects import ObjectRef
from trikubelet.sources.api import ApiSource, decode_pod
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import MemoryApi
from trikubelet.testing.memory_host import VirtualClock
from trikubelet.testing.world import wall_ns

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.model import k8s

BROKEN = ("default", "broken")


class Sourced:
    """A server, a node's informer of its pods, and the source."""

    def __init__(self) -> None:
        self.server = ApiServer(wall_ns)
        self.slot: Slot[Snapshot] = Slot()
        self.api = MemoryApi(self.server)
        here = Selection(fields="spec.nodeName=here")
        informer = Informer(self.api, PODS, here, decode_pod, Outage("API server"))
        informer.add_listener(ApiSource(informer, self.slot, VirtualClock()).changed)
        self.run = informer.run

    def create(self, name: str, node: str = "here", **annotations: str) -> None:
        """A pod bound to a node."""
        spec = {"containers": [{"name": "main", "image": "app:1"}], "nodeName": node}
        self.server.create(PODS, {"metadata": {"name": name, "annotations": annotations}, "spec": spec}, "default")

    def breaks(self) -> None:
        """One of the pods becomes such that nobody here can read it."""
        tree: dict[str, Any] = self.server.store.get(PODS, BROKEN) or {}
        self.server.store.put(PODS, BROKEN, tree | {"spec": tree["spec"] | {"containers": "none"}})

    def uid(self, name: str) -> str:
        """Return the JSON of a pod."""
        return self.server.get(PODS, name, "default").uid

    async def named(self, name: str) -> k8s.Pod:
        """The pod of that name in the next snapshot."""
        return next(pod for pod in (await self.slot.take()).pods if pod.metadata.name == name)

    async def names(self) -> list[str]:
        """The pods of the next snapshot."""
        return [pod.metadata.name for pod in (await self.slot.take()).pods]


async def test_the_nodes_pods_are_wanted_but_not_the_pictures_of_static_ones(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    sourced = Sourced()
    sourced.create("one")
    sourced.create("two", **{CONFIG_SOURCE: "file"})
    sourced.create("elsewhere", node="there")
    sourced.create("mirror", **{CONFIG_MIRROR: "hash"})
    nursery.start_soon(sourced.run)

    snapshot = await sourced.slot.take()

    assert ["one", "two"] == [pod.metadata.name for pod in snapshot.pods]
    assert {API_SOURCE} == {source_of(pod) for pod in snapshot.pods}  # whatever they say of themselves
    sourced.server.delete(PODS, "one", "default", grace_seconds=0)
    assert ["two"] == await sourced.names()


async def test_nothing_is_said_before_the_server_was_heard_and_then_even_that_there_is_nothing(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    sourced = Sourced()
    sourced.api.link.down()
    nursery.start_soon(sourced.run)

    with trio.move_on_after(600) as waiting:
        await sourced.slot.take()
    assert waiting.cancelled_caught

    sourced.api.link.up()
    assert Snapshot() == await sourced.slot.take()


async def test_undecodable_pod_is_named_with_its_uid_while_it_exists(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    sourced = Sourced()
    sourced.create("broken")
    sourced.create("good")
    sourced.breaks()
    nursery.start_soon(sourced.run)

    snapshot = await sourced.slot.take()
    assert (["good"], ()) == ([pod.metadata.name for pod in snapshot.pods], snapshot.invalid_manifests)
    ((ref, why),) = snapshot.undecodable.items()
    assert ObjectRef("Pod", "broken", "default", sourced.uid("broken")) == ref
    assert "spec.containers" in why

    sourced.server.delete(PODS, "broken", "default", grace_seconds=0)
    assert {} == (await sourced.slot.take()).undecodable


async def test_a_pod_that_cannot_be_read_any_more_stays_what_it_was(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    sourced = Sourced()
    sourced.create("broken")
    nursery.start_soon(sourced.run)
    assert ["broken"] == await sourced.names()

    sourced.breaks()

    snapshot = await sourced.slot.take()
    assert ["broken"] == [pod.metadata.name for pod in snapshot.pods]
    assert ["broken"] == [ref.name for ref in snapshot.undecodable]


async def test_a_pod_has_the_time_at_which_it_was_first_seen_whatever_it_says_and_however_it_changes(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    sourced = Sourced()
    sourced.create("one", **{CONFIG_SEEN: "long ago"})
    nursery.start_soon(sourced.run)
    first = await sourced.named("one")
    began = first.metadata.annotations[CONFIG_SEEN]
    assert rfc3339_nano(wall_ns()) == began

    await trio.sleep(5)
    sourced.create("two")
    pods = {pod.metadata.name: pod for pod in (await sourced.slot.take()).pods}
    assert pods["one"] is first
    assert rfc3339_nano(wall_ns()) == pods["two"].metadata.annotations[CONFIG_SEEN]

    sourced.server.patch(PODS, "one", {"metadata": {"labels": {"a": "b"}}}, "default", kind=PatchKind.MERGE)
    changed = await sourced.named("one")
    assert ({"a": "b"}, began) == (changed.metadata.labels, changed.metadata.annotations[CONFIG_SEEN])

    uid = sourced.uid("one")
    sourced.server.delete(PODS, "one", "default", grace_seconds=0)
    await sourced.slot.take()
    await trio.sleep(5)
    sourced.create("one")
    new = await sourced.named("one")
    assert uid != new.metadata.uid
    assert rfc3339_nano(wall_ns()) == new.metadata.annotations[CONFIG_SEEN]
