"""Reads a kubeconfig: returns the access of its current context, or all faults in it.

    text ─► document ─► model.kubeconfig's records ─► current context ─► its cluster, its user ─► ClusterAccess

A value of the wrong shape is a fault anywhere; a value that makes no sense is a fault only in the cluster and user that
are used. An unknown field is a warning and no fault: many tools write such files, each with fields of its own, and
kubectl reads them all. The value of a secret is never shown.

Nothing is read from disk here. ``write_kubeconfig`` is the inverse, for clients that use credentials of this node's.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from trikubelet.core.document import Document, parse_documents
from trikubelet.core.field_path import item_path, member_path, place_of
from trikubelet.core.manifest.problem import Problem, duplicate, invalid, not_found, required, unsupported
from trikubelet.core.structure import UNKNOWN_FIELD, examine
from trikubelet.model.faults import Fault
from trikubelet.model.kubeconfig import (
    EXEC_VERSIONS,
    Cluster,
    ClusterAccess,
    Exec,
    ExecPlugin,
    File,
    Impersonation,
    KeyPair,
    Kubeconfig,
    Material,
    NamedCluster,
    NamedContext,
    NamedUser,
    Origin,
    Password,
    Proof,
    Server,
    Token,
    TokenFile,
    User,
)
from trikubelet.model.names import control_characters_problem, host_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

_DELICATE: Final = ("users", "clusters")
"""Sections whose values are secrets, or may be: credentials, parameters of plugins, URLs."""
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
_PEM: Final = b"-----BEGIN "
_NAMED: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}

Named = TypeVar("Named", NamedCluster, NamedUser, NamedContext)


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading. ``access`` is None exactly when there are faults; ``warnings`` are worth a log line."""

    access: ClusterAccess | None
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...] = ()


def read_kubeconfig(text: bytes, source: str) -> Reading:
    """Read a kubeconfig. ``source`` is its absolute path: faults name it, and relative paths begin at its directory.
    Raises nothing."""
    documents, faults = parse_documents(text, source)
    if not documents:
        return Reading(None, tuple(faults) or (Fault(source, None, "", "there is nothing in the file"),))
    document, *more = documents
    faults += [Fault(source, one.line(""), "", "a second document", "put one Config into one file") for one in more]
    examined = examine(document, Kubeconfig)
    warnings = [fault for fault in examined.faults if fault.problem == UNKNOWN_FIELD]
    faults += [_discreet(fault) for fault in examined.faults if fault.problem != UNKNOWN_FIELD]
    meaning = _Meaning(document, examined.value)
    access = meaning.access()
    # A field with the wrong shape has no meaning to check; it has its fault already.
    known = {place_of(fault.path) for fault in faults}
    faults += [fault for fault in meaning.faults if place_of(fault.path) not in known]
    faults.sort(key=lambda fault: fault.line or 0)
    return Reading(None if faults else access, tuple(faults), (*warnings, *meaning.warnings))


def write_kubeconfig(server: Server, proof: KeyPair | Token) -> bytes:
    """Return the text of a kubeconfig for one server and one user, with a certificate or a token. Certificates are
    written as given: as data, or as a file's absolute path."""
    if isinstance(proof, Token):
        user: dict[str, object] = {"token": proof.text}
    else:
        user = {**_material("client-certificate", proof.certificate), **_material("client-key", proof.key)}
    cluster = {
        "server": server.url,
        **_material("certificate-authority", server.ca),
        "tls-server-name": server.tls_name,
        "insecure-skip-tls-verify": server.insecure,
        "proxy-url": server.proxy,
        "disable-compression": not server.compression,
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default-cluster", "cluster": {name: one for name, one in cluster.items() if one}}],
        "users": [{"name": "default-auth", "user": user}],
        "contexts": [
            {
                "name": "default-context",
                "context": {"cluster": "default-cluster", "namespace": "default", "user": "default-auth"},
            }
        ],
        "current-context": "default-context",
    }
    # JSON is YAML, and has one way to write each value.
    return msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n"


def _material(name: str, material: Material | None) -> dict[str, object]:
    if material is None:
        return {}
    return {name: material.path} if isinstance(material, File) else {f"{name}-data": material}


def _discreet(fault: Fault) -> Fault:
    """Return the fault without the value of a secret in it."""
    shown, must_be, wanted = fault.problem.rpartition(": must be ")
    if not must_be or not fault.path.startswith(_DELICATE):
        return fault
    return replace(fault, problem=f"{shown.partition(':')[0]}{must_be}{wanted} (its value is not shown)")


class _Meaning:
    """Resolves the current context, and collects the faults."""

    def __init__(self, document: Document, config: Kubeconfig) -> None:
        self._document = document
        self._config = config
        self._directory = PurePosixPath(document.source).parent
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []

    def access(self) -> ClusterAccess:
        """Return the access that the file describes. It is invalid when there are faults."""
        config = self._config
        if config.kind != "Config":
            self._fault(unsupported("kind", config.kind, ("Config",)))
        if config.api_version != "v1":
            self._fault(unsupported("apiVersion", config.api_version, ("v1",)))
        for member in _NAMED:
            self._names(member, getattr(config, member))
        at, context = self._find("contexts", config.contexts, config.current_context, "current-context")
        if context is None:
            return ClusterAccess(Server(""))
        at_context = f"{at}.context"
        at_cluster, cluster = self._find("clusters", config.clusters, context.context.cluster, f"{at_context}.cluster")
        at_user, user = self._find("users", config.users, context.context.user, f"{at_context}.user", optional=True)
        server = self._server(f"{at_cluster}.cluster", cluster.cluster) if cluster else Server("")
        path = f"{at_user}.user" if user is not None else "users"
        origin = Origin(self._document.source, f"{at_cluster}.cluster", path)
        access = ClusterAccess(server, namespace=context.context.namespace, origin=origin)
        if user is None:
            return access
        return replace(
            access,
            key_pair=self._key_pair(path, user.user),
            proof=self._proof(path, user.user, cluster.cluster if cluster else Cluster()),
            impersonation=self._impersonation(path, user.user),
        )

    def _fault(self, problem: Problem) -> None:
        line = self._document.line(problem.path)
        self.faults.append(Fault(self._document.source, line, problem.path, problem.text, problem.remedy))

    def _warn(self, path: str, problem: str, remedy: str) -> None:
        self.warnings.append(Fault(self._document.source, self._document.line(path), path, problem, remedy))

    def _names(self, member: str, entries: Sequence[Named]) -> None:
        seen: set[str] = set()
        for number, entry in enumerate(entries):
            if entry.name in seen:
                self._fault(duplicate(f"{item_path(member, number)}.name", entry.name))
            seen.add(entry.name)

    def _find(
        self, member: str, entries: Sequence[Named], name: str, path: str, *, optional: bool = False
    ) -> tuple[str, Named | None]:
        """Return the entry of that name, and its path."""
        known = [entry.name for entry in entries]
        if not name:
            if not optional:
                remedy = f"name one of {member}: {', '.join(known)}" if known else f"there is nothing in {member} yet"
                self._fault(replace(required(path), remedy=remedy))
        elif name in known:
            number = known.index(name)
            return item_path(member, number), entries[number]
        else:
            remedy = f"{member} has {', '.join(known)}" if known else f"there is nothing in {member}"
            self._fault(not_found(path, name, known, f"no such entry in {member}", remedy))
        return "", None

    # ---- the cluster -----------------------------------------------------------------------------------------------

    def _server(self, path: str, cluster: Cluster) -> Server:
        at_server = member_path(path, "server")
        self._url(at_server, cluster.server, ("https", "http"))
        if "@" in cluster.server:
            # The client does not use it as a credential, and it would appear in every message about the server.
            remedy = "write username and password of the user instead"
            self._fault(Problem(at_server, "Forbidden: a user or password in the URL (it is not shown)", remedy))
        if cluster.server.startswith("http:"):
            problem = "traffic is not encrypted and can be read on the network; no client certificate is presented"
            self._warn(at_server, problem, "write https://")
        if cluster.proxy_url:
            self._url(member_path(path, "proxy-url"), cluster.proxy_url, ("http", "https"))
        ca = self._from_data_or_file(
            path, "certificate-authority", cluster.certificate_authority_data, cluster.certificate_authority
        )
        insecure = member_path(path, "insecure-skip-tls-verify")
        if cluster.insecure_skip_tls_verify and ca is not None:
            self._fault(Problem(insecure, "Forbidden: a certificate authority is given too", "remove one of the two"))
        elif cluster.insecure_skip_tls_verify:
            problem = "any server at this address is trusted, and receives this node's credentials"
            self._warn(insecure, problem, "give certificate-authority-data instead")
        if cluster.tls_server_name and (problem := host_problem(cluster.tls_server_name)):
            self._fault(invalid(member_path(path, "tls-server-name"), cluster.tls_server_name, problem))
        return Server(
            cluster.server.rstrip("/"),
            ca,
            cluster.tls_server_name,
            cluster.insecure_skip_tls_verify,
            cluster.proxy_url,
            not cluster.disable_compression,
        )

    def _url(self, path: str, url: str, schemes: tuple[str, ...]) -> None:
        if not url:
            self._fault(replace(required(path), remedy="write https:// and where the API server is"))
            return
        host = ""
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
            fits = parts.scheme in schemes and bool(host) and parts.port != 0 and not parts.query and not parts.fragment
        except ValueError:
            fits = False
        if fits:
            problem = control_characters_problem(url) or host_problem(host)
        else:
            problem = f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}, then a host"
        if problem:
            self._fault(invalid(path, url.rpartition("@")[2], problem))

    def _from_data_or_file(self, path: str, name: str, data: str, file: str) -> Material | None:
        at_data = member_path(path, f"{name}-data")
        if data and file:
            self._fault(Problem(at_data, f"Forbidden: {name} is given too", "remove one of the two"))
        if data:
            try:
                decoded = b64decode("".join(data.split()), validate=True)
            except ValueError:
                self._fault(Problem(at_data, "Invalid value: must be base64 (its value is not shown)"))
                return None
            if _PEM not in decoded:
                self._fault(Problem(at_data, "Invalid value: must be the base64 of PEM, which begins with -----BEGIN"))
            return decoded
        return File(self._file(member_path(path, name), file)) if file else None

    def _file(self, at: str, path: str) -> str:
        """Return a file's path; ``at``: the field that names it."""
        if "\0" in path:
            self._fault(invalid(at, path, "must be the path of a file, and no path has a NUL in it"))
        return self._absolute(path)

    def _absolute(self, path: str) -> str:
        return str(self._directory / path)

    # ---- the user --------------------------------------------------------------------------------------------------

    def _key_pair(self, path: str, user: User) -> KeyPair | None:
        certificate = self._from_data_or_file(
            path, "client-certificate", user.client_certificate_data, user.client_certificate
        )
        key = self._from_data_or_file(path, "client-key", user.client_key_data, user.client_key)
        has_certificate = bool(user.client_certificate or user.client_certificate_data)
        has_key = bool(user.client_key or user.client_key_data)
        if has_certificate != has_key:
            missing = "client-key" if has_certificate else "client-certificate"
            self._fault(required(member_path(path, missing), "a certificate and its key belong together"))
        return KeyPair(certificate, key) if certificate is not None and key is not None else None

    def _proof(self, path: str, user: User, cluster: Cluster) -> Proof:
        if user.auth_provider is not None:
            at = member_path(path, "auth-provider")
            self._fault(
                Problem(at, "Forbidden: auth providers were removed from Kubernetes in 1.26", "use an exec plugin")
            )
        proofs: dict[str, Proof] = {}
        if user.token_file:
            # Like upstream: the file counts, and the token is used until the file can be read.
            proofs["tokenFile"] = TokenFile(
                self._file(member_path(path, "tokenFile"), user.token_file), user.token.strip()
            )
        elif user.token:
            proofs["token"] = Token(user.token.strip())
        if user.username or user.password:
            proofs["username"] = Password(user.username, user.password)
        if user.exec is not None:
            proofs["exec"] = self._exec(member_path(path, "exec"), user.exec, cluster)
        for name in list(proofs)[1:]:
            self._fault(
                Problem(member_path(path, name), f"Forbidden: {next(iter(proofs))} is given too", "keep one of them")
            )
        return next(iter(proofs.values()), None)

    def _exec(self, path: str, plugin: Exec, cluster: Cluster) -> ExecPlugin:
        if not plugin.command:
            self._fault(required(member_path(path, "command")))
        if plugin.api_version not in EXEC_VERSIONS:
            self._fault(unsupported(member_path(path, "apiVersion"), plugin.api_version, EXEC_VERSIONS))
        at = member_path(path, "interactiveMode")
        if plugin.interactive_mode == "Always":
            self._fault(Problem(at, "Forbidden: the plugin wants a terminal, and a node agent has none", "say Never"))
        elif not plugin.interactive_mode and plugin.api_version == EXEC_VERSIONS[0]:
            self._fault(replace(required(at), remedy="write Never, or IfAvailable"))
        # Like upstream: a bare name is searched in PATH; a path with a slash is relative to the kubeconfig's directory.
        command = self._file(member_path(path, "command"), plugin.command) if "/" in plugin.command else plugin.command
        return ExecPlugin(
            plugin.api_version,
            command,
            plugin.args,
            tuple((variable.name, variable.value) for variable in plugin.env),
            plugin.install_hint,
            plugin.provide_cluster_info,
            _exec_extension(cluster.extensions),
        )

    def _impersonation(self, path: str, user: User) -> Impersonation | None:
        if user.act_as:
            extra = tuple(user.act_as_user_extra.items())
            return Impersonation(user.act_as, user.act_as_uid, user.act_as_groups, extra)
        if user.act_as_uid or user.act_as_groups or user.act_as_user_extra:
            self._fault(required(member_path(path, "as"), "impersonating a uid, groups or extras requires a user"))
        return None


def _exec_extension(extensions: Any) -> object:
    """Return a cluster's configuration for plugins; None if there is none."""
    entries = extensions if isinstance(extensions, list) else []
    for entry in entries:
        if isinstance(entry, dict) and entry.get("name") == _EXEC_EXTENSION:
            return entry.get("extension")
    return None
