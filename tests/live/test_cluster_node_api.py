"""The node's API in a real cluster: `kubectl logs` and the API server's proxy reach it, and real authorizers say who
else may. Every route is asked by every kind of caller, in both modes, at the node's own port.
"""

from __future__ import annotations

import itertools
import json
import ssl
import subprocess
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import trustme

import upstream_metrics
from live.kit.cluster_agent import PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.kubectl import KubectlFailed
from live.kit.manifests import pod, shell
from live.kit.watched import is_ready
from shapes import shapes
from shell.nodeapikit import Bench, rules
from trikubelet.server.node_api import plain

if TYPE_CHECKING:
    from pathlib import Path

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane

pytestmark = pytest.mark.slow

TALKS = "default/talks"
ROUTES = {
    ("GET", "/healthz"): ("healthz", "proxy"),
    ("GET", "/healthz/syncloop"): ("healthz", "proxy"),
    ("GET", "/pods"): ("pods", "proxy"),
    ("GET", "/runningpods/"): ("pods", "proxy"),
    ("GET", "/configz"): ("configz", "proxy"),
    ("GET", "/metrics"): ("metrics",),
    ("GET", "/metrics/probes"): ("metrics",),
    ("GET", "/metrics/slis"): ("metrics",),
    ("GET", "/metrics/resource"): ("metrics",),
    ("GET", "/metrics/cadvisor"): ("metrics",),
    ("GET", "/stats/summary"): ("stats",),
    ("POST", "/stats/summary"): ("stats",),
    ("GET", "/statusz"): ("statusz",),
    ("GET", "/flagz"): ("configz",),
    ("GET", "/logs/"): ("log",),
    ("GET", "/logs/pods/"): ("log",),
    ("GET", "/debug/pprof/"): ("proxy",),
    ("GET", "/debug/pprof/goroutine"): ("proxy",),
    ("PUT", "/debug/flags/v"): ("proxy",),
    ("GET", f"/containerLogs/{TALKS}/c"): ("proxy",),
    ("POST", f"/checkpoint/{TALKS}/nobody"): ("checkpoint",),
    ("POST", f"/run/{TALKS}/c?cmd=true"): ("proxy",),
    ("POST", f"/run/{TALKS}/uid/c?cmd=true"): ("proxy",),
    **{
        (method, path): ("proxy",)
        for method in ("GET", "POST")
        for path in (
            f"/exec/{TALKS}/c?command=true&output=1",
            f"/exec/{TALKS}/uid/c?command=true&output=1",
            f"/attach/{TALKS}/c?output=1",
            f"/attach/{TALKS}/uid/c?output=1",
            f"/portForward/{TALKS}",
            f"/portForward/{TALKS}/uid",
        )
    },
}
"""Every route, with the rights of which one is enough. Who may pass is answered, if not always with what he wants."""
REFUSED = (401, 403)
VERBS = "get,create,update"
RIGHTS = ("proxy", "stats", "log", "metrics", "checkpoint", "statusz", "pods", "healthz", "configz")
RBAC = "rbac.authorization.k8s.io"


def run(member: ClusterAgent, manifest: dict[str, Any]) -> None:
    """Have a pod run on the node."""
    member.plane.kubectl("create", "-f-", manifests=manifest)
    with member.watch(PODS) as pods:
        name = manifest["metadata"]["name"]
        pods.wait(lambda now: is_ready(now.get(name, {})), f"{name} runs", story=member.story)


def client(member: ClusterAgent, context: ssl.SSLContext, token: str = "") -> httpx.Client:
    """Somebody who asks the node itself."""
    (address,) = [one["address"] for one in member.node()["status"]["addresses"] if one["type"] == "InternalIP"]
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(
        base_url=f"https://{address}:{member.port}", verify=context, headers=headers, trust_env=False, timeout=60
    )


def trusting(authority: Path | None = None) -> ssl.SSLContext:
    """TLS to the node, whose certificate counts where an authority is given."""
    context = ssl.create_default_context(cafile=authority)
    if authority is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def as_user(plane: ControlPlane, name: str) -> ssl.SSLContext:
    context, shown = trusting(), plane.user(name)
    context.load_cert_chain(shown.certificate, shown.key)
    return context


def allow(plane: ControlPlane, name: str, *subresources: str, account: bool = False, verb: str = "get") -> None:
    """Give a user, or a service account of the namespace "default", rights to nodes' subresources."""
    rule = {"apiGroups": [""], "resources": [f"nodes/{one}" for one in subresources], "verbs": verb.split(",")}
    meta = {"name": f"tests:{name}"}
    subject = {"kind": "User", "name": name, "apiGroup": RBAC}
    if account:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    ref = {"kind": "ClusterRole", "name": meta["name"], "apiGroup": RBAC}
    items = [
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": meta, "rules": [rule]},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": ref,
            "subjects": [subject],
        },
    ]
    plane.kubectl("apply", "-f-", manifests={"apiVersion": "v1", "kind": "List", "items": items})


# ---- through the API server ----


def test_kubectl_reads_logs_in_every_way_it_knows(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    counts = "i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done"
    run(member, pod("talks", shell("c", f"{counts}; while true; do sleep 1; echo more; echo wrong >&2; done")))

    await_that(lambda: {"more", "wrong"} <= set(kubectl("logs", "talks").split()), 60, member.story)
    assert [f"line {n}" for n in range(100)] == kubectl("logs", "talks").splitlines()[:100]
    assert 3 == len(kubectl("logs", "talks", "--tail=3").splitlines())
    assert "line" == kubectl("logs", "talks", "--limit-bytes=4")
    stamp, text = kubectl("logs", "talks", "--timestamps", "--tail=1").split()
    assert ("T", True) == (stamp[10], text in ("more", "wrong"))
    assert "line 0" not in kubectl("logs", "talks", "--since=1s", "--tail=2")
    following = kubectl.command("logs", "talks", "--follow", "--tail=0")
    with subprocess.Popen(following, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert {"more\n", "wrong\n"} == {process.stdout.readline() for _ in range(4)}
        kubectl("delete", "pod", "talks", "--wait=false")
        assert {"more\n", "wrong\n"} >= set(
            process.stdout
        )  # to its end: the follower is told that the container is over
        assert 0 == process.wait(60)


def test_kubectl_reads_the_log_of_the_run_before_and_of_what_is_over(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    kubectl("create", "-f-", manifests=pod("dies", shell("c", "echo run $$; sleep 1; exit 3")))

    def restarted() -> bool:
        status = kubectl.get("pod", "dies")["status"].get("containerStatuses", [{}])[0]
        return bool(status.get("restartCount", 0) >= 1)

    await_that(restarted, 90, member.story, 0.5)
    assert kubectl("logs", "dies", "--previous").startswith("run ")
    kubectl("create", "-f-", manifests=pod("done", shell("c", "echo all said"), restartPolicy="Never"))
    await_that(lambda: "Succeeded" == kubectl.get("pod", "done")["status"]["phase"], 60, member.story, 0.5)
    assert "all said\n" == kubectl("logs", "done")
    with pytest.raises(KubectlFailed, match=r"previous terminated container .* not found"):
        kubectl("logs", "done", "--previous")


def test_kubectl_reads_the_log_of_a_static_pod_by_its_mirror(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    mirror = f"still-{member.name}"
    member.put(pod("still", shell("c", "echo from a manifest; sleep 1000")))
    with member.watch(PODS) as pods:
        pods.wait(lambda now: is_ready(now.get(mirror, {})), "the mirror shows that it runs", story=member.story)
    await_that(lambda: "from a manifest\n" == kubectl("logs", mirror), 60, member.story)


def test_kubectl_says_of_a_container_that_waits_why(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    nowhere = {"name": "c", "image": "registry.invalid/none:1"}
    kubectl("create", "-f-", manifests=pod("waits", nowhere))

    def told() -> str:
        try:
            return kubectl("logs", "waits")
        except KubectlFailed as failed:
            return str(failed)

    wanted = 'Error from server (BadRequest): container "c" in pod "waits" is waiting to start: '
    await_that(lambda: f"{wanted}trying and failing to pull image" in told(), 90, lambda: told() + member.story(), 0.2)


def test_the_api_server_reaches_the_node_through_its_proxy(member: ClusterAgent) -> None:
    kubectl = member.plane.kubectl
    run(member, pod("talks", shell("c", "echo hello; sleep 1000")))

    def ask(path: str) -> str:
        return kubectl("get", "--raw", f"/api/v1/nodes/{member.name}/proxy{path}")

    assert {member.port} == {member.node()["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]}
    assert "ok" == ask("/healthz").strip()
    assert ["talks"] == [one["metadata"]["name"] for one in json.loads(ask("/pods"))["items"]]
    (running,) = json.loads(ask("/runningpods/"))["items"]
    assert ("talks", "c") == (running["metadata"]["name"], running["spec"]["containers"][0]["name"])
    assert member.port == json.loads(ask("/configz"))["kubeletconfig"]["port"]
    assert "kubelet_running_pods 1" in ask("/metrics")
    told = {row.name: (row.kind, frozenset(row.labels), row.bounds) for row in upstream_metrics.HERE if row.often}

    def differing() -> list[str]:
        found = shapes(ask("/metrics"))
        return [name for name, shape in told.items() if shape != found.get(name)]

    await_that(lambda: not differing(), 60, lambda: f"metrics of another shape: {differing()}\n{member.story()}", 0.5)
    assert "hello\n" == ask("/containerLogs/default/talks/c")
    with pytest.raises(KubectlFailed, match=r"NotFound|could not find"):
        ask("/nothing")


# ---- who may ask the node itself ----


def passes(who: httpx.Client, method: str, path: str) -> bool:
    """Whether he is answered, and not turned away."""
    status = who.request(method, path, content=b"2" if method == "PUT" else None).status_code
    assert status not in (404, 405) or "uid" in path or "nobody" in path, (method, path, status)
    return status not in REFUSED


def test_each_route_wants_one_of_its_rights_from_certificates_and_tokens_alike(member: ClusterAgent) -> None:
    plane = member.plane
    run(member, pod("talks", shell("c", "echo hello; sleep 1000")))
    for right in RIGHTS:
        allow(plane, f"has-{right}", right, verb=VERBS)
        plane.kubectl("create", "serviceaccount", f"may-{right}")
        allow(plane, f"may-{right}", right, account=True, verb=VERBS)
    try:
        for right in RIGHTS:
            token = plane.kubectl("create", "token", f"may-{right}").strip()
            by_certificate = client(member, as_user(plane, f"has-{right}"))
            by_token = client(member, trusting(), token)
            with by_certificate, by_token:
                for (asked, rights), who in itertools.product(ROUTES.items(), (by_certificate, by_token)):
                    assert (right, asked, right in rights) == (right, asked, passes(who, *asked))
    finally:
        for right in RIGHTS:
            plane.kubectl("delete", "serviceaccount", f"may-{right}")


@pytest.mark.parametrize("mode", ["Webhook", "AlwaysAllow"])
def test_unauthenticated_clients_get_no_data_in_either_mode(
    control_plane: ControlPlane, containerd2: Containerd, mode: str
) -> None:
    with ClusterAgent(containerd2, control_plane, authorization={"mode": mode}) as member:
        member.wait_ready()
        foreign = trusting()
        trustme.CA().issue_cert("c.test", common_name="admin", organization_name="system:masters").configure_cert(
            foreign
        )
        for token in ("", "made-up"):
            with client(member, trusting(), token) as nobody:
                for asked in (*ROUTES, ("GET", "/"), ("GET", "/nothing"), ("HEAD", "/healthz")):
                    assert (asked, 401) == (asked, nobody.request(*asked).status_code)
        with client(member, foreign) as stranger, pytest.raises(httpx.TransportError):
            stranger.get("/healthz")
        with client(member, as_user(control_plane, "known")) as somebody:
            of_pods = [asked for asked in ROUTES if TALKS in asked[1]]  # there is none here
            turned_away = {asked for asked in ROUTES if somebody.request(*asked).status_code in REFUSED}
            assert (set(ROUTES) if mode == "Webhook" else set()) == turned_away
            assert mode == "Webhook" or 404 == somebody.request(*of_pods[0]).status_code


def test_every_route_there_is_was_asked(tmp_path: Path) -> None:
    asked = {(method, plain(path.partition("?")[0])) for method, path in ROUTES}
    routes = [(method, route) for route in Bench(tmp_path).node_api(rules()).routes for method in route.methods]

    missing = {
        (method, route.path)
        for method, route in routes
        if not any(method == one and route.parts(path) is not None for one, path in asked)
    }
    # No right has a name for a HEAD, as upstream; to POST a log query wants another verb of the same right.
    heads = {(method, route.path) for method, route in routes if method == "HEAD"}
    assert heads | {("POST", "/logs"), ("POST", "/logs/{path...}")} == missing


# ---- its certificate ----


def test_a_certificate_the_cluster_signed_is_shown_as_soon_as_it_is_there(
    control_plane: ControlPlane, containerd2: Containerd
) -> None:
    with ClusterAgent(containerd2, control_plane, serverTLSBootstrap=True) as agent:
        agent.wait_ready()
        kubectl = control_plane.kubectl
        strict = trusting(control_plane.authority.certificate)
        with client(agent, strict) as early, pytest.raises(httpx.TransportError):
            early.get("/healthz")
        await_that(lambda: bool(kubectl.get("csr")["items"]), 60, agent.story, 0.5)
        kubectl("certificate", "approve", kubectl.get("csr")["items"][0]["metadata"]["name"])

        def is_shown() -> bool:
            try:
                with client(agent, strict) as asking:
                    return asking.get("/healthz").status_code == 401
            except httpx.TransportError:
                return False

        await_that(is_shown, 60, agent.story, 0.5)
