"""Pods like those of a busy cluster, generated from a seed: names, labels, annotations, images, addresses, mounts.

They have a kubelet's labels and annotations, so a record is as long and as costly to decode as a real one: a container
of a list takes 1,258 bytes on average, a sandbox 1,117. Called once, when a population is made; the same seed makes the
same pods.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from trikubelet.core import names
from trikubelet.core.timestamps import rfc3339_nano
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.fake.images import image_id, image_ref
from trikubelet.fake.records import Container, Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

_NAMESPACES: Final = (
    "default",
    "kube-system",
    "monitoring",
    "payments-production",
    "checkout-staging",
    "data-platform",
)
_TEAMS: Final = ("payments", "checkout", "inventory", "search", "identity", "recommendations", "shipping", "billing")
_ROLES: Final = ("api", "worker", "frontend", "scheduler", "gateway", "consumer", "cache")
_CONTAINERS: Final = ("app", "istio-proxy", "metrics-exporter", "log-forwarder", "config-reloader", "vault-agent")
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_PRE_STOP: Final = '{"exec":{"command":["/bin/sh","-c","wget -q -O- localhost:8080/-/drain && sleep 15"]}}'
_REGISTRY: Final = "registry.internal.example.com:5000"


def make_pods(pods: int, containers_per_pod: int, chance: Random, began_ns: int) -> Iterator[Sandbox]:
    """Sandboxes with their running containers. ``began_ns``: about when they were made, in nanoseconds."""
    for number in range(pods):
        sandbox = _sandbox(number, chance, began_ns)
        mounts = _mounts(sandbox)
        for place in range(containers_per_pod):
            container = _container(sandbox, place, mounts, chance)
            sandbox.containers[container.id] = container
        yield sandbox


def new_id(chance: Random) -> str:
    """An id as runtimes make them."""
    return chance.randbytes(32).hex()


def next_attempt(before: Container, chance: Random, now_ns: int) -> Container:
    """The container that replaces ``before`` in a restart, running."""
    attempt = before.attempt + 1
    return Container(
        id=new_id(chance),
        sandbox=before.sandbox,
        name=before.name,
        attempt=attempt,
        image=before.image,
        image_ref=before.image_ref,
        image_id=before.image_id,
        labels=before.labels,
        annotations={**before.annotations, names.CONTAINER_RESTART_COUNT: str(attempt)},
        created_at=now_ns,
        mounts=before.mounts,
        log_path=f"{before.log_path.rpartition('/')[0]}/{attempt}.log" if before.log_path else "",
        state=pb.CONTAINER_RUNNING,
        started_at=now_ns,
    )


def pod_address(number: int) -> str:
    """The address of the pod of that number; they repeat after eight million."""
    return f"10.{64 + number // 64_000 % 128}.{number // 250 % 256}.{number % 250 + 2}"


def _sandbox(number: int, chance: Random, began_ns: int) -> Sandbox:
    team, role = chance.choice(_TEAMS), chance.choice(_ROLES)
    workload, namespace = f"{team}-{role}", chance.choice(_NAMESPACES)
    template = _letters(chance, 10)
    name, uid = f"{workload}-{template}-{_letters(chance, 5)}", str(uuid.UUID(bytes=chance.randbytes(16), version=4))
    release = f"{chance.randrange(1, 9)}.{chance.randrange(20)}.{chance.randrange(10)}"
    address = pod_address(number)
    labels = {
        "app.kubernetes.io/name": workload,
        "app.kubernetes.io/instance": workload,
        "app.kubernetes.io/version": release,
        "app.kubernetes.io/component": role,
        "app.kubernetes.io/part-of": f"{team}-platform",
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": f"{workload}-{release}",
        "pod-template-hash": template,
        names.POD_NAME: name,
        names.POD_NAMESPACE: namespace,
        names.POD_UID: uid,
    }
    created_at = began_ns + chance.randrange(3600 * 10**9)
    annotations = {
        names.CONFIG_SEEN: rfc3339_nano(created_at),
        names.CONFIG_SOURCE: names.API_SOURCE,
        "checksum/config": chance.randbytes(32).hex(),
        "cni.projectcalico.org/containerID": chance.randbytes(32).hex(),
        "cni.projectcalico.org/podIP": f"{address}/32",
        "kubectl.kubernetes.io/restartedAt": f"2026-05-{chance.randrange(10, 29)}T08:00:00Z",
        "prometheus.io/port": "9102",
        "prometheus.io/scrape": "true",
    }
    return Sandbox(
        id=new_id(chance),
        uid=uid,
        name=name,
        namespace=namespace,
        attempt=0,
        labels=labels,
        annotations=annotations,
        created_at=created_at,
        ip=address,
        ours=True,
        log_directory=f"/var/log/pods/{names.log_directory_name(namespace, name, uid)}",
    )


def _container(sandbox: Sandbox, place: int, mounts: tuple[pb.Mount, ...], chance: Random) -> Container:
    name = _CONTAINERS[place] if place < len(_CONTAINERS) else f"sidecar-{place}"
    workload = sandbox.labels["app.kubernetes.io/name"] if place == 0 else name
    image = f"{_REGISTRY}/platform/{workload}:{sandbox.labels['app.kubernetes.io/version']}"
    port = 8080 + place
    ports = (
        f'[{{"name":"http","containerPort":{port},"protocol":"TCP"}},'
        f'{{"name":"metrics","containerPort":{9102 + place},"protocol":"TCP"}}]'
    )
    created_at = sandbox.created_at + chance.randrange(10**9, 20 * 10**9)
    return Container(
        id=new_id(chance),
        sandbox=sandbox,
        name=name,
        attempt=0,
        image=image,
        image_ref=image_ref(image),
        image_id=image_id(image),
        labels={
            names.POD_NAME: sandbox.name,
            names.POD_NAMESPACE: sandbox.namespace,
            names.POD_UID: sandbox.uid,
            names.CONTAINER_NAME: name,
        },
        annotations={
            names.CONTAINER_HASH: f"{chance.getrandbits(32):x}",
            names.CONTAINER_RESTART_COUNT: "0",
            names.CONTAINER_TERMINATION_PATH: "/dev/termination-log",
            names.CONTAINER_TERMINATION_POLICY: "File",
            names.POD_TERMINATION_GRACE: "30",
            names.CONTAINER_PORTS: ports,
            names.CONTAINER_PRE_STOP: _PRE_STOP,
        },
        created_at=created_at,
        mounts=mounts,
        log_path=f"{sandbox.log_directory}/{names.log_path(name, 0)}",
        state=pb.CONTAINER_RUNNING,
        started_at=created_at + 40_000_000,
    )


def _mounts(sandbox: Sandbox) -> tuple[pb.Mount, ...]:
    """Return the mounts that a kubelet adds to every container of a pod."""
    directory = f"/var/lib/kubelet/pods/{sandbox.uid}"
    token = "kubernetes.io~projected/kube-api-access"  # noqa: S105 - a directory
    return (
        pb.Mount(container_path="/etc/hosts", host_path=f"{directory}/etc-hosts"),
        pb.Mount(
            container_path="/var/run/secrets/kubernetes.io/serviceaccount",
            host_path=f"{directory}/volumes/{token}-{sandbox.uid[:5]}",
            readonly=True,
        ),
    )


def _letters(chance: Random, count: int) -> str:
    return "".join(chance.choices(_LETTERS, k=count))
