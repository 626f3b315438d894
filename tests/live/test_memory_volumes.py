"""A volume in memory against the real kernel: it is mounted as asked for, and gone without a trace. Needs root."""

import os
import stat
from pathlib import Path

import pytest

from core.podkit import pod
from trikubelet.core.containers import NodeFacts
from trikubelet.host import mounts
from trikubelet.host.pod_files import DiskPodFiles
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import StillMounted
from trikubelet.volumes.volumes import DiskVolumes

MIB = 1024**2


async def test_a_tmpfs_comes_with_size_mode_and_group_and_goes_with_its_pod(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    root = tmp_path / "root"
    root.symlink_to(tmp_path / "real")
    files = DiskPodFiles(root, tmp_path / "logs", tmp_path / "links")
    volumes = DiskVolumes(root, NodeFacts("n"), mounts, ThreadPool("volumes", 2))
    source = k8s.EmptyDirVolumeSource(medium="Memory", size_limit="1Mi")
    context = k8s.PodSecurityContext(fs_group=1234)
    it = pod(volumes=(k8s.Volume(name="v", empty_dir=source),), security_context=context)
    uid = it.metadata.uid

    files.make_pod(uid)
    path = (await volumes.set_up(it))["v"]
    try:
        await volumes.set_up(it)
        is_like, room = os.stat(path), os.statvfs(path)
        assert (0o2777, 1234) == (stat.S_IMODE(is_like.st_mode), is_like.st_gid)
        assert room.f_frsize * room.f_blocks == MIB
        assert 1 == len(mounts.mounted_below(str(root)))
        with pytest.raises(StillMounted):
            files.remove_pod(uid)
    finally:
        await volumes.tear_down(uid)

    assert () == mounts.mounted_below(str(root))
    files.remove_pod(uid)
    assert frozenset() == files.pods_on_disk()
