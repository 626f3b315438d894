"""The generated Kubernetes types: names on the wire, defaults, and that the file is what its generator writes."""

import subprocess
import sys
from pathlib import Path

import msgspec

from trikubelet.model import k8s


def test_the_committed_types_are_what_the_generator_writes() -> None:
    script = Path(__file__).parents[2] / "packaging/generate_types.py"
    result = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)

    assert (0, "") == (result.returncode, result.stderr)


def test_names_on_the_wire_are_the_apis() -> None:
    spec = {"hostPID": True, "setHostnameAsFQDN": False, "containers": [{"name": "c", "imagePullPolicy": "Never"}]}
    pod = msgspec.convert({"metadata": {}, "spec": spec, "status": {"podIPs": [{"ip": "10.0.0.1"}]}}, k8s.Pod)

    assert pod.spec.host_pid is True
    assert pod.spec.set_hostname_as_fqdn is False
    assert spec == msgspec.json.decode(msgspec.json.encode(pod.spec))
    assert {"podIPs": [{"ip": "10.0.0.1"}]} == msgspec.json.decode(msgspec.json.encode(pod))["status"]


def test_the_one_member_with_a_capital_letter_does_not_disturb_its_namesakes() -> None:
    assert {"Port": 10250} == msgspec.to_builtins(k8s.DaemonEndpoint(port=10250))
    assert {"port": 80} == msgspec.to_builtins(k8s.TCPSocketAction(port=80))


def test_every_kind_the_agent_speaks_of_is_there_and_round_trips() -> None:
    meta = k8s.ObjectMeta(name="x")
    spec = k8s.CertificateSigningRequestSpec(request="", signer_name="s", usages=("client auth",))
    things = [
        k8s.Pod(metadata=meta, spec=k8s.PodSpec(containers=(k8s.Container(name="c"),))),
        k8s.NodeList(items=(k8s.Node(metadata=meta),)),
        k8s.Service(metadata=meta, spec=k8s.ServiceSpec(cluster_ip="None", ports=(k8s.ServicePort(port=1),))),
        k8s.ConfigMap(metadata=meta, data={"a": "b"}),
        k8s.Secret(metadata=meta, data={"a": "Yg=="}),
        k8s.Lease(metadata=meta, spec=k8s.LeaseSpec(holder_identity="n")),
        k8s.RuntimeClass(metadata=meta, handler="kata"),
        k8s.CertificateSigningRequest(metadata=meta, spec=spec),
    ]

    for thing in things:
        assert thing == msgspec.json.decode(msgspec.json.encode(thing), type=type(thing))
    assert {"clusterIP": "None", "ports": ({"port": 1},)} == msgspec.to_builtins(things[2])["spec"]
