"""``get`` and ``describe`` of ConfigMaps and Secrets: names, keys, files and pods, and no values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import trio

from shell.localkit import FakeView, pod, served
from trikubelet.cli.main import main
from trikubelet.core.manifest import load_manifest
from trikubelet.model import k8s
from trikubelet.server.node_view import ManifestNote, ObjectNote

if TYPE_CHECKING:
    from pathlib import Path

DOOR = ObjectNote("Secret", "default", "door", ("password",), "Opaque", labels={"app": "web"})
WORDS = ObjectNote("ConfigMap", "default", "words", ("a", "b", "c", "d"), immutable=True)
ELSEWHERE = ObjectNote("ConfigMap", "kube-system", "conf")


def node() -> FakeView:
    volume = k8s.Volume(name="v", config_map=k8s.ConfigMapVolumeSource(name="words"))
    web = pod("web-n1", volumes=(volume,))
    file = ManifestNote("/m/web.yaml", (web.metadata.uid,), (WORDS, DOOR))
    return FakeView([web], brought=[file, ManifestNote("/m/conf.yaml", (), (ELSEWHERE,))])


async def say(tmp_path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    async with served(node(), tmp_path) as agent:
        code = await trio.to_thread.run_sync(main, [*words, f"--socket={agent.socket_path}"])
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["NAME KEYS USED BY MANIFEST", "words a,b,c + 1 more... web-n1 /m/web.yaml"], ["get", "cm"]),
        (["NAME TYPE KEYS USED BY MANIFEST", "door Opaque password <none> /m/web.yaml"], ["get", "secrets"]),
        (["NAME KEYS USED BY MANIFEST", "conf <none> <none> /m/conf.yaml"], ["get", "configmap", "-n", "kube-system"]),
        (["secret/door"], ["get", "secret", "-o", "name", "-l", "app=web"]),
    ],
)
async def test_get_lists_objects_of_manifests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[str], words: list[str]
) -> None:
    code, out, err = await say(tmp_path, capsys, *words)

    assert (0, "") == (code, err)
    assert rows == [" ".join(line.split()) for line in out.splitlines()]


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("what", [["cm", "words"], ["secrets"]])
async def test_printed_object_cannot_be_applied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, what: list[str]
) -> None:
    code, out, _ = await say(tmp_path, capsys, "get", *what, "-o", form)

    assert (0, True) == (code, '"' in out if form == "json" else "keys:" in out)
    loaded = load_manifest(out, "x", "n1", "1970-01-01T00:00:00Z")
    assert ((), True) == (loaded.objects, bool(loaded.faults))


async def test_printed_object_has_its_keys_users_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = await say(tmp_path, capsys, "get", "cm", "words", "-o", "json")

    assert {
        "kind": "ConfigMapSummary",
        "metadata": {"name": "words", "namespace": "default", "labels": {}},
        "keys": ["a", "b", "c", "d"],
        "immutable": True,
        "usedBy": ["web-n1"],
        "manifest": "/m/web.yaml",
    } == json.loads(out)


async def test_describe_shows_an_object_without_its_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = await say(tmp_path, capsys, "describe", "secret", "door")

    assert 0 == code
    assert [
        *("Name: door", "Namespace: default", "Labels: app=web", "Manifest: /m/web.yaml", "Type: Opaque"),
        *("Immutable: no", "Keys: password", "Used By: <none>"),
    ] == [" ".join(line.split()) for line in out.splitlines()]


async def test_describe_pod_names_its_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = (await say(tmp_path, capsys, "describe", "pod", "web-n1"))[1]

    assert "Manifest: /m/web.yaml" in [" ".join(line.split()) for line in out.splitlines()]
