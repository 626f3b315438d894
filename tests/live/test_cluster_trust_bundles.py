"""Trust anchors and certificates in pods, where a cluster serves ClusterTrustBundles and PodCertificateRequests, and
what is told where it does not."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from live.kit.cluster_agent import ClusterAgent
from live.kit.daemon import await_that
from live.kit.manifests import pod, shell

if TYPE_CHECKING:
    from collections.abc import Callable

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow

FLAGS = [
    "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true",
    "--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true",
]


def test_a_pod_gets_the_trust_anchors_it_asks_for_and_sees_them_change(
    own_control_plane: Callable[..., ControlPlane], containerd2: Containerd
) -> None:
    plane = own_control_plane({"kube-apiserver": FLAGS})
    anchor = plane.authority.certificate.read_text()

    def bundle(name: str, use: str = "", **spec: Any) -> dict[str, Any]:
        version = "certificates.k8s.io/v1beta1"
        spec = {"trustBundle": anchor, **spec}
        meta = {"name": name, "labels": {"use": use}}
        return {"apiVersion": version, "kind": "ClusterTrustBundle", "metadata": meta, "spec": spec}

    sources = [
        {"clusterTrustBundle": {"name": "named", "path": "named.pem"}},
        {
            "clusterTrustBundle": {
                "signerName": "example.com/s",
                "labelSelector": {
                    "matchLabels": {"use": "pods"},
                    "matchExpressions": [{"key": "use", "operator": "NotIn", "values": ["nodes"]}],
                },
                "optional": True,
                "path": "signed.pem",
            }
        },
    ]
    script = "while true; do grep -c BEGIN /v/named.pem /v/signed.pem; sleep 1; done"
    with ClusterAgent(containerd2, plane) as member:
        member.wait_ready()
        it = pod("trusting", shell("c", script, volumeMounts=[{"name": "v", "mountPath": "/v"}]), nodeName=member.name)
        it["spec"]["volumes"] = [{"name": "v", "projected": {"sources": sources}}]
        plane.kubectl("create", "-f-", manifests=it)

        def told() -> str:
            events = plane.kubectl.get("events", "--field-selector=involvedObject.name=trusting,reason=FailedMount")
            return "\n".join(event["message"] for event in events["items"])

        await_that(lambda: 'certificates.k8s.io "named" not found' in told(), 60, member.story)
        plane.kubectl("create", "-f-", manifests=bundle("example.com:s:0", "others", signerName="example.com/s"))
        plane.kubectl("create", "-f-", manifests=bundle("named"))
        counted = lambda: member.command("logs", "trusting", "--tail=2").stdout  # noqa: E731
        await_that(lambda: "named.pem:1\n" in counted() and "signed.pem:0\n" in counted(), 60, member.story)
        plane.kubectl("create", "-f-", manifests=bundle("example.com:s:1", "pods", signerName="example.com/s"))
        await_that(lambda: "signed.pem:1\n" in counted(), 60, member.story)
        plane.kubectl("delete", "pod", "trusting")


def test_a_pod_gets_a_key_and_the_certificate_that_a_signer_makes_for_it(
    own_control_plane: Callable[..., ControlPlane], containerd2: Containerd
) -> None:
    flags = [
        "--feature-gates=PodCertificateRequest=true",
        "--runtime-config=certificates.k8s.io/v1beta1/podcertificaterequests=true",
    ]
    plane = own_control_plane({"kube-apiserver": flags})
    source = {
        "signerName": "example.com/s",
        "keyType": "ED25519",
        "credentialBundlePath": "bundle.pem",
        "keyPath": "key.pem",
        "certificateChainPath": "chain.pem",
        "maxExpirationSeconds": 86400,
        "userAnnotations": {"example.com/room": "4"},
    }

    def requests() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = plane.kubectl.get("podcertificaterequests.v1beta1.certificates.k8s.io")["items"]
        return found

    with ClusterAgent(containerd2, plane) as member:
        member.wait_ready()
        script = "cat /v/bundle.pem; cat /v/key.pem /v/chain.pem | cmp - /v/bundle.pem && echo same;"
        script += " stat -Lc %a /v/bundle.pem; sleep 1000"
        it = pod("shown", shell("c", script, volumeMounts=[{"name": "v", "mountPath": "/v"}]), nodeName=member.name)
        it["spec"]["volumes"] = [{"name": "v", "projected": {"sources": [{"podCertificate": source}]}}]
        it["spec"]["securityContext"] = {"runAsUser": 1000}
        plane.kubectl("create", "-f-", manifests=it)
        await_that(lambda: bool(requests()), 60, member.story)
        (request,) = requests()
        assert ("shown", member.name) == (request["spec"]["podName"], request["spec"]["nodeName"])
        assert 86400 == request["spec"]["maxExpirationSeconds"]
        assert {"example.com/room": "4"} == request["spec"]["unverifiedUserAnnotations"]

        chain, status = signed(base64.b64decode(request["spec"]["stubPKCS10Request"]))
        patch = json.dumps({"status": status})
        name = request["metadata"]["name"]
        plane.kubectl("patch", "podcertificaterequest", name, "--subresource=status", "--type=merge", f"-p={patch}")
        logs = lambda: member.command("logs", "shown").stdout  # noqa: E731
        await_that(
            lambda: chain in logs() and logs().endswith("same\n600\n"), 60, lambda: f"{logs()}\n{member.story()}"
        )
        assert logs().startswith("-----BEGIN PRIVATE KEY-----\n")
        plane.kubectl("delete", "pod", "shown")


def signed(request: bytes) -> tuple[str, dict[str, Any]]:
    """What a signer makes of a request: a certificate for a day, and the status that carries it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC).replace(microsecond=0)
    name, ends = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "signer")]), now + timedelta(days=1)
    builder = x509.CertificateBuilder().issuer_name(name).subject_name(x509.Name([])).not_valid_before(now)
    builder = builder.not_valid_after(ends).serial_number(x509.random_serial_number())
    made = builder.public_key(x509.load_der_x509_csr(request).public_key()).sign(key, hashes.SHA256())
    chain = made.public_bytes(serialization.Encoding.PEM).decode()
    times = {"notBefore": now, "beginRefreshAt": now + timedelta(hours=12), "notAfter": ends}
    told = {name: time.isoformat().replace("+00:00", "Z") for name, time in times.items()}
    issued = {
        "type": "Issued",
        "status": "True",
        "reason": "Signed",
        "message": "",
        "lastTransitionTime": told["notBefore"],
    }
    return chain, {"conditions": [issued], "certificateChain": chain, **told}
