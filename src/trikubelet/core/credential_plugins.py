"""Credential plugins: checks their configuration, builds their requests and decodes their responses.

The protocol is ``credentialprovider.kubelet.k8s.io``: a CredentialProviderRequest with the image's name on standard
input, a CredentialProviderResponse on standard output (upstream: pkg/credentialprovider/plugin). A plugin with
``tokenAttributes`` also receives a token of the pod's service account (KEP-4412).
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from trikubelet.core.manifest.problem import duplicate, forbidden, invalid, one_of, required, unsupported
from trikubelet.core.structure import examine
from trikubelet.model.credential_plugin import (
    ACCOUNT_WIDE,
    API_VERSIONS,
    KIND,
    PLUGIN_API_VERSIONS,
    POD_WIDE,
    CredentialPluginConfig,
)
from trikubelet.model.decoding import decode_object
from trikubelet.model.duration import parse_duration
from trikubelet.model.faults import Fault
from trikubelet.model.frozen import Discreet, Frozen
from trikubelet.model.names import qualified_name_problem
from trikubelet.model.registry import Login

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from trikubelet.core.document import Document
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.credential_plugin import CredentialPlugin, TokenAttributes
    from trikubelet.model.registry import AccountOwner

GLOBAL: Final = "global"
"""The cache key of a response that is valid for every image."""
_BAD_NAMES: Final = ("", ".", "..")


class Bearer(Discreet):
    """The service account that a plugin is called for: the account, its token for the plugin's audience, which no
    ``repr`` shows, and those of its annotations that the plugin wants."""

    hidden = ("token",)

    account: AccountOwner
    token: str
    annotations: Mapping[str, str]


class Answer(Frozen):
    """The logins in a plugin's response, by place; their cache key, and for how many seconds they are cached (0:
    not)."""

    logins: Mapping[str, Login]
    key: str
    seconds: float


class _Auth(msgspec.Struct):
    username: str = ""
    password: str = ""


class _Response(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    cache_key_type: Literal["Image", "Registry", "Global"]
    cache_duration: str | None = None
    auth: dict[str, _Auth] = {}


def read_plugins(documents: Sequence[Document]) -> tuple[tuple[CredentialPlugin, ...], list[Fault]]:
    """Return the plugins of configuration files, in order, and all faults in them. Raises nothing."""
    plugins: list[CredentialPlugin] = []
    faults: list[Fault] = []
    for document in documents:
        examined = examine(document, CredentialPluginConfig)
        faults += examined.faults
        if examined.faults:
            continue
        known = {plugin.name for plugin in plugins}
        for problem in _problems(examined.value, known):
            line = document.line(problem.path)
            faults.append(Fault(document.source, line, problem.path, problem.text, problem.remedy))
        plugins += examined.value.providers
    return tuple(plugins), faults


def annotations_for(wanted: TokenAttributes, annotations: Mapping[str, str]) -> Mapping[str, str] | None:
    """Return those of an account's annotations that a plugin wants; None if a required one is missing, so that the
    plugin must not be called."""
    if any(key not in annotations for key in wanted.required_service_account_annotation_keys):
        return None
    keys = (*wanted.required_service_account_annotation_keys, *wanted.optional_service_account_annotation_keys)
    return {key: annotations[key] for key in keys if key in annotations}


def request(plugin: CredentialPlugin, repository: str, bearer: Bearer | None = None) -> bytes:
    """Return the request for a plugin: the image's name without tag and digest, and the service account."""
    sent = {"kind": "CredentialProviderRequest", "apiVersion": plugin.api_version, "image": repository}
    if bearer is None:
        return msgspec.json.encode(sent)
    whose = {"serviceAccountToken": bearer.token, "serviceAccountAnnotations": bearer.annotations}
    return msgspec.json.encode({**sent, **whose})


def kept_for(plugin: CredentialPlugin, bearer: Bearer | None) -> Hashable:
    """Return the part of a response's cache key that depends on ``bearer``. It differs for a recreated account and for
    other annotations. It contains no token, only its hash, and only if the plugin caches by token."""
    if bearer is None:
        return None
    whose = (bearer.account, tuple(sorted(bearer.annotations.items())))
    return (*whose, sha256(bearer.token.encode()).hexdigest()) if _is_by_token(plugin) else whose


def _is_by_token(plugin: CredentialPlugin) -> bool:
    return plugin.token_attributes is not None and plugin.token_attributes.cache_type == POD_WIDE


def cache_keys(repository: str) -> tuple[str, str, str]:
    """Return the possible cache keys of a response for a repository, the narrowest first."""
    return repository, repository.partition("/")[0], GLOBAL


def understood(plugin: CredentialPlugin, repository: str, output: bytes, bearer: Bearer | None = None) -> Answer:
    """Decode a plugin's response to a request for ``bearer``. Raises ValueError, whose text continues a sentence that
    begins with the plugin's name and quotes nothing, because the response contains passwords."""
    try:
        said = decode_object(output, _Response)
    except msgspec.DecodeError:
        raise ValueError("does not print a CredentialProviderResponse with a cacheKeyType") from None
    if (said.kind, said.api_version) != ("CredentialProviderResponse", plugin.api_version):
        raise ValueError(f"does not print a CredentialProviderResponse of {plugin.api_version}")
    is_echo = bearer is not None and any(one.password == bearer.token for one in said.auth.values())
    if is_echo and not _is_by_token(plugin):
        raise ValueError(f"prints the token, which is one pod's, as a password: it needs cacheType: {POD_WIDE}")
    seconds = plugin.default_cache_duration or 0.0
    if said.cache_duration is not None:
        try:
            seconds = parse_duration(said.cache_duration)
        except ValueError as error:
            raise ValueError(f"prints a cacheDuration that is none: {error}") from None
    image, registry, everything = cache_keys(repository)
    key = {"Image": image, "Registry": registry, "Global": everything}[said.cache_key_type]
    return Answer({place: Login(one.username, one.password) for place, one in said.auth.items()}, key, seconds)


def _problems(config: CredentialPluginConfig, known: set[str]) -> Problems:
    if config.kind != KIND:
        yield unsupported("kind", config.kind, [KIND])
    if config.api_version not in API_VERSIONS:
        yield unsupported("apiVersion", config.api_version, API_VERSIONS)
    if not config.providers:
        yield required("providers", "at least one plugin")
    for index, plugin in enumerate(config.providers):
        if plugin.name in known:
            yield duplicate(f"providers[{index}].name", plugin.name)
        known.add(plugin.name)
        yield from _plugin_problems(f"providers[{index}]", plugin)


def _plugin_problems(path: str, plugin: CredentialPlugin) -> Problems:
    if plugin.name in _BAD_NAMES or "/" in plugin.name or " " in plugin.name:
        yield invalid(f"{path}.name", plugin.name, "must be the name of a file in the plugins' directory")
    if plugin.api_version not in PLUGIN_API_VERSIONS:
        yield unsupported(f"{path}.apiVersion", plugin.api_version, PLUGIN_API_VERSIONS)
    if not plugin.match_images:
        yield required(f"{path}.matchImages", "at least one place that it has logins for")
    if plugin.default_cache_duration is None:
        yield required(f"{path}.defaultCacheDuration")
    elif plugin.default_cache_duration < 0:
        yield invalid(f"{path}.defaultCacheDuration", plugin.default_cache_duration, "must not be negative")
    if plugin.token_attributes is not None:
        if plugin.api_version != PLUGIN_API_VERSIONS[0]:
            yield forbidden(f"{path}.tokenAttributes", f"only plugins of {PLUGIN_API_VERSIONS[0]} are given tokens")
        yield from _token_problems(f"{path}.tokenAttributes", plugin.token_attributes)


def _token_problems(path: str, wanted: TokenAttributes) -> Problems:
    if not wanted.service_account_token_audience:
        yield required(f"{path}.serviceAccountTokenAudience")
    if not wanted.cache_type:
        yield required(f"{path}.cacheType", f"{ACCOUNT_WIDE} or {POD_WIDE}")
    yield from one_of(f"{path}.cacheType", wanted.cache_type, (ACCOUNT_WIDE, POD_WIDE))
    if wanted.require_service_account is None:
        yield required(f"{path}.requireServiceAccount")
    needed, more = wanted.required_service_account_annotation_keys, wanted.optional_service_account_annotation_keys
    if needed and wanted.require_service_account is False:
        yield forbidden(
            f"{path}.requiredServiceAccountAnnotationKeys", "may only be set where requireServiceAccount is true"
        )
    known: set[str] = set()
    for name, keys in (("required", needed), ("optional", more)):
        for index, key in enumerate(keys):
            here = f"{path}.{name}ServiceAccountAnnotationKeys[{index}]"
            if problem := qualified_name_problem(key.lower()):
                yield invalid(here, key, problem)
            if key in known:
                yield duplicate(here, key)
            known.add(key)
