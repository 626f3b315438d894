"""The volumes of an agent that may not mount: secrets are in its user's memory, and never on a disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import trio

from core.podkit import pod
from shell.volumes.test_filled_volumes import CONFIG, DOWNWARD, SECRET, Objects, projected, read
from trikubelet.core.containers import NodeFacts
from trikubelet.host.no_mounts import NoMounts
from trikubelet.host.user_tmpfs import UserTmpfs
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import VolumeFailed
from trikubelet.model.runtime_config import Mount
from trikubelet.volumes import plugin
from trikubelet.volumes.volumes import DiskVolumes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

UID = pod().metadata.uid
MEMORY = k8s.Volume(name="m", empty_dir=k8s.EmptyDirVolumeSource(medium="Memory", size_limit="1Mi"))
SCRATCH = k8s.Volume(name="e", empty_dir=k8s.EmptyDirVolumeSource())
OF_CONFIG = k8s.VolumeProjection(config_map=k8s.ConfigMapProjection(name="o"))
OF_SECRET = k8s.VolumeProjection(secret=k8s.SecretProjection(name="s"))
TOKEN = k8s.VolumeProjection(service_account_token=k8s.ServiceAccountTokenProjection(path="t"))
PUBLIC = projected(OF_CONFIG)


def made(root: Path, *, has_tmpfs: bool = True) -> DiskVolumes:
    """Those of an agent that starts on the root directory."""
    shm = root.parent / "shm"
    shm.mkdir(exist_ok=True)
    memory = UserTmpfs(root, {}, session=root / "none", shared=shm, type_of=lambda _: "tmpfs" if has_tmpfs else "ext4")
    volumes = DiskVolumes(root, NodeFacts("n"), NoMounts(), ThreadPool("volumes", 4), user_memory=memory)
    volumes.use_objects(Objects())
    return volumes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / f"root/pods/{UID}").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
async def volumes(nursery: trio.Nursery, root: Path) -> DiskVolumes:
    volumes = made(root)
    await nursery.start(volumes.run)
    return volumes


def in_memory(root: Path) -> list[str]:
    """The files of the user's tmpfs, without the directory of an agent."""
    shm = root.parent / "shm"
    found = [os.path.relpath(os.path.join(top, name), shm) for top, _, names in os.walk(shm) for name in names]
    return sorted(one.partition("/")[2] for one in found)


def real(path: str) -> str:
    """The path without links."""
    return os.path.realpath(path)


def write(path: str) -> None:
    """Leave a file, as a container does."""
    with open(f"{path}/written", "w", encoding="utf-8") as file:
        file.write("by a container")


@pytest.mark.parametrize(
    "volume",
    [SECRET, projected(OF_CONFIG, OF_SECRET), projected(TOKEN), MEMORY],
    ids=["secret", "projected secret", "projected token", "memory emptyDir"],
)
async def test_what_must_be_in_memory_is_there_and_goes_with_the_pod(
    volume: k8s.Volume, volumes: DiskVolumes, root: Path
) -> None:
    path = (await volumes.set_up(pod(volumes=(volume,))))[volume.name]

    assert path.startswith(f"{root}/pods/{UID}/volumes/")
    assert real(path).startswith(f"{root.parent}/shm/")
    write(path)
    await volumes.tear_down(UID)
    assert [] == os.listdir(root.parent / "shm")
    assert [] == os.listdir(root / "pods" / UID / "volumes")


@pytest.mark.parametrize("volume", [CONFIG, PUBLIC, DOWNWARD, SCRATCH], ids=lambda one: one.name)
async def test_what_is_no_secret_needs_no_tmpfs(volume: k8s.Volume, nursery: trio.Nursery, root: Path) -> None:
    volumes = made(root, has_tmpfs=False)
    await nursery.start(volumes.run)

    path = (await volumes.set_up(pod(volumes=(volume,))))[volume.name]

    assert real(path) == path
    assert [] == in_memory(root)


@pytest.mark.parametrize("volume", [SECRET, projected(OF_SECRET), MEMORY], ids=lambda one: one.name)
async def test_without_a_tmpfs_the_pod_waits_and_nothing_is_on_the_disk(
    volume: k8s.Volume, nursery: trio.Nursery, root: Path
) -> None:
    volumes = made(root, has_tmpfs=False)
    await nursery.start(volumes.run)

    with pytest.raises(VolumeFailed, match=r"has no tmpfs: .*start the agent as root\)"):
        await volumes.set_up(pod(volumes=(volume,)))

    assert [] == [names for _, _, names in os.walk(root) if names]


async def test_the_next_agent_continues_with_what_is_in_memory(nursery: trio.Nursery, root: Path) -> None:
    it = pod(volumes=(SECRET, MEMORY))
    earlier = await made(root).set_up(it)
    write(earlier["m"])
    files = in_memory(root)
    volumes = made(root)
    await nursery.start(volumes.run)

    assert earlier == await volumes.set_up(it)
    assert files == in_memory(root)


async def test_after_a_boot_secrets_are_written_anew(nursery: trio.Nursery, root: Path) -> None:
    it = pod(volumes=(SECRET, MEMORY))
    await made(root).set_up(it)
    (root.parent / "shm").rename(root.parent / "gone")
    volumes = made(root)
    await nursery.start(volumes.run)

    paths = await volumes.set_up(it)

    assert b"v" == read(paths["s"], "k")
    assert [] == os.listdir(paths["m"])


async def test_what_is_left_of_pods_that_are_gone_goes_when_the_agent_starts(nursery: trio.Nursery, root: Path) -> None:
    await made(root).set_up(pod(volumes=(SECRET,)))
    (root / "pods").rename(root / "lost")

    volumes = made(root)
    await nursery.start(volumes.run)

    with trio.fail_after(60):
        while os.listdir(root.parent / "shm"):  # noqa: ASYNC110 - the disk has no events
            await trio.sleep(0.01)


async def test_a_part_of_a_volume_in_memory_is_found(volumes: DiskVolumes, root: Path) -> None:
    it = pod(volumes=(SECRET, MEMORY))
    paths = await volumes.set_up(it)
    mounts = (Mount("/s", paths["s"], sub_path="k"), Mount("/m", paths["m"], sub_path="a/b"))
    asked = (k8s.VolumeMount(name="s", mount_path="/s"), k8s.VolumeMount(name="m", mount_path="/m"))
    container = k8s.Container(name="c", volume_mounts=asked)

    of_secret, of_memory = await volumes.resolve(it, container, mounts)

    assert b"v" == read(of_secret.host_path, "")
    assert [] == os.listdir(of_memory.host_path)
    assert of_memory.host_path.startswith(f"{root.parent}/shm/")


async def test_a_volume_is_measured_where_it_is(volumes: DiskVolumes) -> None:
    paths = await volumes.set_up(pod(volumes=(SECRET, SCRATCH)))

    assert {"s": real(paths["s"]), "e": paths["e"]} == volumes.places(UID)


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Have the agent take itself for a user with one group."""

    def become(user: int, group: int) -> None:
        monkeypatch.setattr(plugin.os, "geteuid", lambda: user)
        monkeypatch.setattr(plugin.os, "getegid", lambda: group)
        monkeypatch.setattr(plugin.os, "getgroups", lambda: [group])

    return become


@pytest.mark.parametrize("volume", [SCRATCH, MEMORY, SECRET, CONFIG], ids=lambda one: one.name)
async def test_a_group_that_only_root_may_give_is_refused_in_plain_words(
    volume: k8s.Volume, nursery: trio.Nursery, root: Path, as_user: Callable[[int, int], None]
) -> None:
    volumes = made(root)
    await nursery.start(volumes.run)
    as_user(1001, 1002)
    it = pod(volumes=(volume,), security_context=k8s.PodSecurityContext(fs_group=2000))

    with pytest.raises(VolumeFailed) as failed:
        await volumes.set_up(it)

    assert failed.value.messages == (
        f'MountVolume.SetUp failed for volume "{volume.name}" : fsGroup 2000: the agent runs as user 1001, group 1002, '
        "and only root may change; start the agent as root or leave fsGroup out",
    )


@pytest.mark.parametrize("volume", [SCRATCH, MEMORY, SECRET, CONFIG], ids=lambda one: one.name)
async def test_the_users_own_group_can_be_given(volume: k8s.Volume, volumes: DiskVolumes) -> None:
    own = os.getegid()
    it = pod(volumes=(volume,), security_context=k8s.PodSecurityContext(fs_group=own))

    path = (await volumes.set_up(it))[volume.name]

    assert own == os.stat(path).st_gid
