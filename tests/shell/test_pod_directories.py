"""What only a real disk can get wrong with pod directories: modes, inodes, links laid as traps, mounts below."""

import os
import stat
from pathlib import Path

import pytest

from trikubelet.host import pod_files
from trikubelet.host.pod_files import DiskPodFiles
from trikubelet.model.errors import StillMounted


@pytest.fixture
def files(tmp_path: Path) -> DiskPodFiles:
    return DiskPodFiles(tmp_path / "root", tmp_path / "logs", tmp_path / "links")


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """Something outside that must survive."""
    found = tmp_path / "treasure"
    found.mkdir()
    (found / "gold").write_text("gold")
    return found


def mode(path: Path | str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def test_a_pods_directory_is_closed_to_others_and_its_files_are_not(files: DiskPodFiles, tmp_path: Path) -> None:
    files.make_pod("u")

    assert {0o750} == {mode(tmp_path / "root/pods/u" / part) for part in ("", "volumes", "plugins", "containers")}
    assert 0o644 == mode(files.write_hosts("u", "hosts"))
    assert 0o666 == mode(files.termination_log("u", "c", 0))


def test_a_container_that_has_the_hosts_file_mounted_sees_it_change(files: DiskPodFiles) -> None:
    files.make_pod("u")
    before = Path(files.write_hosts("u", "first")).stat().st_ino

    assert before == Path(files.write_hosts("u", "second")).stat().st_ino


def test_removing_a_pods_directory_follows_no_link_in_it(files: DiskPodFiles, tmp_path: Path, treasure: Path) -> None:
    files.make_pod("u")
    (tmp_path / "root/pods/u/volumes/way-out").symlink_to(treasure)

    files.remove_pod("u")

    assert not (tmp_path / "root/pods/u").exists()
    assert "gold" == (treasure / "gold").read_text()


def test_a_link_in_place_of_a_pods_directory_is_no_pod_and_leads_nowhere(
    files: DiskPodFiles, tmp_path: Path, treasure: Path
) -> None:
    (tmp_path / "root/pods/u").symlink_to(treasure)
    (tmp_path / "logs/ns_p_u").symlink_to(treasure)

    assert frozenset() == files.pods_on_disk() | files.log_directories()
    files.remove_pod("u")
    files.remove_log_directory("ns_p_u")
    assert "gold" == (treasure / "gold").read_text()


def test_a_foreign_file_among_the_log_links_is_left_alone(files: DiskPodFiles, tmp_path: Path) -> None:
    (tmp_path / "links/notes.txt").write_text("mine")

    files.remove_log_directory("ns_p_u")
    files.remove_container_logs(str(tmp_path / "logs/ns_p_u/c/0.log"))

    assert "mine" == (tmp_path / "links/notes.txt").read_text()


def test_a_link_among_the_logs_leads_to_no_log_outside(files: DiskPodFiles, tmp_path: Path, treasure: Path) -> None:
    files.make_log_directory(str(tmp_path / "logs/ns_p_u"), "c")
    (tmp_path / "logs/ns_p_u/way-out").symlink_to(treasure)
    (tmp_path / "logs/ns_p_u/c/0.log").symlink_to(treasure / "gold")

    files.remove_container_logs(str(tmp_path / "logs/ns_p_u/way-out/gold"))
    files.remove_container_logs(str(tmp_path / "logs/ns_p_u/c/0.log"))

    assert "gold" == (treasure / "gold").read_text()
    assert [] == list((tmp_path / "logs/ns_p_u/c").iterdir())


def test_a_directory_of_logs_that_is_a_link_itself_is_no_reason_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "logs").symlink_to(tmp_path / "disk")
    files = DiskPodFiles(tmp_path / "root", tmp_path / "logs", tmp_path / "links")
    files.make_log_directory(str(tmp_path / "logs/ns_p_u"), "c")
    for path in ("logs/ns_p_u/c/0.log", "disk/ns_p_u/c/1.log"):
        (tmp_path / path).touch()
        files.remove_container_logs(str(tmp_path / path))

    assert [] == list((tmp_path / "disk/ns_p_u/c").iterdir())


@pytest.mark.parametrize("path", ["/", "0.log", "logs/ns_p_u/c/0.log", "{logs}/ns_p_u/c/..", "{logs}/ns_p_u"])
def test_what_is_no_path_of_a_log_is_not_removed(path: str, files: DiskPodFiles, tmp_path: Path) -> None:
    files.make_log_directory(str(tmp_path / "logs/ns_p_u"), "c")
    log = tmp_path / "logs/ns_p_u/c/0.log"
    log.touch()
    files.link_log("a.log", str(log))

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        files.remove_container_logs(path.format(logs=tmp_path / "logs"))

    assert (tmp_path / "links/a.log").exists()


def test_a_log_that_is_refused_is_said_once(
    files: DiskPodFiles, treasure: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        files.remove_container_logs(str(treasure / "gold"))

    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert 1 == len(warnings)
    assert f"Not removing the log {treasure}/gold" in warnings[0]


def test_directories_that_somebody_took_away_are_empty(files: DiskPodFiles, tmp_path: Path) -> None:
    for directory in ("root/pods", "logs", "links"):
        (tmp_path / directory).rmdir()

    assert frozenset() == files.pods_on_disk() | files.log_directories()
    files.remove_dead_links(())
    files.remove_log_directory("ns_p_u")
    files.remove_container_logs(str(tmp_path / "logs/ns_p_u/c/0.log"))


def test_a_link_that_vanishes_while_it_is_looked_at_is_gone(
    files: DiskPodFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.link_log("a.log", str(tmp_path / "logs/ns_p_u/c/0.log"))
    files.link_log("b.log", str(tmp_path / "logs/ns_p_u/c/1.log"))
    read = os.readlink

    def vanishing(path: str) -> str:
        if path.endswith("a.log"):
            Path(path).unlink()
        return read(path)

    monkeypatch.setattr(os, "readlink", vanishing)
    files.remove_log_directory("ns_p_u")

    assert [] == list((tmp_path / "links").iterdir())


def test_nothing_is_removed_while_something_is_mounted_below(
    files: DiskPodFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.make_pod("u")
    monkeypatch.setattr(pod_files, "mounted_below", lambda directory: (f"{directory}/volumes/v",))

    with pytest.raises(StillMounted, match="pods/u/volumes/v is still mounted"):
        files.remove_pod("u")
    assert frozenset({"u"}) == files.pods_on_disk()


def test_an_agent_finds_the_directories_of_the_one_before(files: DiskPodFiles, tmp_path: Path) -> None:
    files.make_pod("u")

    again = DiskPodFiles(tmp_path / "root", tmp_path / "logs", tmp_path / "links")

    assert frozenset({"u"}) == again.pods_on_disk()
