"""A whole control plane for tests and benches: etcd, API server, controllers and scheduler, real and of our own.

    etcd ─► API server ready ─► controllers, scheduler ─► bootstrap roles and default service account there: usable

Called by the fixtures in ``tests/live/conftest.py``, by benches, and by hand (``python -m live.kit cluster``). Nodes
are held to their own: authorization is Node and RBAC, NodeRestriction is on, everybody comes with a certificate or a
token. Files, data and logs are in one private directory; the guard of ``component.py`` takes them and the processes
away when this process ends, however it ends. Nothing here runs a pod: a node has to join for that.
"""

from __future__ import annotations

import http.client
import secrets
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from . import network, places
from .certificates import LASTING, Authority
from .component import START_SECONDS_MAX, STOP_SECONDS_MAX, Component, Guard
from .daemon import await_that
from .kubectl import Kubectl, KubectlFailed, write_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .certificates import Credentials

# No pod and no proxy has to reach these here, so that two control planes may have the same.
SERVICES = "10.213.0.0/16"
_FIRST_SERVICE = "10.213.0.1"
_TOKEN_LASTS = timedelta(hours=1)
_KNOWN_SECONDS_MAX = 60.0

# Who may do what while becoming a node, as kubeadm would have it: the roles are Kubernetes' own.
_REQUESTS = "system:certificates.k8s.io:certificatesigningrequests"
_BINDINGS = {
    "bootstrap": ("system:node-bootstrapper", "system:bootstrappers"),
    "approve-first": (f"{_REQUESTS}:nodeclient", "system:bootstrappers"),
    "approve-renewal": (f"{_REQUESTS}:selfnodeclient", "system:nodes"),
}


class ControlPlane:
    """Owns the four processes and their directory. Use as a context manager, or end with `close`.

    Everything is synchronous and may block for seconds: a Trio test calls it in a thread. ``flags`` adds to the flags
    of a program, by its name: ``{"kube-controller-manager": ["--cluster-signing-duration=10m"]}``; the last of a name
    holds. Raises NotInstalled where the programs are missing, RuntimeError with the logs when it does not get ready.
    """

    def __init__(self, flags: Mapping[str, Iterable[str]] | None = None) -> None:
        self.programs = places.control_plane()
        self._flags = flags or {}
        self._address = network.host_address()
        self._port = network.free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="trikubelet-control-plane-"))
        self._guard = Guard(self.directory)
        self._authority = Authority(self.directory)
        self._serving = self.issue_serving("apiserver")
        self.kubeconfig = self._kubeconfig("admin", "admin", "system:masters")
        self.kubectl = self.kubectl_as(self.kubeconfig)
        self.etcd = self._etcd()
        self.apiserver = self._apiserver()
        self.controllers = self._controllers()
        self.scheduler = self._scheduler()
        self.components = (self.etcd, self.apiserver, self.controllers, self.scheduler)
        try:
            for component in self.components:
                component.start()
            self._let_nodes_bootstrap()
            await_that(self._is_usable, START_SECONDS_MAX, lambda: f"no default service account\n{self.story()}", 0.2)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ControlPlane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends everything and removes the directory. Safe to repeat."""
        self._guard.end()
        for component in self.components:
            component.wait()
        await_that(lambda: not self.directory.exists(), STOP_SECONDS_MAX, lambda: f"{self.directory} stays")

    # ---- who may ask ----

    @property
    def url(self) -> str:
        """Of the API server, by an address of this machine that is not loopback."""
        return f"https://{self._address}:{self._port}"

    @property
    def authority(self) -> Credentials:
        """The certificate that everything here is signed by, and its key."""
        return self._authority.files

    def user(self, name: str, group: str = "") -> Credentials:
        """A client certificate of a user, who may nothing but what is bound to it or its group."""
        return self._authority.issue(f"user-{name}", name, group)

    def node_kubeconfig(self, node: str, lasting: timedelta = LASTING) -> Path:
        """Of a node that has joined already: a client certificate in its name."""
        return self._kubeconfig(f"node-{node}", f"system:node:{node}", "system:nodes", lasting)

    def bootstrap_kubeconfig(self, lasting: timedelta = _TOKEN_LASTS) -> Path:
        """Of a node that is to join: a bootstrap token of its own, made now, which the API server believes when this
        returns; less than no time has made it expire. Its certificate requests are approved without anybody's help,
        except for serving certificates."""
        token, secret = secrets.token_hex(3), secrets.token_hex(8)
        said = {
            "token-id": token,
            "token-secret": secret,
            "expiration": (datetime.now(UTC) + lasting).isoformat(timespec="seconds"),
            "usage-bootstrap-authentication": "true",
        }
        metadata = {"name": f"bootstrap-token-{token}", "namespace": "kube-system"}
        manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": said}
        self.kubectl("create", "-f-", manifests=manifest | {"type": "bootstrap.kubernetes.io/token"})
        path = self.directory / f"bootstrap-{token}.kubeconfig"
        write_kubeconfig(path, self.url, self.authority.certificate, f"{token}.{secret}")
        if lasting > timedelta():
            await_that(lambda: self._is_known(path), _KNOWN_SECONDS_MAX, lambda: f"{path} is not believed")
        return path

    def _is_known(self, kubeconfig: Path) -> bool:
        """Whether the API server believes it; it hears of a new token a moment after that was written."""
        try:
            self.kubectl_as(kubeconfig)("auth", "whoami")
        except KubectlFailed:
            return False
        return True

    def kubectl_as(self, kubeconfig: Path) -> Kubectl:
        """kubectl as the user of ``kubeconfig``."""
        return Kubectl(self.programs / "kubectl", kubeconfig)

    # ---- what tests do to it ----

    def renew_serving_certificate(self, lasting: timedelta = LASTING) -> None:
        """A new key and certificate for the API server, which notices the files by itself within a minute."""
        self._serving = self.issue_serving("apiserver", lasting)

    def issue_serving(self, file: str, lasting: timedelta = LASTING) -> Credentials:
        """A certificate by which its holder is the API server to whoever trusts this cluster."""
        names = ("localhost", "kubernetes.default.svc", "127.0.0.1", _FIRST_SERVICE, self._address)
        return self._authority.issue(file, "kube-apiserver", names=names, lasting=lasting)

    def clear(self) -> None:
        """Whatever a test did, the next one finds every component running, and no node, workload or request."""
        for component in self.components:
            component.revive()
        workloads = "deployments,daemonsets,statefulsets,jobs,replicasets,pods"
        self.kubectl("delete", workloads, "--all", "--all-namespaces", "--force", "--grace-period=0", "--wait=false")
        self.kubectl("delete", "nodes,certificatesigningrequests", "--all")

    def story(self) -> str:
        """The ends of all logs, for a failure."""
        return "\n\n".join(component.story() for component in self.components)

    # ---- making it ----

    def _kubeconfig(self, file: str, user: str, group: str = "", lasting: timedelta = LASTING) -> Path:
        credentials = self._authority.issue(file, user, group, lasting=lasting)
        path = self.directory / f"{file}.kubeconfig"
        return write_kubeconfig(path, self.url, self.authority.certificate, credentials)

    def _etcd(self) -> Component:
        # Sockets in the directory it is started in, so that no port is needed; etcd wants names that look like one.
        client, peer = "unix://client:0", "unix://peer:0"
        return self._component(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        )

    def _apiserver(self) -> Component:
        to_kubelets = self._authority.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
        accounts = self._authority.issue("service-accounts", "service-accounts").key
        return self._component(
            "kube-apiserver",
            "--etcd-servers=unix://client:0",
            f"--secure-port={self._port}",
            f"--advertise-address={self._address}",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
            f"--client-ca-file={self.authority.certificate}",
            f"--service-cluster-ip-range={SERVICES}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--enable-bootstrap-token-auth",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={to_kubelets.certificate}",
            f"--kubelet-client-key={to_kubelets.key}",
            "--allow-privileged",
            # Else a stop waits a minute for watches that their clients never end.
            "--shutdown-watch-termination-grace-period=2s",
        )

    def _controllers(self) -> Component:
        # Without a port of their own, controllers and scheduler are known to work by what they do.
        return self._component(
            "kube-controller-manager",
            f"--kubeconfig={self._kubeconfig('controllers', 'system:kube-controller-manager')}",
            "--secure-port=0",
            "--leader-elect=false",
            "--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
            "--use-service-account-credentials",
            f"--root-ca-file={self.authority.certificate}",
            f"--service-account-private-key-file={self.directory / 'service-accounts.key'}",
            f"--cluster-signing-cert-file={self.authority.certificate}",
            f"--cluster-signing-key-file={self.authority.key}",
        )

    def _scheduler(self) -> Component:
        return self._component(
            "kube-scheduler",
            f"--kubeconfig={self._kubeconfig('scheduler', 'system:kube-scheduler')}",
            "--secure-port=0",
            "--leader-elect=false",
        )

    def _component(self, name: str, *flags: str) -> Component:
        command = [str(self.programs / name), *flags, *self._flags.get(name, ())]
        answers = self._apiserver_is_ready if name == "kube-apiserver" else lambda: True
        return Component(name, command, self.directory / f"{name}.log", self._guard, answers)

    def _let_nodes_bootstrap(self) -> None:
        items = []
        for name, (role, group) in _BINDINGS.items():
            binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
            to = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
            by = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}]
            items.append(binding | {"metadata": {"name": f"tests:{name}"}, "roleRef": to, "subjects": by})
        self.kubectl("create", "-f-", manifests={"apiVersion": "v1", "kind": "List", "items": items})

    def _apiserver_is_ready(self) -> bool:
        trust = ssl.create_default_context(cafile=self.authority.certificate)
        connection = http.client.HTTPSConnection(self._address, self._port, timeout=5, context=trust)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _is_usable(self) -> bool:
        try:
            self.kubectl("get", "serviceaccount", "default")
        except KubectlFailed:
            return False
        return True
