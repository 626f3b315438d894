"""A volume in memory against the real kernel: it is mounted as asked for, and gone without a trace. Needs root."""

import os
import stat
import sys
from pathlib import Path

import pytest
import trio

from core.podkit import pod
from trikubelet.core.containers import NodeFacts
from trikubelet.host import mounts
from trikubelet.host.pod_files import DiskPodFiles
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import StillMounted
from trikubelet.volumes.volumes import DiskVolumes

MIB = 1024**2


@pytest.fixture
def tmp_path(mounting_place: Path) -> Path:
    """It is mounted below it in the machine's own table."""
    return mounting_place


async def test_a_tmpfs_comes_with_size_mode_and_group_and_goes_with_its_pod(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    root = tmp_path / "root"
    root.symlink_to(tmp_path / "real")
    files = DiskPodFiles(root, tmp_path / "logs", tmp_path / "links", ThreadPool("removals", 1))
    volumes = DiskVolumes(root, NodeFacts("n"), mounts, ThreadPool("volumes", 2))
    source = k8s.EmptyDirVolumeSource(medium="Memory", size_limit="1Mi")
    context = k8s.PodSecurityContext(fs_group=1234)
    it = pod(volumes=(k8s.Volume(name="v", empty_dir=source),), security_context=context)
    uid = it.metadata.uid

    await files.make_pod(uid)
    path = (await volumes.set_up(it))["v"]
    try:
        await volumes.set_up(it)
        is_like, room = os.stat(path), os.statvfs(path)
        assert (0o3777, 1234) == (stat.S_IMODE(is_like.st_mode), is_like.st_gid)
        assert room.f_frsize * room.f_blocks == MIB
        listed = await trio.to_thread.run_sync(Path("/proc/self/mountinfo").read_text)
        (mounted,) = (one for one in mounts.parse_mountinfo(listed) if one.path == path)
        assert "noswap" in mounted.fs_options.split(",")
        assert 1 == len(mounts.mounted_below(str(root)))
        with pytest.raises(StillMounted):
            await files.remove_pod(uid)
    finally:
        await volumes.tear_down(uid)

    assert () == mounts.mounted_below(str(root))
    await files.remove_pod(uid)
    assert frozenset() == await files.pods_on_disk()


MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: scratch}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: host, command: [sleep, "1000"], volumeMounts: [{name: v, mountPath: /v}]}
  volumes:
  - {name: v, emptyDir: {medium: Memory}}
"""


async def test_what_the_embedded_runtimes_pods_had_in_memory_is_given_back_when_the_agent_ends(tmp_path: Path) -> None:
    manifests, root = tmp_path / "manifests", tmp_path / "root"
    manifests.mkdir()
    (manifests / "scratch.yaml").write_text(MANIFEST)
    command = [sys.executable, "-m", "trikubelet", "--standalone", "--container-runtime-endpoint=embedded:"]
    command += [f"--pod-manifest-path={manifests}", f"--root-dir={root}", "--healthz-port=0"]

    async with trio.open_nursery() as nursery:
        agent = await nursery.start(trio.run_process, command)
        with trio.fail_after(60):
            while not mounts.mounted_below(str(root)):  # noqa: ASYNC110 - the kernel tells nobody
                await trio.sleep(0.1)
        agent.terminate()

    assert isinstance(agent, trio.Process)
    assert 0 == agent.returncode
    assert () == mounts.mounted_below(str(root))


SECRETS = """\
apiVersion: v1
kind: Secret
metadata: {name: door}
stringData: {key: sesame}
---
apiVersion: v1
kind: Pod
metadata: {name: visitor}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: host
    command:
    - sh
    - -c
    - |
      { cat /s/key /p/key /part; stat -f -c %T /s /p /m; } > /m/unfinished
      mv /m/unfinished /m/read
      sleep 1000
    volumeMounts:
    - {name: s, mountPath: /s}
    - {name: p, mountPath: /p}
    - {name: m, mountPath: /m}
    - {name: s, mountPath: /part, subPath: key}
  volumes:
  - {name: s, secret: {secretName: door, defaultMode: 0400}}
  - {name: p, projected: {sources: [{secret: {name: door}}]}}
  - {name: m, emptyDir: {medium: Memory}}
"""
WITHOUT = ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"]


async def test_an_agent_that_may_not_mount_keeps_secrets_in_its_users_memory_and_takes_them_with_it(
    tmp_path: Path,
) -> None:
    manifests, root = tmp_path / "manifests", tmp_path / "root"
    manifests.mkdir()
    (manifests / "visitor.yaml").write_text(SECRETS)
    command = [*WITHOUT, "env", "--unset=XDG_RUNTIME_DIR", sys.executable, "-m", "trikubelet", "--standalone"]
    command += ["--container-runtime-endpoint=embedded:", f"--pod-manifest-path={manifests}", f"--root-dir={root}"]

    async with trio.open_nursery() as nursery:
        agent = await nursery.start(trio.run_process, [*command, "--healthz-port=0"])
        with trio.fail_after(60):
            while not (read := list(root.glob("pods/*/volumes/kubernetes.io~empty-dir/m/read"))):  # noqa: ASYNC110
                await trio.sleep(0.1)
        assert "sesame" * 3 + "tmpfs\n" * 3 == await trio.Path(read[0]).read_text()
        assert ["/dev/shm"] == [str(base.parent) for base in bases(root)]
        agent.terminate()

    assert [] == bases(root)


def bases(root: Path) -> list[Path]:
    """The directories that agents of this root directory have in the machine's shared memory."""
    return [base for base in Path("/dev/shm").glob("trikubelet-*") if (base / "root").readlink() == root.resolve()]
