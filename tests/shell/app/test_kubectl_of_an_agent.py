"""A whole agent on the fake runtime and its API for kubectl: who is let in, where, and what it leaves on the disk."""

from __future__ import annotations

import json
import ssl
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import trio

from shell.app.test_node_api_of_an_agent import agent, faults, settings
from shell.portkit import free_port
from trikubelet.cli.main import main
from trikubelet.kit.every import Every
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from trikubelet.app.compose import Agent

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: a}]}\n"


def client_of(kubeconfig: dict[str, Any], token: str = "") -> httpx.AsyncClient:
    """A client with the kubeconfig, or another token."""
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    context = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
    headers = {"authorization": f"Bearer {token or user['token']}"}
    return httpx.AsyncClient(base_url=cluster["server"], verify=context, headers=headers, trust_env=False)


async def asked_of(one: Agent, path: str, method: str = "GET") -> tuple[int, Any]:
    async with client_of(json.loads(one.notes.kubeconfig())) as client:
        answer = await client.request(method, path)
        return answer.status_code, answer.json()


async def test_without_the_flag_there_is_nothing_and_the_command_says_so(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with agent(settings(place)):
        assert 1 == await trio.to_thread.run_sync(main, ["kubeconfig", f"--root-dir={place}/root"])
    assert "start it with --kubectl-port=PORT" in capsys.readouterr().err
    assert not (place / "root" / "kubectl").exists()


@pytest.mark.slow
async def test_only_clients_with_the_kubeconfig_may_read(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    made = settings(place, f"--kubectl-port={port}")
    (place / "manifests" / "web.yaml").write_text(POD)
    written = place / "config"
    async with agent(made):
        words = ["kubeconfig", str(written), f"--root-dir={place}/root"]
        assert 0 == await trio.to_thread.run_sync(main, words)
        assert f"written: {written}" in capsys.readouterr().out
        assert 1 == await trio.to_thread.run_sync(main, words)
        assert f"{written} exists already" in capsys.readouterr().err
        kubeconfig = json.loads(written.read_text())
        async with client_of(kubeconfig) as client, client_of(kubeconfig, "other") as stranger:
            assert "PodList" == (await client.get("/api/v1/pods")).json()["kind"]
            assert 401 == (await stranger.get("/api/v1/pods")).status_code
    kept = [written, *(place / "root" / "kubectl").iterdir()]
    assert {"config", "token", "kubelet.crt", "kubelet.key"} == {path.name for path in kept}
    assert {0o600} == {path.stat().st_mode & 0o777 for path in kept if path.suffix != ".crt"}

    async with agent(made), client_of(kubeconfig) as client:  # a kubeconfig outlives the agent
        assert 200 == (await client.get("/version")).status_code


@pytest.mark.slow
async def test_write_is_answered_with_the_file_to_change(place: Path) -> None:
    made = settings(place, f"--kubectl-port={free_port()}")
    manifest = place / "manifests" / "web.yaml"
    manifest.write_text(POD)
    async with agent(made) as one:
        pod = "/api/v1/namespaces/default/pods/web-n1"
        async for _ in Every(0.05):  # until the manifest has been read
            if (await asked_of(one, pod))[0] == 200:
                break
        code, told = await asked_of(one, pod, "DELETE")
        assert (405, f'this API is read-only: {manifest} defines pod "web-n1", so change or remove that') == (
            code,
            told["message"],
        )
        _, told = await asked_of(one, "/api/v1/namespaces/default/pods", "POST")
        assert f"the manifests in {manifest.parent} define the pods, so write one there" in told["message"]
        _, told = await asked_of(one, "/api/v1/nodes/n1", "PATCH")
        assert f"the manifests in {manifest.parent} define the pods, so remove manifests there" in told["message"]


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("--kubectl-port: 65536 is not a port (0 to 65535)", ["--kubectl-port=65536"]),
        ("--kubectl-port: -1 is not a port (0 to 65535)", ["--kubectl-port=-1"]),
        (
            "--kubectl-port: is for a node without a cluster (leave one of the two out: in a cluster kubectl uses the "
            "API server)",
            ["--kubectl-port=1", "--kubeconfig=x"],
        ),
    ],
)
def test_a_port_that_cannot_be_is_a_fault(place: Path, why: str, words: list[str]) -> None:
    assert why in faults(place, *words)


async def test_a_port_that_is_taken_ends_the_start_with_what_to_do(place: Path) -> None:
    (taken,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = taken.socket.getsockname()[1]
    with pytest.RaisesGroup(
        pytest.RaisesExc(StartFailed, match=f"port {port}: .*choose another --kubectl-port"), flatten_subgroups=True
    ):
        async with agent(settings(place, f"--kubectl-port={port}")):
            pass
    await taken.aclose()


async def test_a_token_that_cannot_be_kept_ends_the_start(place: Path) -> None:
    (place / "root").mkdir()
    (place / "root" / "kubectl").write_text("in the way")
    with pytest.RaisesGroup(
        pytest.RaisesExc(StartFailed, match="cannot store a certificate or token for kubectl in .*: File exists"),
        flatten_subgroups=True,
    ):
        async with agent(settings(place, f"--kubectl-port={free_port()}")):
            pass


async def test_a_token_that_is_no_text_ends_the_start(place: Path) -> None:
    token = place / "root" / "kubectl" / "token"
    token.parent.mkdir(parents=True)
    token.write_bytes(b"\xff\xfe")
    with pytest.RaisesGroup(pytest.RaisesExc(StartFailed, match="kubectl/token is not ASCII"), flatten_subgroups=True):
        async with agent(settings(place, f"--kubectl-port={free_port()}")):
            pass
