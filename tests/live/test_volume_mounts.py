"""Mounts below and inside volumes, all real: what propagates where, what stays read-only, and what is never removed."""

from __future__ import annotations

import os
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import trio

from core import podkit
from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import pod, shell, state, waiting_reason
from trikubelet.core.containers import NodeFacts
from trikubelet.host import mounts
from trikubelet.host.pod_files import DiskPodFiles
from trikubelet.host.removal import remove_tree
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import StillMounted
from trikubelet.volumes.volumes import DiskVolumes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from live.kit.containerd import Containerd

PAGES: dict[str, k8s.Quantity] = {"hugepages-2Mi": "2Mi"}


@pytest.fixture
def tmp_path(mounting_place: Path) -> Path:
    """It is mounted below it in the machine's own table."""
    return mounting_place


@pytest.fixture
def agent(containerd2: Containerd) -> Iterator[Agent]:
    with Agent(containerd2) as agent:
        yield agent


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """A directory of the node that nobody may lose."""
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "gold").write_text("gold")
    return treasure


def at(name: str, path: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **fields}


def printed(agent: Agent, name: str) -> str:
    """What the pod's container printed so far."""
    return agent.command("logs", f"{name}-live").stdout


@pytest.mark.parametrize("place", ["", "a", "a/b/c"])
def test_what_is_mounted_in_a_tree_that_is_removed_stays_whole(place: str, tmp_path: Path, treasure: Path) -> None:
    tree = tmp_path / "tree"
    trap = tree / place / "trap"
    trap.mkdir(parents=True)
    subprocess.run(["mount", "--bind", str(treasure), str(trap)], check=True)
    try:
        with pytest.raises(OSError, match="Device or resource busy"):
            remove_tree(str(tree))
        assert ["gold"] == os.listdir(treasure)
    finally:
        for path in mounts.mounted_below(str(tree)):
            mounts.unmount(path)
    remove_tree(str(tree))
    assert ["treasure"] == os.listdir(tmp_path)


async def test_logs_stay_with_what_is_mounted_among_them(tmp_path: Path, treasure: Path) -> None:
    files = DiskPodFiles(tmp_path / "root", tmp_path / "logs", tmp_path / "links", ThreadPool("removals", 1))
    logs = tmp_path / "logs/ns_p_u"
    (logs / "c/trap").mkdir(parents=True)
    (logs / "c/0.log").touch()
    await trio.run_process(["mount", "--bind", str(treasure), str(logs / "c/trap")])
    try:
        with pytest.raises(StillMounted, match="ns_p_u/c/trap is still mounted"):
            await files.remove_log_directory("ns_p_u")
        assert (["gold"], ["0.log", "trap"]) == (os.listdir(treasure), sorted(os.listdir(logs / "c")))
    finally:
        mounts.unmount(str(logs / "c/trap"))
    await files.remove_log_directory("ns_p_u")
    assert (["gold"], []) == (os.listdir(treasure), os.listdir(tmp_path / "logs"))


async def test_a_volume_in_huge_pages_is_a_file_system_of_their_size(tmp_path: Path) -> None:
    volumes = DiskVolumes(tmp_path, NodeFacts("n"), mounts, ThreadPool("volumes", 2))
    source = k8s.EmptyDirVolumeSource(medium="HugePages-2Mi")
    it = podkit.pod(
        podkit.container("c", resources=k8s.ResourceRequirements(requests=PAGES, limits=PAGES)),
        volumes=(k8s.Volume(name="v", empty_dir=source),),
        security_context=k8s.PodSecurityContext(fs_group=1234),
    )
    path = (await volumes.set_up(it))["v"]
    try:
        found = os.stat(path)
        assert (2 * 1024**2, 0o2777, 1234) == (os.statvfs(path).f_bsize, found.st_mode & 0o7777, found.st_gid)
    finally:
        await volumes.tear_down(it.metadata.uid)
    assert () == mounts.mounted_below(str(tmp_path))


@pytest.mark.slow
def test_what_a_container_mounts_into_its_volume_goes_with_the_pod_and_is_not_emptied(
    agent: Agent, treasure: Path
) -> None:
    script = "mkdir -p /v/deep/in && mount -o bind /treasure /v/deep/in && echo mounted; sleep 1000"
    found = {"mountPropagation": "Bidirectional"}
    agent.put(
        pod(
            "mounts",
            shell(
                "c",
                script,
                securityContext={"privileged": True},
                volumeMounts=[at("v", "/v", **found), at("treasure", "/treasure")],
            ),
            volumes=[{"name": "v", "emptyDir": {}}, {"name": "treasure", "hostPath": {"path": str(treasure)}}],
        )
    )
    uid = agent.wait_phase("mounts", "Running")["metadata"]["uid"]
    await_that(lambda: "mounted" in printed(agent, "mounts"), 60, agent.story)
    table = agent.containerd.inside(["cat", "/proc/self/mounts"])
    volume = agent.root / "pods" / uid / "volumes/kubernetes.io~empty-dir/v/deep/in"
    assert str(volume) in subprocess.run(table, capture_output=True, text=True, check=True).stdout

    agent.take("mounts")
    agent.wait_gone("mounts")
    await_that(lambda: not (agent.root / "pods" / uid).exists(), 60, agent.story)
    assert "gold" == (treasure / "gold").read_text()
    assert str(volume) not in subprocess.run(table, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_what_is_mounted_later_on_the_node_is_seen_where_it_was_asked_for_in_parts_of_volumes_too(
    agent: Agent, tmp_path: Path
) -> None:
    (tmp_path / "part/late").mkdir(parents=True)
    script = "until [ -e /part/late/here ]; do sleep 0.1; done; ls /alone/late; echo seen; sleep 1000"
    found = {"subPath": "part", "mountPropagation": "HostToContainer"}
    # A mount spreads from what was shared when the container was made.
    share = agent.containerd.inside(["mount", "--bind", "--make-rshared", str(tmp_path), str(tmp_path)])
    subprocess.run(share, check=True)
    agent.put(
        pod(
            "late",
            shell("c", script, volumeMounts=[at("v", "/part", **found), at("v", "/alone", subPath="part")]),
            volumes=[{"name": "v", "hostPath": {"path": str(tmp_path)}}],
        )
    )
    agent.wait_phase("late", "Running")
    target = str(tmp_path / "part/late")
    subprocess.run(agent.containerd.inside(["mount", "-t", "tmpfs", "tmpfs", target]), check=True)
    try:
        subprocess.run(agent.containerd.inside(["touch", f"{target}/here"]), check=True)
        await_that(lambda: printed(agent, "late") == "seen\n", 60, agent.story)
    finally:
        agent.take("late")
        agent.wait_gone("late")
        for path in (target, str(tmp_path)):
            subprocess.run(agent.containerd.inside(["umount", "--lazy", path]), check=True)


@pytest.mark.slow
def test_a_volume_is_read_only_with_all_that_is_mounted_in_it_only_where_that_is_asked_for(
    agent: Agent, tmp_path: Path
) -> None:
    (tmp_path / "inner").mkdir()
    subprocess.run(agent.containerd.inside(["mount", "-t", "tmpfs", "tmpfs", str(tmp_path / "inner")]), check=True)
    script = "for v in plain whole; do touch /$v/x 2>&-; touch /$v/inner/$v 2>&- ; done; ls /plain/inner; sleep 1000"
    wanted = [at("v", "/plain", readOnly=True), at("v", "/whole", readOnly=True, recursiveReadOnly="Enabled")]
    try:
        agent.put(
            pod(
                "reads",
                shell("c", f"{script}", volumeMounts=wanted),
                volumes=[{"name": "v", "hostPath": {"path": str(tmp_path)}}],
            )
        )
        shown = state(agent.wait_phase("reads", "Running"), "c")["volumeMounts"]
        read_only = {"name": "v", "readOnly": True}
        assert [
            {"mountPath": "/plain", "recursiveReadOnly": "Disabled", **read_only},
            {"mountPath": "/whole", "recursiveReadOnly": "Enabled", **read_only},
        ] == shown
        await_that(lambda: printed(agent, "reads") == "plain\n", 60, agent.story)
        assert ["inner"] == os.listdir(tmp_path)
    finally:
        agent.take("reads")
        agent.wait_gone("reads")
        command = agent.containerd.inside(["umount", "--lazy", str(tmp_path / "inner")])
        subprocess.run(command, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("type_", ["Socket", ""])
def test_a_vanished_socket_is_not_made_a_directory_where_the_pod_names_its_type(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_: str
) -> None:
    """Without a type it is, as upstream: that is the runtime's, and shows that the test provokes it."""
    monkeypatch.chdir(tmp_path)  # the path of a socket may not be long
    place, end = tmp_path / "socket", tmp_path / "control/end"
    end.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as owner:
        owner.bind("socket")
    script = "until [ -e /control/end ]; do sleep 0.1; done; exit 1"
    source = {"path": str(place), "type": type_}
    agent.put(
        pod(
            "client",
            shell("c", script, volumeMounts=[at("s", "/run/socket"), at("control", "/control")]),
            volumes=[{"name": "s", "hostPath": source}, {"name": "control", "hostPath": {"path": str(end.parent)}}],
        )
    )
    agent.wait_phase("client", "Running")
    place.unlink()
    end.touch()
    if not type_:
        await_that(place.is_dir, 60, agent.story)
        return

    def waits(pods: dict[str, Any]) -> bool:
        return waiting_reason(pods["client"], "c") == "CreateContainerConfigError"

    one = state(agent.wait(waits, "the client waits for the socket", 90)["client"], "c")
    told = f'volume "s" of container "c" is not ready: hostPath type check failed: {place} is not a socket'
    assert one["state"]["waiting"]["message"].startswith(told)
    assert not place.exists()
    end.unlink()
    with socket.socket(socket.AF_UNIX) as owner:
        owner.bind("socket")  # which is not possible where there is a directory
    agent.wait(lambda pods: "running" in state(pods["client"], "c")["state"], "the client runs again", 90)


@pytest.fixture
def nfs_helper(agent: Agent, treasure: Path, tmp_path: Path) -> Iterator[Path]:
    """What mount(8) calls for NFS, in the agent's mount namespace: it mounts the treasure, whatever it is asked for,
    and writes that down. This machine needs no server and no kernel that knows NFS."""
    asked, helpers = tmp_path / "asked", tmp_path / "helpers"
    helpers.mkdir()
    helper = helpers / "mount.nfs"
    helper.write_text(f'#!/bin/sh\necho "$@" >> {asked}\nexec mount --bind {treasure} "$2"\n')
    helper.chmod(0o755)
    over = ["mount", "-t", "overlay", "-o", f"lowerdir={helpers}:/usr/sbin", "overlay", "/usr/sbin"]
    subprocess.run(agent.containerd.inside(over), check=True)
    yield asked
    subprocess.run(agent.containerd.inside(["umount", "--lazy", "/usr/sbin"]), check=True)


@pytest.mark.slow
def test_a_servers_directory_is_mounted_as_asked_for_and_left_with_all_that_is_in_it(
    agent: Agent, nfs_helper: Path, treasure: Path
) -> None:
    nfs = {"server": "files.example", "path": "/export", "readOnly": True}
    agent.put(
        pod(
            "far",
            shell("c", "cat /far/gold; echo; touch /far/x; sleep 1000", volumeMounts=[at("v", "/far")]),
            volumes=[{"name": "v", "nfs": nfs}],
        )
    )
    uid = agent.wait_phase("far", "Running")["metadata"]["uid"]
    await_that(lambda: "Read-only file system" in printed(agent, "far"), 60, agent.story)
    await_that(lambda: "gold" in printed(agent, "far"), 60, agent.story)
    place = agent.root / "pods" / uid / "volumes/kubernetes.io~nfs/v"
    assert [f"files.example:/export {place} -o ro"] == nfs_helper.read_text().splitlines()

    agent.take("far")
    agent.wait_gone("far")
    await_that(lambda: not (agent.root / "pods" / uid).exists(), 60, agent.story)
    assert ["gold"] == os.listdir(treasure)
