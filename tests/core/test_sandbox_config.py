"""The sandbox's configuration as a whole, its ports, and what it refuses for the node's sake."""

from typing import Any

import pytest

from core.podkit import container, pod, sidecar
from trikubelet.core.containers import NodeFacts, SandboxConfigError, sandbox_config
from trikubelet.core.containers.sysctls import forbidden_sysctl, normal_name
from trikubelet.model import k8s
from trikubelet.model.runtime_config import (
    DNSConfig,
    IdRange,
    LinuxResources,
    Namespaces,
    PortMapping,
    ProfileType,
    Protocol,
    SandboxConfig,
    Security,
    SecurityProfile,
)

FACTS = NodeFacts("node-a", resolv_conf=DNSConfig(("192.0.2.53",)), cluster_dns=("10.96.0.10",))


def sysctls(*pairs: tuple[str, str], **fields: Any) -> k8s.Pod:
    listed = tuple(k8s.Sysctl(name=name, value=value) for name, value in pairs)
    return pod("a", security_context=k8s.PodSecurityContext(sysctls=listed), **fields)


def test_a_sandbox_as_a_whole() -> None:
    it = pod(
        container("a", ports=(k8s.ContainerPort(container_port=80, host_port=8080),)),
        meta={"labels": {"app": "web"}, "annotations": {"note": "x"}},
        hostname="web",
    )

    assert SandboxConfig(
        uid="12345678",
        name="pod",
        namespace="default",
        attempt=3,
        hostname="web",
        log_directory="/var/log/pods/default_pod_12345678",
        dns=DNSConfig(("10.96.0.10",), (), ("ndots:5",)),
        port_mappings=(PortMapping(80, 8080),),
        labels={
            "app": "web",
            "io.kubernetes.pod.name": "pod",
            "io.kubernetes.pod.namespace": "default",
            "io.kubernetes.pod.uid": "12345678",
        },
        annotations={"note": "x"},
        cgroup_parent="/kubepods/besteffort/pod12345678",
        security=Security(namespaces=Namespaces(), seccomp=SecurityProfile(ProfileType.RUNTIME_DEFAULT)),
        sysctls={},
        resources=LinuxResources(cpu_period_us=100_000, cpu_shares=2),
        overhead=LinuxResources(),
    ) == sandbox_config(it, 3, FACTS)


def port(number: int, host: int | None = None, protocol: str = "", ip: str = "") -> k8s.ContainerPort:
    return k8s.ContainerPort(container_port=number, host_port=host, protocol=protocol, host_ip=ip)


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param((PortMapping(80, 0),), pod(container("a", ports=(port(80),))), id="a port without a host port"),
        pytest.param(
            (PortMapping(53, 5353, Protocol.UDP, "192.0.2.1"), PortMapping(9, 99, Protocol.SCTP)),
            pod(container("a", ports=(port(53, 5353, "UDP", "192.0.2.1"), port(9, 99, "SCTP")))),
            id="protocols and addresses",
        ),
        pytest.param(
            (PortMapping(1, 11), PortMapping(2, 22)),
            pod(container("a", ports=(port(2, 22),)), init=(sidecar("s", ports=(port(1, 11),)),)),
            id="a sidecar's too",
        ),
        pytest.param((), pod("a", init=(container("i", ports=(port(1, 11),)),)), id="but not those of one that ends"),
        pytest.param(
            (PortMapping(1, 11),),
            pod(container("a", ports=(port(1, 11),)), container("b", ports=(port(1, 11, "TCP"),))),
            id="each once",
        ),
        pytest.param(
            (PortMapping(80, 80),),
            pod(container("a", ports=(port(80, 80),)), host_network=True),
            id="on the host network",
        ),
    ],
)
def test_ports_of_the_sandbox_are_those_of_all_containers(expected: tuple[PortMapping, ...], it: k8s.Pod) -> None:
    assert expected == sandbox_config(it, 0, FACTS).port_mappings


def test_on_the_host_network_the_nodes_name_is_left_alone() -> None:
    assert "" == sandbox_config(pod(host_network=True, hostname="h"), 0, FACTS).hostname


def test_a_name_too_long_for_the_kernel_fails_the_sandbox() -> None:
    it = pod(hostname="h" * 63, subdomain="sub", set_hostname_as_fqdn=True)

    with pytest.raises(
        SandboxConfigError,
        match=r"^FailedCreatePodSandBox: Failed to create pod sandbox: failed to construct FQDN from pod hostname and"
        r" cluster domain, FQDN h{63}\.sub\.\S+ is too long",
    ):
        sandbox_config(it, 0, FACTS)


def test_the_sandboxs_users_are_those_the_pod_was_given() -> None:
    given = IdRange(65536, 65536)

    assert [given, None] == [sandbox_config(pod(), 0, FACTS, ids).security.namespaces.users for ids in (given, None)]


@pytest.mark.parametrize(
    ("expected", "name"),
    [
        ("net.ipv4.conf.eth0.forwarding", "net.ipv4.conf.eth0.forwarding"),
        ("net.ipv4.conf.eth0.forwarding", "net/ipv4/conf/eth0/forwarding"),
        ("net.ipv4.conf.eth0/1.forwarding", "net/ipv4/conf/eth0.1/forwarding"),
        ("net.ipv4.conf.eth0/1.forwarding", "net.ipv4.conf.eth0/1.forwarding"),
        ("plain", "plain"),
    ],
)
def test_a_sysctl_has_one_name_however_it_is_spelled(expected: str, name: str) -> None:
    assert expected == normal_name(name)


def test_safe_sysctls_reach_the_sandbox_by_their_dotted_names() -> None:
    it = sysctls(("net/ipv4/tcp_syncookies", "1"), ("kernel.shm_rmid_forced", "0"))

    expected = {"net.ipv4.tcp_syncookies": "1", "kernel.shm_rmid_forced": "0"}
    assert expected == sandbox_config(it, 0, FACTS).sysctls


@pytest.mark.parametrize(
    ("expected", "name", "allowed", "fields"),
    [
        pytest.param("", "net.ipv4.tcp_fin_timeout", (), {}, id="a safe one"),
        pytest.param(
            'forbidden sysctl: "net.core.somaxconn" not allowlisted', "net.core.somaxconn", (), {}, id="an unsafe one"
        ),
        pytest.param("", "net.core.somaxconn", ("net.core.somaxconn",), {}, id="let through by name"),
        pytest.param("", "net.core.somaxconn", ("net/core/*",), {}, id="let through by a prefix"),
        pytest.param(
            'forbidden sysctl: "net.core.somaxconn" not allowlisted',
            "net.core.somaxconn",
            ("net.core",),
            {},
            id="a name is no prefix",
        ),
        pytest.param("", "kernel.msgmax", ("kernel.msg*",), {}, id="of the IPC namespace"),
        pytest.param(
            'forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled',
            "kernel.msgmax",
            ("*",),
            {"host_ipc": True},
            id="of the node's IPC namespace",
        ),
        pytest.param(
            'forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled',
            "net.ipv4.tcp_syncookies",
            ("*",),
            {"host_network": True},
            id="of the node's network",
        ),
        pytest.param("", "kernel.domainname", ("kernel.domainname",), {}, id="of the UTS namespace"),
        pytest.param("", "user.max_mnt_namespaces", ("user.*",), {"host_users": False}, id="of the user namespace"),
        pytest.param(
            'forbidden sysctl: "user.max_mnt_namespaces" not allowed with host User enabled',
            "user.max_mnt_namespaces",
            ("user.*",),
            {},
            id="of the node's user namespace, which is the default",
        ),
        pytest.param(
            'forbidden sysctl: "user.max_mnt_namespaces" not allowlisted',
            "user.max_mnt_namespaces",
            (),
            {"host_users": False},
            id="of the user namespace, not let through",
        ),
        pytest.param(
            'forbidden sysctl: "vm.swappiness" belongs to the node and not to a namespace of the pod',
            "vm.swappiness",
            ("*",),
            {},
            id="of the node, whoever lets it through",
        ),
    ],
)
def test_which_sysctls_a_pod_may_set(
    expected: str, name: str, allowed: tuple[str, ...], fields: dict[str, Any]
) -> None:
    it, facts = sysctls((name, "1"), **fields), NodeFacts("n", allowed_sysctls=allowed)

    assert expected == forbidden_sysctl(it, facts)
    if expected:
        with pytest.raises(SandboxConfigError, match="forbidden sysctl"):
            sandbox_config(it, 0, facts)


def test_overhead_is_passed_next_to_the_resources_and_not_in_them() -> None:
    limits = {"cpu": "100m", "memory": "32Mi"}
    a = container("a", resources=k8s.ResourceRequirements(requests=limits, limits=limits))
    plain = sandbox_config(pod(a), 0, FACTS)
    found = sandbox_config(pod(a, overhead={"cpu": "20m", "memory": "12Mi"}), 0, FACTS)
    assert plain.resources == found.resources
    assert found.overhead is not None
    assert (20, 12 * 1024**2) == (found.overhead.cpu_shares, found.overhead.memory_limit_bytes)
