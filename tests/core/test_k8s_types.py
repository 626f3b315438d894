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
