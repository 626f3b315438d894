"""A root directory belongs to the runtime its pods live on: nobody else may take them for leftovers."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from trikubelet.app import root_dir
from trikubelet.app.root_dir import bind_to_runtime, recorded_runtime, runtime_record
from trikubelet.host.uid_files import UNKNOWN_PODS, put_unknown, read_uids
from trikubelet.model.errors import StartFailed


def _pod(root: Path) -> None:
    (root / "pods" / "uid").mkdir(parents=True)


def test_the_same_runtime_finds_its_pods_again_however_it_is_written(tmp_path: Path) -> None:
    bind_to_runtime(tmp_path, "unix:///run/c.sock")
    _pod(tmp_path)
    bind_to_runtime(tmp_path, "/run/c.sock")


def test_a_record_that_says_so_already_is_not_written_on_a_disk_that_may_be_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    bind_to_runtime(tmp_path, "unix:///run/c.sock")
    monkeypatch.setattr(root_dir, "write_durably", full)
    bind_to_runtime(tmp_path, "/run/c.sock")
    with pytest.raises(StartFailed, match="No space left on device"):
        bind_to_runtime(tmp_path, "unix:///run/another.sock")


def test_runtime_path_with_a_percent_sign_finds_its_pods_again(tmp_path: Path) -> None:
    bind_to_runtime(tmp_path, "/run/a%20b/c.sock")
    _pod(tmp_path)
    bind_to_runtime(tmp_path, recorded_runtime(tmp_path))


def test_a_root_directory_without_pods_may_change_its_runtime(tmp_path: Path) -> None:
    bind_to_runtime(tmp_path, "unix:///run/c.sock")
    (tmp_path / "pods").mkdir()
    bind_to_runtime(tmp_path, "embedded:")


@pytest.mark.parametrize(
    ("before", "now"), [("unix:///run/c.sock", "embedded:"), ("unix:///run/c.sock", "unix:///run/other.sock")]
)
def test_pods_of_another_runtime_are_not_touched(before: str, now: str, tmp_path: Path) -> None:
    bind_to_runtime(tmp_path, before)
    _pod(tmp_path)
    with pytest.raises(StartFailed, match=f"has pods on the container runtime {before}.*--root-dir"):
        bind_to_runtime(tmp_path, now)
    bind_to_runtime(tmp_path, before)


@pytest.mark.parametrize(
    ("before", "now"), [("embedded:", "unix://{}"), ("fake:", "unix://{}"), ("fake:", "embedded:")]
)
def test_pods_that_ended_with_their_agent_block_no_other_runtime_and_the_log_says_that_they_start_anew(
    before: str, now: str, place: Path
) -> None:
    now = now.format(place / "c.sock")
    assert "" == bind_to_runtime(place, before)
    _pod(place)

    with socket.socket(socket.AF_UNIX) as runtime:
        runtime.bind(str(place / "c.sock"))
        runtime.listen()
        note = bind_to_runtime(place, now)

    assert f"The pods in {place} ended with the agent whose runtime was {before} and start anew on {now}" == note
    assert (now, "") == (recorded_runtime(place), bind_to_runtime(place, now))


def test_pods_of_the_embedded_runtime_stay_its_own_while_the_other_one_does_not_answer(tmp_path: Path) -> None:
    bind_to_runtime(tmp_path, "embedded:")
    _pod(tmp_path)

    moved = r"from the container runtime embedded: to unix:///nowhere/c.sock: no socket at .*start"
    with pytest.raises(StartFailed, match=moved):
        bind_to_runtime(tmp_path, "unix:///nowhere/c.sock")
    bind_to_runtime(tmp_path, "embedded:")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b"unix:///run/c.sock\n", "unix:///run/c.sock"),
        (b"embedded:\n", "embedded:"),
        (b"fake:\n", None),
        (b"\xd0\0", None),
        (b"", None),
        (None, None),
    ],
)
def test_a_record_counts_if_an_agent_can_start_on_it(
    written: bytes | None, expected: str | None, tmp_path: Path
) -> None:
    if written is not None:
        (tmp_path / "runtime-endpoint").write_bytes(written)
    _pod(tmp_path)

    found = runtime_record(tmp_path)

    assert expected == (found and found.endpoint)
    assert found is None or (tmp_path, True) == (found.root_dir, found.has_pods)


def test_the_embedded_runtime_takes_no_pods_of_a_kubelet_and_a_real_one_may_follow_it(tmp_path: Path) -> None:
    _pod(tmp_path)
    with pytest.raises(StartFailed, match="another agent"):
        bind_to_runtime(tmp_path, "embedded:")
    bind_to_runtime(tmp_path, "unix:///run/c.sock")


def test_an_endpoint_that_is_none_says_what_would_be(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match=r"containerRuntimeEndpoint: .*unix:///"):
        bind_to_runtime(tmp_path, "tcp://127.0.0.1:1")


def test_standalone_agent_notes_pods_that_it_finds_without_a_record(tmp_path: Path) -> None:
    _pod(tmp_path)
    note = bind_to_runtime(tmp_path, "unix:///run/c.sock", takes_over=False)
    assert "1 pod in " in note
    assert "--end-unknown-pods" in note
    assert {"uid"} == read_uids(tmp_path / UNKNOWN_PODS)

    (tmp_path / "pods" / "ours").mkdir()
    assert "" == bind_to_runtime(tmp_path, "unix:///run/c.sock", takes_over=False)
    assert {"uid"} == read_uids(tmp_path / UNKNOWN_PODS)


def test_agent_that_takes_a_kubelets_place_takes_its_pods(tmp_path: Path) -> None:
    _pod(tmp_path)
    bind_to_runtime(tmp_path, "unix:///run/c.sock", takes_over=False)
    with pytest.raises(StartFailed):
        bind_to_runtime(tmp_path, "unix:///run/another.sock")
    assert {"uid"} == read_uids(tmp_path / UNKNOWN_PODS)
    assert "" == bind_to_runtime(tmp_path, "unix:///run/c.sock")
    assert not (tmp_path / UNKNOWN_PODS).exists()


def test_list_of_unknown_pods_is_on_the_disk_before_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut between the two must not make another agent's pods this one's."""
    _pod(tmp_path)
    flushed: list[str] = []
    real = os.fsync

    def fsync(number: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{number}")).name)
        real(number)

    monkeypatch.setattr(os, "fsync", fsync)
    bind_to_runtime(tmp_path, "unix:///run/c.sock", takes_over=False)

    files = [name for name in flushed if name != tmp_path.name]
    assert [f".{UNKNOWN_PODS}.new", f".{root_dir.RUNTIME_RECORD}.new"] == files
    assert tmp_path.name in flushed


def test_unknown_pods_that_do_not_all_fit_in_the_list_stop_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="30000 unknown pods do not fit"):
        put_unknown(tmp_path, [f"{number:036}" for number in range(30_000)])
    assert not (tmp_path / UNKNOWN_PODS).exists()
