"""Sub-paths with real mounts and on real containerds: what containers see of their volumes, and what they cannot."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from core import podkit
from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import pod, shell, state, waiting_reason
from trikubelet.core.containers import NodeFacts
from trikubelet.host import mounts
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.runtime_config import Mount
from trikubelet.volumes.volumes import DiskVolumes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.containerd import Containerd

POD = podkit.pod(
    podkit.container("c", volume_mounts=(k8s.VolumeMount(name="v", mount_path="/v"),)),
    volumes=(k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource()),),
)


@pytest.fixture
def tmp_path(mounting_place: Path) -> Path:
    """It is mounted below it in the machine's own table."""
    return mounting_place


class Swapping:
    """The real mounts, but for a container that is quick: it swaps a directory of the volume between the moment the
    agent has found it and the moment it is mounted."""

    mount_tmpfs = staticmethod(mounts.mount_tmpfs)
    mounted_below = staticmethod(mounts.mounted_below)
    make_private = staticmethod(mounts.make_private)
    unmount = staticmethod(mounts.unmount)

    def __init__(self, victim: Path, target: str) -> None:
        self._victim = victim
        self._target = target

    def bind(self, fd: int, path: str) -> None:
        """Swap, then mount."""
        self._victim.rename(self._victim.with_name("moved"))
        self._victim.symlink_to(self._target)
        mounts.bind(fd, path)


def mounted(below: Path) -> list[str]:
    """All that is mounted there, with the numbers that each mount has for itself."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(below) in line]


async def hold(volumes: DiskVolumes, part: str) -> Path:
    """Where the pod's container would find that part of its volume."""
    path = (await volumes.set_up(POD))["v"]
    return Path((await volumes.resolve(POD, POD.spec.containers[0], [Mount("/v", path, sub_path=part)]))[0].host_path)


async def test_what_was_found_is_mounted_whatever_its_name_means_by_then(tmp_path: Path) -> None:
    threads = ThreadPool("volumes", 2)
    volume = Path((await DiskVolumes(tmp_path, NodeFacts("n"), mounts, threads).set_up(POD))["v"])
    (volume / "a").mkdir()
    (volume / "a/mine").touch()
    volumes = DiskVolumes(tmp_path, NodeFacts("n"), Swapping(volume / "a", "/etc"), threads)
    try:
        held = await hold(volumes, "a")
        assert ["mine"] == os.listdir(held)
    finally:
        await volumes.tear_down(POD.metadata.uid)
    assert () == mounts.mounted_below(str(tmp_path))


async def test_a_part_stays_mounted_for_the_next_start_and_a_changed_file_is_mounted_again(tmp_path: Path) -> None:
    volumes = DiskVolumes(tmp_path, NodeFacts("n"), mounts, ThreadPool("volumes", 2))
    volume = Path((await volumes.set_up(POD))["v"])
    (volume / "file").write_text("old")
    try:
        held = await hold(volumes, "file")
        before = mounted(tmp_path)
        assert held == await hold(volumes, "file")
        assert before == mounted(tmp_path)

        (volume / "next").write_text("new")
        (volume / "next").rename(volume / "file")
        assert "old" == held.read_text()
        assert "new" == (await hold(volumes, "file")).read_text()
    finally:
        await volumes.tear_down(POD.metadata.uid)
    assert not list((tmp_path / "pods" / POD.metadata.uid / "volume-subpaths").iterdir())


MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: scratch}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: host
    command: [sh, -c, "echo here > /there/file; sleep 1000"]
    volumeMounts: [{name: v, mountPath: /there, subPath: part}]
  volumes:
  - {name: v, emptyDir: {}}
"""
WITHOUT = ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"]


@pytest.mark.parametrize("prefix", [pytest.param([], id="as root"), pytest.param(WITHOUT, id="who may not mount")])
async def test_embedded_containers_have_their_sub_paths_for_any_user(prefix: list[str], tmp_path: Path) -> None:
    manifests, root = tmp_path / "manifests", tmp_path / "root"
    manifests.mkdir()
    (manifests / "scratch.yaml").write_text(MANIFEST)
    command = [*prefix, sys.executable, "-m", "trikubelet", "--standalone", "--container-runtime-endpoint=embedded:"]
    command += [f"--pod-manifest-path={manifests}", f"--root-dir={root}", "--healthz-port=0"]

    async with trio.open_nursery() as nursery:
        agent = await nursery.start(trio.run_process, command)
        with trio.fail_after(60):
            while not list(root.glob("pods/*/volumes/kubernetes.io~empty-dir/v/part/file")):  # noqa: ASYNC110 - disks tell nobody
                await trio.sleep(0.1)
        assert isinstance(agent, trio.Process)
        agent.terminate()

    assert () == mounts.mounted_below(str(root))


SCRATCH = [{"name": "v", "emptyDir": {}}]


@pytest.fixture
def agent(containerd: Containerd) -> Iterator[Agent]:
    with Agent(containerd) as agent:
        yield agent


def printed(agent: Agent, name: str, container: str) -> str:
    """What a container printed so far."""
    return agent.command("logs", f"{name}-live", "-c", container).stdout


def at(path: str, **fields: Any) -> dict[str, Any]:
    return {"name": "v", "mountPath": path, **fields}


@pytest.mark.slow
def test_containers_share_parts_of_a_volume_and_their_mounts_go_with_the_pod(agent: Agent) -> None:
    name = {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    agent.put(
        pod(
            "parts",
            shell(
                "reader",
                "until [ -e /data/done ]; do sleep 0.1; done; cat /named /data/done; touch /data/x; sleep 1000",
                volumeMounts=[at("/data", subPath="deep/er", readOnly=True), at("/named", subPath="file")],
            ),
            shell(
                "writer",
                "echo done > /mine/er/done; ls /whole; ls /whole/of-parts-live; sleep 1000",
                env=[name],
                volumeMounts=[at("/mine", subPath="deep"), at("/own", subPathExpr="of-$(NAME)/x"), at("/whole")],
            ),
            initContainers=[shell("first", "echo named > /v/file", volumeMounts=[at("/v")])],
            volumes=SCRATCH,
        )
    )
    found = agent.wait_phase("parts", "Running")
    await_that(lambda: "Read-only file system" in printed(agent, "parts", "reader"), 60, agent.story)
    lines = printed(agent, "parts", "reader").splitlines()
    assert ["named", "done"] == [line for line in lines if not line.startswith("touch")]
    await_that(lambda: "deep\nfile\nof-parts-live\nx\n" == printed(agent, "parts", "writer"), 60, agent.story)

    agent.kill()
    agent.take("parts")
    agent.start()
    await_that(lambda: not (agent.root / "pods" / found["metadata"]["uid"]).exists(), 60, agent.story)


@pytest.mark.slow
def test_a_container_cannot_lead_the_next_one_out_of_their_volume(agent: Agent) -> None:
    agent.put(
        pod(
            "escape",
            shell("victim", "sleep 1000", volumeMounts=[at("/v", subPath="way")]),
            initContainers=[shell("culprit", "ln -s / /v/way", volumeMounts=[at("/v")])],
            volumes=SCRATCH,
        )
    )
    reason = "CreateContainerConfigError"
    found = agent.wait(lambda now: waiting_reason(now.get("escape", {}), "victim") == reason, "the container waits")
    told = state(found["escape"], "victim")["state"]["waiting"]["message"]
    assert "a link to an absolute path leads out of the volume" in told
