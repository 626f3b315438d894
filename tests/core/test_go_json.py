"""Ports and hooks in annotations, as upstream's kubelet writes them: the texts were printed by Go's encoder."""

from __future__ import annotations

import pytest

from trikubelet.core.go_json import FIELDS, go_json
from trikubelet.model import k8s

PORTS = (
    k8s.ContainerPort(container_port=80, name="web", protocol="TCP"),
    k8s.ContainerPort(container_port=53, protocol="UDP", host_port=5353, host_ip="127.0.0.1"),
)
HEADERS = (k8s.HTTPHeader(name="X-A", value="<1>"),)
HANDLERS = [
    (
        k8s.LifecycleHandler(exec=k8s.ExecAction(command=("sh", "-c", "a && b > é\u2028"))),
        r'{"exec":{"command":["sh","-c","a \u0026\u0026 b \u003e é\u2028"]}}',
    ),
    (
        k8s.LifecycleHandler(
            http_get=k8s.HTTPGetAction(host="h", http_headers=HEADERS, path="/bye", port="web", scheme="HTTPS")
        ),
        r'{"httpGet":{"path":"/bye","port":"web","host":"h","scheme":"HTTPS","httpHeaders":'
        r'[{"name":"X-A","value":"\u003c1\u003e"}]}}',
    ),
    (
        k8s.LifecycleHandler(tcp_socket=k8s.TCPSocketAction(host="h", port=80)),
        '{"tcpSocket":{"port":80,"host":"h"}}',
    ),
    (k8s.LifecycleHandler(sleep=k8s.SleepAction(seconds=5)), '{"sleep":{"seconds":5}}'),
]


def test_ports_have_upstreams_order_of_fields() -> None:
    assert (
        '[{"name":"web","containerPort":80,"protocol":"TCP"},'
        '{"hostPort":5353,"containerPort":53,"protocol":"UDP","hostIP":"127.0.0.1"}]'
    ) == go_json(PORTS)


@pytest.mark.parametrize(("handler", "written"), HANDLERS)
def test_handlers_have_upstreams_order_of_fields_and_escapes(handler: k8s.LifecycleHandler, written: str) -> None:
    assert written == go_json(handler)


def test_every_field_of_ports_and_handlers_has_its_place() -> None:
    """A field of a new release that has none would keep the containers that use it from being made."""
    types = (k8s.ContainerPort, k8s.LifecycleHandler, k8s.ExecAction, k8s.HTTPGetAction, k8s.HTTPHeader)
    for one in (*types, k8s.TCPSocketAction, k8s.SleepAction):
        assert set(one.__struct_encode_fields__) <= set(FIELDS)
