"""That the control plane of the tests is a real one: it refuses what a cluster refuses, and keeps and loses the same.

Nothing of the agent is involved; an operator's kubectl asks. When a live test of the agent in a cluster fails, run
these first: if they fail too, the machine or the kit is at fault.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from live.kit import places
from live.kit.certificates import Credentials, write_private
from live.kit.daemon import await_that
from live.kit.kubectl import Kubectl, KubectlFailed, write_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow

WAIT_SECONDS_MAX = 60.0


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def ready(room: int) -> dict[str, Any]:
    """A node's status, as a node that is well would write it."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Said",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {"status": {"conditions": [condition], "capacity": {"pods": str(room), "cpu": "4", "memory": "4Gi"}}}


def ask_certificate(kubectl: Kubectl, name: str, user: str, key_file: Path, **spec: object) -> None:
    """What a kubelet asks for on joining."""
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    write_private(key_file, key.private_bytes(*form))
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes")]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
    request = x509.CertificateSigningRequestBuilder(x509.Name(subject)).sign(key, hashes.SHA256())
    pem = request.public_bytes(serialization.Encoding.PEM)
    asked = {
        "request": base64.b64encode(pem).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["digital signature", "client auth"],
    }
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    kubectl("create", "-f-", manifests=kind | {"metadata": {"name": name}, "spec": asked | spec})


def signed(plane: ControlPlane, name: str) -> bytes:
    """The certificate in answer to a request, which nobody here approves."""
    found = b""

    def there() -> bool:
        nonlocal found
        found = base64.b64decode(plane.kubectl.get("csr", name).get("status", {}).get("certificate", ""))
        return bool(found)

    await_that(there, WAIT_SECONDS_MAX, lambda: f"no certificate for {name}")
    return found


def served_certificate(plane: ControlPlane) -> x509.Certificate:
    host, port = plane.url.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as bare:
        context = ssl.create_default_context(cafile=plane.authority.certificate)
        with context.wrap_socket(bare, server_hostname=host) as connection:
            return x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")


def test_server_and_client_are_of_the_version_the_programs_are_named_by(control_plane: ControlPlane) -> None:
    wanted = control_plane.programs.name.rpartition("-")[0]
    told = json.loads(control_plane.kubectl("version", "--output=json"))
    assert [wanted] * 2 == [told[side]["gitVersion"] for side in ("clientVersion", "serverVersion")]


def test_a_node_may_make_itself_and_no_other(control_plane: ControlPlane) -> None:
    one = control_plane.kubectl_as(control_plane.node_kubeconfig("one"))
    one("create", "-f-", manifests=node("one"))
    with pytest.raises(KubectlFailed, match='node "one" is not allowed to modify node "two"'):
        one("create", "-f-", manifests=node("two"))
    assert ["one"] == [item["metadata"]["name"] for item in control_plane.kubectl.get("nodes")["items"]]


def test_a_node_may_not_give_itself_a_label_kept_for_its_operator(control_plane: ControlPlane) -> None:
    one = control_plane.kubectl_as(control_plane.node_kubeconfig("one"))
    with pytest.raises(KubectlFailed, match="is not allowed to set the following labels"):
        one("create", "-f-", manifests=node("one", **{"node-restriction.kubernetes.io/room": "1"}))


def test_a_node_may_not_read_a_secret_no_pod_of_it_uses(control_plane: ControlPlane) -> None:
    one = control_plane.kubectl_as(control_plane.node_kubeconfig("one"))
    with pytest.raises(KubectlFailed, match="no relationship found between node 'one'"):
        one.get("secret", "mine", "--namespace=default")


def test_a_bootstrap_token_becomes_a_nodes_certificate(control_plane: ControlPlane, tmp_path: Path) -> None:
    bootstrap = control_plane.kubectl_as(control_plane.bootstrap_kubeconfig())
    user = Credentials(tmp_path / "newcomer.crt", tmp_path / "newcomer.key")
    ask_certificate(bootstrap, "join", "system:node:newcomer", user.key)
    write_private(user.certificate, signed(control_plane, "join"))
    path = write_kubeconfig(tmp_path / "newcomer", control_plane.url, control_plane.authority.certificate, user)
    control_plane.kubectl_as(path)("create", "-f-", manifests=node("newcomer"))
    with pytest.raises(KubectlFailed, match="forbidden"):
        bootstrap.get("nodes")


def test_a_nodes_certificate_is_renewed_for_itself_alone(control_plane: ControlPlane, tmp_path: Path) -> None:
    one = control_plane.kubectl_as(control_plane.node_kubeconfig("one"))
    ask_certificate(one, "again", "system:node:one", tmp_path / "one.key")
    assert signed(control_plane, "again").startswith(b"-----BEGIN CERTIFICATE-----")
    with pytest.raises(KubectlFailed, match="can only create a node CSR with CN=system:node:one"):
        ask_certificate(one, "false", "system:node:two", tmp_path / "two.key")


def test_controllers_and_scheduler_bring_a_deployment_to_a_node_that_is_ready(control_plane: ControlPlane) -> None:
    one = control_plane.kubectl_as(control_plane.node_kubeconfig("one"))
    one("create", "-f-", manifests=node("one"))
    # Not as the node: kubectl reads what it patches, and a node may write its status and not read it apart.
    control_plane.kubectl("patch", "node", "one", "--subresource=status", f"--patch={json.dumps(ready(3))}")
    control_plane.kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2")

    def placed() -> list[str]:
        return [item["spec"].get("nodeName", "") for item in control_plane.kubectl.get("pods")["items"]]

    await_that(lambda: ["one", "one"] == placed(), WAIT_SECONDS_MAX, lambda: f"pods are on {placed()}")


@pytest.mark.parametrize(("component", "end"), [("apiserver", "stop"), ("apiserver", "kill"), ("etcd", "kill")])
def test_what_was_written_outlives_an_end(control_plane: ControlPlane, component: str, end: str) -> None:
    name = f"kept-{component}-{end}"
    control_plane.kubectl("create", "configmap", name, "--from-literal=key=value")
    ended = getattr(control_plane, component)
    getattr(ended, end)()
    with pytest.raises(KubectlFailed):
        control_plane.kubectl("get", "configmap", name, "--request-timeout=2s")
    ended.start()
    control_plane.apiserver.revive()
    found: dict[str, Any] = {}

    def is_read() -> bool:
        # Each kind of object has a connection of its own to etcd, and so has readyz: they come back one by one.
        nonlocal found
        with suppress(KubectlFailed):
            found = control_plane.kubectl.get("configmap", name, "--request-timeout=5s")
        return bool(found)

    await_that(is_read, WAIT_SECONDS_MAX, control_plane.apiserver.story)
    assert {"key": "value"} == found["data"]


def test_a_frozen_api_server_takes_connections_and_does_not_answer(control_plane: ControlPlane) -> None:
    control_plane.apiserver.freeze()
    with pytest.raises(TimeoutError, match="handshake"):
        served_certificate(control_plane)
    control_plane.apiserver.thaw()
    assert "ok" == control_plane.kubectl("get", "--raw=/readyz")


def test_a_new_serving_certificate_is_served_without_a_restart(control_plane: ControlPlane) -> None:
    before, pid = served_certificate(control_plane), control_plane.apiserver.pid
    control_plane.renew_serving_certificate()
    # The API server looks at once when the directory changes, and each minute.
    await_that(lambda: before != served_certificate(control_plane), 90, lambda: "still the old certificate")
    assert (pid, True) == (control_plane.apiserver.pid, control_plane.apiserver.alive)


def test_flags_of_a_tests_own_hold(own_control_plane: Callable[..., ControlPlane], tmp_path: Path) -> None:
    plane = own_control_plane({"kube-controller-manager": ["--cluster-signing-duration=10m"]})
    ask_certificate(
        plane.kubectl_as(plane.bootstrap_kubeconfig()), "short", "system:node:short-lived", tmp_path / "short.key"
    )
    certificate = x509.load_pem_x509_certificate(signed(plane, "short"))
    assert timedelta(minutes=11) > certificate.not_valid_after_utc - datetime.now(UTC)


def test_a_closed_control_plane_leaves_nothing_behind(own_control_plane: Callable[..., ControlPlane]) -> None:
    plane = own_control_plane()
    plane.scheduler.stop()
    plane.controllers.freeze()
    plane.close()
    assert [False] * 4 == [component.alive for component in plane.components]
    assert not plane.directory.exists()


def test_a_killed_test_run_leaves_no_control_plane(control_plane: ControlPlane) -> None:
    script = (
        "from live.kit.control_plane import ControlPlane\n"
        "import sys\n"
        "plane = ControlPlane()\n"
        "plane.controllers.freeze()\n"
        "print(plane.directory, *(component.pid for component in plane.components), flush=True)\n"
        "sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as run:
        assert run.stdout is not None
        directory, *pids = run.stdout.readline().split()
        assert len(pids) == 4
        run.send_signal(signal.SIGKILL)
    left = [Path(directory), *(Path("/proc", pid) for pid in pids)]
    await_that(lambda: not any(path.exists() for path in left), 60, lambda: f"left: {list(filter(Path.exists, left))}")


@pytest.mark.parametrize(
    ("version", "word"), [("", "Go is missing"), ("go1.19", "is too old")], ids=["no Go", "an old Go"]
)
def test_before_it_builds_the_script_says_what_is_wrong_with_go(tmp_path: Path, version: str, word: str) -> None:
    programs = ["bash", "dirname", "sed", "cat", "sha256sum", "cut"]
    for name in programs:
        (tmp_path / name).symlink_to(places.program(name))
    if version:
        (tmp_path / "go").write_text(f"#!{tmp_path}/bash\necho {version}\n")
        (tmp_path / "go").chmod(0o755)
    environment = {"PATH": str(tmp_path), "TRIKUBELET_LIVE_CACHE": str(tmp_path)}
    done = subprocess.run(
        [tmp_path / "bash", places.CONTROL_PLANE, "--check"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 1 == done.returncode
    assert 1 == len(done.stderr.splitlines())
    assert word in done.stderr
