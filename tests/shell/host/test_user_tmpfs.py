"""What must be in memory lies on a tmpfs of the agent's user, wherever that is, and goes with its pod."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from shell.capabilitykit import modes_count
from trikubelet.host.mounts import fs_type
from trikubelet.host.no_mounts import NoMounts
from trikubelet.host.user_tmpfs import UserTmpfs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

UID = "12345678"
OTHER = "87654321"


class Machine:
    """Owns which directories are tmpfs. ``own``: XDG_RUNTIME_DIR; ``session``: /run/user/N; ``shm``: /dev/shm."""

    def __init__(self, place: Path) -> None:
        self.own, self.session, self.shm, self.root = (place / name for name in ("own", "session", "shm", "root"))
        for directory in (self.own, self.session, self.shm, self.root):
            directory.mkdir()
        self.types = {str(self.own): "tmpfs", str(self.shm): "tmpfs"}
        self.sees_own = True

    def memory(self, root: Path | None = None) -> UserTmpfs:
        """That of an agent which starts now."""
        environment: Mapping[str, str] = {"XDG_RUNTIME_DIR": str(self.own)} if self.sees_own else {}
        return UserTmpfs(
            root or self.root,
            environment,
            session=self.session,
            shared=self.shm,
            type_of=lambda path: self.types.get(path, "ext4"),
        )

    def place(self, name: str = "v", uid: str = UID) -> Path:
        place = self.root / f"pods/{uid}/volumes/kubernetes.io~secret/{name}"
        (self.root / "pods" / uid).mkdir(parents=True, exist_ok=True)
        return place

    def held(self) -> dict[str, list[str]]:
        """The bases, by the directory they are in."""
        places = {"own": self.own, "session": self.session, "shm": self.shm}
        return {name: sorted(os.listdir(place)) for name, place in places.items() if os.listdir(place)}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_volume_is_a_link_to_a_private_directory_on_the_users_tmpfs(machine: Machine) -> None:
    memory, place = machine.memory(), machine.place()

    memory.link(place, 0o3777, os.getegid())

    target = place.resolve()
    assert target.is_relative_to(machine.own)
    assert 0o3777 == stat.S_IMODE(target.stat().st_mode)
    assert str(target) == memory.target(str(place))
    (base,) = machine.own.iterdir()
    assert 0o700 == stat.S_IMODE(base.stat().st_mode)
    assert ["own"] == list(machine.held())


@pytest.mark.parametrize("lacks", ["no variable", "no tmpfs", "not there", "not writable"])
def test_without_a_tmpfs_of_its_own_the_user_takes_the_shared_one(lacks: str, machine: Machine) -> None:
    match lacks:
        case "no variable":
            machine.sees_own = False
        case "no tmpfs":
            machine.types[str(machine.own)] = "ext4"
        case "not there":
            machine.own.rmdir()
        case _:
            machine.own.chmod(0o500)

    with modes_count():
        machine.memory().link(machine.place(), 0o755, None)

    assert machine.place().resolve().is_relative_to(machine.shm)


def test_without_any_tmpfs_nothing_is_written_and_the_message_has_the_reason_and_the_remedy(machine: Machine) -> None:
    machine.types.clear()

    with pytest.raises(OSError, match="may only be in memory") as failed:
        machine.memory().link(machine.place(), 0o755, None)

    assert (
        f"its files may only be in memory, and user {os.geteuid()} has no tmpfs: "
        f"{machine.own} is not a tmpfs but ext4, {machine.shm} is not a tmpfs but ext4 "
        f"(set XDG_RUNTIME_DIR to a tmpfs of this user, mount one at {machine.shm}, or start the agent as root)"
    ) == str(failed.value)
    assert {} == machine.held()
    assert not os.path.lexists(machine.place())
    machine.sees_own = False
    with pytest.raises(OSError, match="XDG_RUNTIME_DIR is not set"):
        machine.memory().link(machine.place(), 0o755, None)


def test_the_next_agent_finds_what_the_last_one_made_also_without_the_variable(machine: Machine) -> None:
    machine.session.rmdir()
    machine.session.symlink_to(machine.own)
    machine.memory().link(machine.place(), 0o755, None)
    (machine.place() / "file").write_text("kept")
    machine.sees_own = False

    machine.memory().link(machine.place(), 0o700, None)

    assert "kept" == (machine.place() / "file").read_text()
    assert 0o755 == stat.S_IMODE(machine.place().stat().st_mode)


@pytest.mark.parametrize("agent", ["the same", "another"])
def test_after_a_boot_the_link_leads_to_a_new_directory(agent: str, machine: Machine) -> None:
    memory, place = machine.memory(), machine.place()
    memory.link(place, 0o755, None)
    (place / "file").write_text("lost")
    (base,) = machine.own.iterdir()
    base.rename(machine.root / "gone")
    if agent == "another":
        memory = machine.memory()

    memory.link(place, 0o755, None)

    assert [] == os.listdir(place)


def test_a_tmpfs_that_cannot_be_entered_any_more_is_given_up_for_another(machine: Machine) -> None:
    memory, place = machine.memory(), machine.place()
    memory.link(place, 0o755, None)
    machine.own.chmod(0o000)
    machine.types[str(machine.own)] = "ext4"

    with modes_count():
        memory.link(place, 0o755, None)

    assert place.resolve().is_relative_to(machine.shm)


def test_an_unused_mount_point_in_the_way_gives_way_and_what_is_on_a_disk_does_not(machine: Machine) -> None:
    machine.place().mkdir(parents=True)
    machine.place("w").mkdir(parents=True)
    (machine.place("w") / "file").touch()
    memory = machine.memory()

    memory.link(machine.place(), 0o755, None)
    with pytest.raises(OSError, match="not empty"):
        memory.link(machine.place("w"), 0o755, None)

    assert machine.place().is_symlink()
    assert (machine.place("w") / "file").exists()


def test_the_last_pod_takes_the_base_with_it(machine: Machine) -> None:
    memory = machine.memory()
    for uid in (UID, OTHER):
        memory.link(machine.place(uid=uid), 0o755, None)
        (machine.place(uid=uid) / "file").touch()

    memory.remove(UID)
    assert not machine.place().exists()
    assert str(machine.place()) == memory.target(str(machine.place()))
    assert machine.place(uid=OTHER).exists()
    memory.remove(OTHER)
    memory.remove(OTHER)

    assert {} == machine.held()


def test_the_end_of_an_agent_takes_all_of_it(machine: Machine) -> None:
    machine.memory().link(machine.place(), 0o755, None)

    machine.memory().clear()

    assert {} == machine.held()


def test_the_start_of_an_agent_takes_what_pods_and_root_directories_left_that_are_gone(machine: Machine) -> None:
    other_root = machine.root.with_name("other-root")
    other = machine.memory(other_root)
    other.link(other_root / f"pods/{UID}/volumes/kubernetes.io~secret/v", 0o755, None)
    memory = machine.memory()
    for uid in (UID, OTHER):
        memory.link(machine.place(uid=uid), 0o755, None)
    machine.place(uid=OTHER).unlink()
    os.removedirs(machine.place(uid=OTHER).parent)

    machine.memory().sweep()
    assert 2 == len(machine.held()["own"])  # both root directories are there
    assert machine.place().exists()
    (other_root / f"pods/{UID}/volumes/kubernetes.io~secret/v").unlink()
    os.removedirs(other_root / f"pods/{UID}/volumes/kubernetes.io~secret")
    machine.memory().sweep()
    assert 2 == len(machine.held()["own"]), "its agent runs, so the root directory is only hidden from this one"
    other.close()
    machine.memory().sweep()

    (left,) = machine.own.iterdir()
    assert ["12345678", "root"] == sorted(os.listdir(left))


def test_bases_of_agents_with_another_root_directory_are_left_alone(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    theirs = machine.memory(tmp_path / "elsewhere")
    theirs.link(tmp_path / f"elsewhere/pods/{UID}/volumes/kubernetes.io~secret/v", 0o755, None)
    memory = machine.memory()
    memory.link(machine.place(), 0o755, None)

    memory.sweep()
    memory.remove(UID)
    memory.clear()

    assert 1 == len(machine.held()["own"])


@pytest.mark.parametrize("kind", ["a link", "open to others", "a file", "without a root"])
def test_what_another_user_may_have_put_into_the_shared_directory_is_not_taken_for_a_base(
    kind: str, machine: Machine, tmp_path: Path
) -> None:
    machine.sees_own = False
    trap = machine.shm / "trikubelet-trap"
    (tmp_path / "treasure").mkdir(mode=0o700)
    (tmp_path / "treasure/root").symlink_to(machine.root)
    match kind:
        case "a link":
            trap.symlink_to(tmp_path / "treasure")
        case "open to others":
            trap.mkdir()
            trap.chmod(0o770)
            (trap / "root").symlink_to(machine.root)
        case "a file":
            trap.touch()
        case _:
            trap.mkdir(mode=0o700)
    memory = machine.memory()

    memory.link(machine.place(), 0o755, None)
    memory.sweep()
    memory.clear()

    assert ["trikubelet-trap"] == os.listdir(machine.shm)
    assert ["root"] == os.listdir(tmp_path / "treasure")


def test_a_directory_of_another_user_is_not_taken_for_a_base(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.memory().link(machine.place(), 0o755, None)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)

    machine.memory().clear()

    assert 1 == len(machine.held()["own"])


def test_the_type_of_the_file_system_that_a_path_is_on_is_the_kernels(tmp_path: Path) -> None:
    assert "proc" == fs_type("/proc/self")
    (tmp_path / "link").symlink_to("/proc")
    assert "proc" == fs_type(str(tmp_path / "link"))
    with pytest.raises(FileNotFoundError):
        fs_type(str(tmp_path / "nothing"))


def test_mounting_without_permission_is_refused_with_what_to_do(tmp_path: Path) -> None:
    opened = os.open(tmp_path, os.O_PATH)
    try:
        for mount in (
            lambda: NoMounts().mount_nfs("server:/a", "/b", ()),
            lambda: NoMounts().mount_huge_pages("/b", 1, 0o777, None),
            lambda: NoMounts().mount_tmpfs("/b", None, 0o777, None),
            lambda: NoMounts().bind(opened, "/b"),
            lambda: NoMounts().make_private("/b"),
            lambda: NoMounts().unmount("/b"),
        ):
            with pytest.raises(PermissionError, match=rf"runs as user {os.geteuid()}, and only root may mount \(start"):
                mount()
    finally:
        os.close(opened)
    assert () == NoMounts().mounted_below(str(tmp_path))
