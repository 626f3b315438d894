"""Credential plugins: their configuration, what they are told and what they answer."""

import json

import msgspec
import pytest

from trikubelet.core.credential_plugins import (
    Answer,
    Bearer,
    annotations_for,
    cache_keys,
    kept_for,
    read_plugins,
    request,
    understood,
)
from trikubelet.core.document import parse_documents
from trikubelet.model.credential_plugin import CredentialPlugin, TokenAttributes
from trikubelet.model.registry import AccountOwner, Login

V1 = "credentialprovider.kubelet.k8s.io/v1"
PLUGIN = CredentialPlugin(name="p", match_images=("*.example",), default_cache_duration=60.0, api_version=V1)
GOOD = f"""
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: p
  matchImages: ["*.example"]
  defaultCacheDuration: 1m
  apiVersion: {V1}
"""


def faults(text: str) -> list[str]:
    documents, wrong = parse_documents(text, "plugins.yaml")
    assert not wrong
    return [str(fault) for fault in read_plugins(documents)[1]]


def test_a_good_configuration_is_read_in_order() -> None:
    more = "  args: [--fast]\n  env: [{name: A, value: b}]\n- {name: q, matchImages: [x], defaultCacheDuration: 0s, "
    documents, _ = parse_documents(GOOD + more + f"apiVersion: {V1}beta1}}\n", "plugins.yaml")
    plugins, wrong = read_plugins(documents)
    assert [] == wrong
    assert [("p", ("--fast",), 60.0), ("q", (), 0.0)] == [
        (plugin.name, plugin.args, plugin.default_cache_duration) for plugin in plugins
    ]
    assert ("A", "b") == (plugins[0].env[0].name, plugins[0].env[0].value)


@pytest.mark.parametrize(
    ("expected", "old", "new"),
    [
        ('kind: Unsupported value: "Other"', "CredentialProviderConfig", "Other"),
        ('apiVersion: Unsupported value: "x/v1"', "kubelet.config.k8s.io/v1", "x/v1"),
        ('providers[0].name: Invalid value: "a/b"', "name: p", "name: a/b"),
        ('providers[0].name: Invalid value: ".."', "name: p", "name: .."),
        ('providers[0].name: Invalid value: "a b"', "name: p", "name: a b"),
        ('providers[0].apiVersion: Unsupported value: "v1"', f"apiVersion: {V1}", "apiVersion: v1"),
        ("providers[0].matchImages: Required value", '["*.example"]', "[]"),
        ("providers[0].defaultCacheDuration: Required value", "  defaultCacheDuration: 1m\n", ""),
        ("providers[0].defaultCacheDuration: Invalid value: -60", "1m", "-1m"),
        ("providers[0].matchimages: unknown field", "matchImages", "matchimages"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_configuration_is_reported_with_its_line(expected: str, old: str, new: str) -> None:
    assert old in GOOD
    found = faults(GOOD.replace(old, new))
    assert any(expected in fault and fault.startswith("plugins.yaml:") for fault in found), found


WANTS = "serviceAccountTokenAudience: r, cacheType: Token, requireServiceAccount: true"


@pytest.mark.parametrize(
    ("expected", "old", "new"),
    [
        ([], "", ""),
        ([], "true", "false, optionalServiceAccountAnnotationKeys: [a.example/B]"),
        (["serviceAccountTokenAudience: Required value"], "serviceAccountTokenAudience: r, ", ""),
        (["cacheType: Required value: ServiceAccount or Token"], "cacheType: Token, ", ""),
        (['cacheType: Unsupported value: "token"'], "Token,", "token,"),
        (["requireServiceAccount: Required value"], ", requireServiceAccount: true", ""),
        (["requiredServiceAccountAnnotationKeys: Forbidden"], "true",
         "false, requiredServiceAccountAnnotationKeys: [a]"),
        (['requiredServiceAccountAnnotationKeys[1]: Invalid value: "-"'], "true",
         "true, requiredServiceAccountAnnotationKeys: [a, -]"),
        (['requiredServiceAccountAnnotationKeys[1]: Duplicate value: "a"'], "true",
         "true, requiredServiceAccountAnnotationKeys: [a, a]"),
        (['optionalServiceAccountAnnotationKeys[0]: Duplicate value: "a"'], "true",
         "true, requiredServiceAccountAnnotationKeys: [a], optionalServiceAccountAnnotationKeys: [a]"),
    ],
)  # fmt: skip
def test_plugin_that_needs_tokens_configures_audience_and_accounts(expected: list[str], old: str, new: str) -> None:
    assert old in WANTS
    found = faults(f"{GOOD}  tokenAttributes: {{{WANTS.replace(old, new)}}}\n")
    assert len(expected) == len(found), found
    for one, fault in zip(expected, found, strict=True):
        assert f": providers[0].tokenAttributes.{one}" in fault


def test_only_the_newest_protocol_has_tokens() -> None:
    text = f"{GOOD}  tokenAttributes: {{{WANTS}}}\n".replace(V1, f"{V1}beta1")
    (fault,) = faults(text)
    assert f"providers[0].tokenAttributes: Forbidden: only plugins of {V1} are given tokens" in fault


def test_a_name_is_given_once_over_all_files() -> None:
    assert ['plugins.yaml:13: providers[0].name: Duplicate value: "p"'] == faults(f"{GOOD}---{GOOD}")


def test_a_configuration_without_plugins_is_none() -> None:
    text = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n"
    assert ["plugins.yaml:1: providers: Required value: at least one plugin"] == faults(text)


def test_a_plugin_is_told_which_image_in_the_version_it_speaks() -> None:
    told = json.loads(request(PLUGIN, "r.example/app"))
    assert {"apiVersion": V1, "kind": "CredentialProviderRequest", "image": "r.example/app"} == told


def wanting(cache_type: str, *required: str, optional: tuple[str, ...] = ()) -> CredentialPlugin:
    wanted = TokenAttributes(
        service_account_token_audience="r",
        cache_type=cache_type,
        require_service_account=True,
        required_service_account_annotation_keys=required,
        optional_service_account_annotation_keys=optional,
    )
    return msgspec.structs.replace(PLUGIN, token_attributes=wanted)


def bearer(token: str = "t1", uid: str = "u", **annotations: str) -> Bearer:
    return Bearer(AccountOwner(uid, "default", "robot"), token, annotations)


def test_plugin_receives_the_service_account() -> None:
    told = json.loads(request(wanting("Token"), "r.example/app", bearer(a="b")))
    assert {"serviceAccountToken": "t1", "serviceAccountAnnotations": {"a": "b"}} == {
        name: told[name] for name in told.keys() - {"kind", "apiVersion", "image"}
    }
    assert "t1" not in repr(bearer())


@pytest.mark.parametrize(
    ("expected", "there"),
    [
        ({"a": "1"}, {"a": "1", "z": "9"}),
        ({"a": "", "b": "2"}, {"b": "2", "a": ""}),
        (None, {"b": "2"}),
        (None, {}),
    ],
)
def test_an_account_without_an_annotation_that_must_be_there_is_not_asked_for(
    expected: dict[str, str] | None, there: dict[str, str]
) -> None:
    wanted = wanting("Token", "a", optional=("b",)).token_attributes
    assert wanted is not None
    assert expected == annotations_for(wanted, there)


@pytest.mark.parametrize(
    ("is_same", "cache_type", "other"),
    [
        (True, "ServiceAccount", bearer("t2", a="b")),
        (False, "ServiceAccount", bearer(a="c")),
        (False, "ServiceAccount", bearer(uid="v", a="b")),
        (False, "ServiceAccount", None),
        (True, "Token", bearer(a="b")),
        (False, "Token", bearer("t2", a="b")),
    ],
)
def test_answer_is_cached_for_image_registry_or_everything(
    is_same: bool, cache_type: str, other: Bearer | None
) -> None:
    plugin = wanting(cache_type)
    kept = kept_for(plugin, bearer(a="b"))
    assert is_same == (kept == kept_for(plugin, other))
    assert "t1" not in repr(kept)


@pytest.mark.parametrize("cache_type", ["ServiceAccount", "Token"])
def test_token_as_password_is_cached_only_by_token(cache_type: str) -> None:
    auth = {"r.example": {"username": "any", "password": "t1"}}
    said = {"apiVersion": V1, "kind": "CredentialProviderResponse", "cacheKeyType": "Image", "auth": auth}
    output = json.dumps(said).encode()
    if cache_type == "Token":
        assert auth.keys() == understood(wanting(cache_type), "r.example/app", output, bearer()).logins.keys()
        return
    with pytest.raises(ValueError, match="prints the token, which is one pod's, as a password") as caught:
        understood(wanting(cache_type), "r.example/app", output, bearer())
    assert "t1" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "seconds", "said"),
    [
        ("r.example/team/app", 60.0, {"cacheKeyType": "Image"}),
        ("r.example", 3600.0, {"cacheKeyType": "Registry", "cacheDuration": "1h"}),
        ("global", 0.0, {"cacheKeyType": "Global", "cacheDuration": "0s"}),
        ("global", 60.0, {"cacheKeyType": "Global", "cacheDuration": None}),
    ],
)
def test_an_answer_says_for_what_and_how_long_it_is_good(key: str, seconds: float, said: dict[str, object]) -> None:
    auth = {"r.example": {"username": "joe", "password": "s3cret"}}
    output = json.dumps({"apiVersion": V1, "kind": "CredentialProviderResponse", "auth": auth, **said})
    expected = Answer({"r.example": Login("joe", "s3cret")}, key, seconds)
    assert expected == understood(PLUGIN, "r.example/team/app", output.encode())
    assert key in cache_keys("r.example/team/app")


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ("a cacheKeyType", {"cacheKeyType": "s3cret"}),
        ("a cacheKeyType", {"cacheKeyType": "Image", "auth": {"a": "s3cret"}}),
        ("of credentialprovider.kubelet.k8s.io/v1", {"cacheKeyType": "Image", "kind": "Other"}),
        ("of credentialprovider.kubelet.k8s.io/v1", {"cacheKeyType": "Image", "apiVersion": f"{V1}beta1"}),
        ("a cacheDuration that is none", {"cacheKeyType": "Image", "cacheDuration": "long"}),
    ],
)
def test_an_answer_that_is_none_is_not_quoted(expected: str, said: dict[str, object]) -> None:
    output = json.dumps({"apiVersion": V1, "kind": "CredentialProviderResponse", **said})
    with pytest.raises(ValueError, match=expected) as caught:
        understood(PLUGIN, "r.example/app", output.encode())
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("output", [b"", b"no JSON", b"[]", b"\xff", b"{}"])
def test_noise_is_no_answer(output: bytes) -> None:
    with pytest.raises(ValueError, match="does not print a CredentialProviderResponse"):
        understood(PLUGIN, "r.example/app", output)
