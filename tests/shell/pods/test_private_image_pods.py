"""Private images on a whole node: a pod waits for its Secret, has its image when that comes, and nobody else has it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import trio

from shell.pods.shellkit import Bench, until
from trikubelet.model import k8s
from trikubelet.model.registry import Login
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.chance import Odds, Problems
from trikubelet.testing.memory_images import MemoryImages

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.app.node import Node

IMAGE = "r.example/app:1"
REFUSED = ("ErrImagePull", "ImagePullBackOff")
LOGIN = Login("joe", "s3cret")


def wants(name: str, *secrets: str) -> k8s.Pod:
    references = tuple(k8s.LocalObjectReference(name=secret) for secret in secrets)
    return pod(name, container(name, image=IMAGE), image_pull_secrets=references)


def secret() -> k8s.Secret:
    config = {"auths": {"r.example": {"username": LOGIN.username, "password": LOGIN.password}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(config).encode()).decode()}
    meta = k8s.ObjectMeta(name="mine", namespace="default")
    return k8s.Secret(metadata=meta, type="kubernetes.io/dockerconfigjson", data=data)


def waits(node: Node, uid: str) -> str:
    """Why the pod's container waits."""
    status = node.statuses.get(uid)
    states = [one.state for one in status.container_statuses] if status else []
    return next((state.waiting.reason for state in states if state and state.waiting), "")


async def test_a_pod_waits_for_its_secret_and_a_stranger_for_ever(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.images = MemoryImages(private={IMAGE: [LOGIN]})
    pods = (wants("owner", "mine"), wants("stranger"))
    async with bench.agent(*pods) as node:
        await until(lambda: waits(node, "uid-owner") == waits(node, "uid-stranger") == "ImagePullBackOff")
        node.slots["file"].put(Snapshot(pods, objects=(secret(),)))
        await until(lambda: bench.running() == ["owner"])
        await trio.sleep(900)
        assert ["owner"] == bench.running()
        assert waits(node, "uid-stranger") in REFUSED

    async with bench.agent(*pods, wants("late")) as node:
        node.slots["file"].put(Snapshot((*pods, wants("late"), wants("friend", "mine")), objects=(secret(),)))
        await until(lambda: bench.running() == ["friend", "owner"])
        await until(lambda: waits(node, "uid-late") in REFUSED)


async def test_where_a_pull_stands_is_told_while_it_lasts(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.images = MemoryImages([], ["web:2"], Problems(Odds(latency_seconds=5.0)))
    async with bench.agent(pod("slow", container(image="web:2"))) as node:
        await until(lambda: bool(node.puller.progress("uid-slow")))
        assert {"main"} == node.puller.progress("uid-slow").keys()
        await until(lambda: bench.running() == ["main"])
        assert {} == node.puller.progress("uid-slow")
