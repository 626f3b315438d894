"""The variables of services: which services a pod is told of, and in which words."""

import pytest

from core.podkit import pod
from trikubelet.core.containers.service_links import ServiceAddress, ServicePort, address_of, service_variables
from trikubelet.model import k8s


def service(name: str, namespace: str = "default", ip: str = "10.0.0.1", *ports: k8s.ServicePort) -> ServiceAddress:
    spec = k8s.ServiceSpec(cluster_ip=ip, ports=ports or (k8s.ServicePort(port=80),))
    return address_of(k8s.Service(metadata=k8s.ObjectMeta(name=name, namespace=namespace), spec=spec))


REDIS = service(
    "redis-main", "default", "10.0.0.11", k8s.ServicePort(port=6379, name="client-tcp"),
    k8s.ServicePort(port=53, name="dns", protocol="UDP"),
)  # fmt: skip
KUBERNETES = service("kubernetes", ip="10.0.0.9")


def test_a_service_is_given_in_both_forms() -> None:
    assert {
        "REDIS_MAIN_SERVICE_HOST": "10.0.0.11",
        "REDIS_MAIN_SERVICE_PORT": "6379",
        "REDIS_MAIN_SERVICE_PORT_CLIENT_TCP": "6379",
        "REDIS_MAIN_SERVICE_PORT_DNS": "53",
        "REDIS_MAIN_PORT": "tcp://10.0.0.11:6379",
        "REDIS_MAIN_PORT_6379_TCP": "tcp://10.0.0.11:6379",
        "REDIS_MAIN_PORT_6379_TCP_PROTO": "tcp",
        "REDIS_MAIN_PORT_6379_TCP_PORT": "6379",
        "REDIS_MAIN_PORT_6379_TCP_ADDR": "10.0.0.11",
        "REDIS_MAIN_PORT_53_UDP": "udp://10.0.0.11:53",
        "REDIS_MAIN_PORT_53_UDP_PROTO": "udp",
        "REDIS_MAIN_PORT_53_UDP_PORT": "53",
        "REDIS_MAIN_PORT_53_UDP_ADDR": "10.0.0.11",
    } == service_variables(pod(), [REDIS])


def test_an_address_with_colons_stands_in_brackets_where_a_port_follows() -> None:
    made = service_variables(pod(), [service("a", ip="fd00::1")])

    assert ("fd00::1", "tcp://[fd00::1]:80", "fd00::1") == (
        made["A_SERVICE_HOST"],
        made["A_PORT"],
        made["A_PORT_80_TCP_ADDR"],
    )


@pytest.mark.parametrize(
    ("expected", "namespace", "links"),
    [
        ({"KUBERNETES", "HERE"}, "here", True),
        ({"KUBERNETES", "HERE"}, "here", None),
        ({"KUBERNETES"}, "here", False),
        ({"KUBERNETES", "WEB"}, "default", True),
        ({"KUBERNETES"}, "default", False),
    ],
)
def test_a_pod_sees_its_own_namespaces_services_if_it_wants_and_the_api_server_always(
    expected: set[str], namespace: str, links: bool | None
) -> None:
    services = [KUBERNETES, service("web"), service("here", "here"), service("x", "elsewhere")]
    made = service_variables(pod(meta={"namespace": namespace}, enable_service_links=links), services)

    assert expected == {name.removesuffix("_SERVICE_HOST") for name in made if name.endswith("_SERVICE_HOST")}


def test_a_service_of_the_pods_own_called_kubernetes_goes_before_the_api_servers() -> None:
    own = service("kubernetes", "here", "10.9.9.9")
    for services in ([KUBERNETES, own], [own, KUBERNETES]):
        made = service_variables(pod(meta={"namespace": "here"}), services)
        assert "10.9.9.9" == made["KUBERNETES_SERVICE_HOST"]


@pytest.mark.parametrize("ip", ["", "None"])
def test_a_service_without_an_address_is_of_no_use(ip: str) -> None:
    assert {} == service_variables(pod(), [service("a", ip=ip)])
    assert ServiceAddress("default", "e", "", ()) == address_of(
        k8s.Service(metadata=k8s.ObjectMeta(name="e", namespace="default"))
    )


def test_of_a_service_is_kept_what_variables_need() -> None:
    assert ServiceAddress("default", "kubernetes", "10.0.0.9", (ServicePort("", 80, "TCP"),)) == KUBERNETES
