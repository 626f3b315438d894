"""What is set aside for pods' users, asked of this machine as an administrator would, and what becomes of it."""

from __future__ import annotations

import json
import os
import pwd
from typing import TYPE_CHECKING

import pytest

from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Surroundings, load_settings
from trikubelet.app.translate import facts_of
from trikubelet.core.user_namespaces import HOST_IDS, IdPool, ids_of, written
from trikubelet.host import subordinate_ids
from trikubelet.host.subordinate_ids import FILE_BYTES_MAX, read_ranges_of_users, read_subordinate_ids
from trikubelet.model.errors import StartFailed
from trikubelet.model.node_reading import NodeReading
from trikubelet.model.runtime_config import IdRange

if TYPE_CHECKING:
    from pathlib import Path

    from trikubelet.core.containers import NodeFacts
    from trikubelet.core.user_namespaces import SubordinateIds


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the ids of a machine with a user kubelet, with programs in a directory of the test."""
    monkeypatch.setattr(pwd, "getpwnam", {"kubelet": "somebody"}.__getitem__)
    return {**os.environ, "PATH": str(tmp_path)}


def install(directory: Path, script: str) -> None:
    program = directory / "getsubids"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


async def test_users_and_groups_are_reported_each_as_they_are(environment: dict[str, str], tmp_path: Path) -> None:
    install(tmp_path, 'echo "0: $*"')

    assert ("0: kubelet\n", "0: -g kubelet\n") == await read_subordinate_ids(environment)


async def test_no_program_runs_without_the_user(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "exit 1")
    monkeypatch.setattr(pwd, "getpwnam", {}.__getitem__)

    assert await read_subordinate_ids(environment) is None


async def test_without_the_program_none_are_set_aside_and_that_is_said(
    environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    assert await read_subordinate_ids(environment) is None
    assert "no getsubids" in caplog.text


async def test_a_program_that_fails_ends_the_start_in_its_own_words(
    environment: dict[str, str], tmp_path: Path
) -> None:
    install(tmp_path, "echo Error fetching ranges >&2; exit 1")

    with pytest.raises(StartFailed, match=r"getsubids kubelet: ended with 1: Error fetching ranges \(is the user"):
        await read_subordinate_ids(environment)


async def test_a_user_database_that_does_not_answer_in_time_costs_only_pods_that_want_new_users(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(subordinate_ids, "ANSWER_SECONDS_MAX", 0.0)

    told = await read_subordinate_ids(environment)

    assert "User namespaces are not available to pods: no answer within 0 s" in caplog.text
    pool = facts(tmp_path, told).user_ids
    had = IdRange(HOST_IDS, HOST_IDS)
    assert had == ids_of("old", {"old": written(had)}, pool)
    with pytest.raises(ValueError, match="no answer within 0 s, when the agent started, whether there is a user kub"):
        ids_of("new", {"old": written(had)}, pool)


def test_the_ids_of_users_are_those_of_both_files_and_of_none_that_is_missing(tmp_path: Path) -> None:
    users, groups = (tmp_path / name for name in ("subuid", "subgid"))
    users.write_text("alice:100000:65536\n")

    assert [IdRange(100000, 65536)] == read_ranges_of_users((str(users), str(groups)))
    groups.write_bytes(b"\xff\xfe\nbob:165536:65536")
    assert [IdRange(100000, 65536), IdRange(165536, 65536)] == read_ranges_of_users((str(users), str(groups)))


def test_a_file_of_subordinate_ids_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    endless = tmp_path / "subuid"
    endless.write_bytes(b"#" * (FILE_BYTES_MAX + 1))

    for path in (tmp_path, endless):
        with pytest.raises(OSError, match=str(path)):
            read_ranges_of_users((str(path),))


def facts(place: Path, told: SubordinateIds, **fields: object) -> NodeFacts:
    """Return the facts of a node with such a configuration and reservation."""
    about = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "resolvConf": ""}
    path = place / "config.yaml"
    path.write_text(json.dumps(about | fields))
    settings = load_settings(
        parse_agent_flags([f"--config={path}", f"--root-dir={place}", "--standalone"]), Surroundings(0, {}, "n")
    )
    return facts_of(settings, NodeReading("n", 1 << 30, 1), told)


def test_pods_have_what_is_set_aside_as_many_ids_each_as_the_configuration_says(tmp_path: Path) -> None:
    told = ("0: kubelet 262144 2097152\n",) * 2

    assert IdPool() == facts(tmp_path, None).user_ids
    wide = facts(tmp_path, told, maxPods=16, userNamespaces={"idsPerPod": 131072})
    assert IdPool(262144, 2097152, 131072, is_set_aside=True) == wide.user_ids


def test_what_is_set_aside_and_is_not_enough_ends_the_start(tmp_path: Path) -> None:
    told = ("0: kubelet 262144 2097152\n",) * 2

    with pytest.raises(StartFailed, match="IDs are not enough to support 33 pods; see userNamespaces"):
        facts(tmp_path, told, maxPods=33)
