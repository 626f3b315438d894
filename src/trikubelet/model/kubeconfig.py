"""A kubeconfig: the file's own records, and what the agent takes from one.

The first half is the shape of the file, for ``core.structure`` to read. The second half, ``ClusterAccess``, is what its
current context means: one server and one identity there. ``core.kubeconfig`` leads from one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

Interaction = Literal["", "Never", "IfAvailable", "Always"]


class _Silent(msgspec.Struct, frozen=True):
    """Printed without its values: many are secrets."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class _Record(_Silent, frozen=True, kw_only=True, rename="kebab"):
    """The base of all of them. Members that are not read here are kept as they are, so that they are not unknown."""

    extensions: object = None


class Cluster(_Record, frozen=True):
    """A server and how to know it."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False


class ExecVariable(_Silent, frozen=True, kw_only=True):
    """One more variable of a plugin's environment."""

    name: str
    value: str = ""


class Exec(_Silent, frozen=True, kw_only=True, rename="camel"):
    """A credential plugin."""

    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: Interaction = ""


class User(_Record, frozen=True):
    """Credentials."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    act_as: str = msgspec.field(default="", name="as")
    act_as_uid: str = msgspec.field(default="", name="as-uid")
    act_as_groups: tuple[str, ...] = msgspec.field(default=(), name="as-groups")
    act_as_user_extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict, name="as-user-extra")
    auth_provider: object = None
    exec: Exec | None = None


class Context(_Record, frozen=True):
    """A user at a cluster."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(msgspec.Struct, frozen=True):
    """An entry of ``clusters``."""

    name: str
    cluster: Cluster


class NamedUser(msgspec.Struct, frozen=True):
    """An entry of ``users``."""

    name: str
    user: User


class NamedContext(msgspec.Struct, frozen=True):
    """An entry of ``contexts``."""

    name: str
    context: Context


class Kubeconfig(_Record, frozen=True):
    """The file."""

    api_version: str = msgspec.field(default="v1", name="apiVersion")
    kind: str = "Config"
    preferences: object = None
    clusters: tuple[NamedCluster, ...] = ()
    users: tuple[NamedUser, ...] = ()
    contexts: tuple[NamedContext, ...] = ()
    current_context: str = ""


@dataclass(frozen=True, slots=True)
class File:
    """The content of a file, read when it is needed and again when it changed. An absolute path."""

    path: str


Material = bytes | File
"""PEM text, or the file that has it."""


@dataclass(frozen=True, slots=True)
class Server:
    """One API server and its identity. ``ca`` None: the authorities that this machine trusts. ``tls_name`` is the name
    its certificate must have, "" for the host of ``url``. ``insecure``: any server may answer. ``proxy`` is a URL,
    which may have a password in it, or ""."""

    url: str
    ca: Material | None = None
    tls_name: str = ""
    insecure: bool = False
    proxy: str = field(default="", repr=False)
    compression: bool = True


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A client certificate and its key; both may be one file."""

    certificate: Material
    key: Material = field(repr=False)


@dataclass(frozen=True, slots=True)
class OwnPair:
    """Where a node keeps the client certificate it renews itself, in one file with its key; ``common_name`` is the name
    that one must have to be this node's."""

    path: str
    common_name: str


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A bearer token that is renewed in a file. ``fallback`` is what to show while the file cannot be read, "" for
    nothing."""

    path: str
    fallback: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Password:
    """Basic credentials."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that makes credentials. ``cluster_config`` is the cluster's extension for plugins, as JSON would have
    it; it and the server are passed to the plugin when ``provides_cluster_info``."""

    version: str
    command: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    provides_cluster_info: bool = False
    cluster_config: Any = None


Proof = Token | TokenFile | Password | ExecPlugin | None
"""The proof that is shown beside a certificate; None where the certificate, or no identity, is enough."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user to act as; ``user`` is never empty."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an access was read: the kubeconfig, and the field paths in it of the cluster and the user. An error
    that is found in them later is reported with that place."""

    source: str = "kubeconfig"
    cluster: str = "cluster"
    user: str = "user"


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The meaning of a kubeconfig's current context. ``own``: the node's own certificate, which is shown instead of
    ``key_pair`` once there is one; None where the node renews none, or the kubeconfig names that file itself."""

    server: Server
    key_pair: KeyPair | None = None
    proof: Proof = None
    impersonation: Impersonation | None = None
    namespace: str = ""
    origin: Origin = field(default=Origin(), compare=False)
    own: OwnPair | None = field(default=None, compare=False)
