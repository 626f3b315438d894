"""Lists of real containerds: long ones read the same as to another client, those above 16 MiB are refused in the words
we know, are not to be had as streams, and filters mean what CRI says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.core.names import POD_NAMESPACE, POD_UID
from trikubelet.core.relist import Relist
from trikubelet.cri.channel import open_channel
from trikubelet.cri.runtime import CriImages, CriRuntime
from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig

if TYPE_CHECKING:
    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

PODS = ("uid-a", "uid-b")
CONTAINERS = 30
PADDING = {"padding": "x" * 300_000}
"""Two pods then have 18 MB of containers, one has 9."""
LONG = 120
FRAME = {"padding": "x" * 20_000}
"""More than fits into one frame, so that no container of a long list comes in one piece."""


def sandbox(uid: str, parent: str) -> SandboxConfig:
    """A pod in the one namespace there is."""
    labels = {POD_UID: uid, POD_NAMESPACE: "crowd"}
    return SandboxConfig(uid, uid, "crowd", 0, labels=labels, cgroup_parent=f"{parent}/{uid}")


async def test_a_list_of_many_frames_says_what_it_says_to_another_client(containerd: Containerd) -> None:
    async with open_channel(containerd.endpoint) as channel:
        runtime = CriRuntime(channel)
        found = await CriImages(channel).image_status("docker.io/library/busybox:1.36")
        assert found is not None
        config = sandbox("uid-a", containerd.cgroup_parent)
        sandbox_id = await runtime.run_sandbox(config)
        for number in range(LONG):
            asleep = ContainerConfig(
                f"c{number}", number, found.id, command=("sleep", "600"), labels=config.labels, annotations=FRAME
            )
            id_ = await runtime.create_container(sandbox_id, asleep, config)
            if number % 10 == 0:
                await runtime.start_container(id_)
            if number % 20 == 0:
                await runtime.stop_container(id_, 0)

        relist = Relist()
        relist.observe(await runtime.list_sandboxes(), await runtime.list_containers())
    theirs = await trio.to_thread.run_sync(lambda: containerd.cri.call("ListContainers").containers)
    assert LONG == len(theirs)
    assert {0, 1, 2} == {one.state for one in theirs}
    assert {(one.id, one.metadata.name, one.metadata.attempt, one.state, sandbox_id) for one in theirs} == {
        tuple(one) for pod in relist.pods() for one in pod.containers
    }


async def listed(runtime: CriRuntime) -> set[str]:
    """Every container as the relist sees it."""
    relist = Relist()
    relist.observe(await runtime.list_sandboxes(), await runtime.list_containers())
    return {container.id for pod in relist.pods() for container in pod.containers}


async def test_a_containerd_with_more_than_a_message_is_listed_pod_by_pod_until_it_has_less(
    containerd: Containerd,
) -> None:
    made: dict[str, list[str]] = {uid: [] for uid in PODS}
    async with open_channel(containerd.endpoint) as channel:
        runtime = CriRuntime(channel)
        found = await CriImages(channel).image_status("docker.io/library/busybox:1.36")
        assert found is not None
        for uid in PODS:
            config = sandbox(uid, containerd.cgroup_parent)
            sandbox_id = await runtime.run_sandbox(config)
            for number in range(CONTAINERS):
                asleep = ContainerConfig(
                    f"c{number}", 0, found.id, command=("sleep", "1"), labels=config.labels, annotations=PADDING
                )
                made[uid].append(await runtime.create_container(sandbox_id, asleep, config))

        for _ in range(2):
            assert {*made["uid-a"], *made["uid-b"]} == await listed(runtime)
        assert "containers are listed by pod" in (await runtime.info()).list_warning

        for container_id in made["uid-a"]:
            await runtime.remove_container(container_id)
        for _ in range(2):
            assert {*made["uid-b"]} == await listed(runtime)
        assert "" == (await runtime.info()).list_warning
