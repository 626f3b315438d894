"""The commands of README and guides do what the pages show, as a reader would type them: on the embedded runtime, on
the fake one, on a containerd, and in a cluster. A page is followed from its top, by ``kit/reader.py``.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from live.kit import places
from live.kit.network import free_port
from live.kit.reader import Reader, reading
from shell.docskit import PAGES, TOP, Shown, blocks

if TYPE_CHECKING:
    from pathlib import Path

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def _is_ours(mark: str) -> bool:
    """Whether these tests run a block with this mark."""
    return mark.startswith("run") and mark not in ("run: throwaway", "run: machine")


RUN = [page for page in PAGES if any(_is_ours(block.mark) for block in blocks(page))]
FAKE, JOINING, HOLLOW, NOTHING = (
    TOP / "docs" / name for name in ("fake-runtime.md", "joining.md", "hollow-nodes.md", "from-nothing.md")
)
ALONE = [page for page in RUN if page not in (FAKE, JOINING, HOLLOW, NOTHING)]


@pytest.mark.parametrize("page", ALONE, ids=lambda page: page.name)
def test_a_reader_sees_what_the_page_shows(page: Path, directory: Path) -> None:
    with reading(Reader(page, directory)) as reader:
        reader.read(page)


IDS = """\
import json, sys
boxes = [(pod, box) for pod in json.load(sys.stdin)["pods"] for box in pod["sandboxes"] if box["ready"]]
pod, box, one = next((*at, one) for at in boxes for one in at[1]["containers"] if one["state"] == "running")
print(f"POD={pod['uid']} SANDBOX={box['id']} CONTAINER={one['id']}")
"""


def test_the_fake_runtime_is_played_with_as_its_page_shows(directory: Path) -> None:
    port = free_port()
    instead = {"/tmp/": f"{directory}/", ":8080": f":{port}"}
    (directory / "ids.py").write_text(IDS)
    ids = f"curl -s localhost:{port}/state | {sys.executable} {directory}/ids.py"
    (directory / ".profile").write_text(f"export $({ids} 2>/dev/null)\n")  # a container may not be there for long
    with reading(Reader(FAKE, directory, instead, {"podLogsDir": f"{directory}/logs"})) as reader:
        reader.read(FAKE)


def test_a_machine_joins_a_cluster_and_leaves_it_as_the_page_shows(
    control_plane: ControlPlane, containerd2: Containerd, directory: Path
) -> None:
    bootstrap = yaml.safe_load(control_plane.bootstrap_kubeconfig().read_text())
    instead = {
        "/etc/kubernetes/pki/ca.crt": str(control_plane.authority.certificate),
        "/etc/kubernetes": str(directory),
        "/var/lib/kubelet": str(directory),
        "https://10.0.0.1:6443": control_plane.url,
        "abcdef.0123456789abcdef": bootstrap["users"][0]["user"]["token"],
        "unix:///run/containerd/containerd.sock": containerd2.endpoint,
    }
    apart = _apart(containerd2, directory) | {"port": free_port()}
    with reading(Reader(JOINING, directory, instead, apart, containerd2.inside)) as reader:
        reader.environment["KUBECONFIG"] = str(control_plane.kubeconfig)
        reader.read(JOINING)


def test_hollow_nodes_are_nodes_of_a_cluster_as_the_page_shows(control_plane: ControlPlane, directory: Path) -> None:
    """Three of them, for the machine of the tests has other things to do."""
    instead = {"--nodes 100": "--nodes 3", "admin.kubeconfig": str(control_plane.kubeconfig)}
    with reading(Reader(HOLLOW, directory, instead)) as reader:
        reader.environment |= {"KUBECONFIG": str(control_plane.kubeconfig), "TMPDIR": str(directory)}
        reader.read(HOLLOW)


def test_an_agent_runs_on_containerd_as_the_readme_shows(containerd2: Containerd, directory: Path) -> None:
    readme = TOP / "README.md"
    instead = {
        "unix:///run/containerd/containerd.sock": containerd2.endpoint,
        "/etc/kubernetes/manifests": f"{TOP}/examples/manifests/containerd",
    }
    (block,) = [block for block in blocks(readme) if block.mark == "run: containerd"]
    with reading(Reader(readme, directory, instead, _apart(containerd2, directory), containerd2.inside)) as reader:
        for shown in block.shown:
            reader.start(shown)
        reader.follow(Shown("trikubelet wait greeter-vm --for=condition=Ready", ""), "run")
    containerd2.remove_pods()


def _apart(runtime: Containerd, directory: Path) -> dict[str, Any]:
    """What keeps an agent's cgroups and files apart from those of the machine."""
    return {"cgroupRoot": runtime.cgroup_parent, "podLogsDir": f"{directory}/logs/pods"}


def test_systemd_accepts_the_unit_of_an_ordinary_user(tmp_path: Path) -> None:
    """Its command is looked for in a home directory of the test."""
    home, unit = tmp_path / "home", tmp_path / "trikubelet.service"
    program = home / ".local/bin/trikubelet"
    program.parent.mkdir(parents=True)
    program.symlink_to(sys.executable)
    unit.write_text((TOP / "examples/systemd/trikubelet.service").read_text().replace("%h", str(home)))
    verify = [places.program("systemd-analyze"), "--user", "verify", "--man=no", unit]
    environment = {"PATH": places.SEARCH_PATH, "HOME": str(home), "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(verify, capture_output=True, text=True, check=False, env=environment)

    assert (0, "") == (done.returncode, done.stdout + done.stderr)


def test_the_guides_are_run() -> None:
    assert {"README.md", "standalone.md", "operations.md", "joining.md"} <= {page.name for page in RUN}
