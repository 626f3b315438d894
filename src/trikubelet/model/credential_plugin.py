"""Credential plugins: programs that make logins for image registries, as their configuration has them.

The kind is CredentialProviderConfig ``kubelet.config.k8s.io/v1``; the file, or the files of a directory, are named by
``--image-credential-provider-config``.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trikubelet.model.kubelet_configuration import Seconds

KIND: Final = "CredentialProviderConfig"
API_VERSIONS: Final = tuple(f"kubelet.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
PLUGIN_API_VERSIONS: Final = tuple(f"credentialprovider.kubelet.k8s.io/{one}" for one in ("v1", "v1beta1", "v1alpha1"))
"""The API versions of requests to a plugin and of its answers."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all of them."""


class PluginVariable(_Record, frozen=True, kw_only=True):
    """A variable of a plugin's environment."""

    name: str
    value: str


ACCOUNT_WIDE: Final = "ServiceAccount"
POD_WIDE: Final = "Token"
"""The scope of an answer: pods of the account, or the one pod that the token is bound to."""


class TokenAttributes(_Record, frozen=True, kw_only=True):
    """A plugin is asked with a token of the pod's service account, and with annotations of it. ``cache_type``: whether
    an answer is good for the account or for the token alone; ``require_service_account``: pods without one (static
    pods) get nothing of it, and those whose account lacks a required annotation never do."""

    service_account_token_audience: str = ""
    cache_type: str = ""
    require_service_account: bool | None = None
    required_service_account_annotation_keys: tuple[str, ...] = ()
    optional_service_account_annotation_keys: tuple[str, ...] = ()


class CredentialPlugin(_Record, frozen=True, kw_only=True):
    """One plugin. ``name`` is its file's in the plugins' directory; it is asked for the images that lie in one of
    ``match_images`` (``core.keyring.covers``); what it answers is kept for ``default_cache_duration`` seconds unless it
    says for how long."""

    name: str
    match_images: tuple[str, ...] = ()
    default_cache_duration: Seconds | None = None
    api_version: str = ""
    args: tuple[str, ...] = ()
    env: tuple[PluginVariable, ...] = ()
    token_attributes: TokenAttributes | None = None


class CredentialPluginConfig(_Record, frozen=True, kw_only=True):
    """One file of them."""

    api_version: str = ""
    kind: str = ""
    providers: tuple[CredentialPlugin, ...] = ()
