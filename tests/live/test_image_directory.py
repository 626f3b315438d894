"""Images from a directory of archives: imported into a real containerd by the agent, and what a damaged file does."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from live.kit import images
from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod, state, waiting_reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

SAVED, SHORT = "registry.trikubelet.test/saved:1", "docker.io/library/short:1"
DAMAGED, SANDBOX = "registry.trikubelet.test/damaged:1", "registry.trikubelet.test/another/pause:1"


@pytest.fixture
def archives(containerd: Containerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory for archives. The agent finds the ctr of its containerd, and the images go with the test."""
    monkeypatch.setenv("PATH", f"{containerd.program.parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
    made = tmp_path / "images"
    made.mkdir()
    yield made
    for name in (images.PULLED, SAVED, SHORT, DAMAGED, SANDBOX):
        containerd.cri.call("RemoveImage", image={"image": name})


def members(archive: Path) -> dict[str, bytes]:
    """The contents of a tar archive, by name."""
    with tarfile.open(archive) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar if one.isreg()}


def write(path: Path, contents: dict[str, bytes]) -> None:
    """Write a tar archive, in one step."""
    half = path.with_name(f".{path.name}")
    with tarfile.open(half, "w") as tar:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    half.rename(path)


def blob(described: dict[str, Any]) -> str:
    """The member with the content that is described."""
    return "blobs/" + described["digest"].replace(":", "/")


def as_docker_saves(layout: dict[str, bytes], name: str) -> dict[str, bytes]:
    """The image of an OCI layout as ``docker save`` wrote one before version 25."""
    manifest = json.loads(layout[blob(json.loads(layout["index.json"])["manifests"][0])])
    config, layer = layout[blob(manifest["config"])], layout[blob(manifest["layers"][0])]
    found = {f"{hashlib.sha256(config).hexdigest()}.json": config, "layer/layer.tar": layer}
    saved = [{"Config": next(iter(found)), "RepoTags": [name], "Layers": ["layer/layer.tar"]}]
    return found | {"manifest.json": json.dumps(saved).encode()}


def as_skopeo_names(layout: dict[str, bytes], name: str) -> dict[str, bytes]:
    """The OCI layout with a name in the one annotation that skopeo writes."""
    index = json.loads(layout["index.json"])
    index["manifests"][0]["annotations"] = {"org.opencontainers.image.ref.name": name}
    return layout | {"index.json": json.dumps(index).encode()}


def serving(name: str, image: str, policy: str = "Never") -> dict[str, Any]:
    return pod(name, container("c", "serve", "8080", image=image, imagePullPolicy=policy))


def events(agent: Agent, name: str) -> list[str]:
    """The messages of the pod's events."""
    found = agent.ask("/events")["items"]
    return [one["message"] for one in found if one["involvedObject"]["name"] == f"{name}-live"]


def importing(containerd: Containerd, archives: Path) -> Agent:
    agent = Agent(containerd)
    agent.words.append(f"--image-directory={archives}")
    return agent


def test_images_of_each_form_are_imported_and_pinned(containerd: Containerd, archives: Path) -> None:
    layout = members(images.pulled())
    write(archives / "layout.tar", layout)
    write(archives / "saved.tar", as_docker_saves(layout, SAVED))
    write(archives / "short", as_skopeo_names(layout, "short:1"))
    with importing(containerd, archives) as agent:
        agent.put(serving("layout", images.PULLED, "IfNotPresent"))
        agent.put(serving("saved", SAVED))
        agent.put(serving("short", "short:1"))
        for name in ("layout", "saved", "short"):
            agent.wait_phase(name, "Running")
        assert any(f'Imported image "{SAVED}" from {archives}/saved.tar' in one for one in events(agent, "saved"))
        assert not any("Pulling" in one for one in events(agent, "layout"))
        listed = agent.command("get", "images", "-o", "wide").stdout
        pinned = {" ".join(row.split()[:2]) for row in listed.splitlines() if row.split()[-1] == "yes"}
        assert {"registry.trikubelet.test/pulled 1", "registry.trikubelet.test/saved 1"} <= pinned
        assert "docker.io/library/short 1" in pinned
        assert "registry.trikubelet.test/busybox 1" not in pinned
        doctor = agent.command("doctor").stdout
        assert f"3 images in 3 archives of {archives}" in doctor


def test_a_damaged_archive_is_named_and_replaced_without_a_restart(containerd: Containerd, archives: Path) -> None:
    # Contents of its own, which the runtime has from no other archive.
    program = {"bin/testprog": images.compile_program("testprog"), "etc/damaged": b"yes\n"}
    whole = archives.parent / "whole.tar"
    images.write_layout(whole, [images.Image((DAMAGED,), program, entrypoint=("/bin/testprog",))])
    layout = members(whole)
    manifest = json.loads(layout[blob(json.loads(layout["index.json"])["manifests"][0])])
    layer = blob(manifest["layers"][0])
    flipped = bytearray(layout[layer])
    flipped[len(flipped) // 2] ^= 1
    write(archives / "bad.tar", layout | {layer: bytes(flipped)})
    write(archives / "good.tar", as_docker_saves(members(images.pulled()), SAVED))
    (archives / "cut.tar").write_bytes(images.pulled().read_bytes()[:200_000])
    with importing(containerd, archives) as agent:
        agent.put(serving("bad", DAMAGED))
        agent.put(serving("good", SAVED))
        agent.wait_phase("good", "Running")
        found = agent.wait(lambda now: waiting_reason(now.get("bad", {}), "c") == "ErrImageNeverPull", "it waits")
        told = state(found["bad"], "c")["state"]["waiting"]["message"]
        assert f"it was not imported: {archives}/bad.tar: ctr ended with 1: " in told
        doctor = agent.command("doctor").stdout
        assert f"{archives}/cut.tar is damaged, or is no tar archive: unexpected end of data" in doctor

        write(archives / "bad.tar", layout)
        agent.wait_phase("bad", "Running", 120)


def test_an_agent_imports_the_image_of_sandboxes_when_it_starts(containerd: Containerd, archives: Path) -> None:
    write(archives / "pause.tar", as_docker_saves(members(images.pulled()), SANDBOX))
    with importing(containerd, archives) as agent:
        await_that(lambda: SANDBOX in containerd.ctr("images", "list", "-q").split(), 60, agent.story)
