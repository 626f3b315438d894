"""The contract of ``ports.PodObjects``, as far as ConfigMaps and Secrets go, held by an API server's objects, by those
in manifests, and by what stands before both on a node."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol

import pytest
import trio

from core.podkit import pod
from shell.pods.shellkit import Said
from trikubelet.core.names import CONFIG_SOURCE
from trikubelet.kit.outage import Outage
from trikubelet.kube.pod_objects import ApiPodObjects
from trikubelet.model import k8s
from trikubelet.model.api import CONFIG_MAPS, SECRETS
from trikubelet.model.api_errors import ObjectMissing
from trikubelet.sources.objects import ManifestObjects, NodeObjects
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import Link, MemoryApi
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from trio.testing import MockClock

    from trikubelet.ports import PodObjects

RESOURCES = {k8s.ConfigMap: CONFIG_MAPS, k8s.Secret: SECRETS}
Held = k8s.ConfigMap | k8s.Secret


class Subject(Protocol):
    """Objects under test, and the hand that changes them. ``woken``: pods that were to be looked at again."""

    objects: PodObjects
    source: str
    woken: list[str]

    def put(self, held: Held) -> None: ...
    def remove(self, held: Held) -> None: ...
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None: ...


class OfTheApi:
    source = "api"

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.server = ApiServer(VirtualClock().now_ns)
        api = MemoryApi(self.server, Link())
        outage = Outage("API server")
        self.objects: PodObjects = ApiPodObjects(api, api, self.wake, outage, random.Random(1), Said(), lambda: None)
        self.run = self.objects.run

    def wake(self, uids: Collection[str]) -> None:
        self.woken += sorted(uids)

    def put(self, held: Held) -> None:
        self.remove(held)
        self.server.create(RESOURCES[type(held)], held, held.metadata.namespace)

    def remove(self, held: Held) -> None:
        with suppress(ObjectMissing):
            self.server.delete(RESOURCES[type(held)], held.metadata.name, held.metadata.namespace)


class OfManifests:
    source = "file"

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.manifests = ManifestObjects(["file", "http"])
        self.manifests.changed.add(self.wake)
        self.objects: PodObjects = self.manifests
        self._held: dict[tuple[type[Held], str, str], Held] = {}

    def wake(self, uids: Collection[str]) -> None:
        self.woken += sorted(uids)

    def put(self, held: Held) -> None:
        self._held[type(held), held.metadata.namespace, held.metadata.name] = held
        self.manifests.replace("http", self._held.values())

    def remove(self, held: Held) -> None:
        self._held.pop((type(held), held.metadata.namespace, held.metadata.name), None)
        self.manifests.replace("http", self._held.values())

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await trio.sleep_forever()


class OfANode(OfManifests):
    """The way to the manifests of a node that has a cluster too, in which there is nothing."""

    def __init__(self) -> None:
        super().__init__()
        node = NodeObjects(self.manifests)
        node.join(OfTheApi().objects)
        self.objects = node


@pytest.fixture(params=[OfTheApi, OfManifests, OfANode])
def subject(request: pytest.FixtureRequest) -> Subject:
    made: Subject = request.param()
    return made


@asynccontextmanager
async def running(subject: Subject) -> AsyncIterator[PodObjects]:
    async with trio.open_nursery() as nursery:
        await nursery.start(subject.run)
        yield subject.objects
        nursery.cancel_scope.cancel()


def of(subject: Subject, uid: str) -> k8s.Pod:
    return pod(meta={"uid": uid, "annotations": {CONFIG_SOURCE: subject.source}})


def config(value: str, namespace: str = "default") -> k8s.ConfigMap:
    return k8s.ConfigMap(metadata=k8s.ObjectMeta(name="o", namespace=namespace), data={"a": value})


SECRET = k8s.Secret(metadata=k8s.ObjectMeta(name="o", namespace="default"), data={"a": "dg=="})


async def test_an_object_is_found_by_its_kind_name_and_namespace(autojump_clock: MockClock, subject: Subject) -> None:
    subject.put(config("1"))
    subject.put(config("2", "kube-node-lease"))
    async with running(subject) as objects:
        one = of(subject, "one")
        held = await objects.config_map(one, "o")
        assert held is not None
        assert ({"a": "1"}, "default") == (held.data, held.metadata.namespace)
        assert await objects.config_map(one, "p") is None
        assert await objects.secret(one, "o") is None
        subject.put(SECRET)
        await trio.sleep(1)
        secret = await objects.secret(one, "o")
        assert secret is not None
        assert {"a": "dg=="} == secret.data


async def test_pods_that_requested_an_object_are_woken_by_its_changes_and_no_others(
    autojump_clock: MockClock, subject: Subject
) -> None:
    async with running(subject) as objects:
        assert await objects.config_map(of(subject, "asked"), "o") is None
        assert await objects.config_map(of(subject, "other"), "p") is None
        subject.put(config("1"))
        await trio.sleep(1)
        assert {"asked"} == set(subject.woken)

        subject.woken.clear()
        subject.put(config("2"))
        await trio.sleep(1)
        assert {"asked"} == set(subject.woken)
        held = await objects.config_map(of(subject, "asked"), "o")
        assert held is not None
        assert {"a": "2"} == held.data

        subject.woken.clear()
        subject.remove(config("2"))
        await trio.sleep(1)
        assert {"asked"} == set(subject.woken)
        assert await objects.config_map(of(subject, "asked"), "o") is None


async def test_released_pod_is_not_woken_and_release_is_idempotent(autojump_clock: MockClock, subject: Subject) -> None:
    subject.put(config("1"))
    async with running(subject) as objects:
        for uid in ("gone", "stays"):
            assert await objects.config_map(of(subject, uid), "o") is not None
        objects.release("gone")
        objects.release("gone")
        objects.release("never seen")
        subject.woken.clear()
        subject.put(config("2"))
        await trio.sleep(1)
        assert {"stays"} == set(subject.woken)
