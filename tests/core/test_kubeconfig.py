"""Kubeconfigs: what they mean, and everything that is wrong with one at once."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.kubeconfig import read_kubeconfig, write_kubeconfig
from trikubelet.model.kubeconfig import (
    ClusterAccess,
    ExecPlugin,
    File,
    Impersonation,
    KeyPair,
    Kubeconfig,
    Origin,
    Password,
    Server,
    Token,
    TokenFile,
)

PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
DATA = b64encode(PEM).decode()
SOURCE = "/etc/kubernetes/kubelet.conf"
URL = "https://10.0.0.1:6443"


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": URL, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **more,
    }


def access_of(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **more: Any) -> ClusterAccess:
    reading = read_kubeconfig(yaml.safe_dump(config(cluster, user, **more)).encode(), SOURCE)
    assert () == reading.faults
    assert reading.access is not None
    return reading.access


def faults_of(text: str | dict[str, Any]) -> list[str]:
    written = text if isinstance(text, str) else json.dumps(text)
    reading = read_kubeconfig(written.encode(), SOURCE)
    assert (reading.access is None) == bool(reading.faults)
    return [str(fault).removeprefix(SOURCE) for fault in reading.faults]


@pytest.mark.parametrize(
    ("cluster", "wanted"),
    [
        ({}, Server(URL)),
        ({"server": f"{URL}/k8s/c1/"}, Server(f"{URL}/k8s/c1")),
        ({"certificate-authority-data": DATA}, Server(URL, PEM)),
        ({"certificate-authority": "pki/ca.crt"}, Server(URL, File("/etc/kubernetes/pki/ca.crt"))),
        ({"certificate-authority": "/pki/ca.crt"}, Server(URL, File("/pki/ca.crt"))),
        ({"tls-server-name": "api"}, Server(URL, tls_name="api")),
        ({"insecure-skip-tls-verify": True}, Server(URL, insecure=True)),
        ({"proxy-url": "http://u:p@proxy:3128"}, Server(URL, proxy="http://u:p@proxy:3128")),
        ({"disable-compression": True}, Server(URL, compression=False)),
    ],
)
def test_every_word_about_the_server_is_understood(cluster: dict[str, Any], wanted: Server) -> None:
    assert wanted == access_of(cluster).server


@pytest.mark.parametrize(
    ("user", "wanted"),
    [
        ({"token": "t"}, Token("t")),
        ({"tokenFile": "token"}, TokenFile("/etc/kubernetes/token")),
        ({"tokenFile": "/run/token", "token": "t"}, TokenFile("/run/token", "t")),
        ({"username": "u", "password": "p"}, Password("u", "p")),
        (
            {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "./plugin",
                    "args": ["-x"],
                    "env": [{"name": "A", "value": "b"}],
                    "installHint": "install it",
                    "interactiveMode": "Never",
                }
            },
            ExecPlugin(
                "client.authentication.k8s.io/v1", "/etc/kubernetes/plugin", ("-x",), (("A", "b"),), "install it"
            ),
        ),
        (
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "plugin"}},
            ExecPlugin("client.authentication.k8s.io/v1beta1", "plugin"),
        ),
        ({}, None),
    ],
)
def test_every_kind_of_credentials_is_read(user: dict[str, Any], wanted: object) -> None:
    assert wanted == access_of(user=user).proof


def test_a_certificate_and_its_key_may_be_one_file() -> None:
    file = "/var/lib/kubelet/pki/kubelet-client-current.pem"

    assert KeyPair(File(file), File(file)) == access_of(user={"client-certificate": file, "client-key": file}).key_pair
    assert KeyPair(PEM, PEM) == access_of(user={"client-certificate-data": DATA, "client-key-data": DATA}).key_pair


def test_impersonation_is_understood() -> None:
    user = {"token": "t", "as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"scope": ["x"]}}

    assert Impersonation("jane", "7", ("a", "b"), (("scope", ("x",)),)) == access_of(user=user).impersonation


def test_what_a_cluster_says_to_plugins_reaches_the_plugin() -> None:
    told = {"audience": "prod"}
    cluster = {"extensions": [{"name": "client.authentication.k8s.io/exec", "extension": told}]}
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "plugin",
        "provideClusterInfo": True,
    }

    proof = access_of(cluster, {"exec": plugin}).proof
    assert isinstance(proof, ExecPlugin)
    assert (True, told) == (proof.provides_cluster_info, proof.cluster_config)


def test_only_the_current_context_is_meant() -> None:
    many = config(contexts=[{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n"}}])
    many["clusters"].insert(0, {"name": "other", "cluster": {}})
    many["users"].insert(0, {"name": "other", "user": {"auth-provider": {"name": "gcp"}}})

    reading = read_kubeconfig(json.dumps(many).encode(), SOURCE)
    assert ClusterAccess(Server(URL), namespace="n") == reading.access


def test_all_faults_are_reported_at_once_with_their_lines_and_the_nearest_name() -> None:
    text = """apiVersion: v1
kind: Config
clusters:
- name: prod
  cluster:
    server: 10.0.0.1:6443
    certificate-authority-data: "?"
users:
- name: node
  user: {token: t, username: u}
contexts:
- name: prod
  context: {cluster: prod, user: nod}
current-context: prod
"""

    assert [
        ':6: clusters[0].cluster.server: Invalid value: "10.0.0.1:6443": '
        "must begin with https:// or http://, then a host",
        ":7: clusters[0].cluster[certificate-authority-data]: Invalid value: must be base64 (its value is not shown)",
        ':13: contexts[0].context.user: Not found: "nod": no such entry in users (did you mean "node"?)',
    ] == faults_of(text)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("", "there is nothing in the file"),
        ("- a", "must be an object"),
        (config(kind="Pod"), 'kind: Unsupported value: "Pod"'),
        (config(apiVersion="v2"), 'apiVersion: Unsupported value: "v2"'),
        (config(**{"current-context": ""}), "current-context: Required value (name one of contexts: x)"),
        (config(**{"current-context": "X"}), 'Not found: "X": no such entry in contexts (did you mean "x"?)'),
        (config(clusters=[]), "no such entry in clusters (there is nothing in clusters)"),
        (config({"server": ""}), "clusters[0].cluster.server: Required value"),
        (config({"server": "ftp://x"}), "must begin with https:// or http://"),
        (config({"server": "https://x:99999"}), "must begin with https:// or http://"),
        (config({"server": "https://x?y=z"}), "must begin with https:// or http://"),
        (config({"server": "https://a..b"}), 'server: Invalid value: "https://a..b": must be an address, or a name'),
        (config({"server": f"https://{'a' * 64}.b"}), "must be an address, or a name"),
        (config({"server": "https://a\nb"}), "must have no control characters"),
        (config({"server": "https://a/b\0"}), "must have no control characters"),
        (config({"proxy-url": "http://.a:1"}), "cluster[proxy-url]: Invalid value"),
        (config({"tls-server-name": ".x"}), "cluster[tls-server-name]: Invalid value"),
        (config({"tls-server-name": "a\0"}), "cluster[tls-server-name]: Invalid value"),
        (config({"proxy-url": "socks5://x"}), "must begin with http:// or https://"),
        (config({"certificate-authority": "a", "certificate-authority-data": DATA}), "is given too"),
        (config({"certificate-authority": "a", "insecure-skip-tls-verify": True}), "a certificate authority is given"),
        (config({"certificate-authority-data": b64encode(b"x").decode()}), "begins with -----BEGIN"),
        (config({"certificate-authority": "a\0b"}), "cluster[certificate-authority]: Invalid value"),
        (config(user={"tokenFile": "a\0b"}), "user.tokenFile: Invalid value"),
        (config(user={"client-certificate": "\0", "client-key": "a"}), "user[client-certificate]: Invalid value"),
        (config(user={"client-certificate": "a"}), "user[client-key]: Required value"),
        (config(user={"client-key": "a"}), "user[client-certificate]: Required value"),
        (config(user={"token": "a", "username": "b"}), "user.username: Forbidden: token is given too"),
        (config(user={"auth-provider": {"name": "oidc"}}), "use an exec plugin"),
        (config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "a"}}), "interactiveMode"),
        (config(user={"exec": {"apiVersion": "v1alpha1", "command": "a"}}), "exec.apiVersion: Unsupported value"),
        (config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1"}}), "exec.command: Required"),
        (
            config(
                user={
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1",
                        "command": "a",
                        "interactiveMode": "Always",
                    }
                }
            ),
            "a node agent has none",
        ),
        (config(user={"as-groups": ["a"]}), "user.as: Required value"),
        ("a: 1\na: 2\n", "the key is given twice"),
        (f"{json.dumps(config())}\n{json.dumps(config())}", "a second document"),
        (config(users=[{"name": "u", "user": {}}, {"name": "u", "user": {}}]), "users[1].name: Duplicate value"),
    ],
)
def test_what_cannot_be_is_refused_in_words(broken: str | dict[str, Any], says: str) -> None:
    faults = faults_of(broken)

    assert any(says in fault for fault in faults), faults


PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "a"}


@pytest.mark.parametrize(
    ("path", "broken"),
    [
        ("user.token", config(user={"token": 424242})),
        ("user.password", config(user={"password": [424242]})),
        ("user.exec.env[0].value", config(user={"exec": PLUGIN | {"env": [{"name": "PASSWORD", "value": 424242}]}})),
        ("user.exec.env[0].name", config(user={"exec": PLUGIN | {"env": [{"name": 424242, "value": "x"}]}})),
        ("user.exec.args[1]", config(user={"exec": PLUGIN | {"args": ["--secret", 424242]}})),
        ("user.exec", config(user={"exec": "PASSWORD=424242 plugin"})),
        ("users[0].user", config(users=[{"name": "u", "user": "424242"}])),
        ("cluster.server", config({"server": "https://admin:424242@10.0.0.1"})),
        ("cluster.server", config({"server": ["https://admin:424242@10.0.0.1"]})),
        ("cluster[proxy-url]", config({"proxy-url": ["http://u:424242@proxy"]})),
        ("cluster[proxy-url]", config({"proxy-url": "socks5://u:424242@proxy"})),
    ],
)
def test_no_secret_is_shown_whatever_is_wrong_with_it(path: str, broken: dict[str, Any]) -> None:
    (fault,) = faults_of(broken)

    assert path in fault
    assert "424242" not in fault


def test_secrets_are_in_no_record_that_is_printed() -> None:
    users: list[dict[str, Any]] = [
        {"token": "hidden"},
        {"username": "u", "password": "hidden"},
        {"tokenFile": "f", "token": "hidden"},
        {"exec": PLUGIN | {"args": ["hidden"], "env": [{"name": "A", "value": "hidden"}]}},
    ]
    for user in users:
        assert "hidden" not in repr(access_of({"proxy-url": "http://u:hidden@proxy"}, user))
        assert "hidden" not in repr(msgspec.convert(config({"proxy-url": "http://u:hidden@p"}, user), Kubeconfig))


def test_unknown_field_is_a_warning() -> None:
    reading = read_kubeconfig(json.dumps(config({"certificate-authorty": "a"})).encode(), SOURCE)

    assert reading.access is not None
    assert [
        f'{SOURCE}:1: clusters[0].cluster[certificate-authorty]: unknown field (did you mean "certificate-authority"?)'
    ] == [str(warning) for warning in reading.warnings]


def test_insecure_skip_tls_verify_is_a_warning() -> None:
    reading = read_kubeconfig(json.dumps(config({"insecure-skip-tls-verify": True})).encode(), SOURCE)

    assert ["clusters[0].cluster[insecure-skip-tls-verify]"] == [warning.path for warning in reading.warnings]


def test_a_server_without_tls_is_warned_about() -> None:
    reading = read_kubeconfig(json.dumps(config({"server": "http://10.0.0.1:8080"})).encode(), SOURCE)

    assert ["clusters[0].cluster.server"] == [warning.path for warning in reading.warnings]


@pytest.mark.parametrize(("user", "path"), [("u", "users[1].user"), ("", "users")])
def test_where_cluster_and_user_were_read_is_kept(user: str, path: str) -> None:
    users = [{"name": name, "user": {}} for name in ("other", "u")]
    context = {"name": "x", "context": {"cluster": "c", "user": user}}

    assert Origin(SOURCE, "clusters[0].cluster", path) == access_of(users=users, contexts=[context]).origin


@pytest.mark.parametrize(
    "server",
    [
        Server(URL),
        Server(URL, PEM, "api", proxy="http://p:1", compression=False),
        Server(URL, File("/ca.crt")),
        Server(URL, insecure=True),
    ],
)
def test_what_is_written_reads_as_what_was_meant(server: Server) -> None:
    pair = KeyPair(File("/pki/current.pem"), File("/pki/current.pem"))
    reading = read_kubeconfig(write_kubeconfig(server, pair), SOURCE)
    assert ClusterAccess(server, pair, namespace="default") == reading.access

    reading = read_kubeconfig(write_kubeconfig(server, Token("secret")), SOURCE)
    assert reading.access is not None
    assert (server, None, Token("secret")) == (reading.access.server, reading.access.key_pair, reading.access.proof)


VALUES = st.sampled_from(
    [
        "",
        "c",
        "u",
        "x",
        "https://a",
        "https://[",
        "https://a:b",
        "a@b",
        DATA,
        "AA==",
        "\ud800",
        0,
        -1,
        1.5,
        True,
        None,
        [],
        {},
    ]
)


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A good kubeconfig in which some members are replaced, added or gone."""
    written = config({"certificate-authority-data": DATA}, {"exec": {"env": [{}]}, "as-user-extra": {"a": ["b"]}})
    for _ in range(draw(st.integers(1, 4))):
        place: Any = written
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], (dict, list)) and draw(st.integers(0, 4)):
                place = place[key]
                continue
            place[key] = draw(VALUES)
            break
    return written


@given(damaged())
def test_whatever_is_written_is_understood_or_has_its_faults_placed(written: dict[str, Any]) -> None:
    reading = read_kubeconfig(json.dumps(written).encode(), SOURCE)

    assert (reading.access is None) == bool(reading.faults)
    assert all(fault.line is not None and str(fault) for fault in (*reading.faults, *reading.warnings))


@given(st.binary(max_size=200))
def test_no_bytes_are_too_strange(text: bytes) -> None:
    reading = read_kubeconfig(text, SOURCE)

    assert (reading.access is None) == bool(reading.faults)
