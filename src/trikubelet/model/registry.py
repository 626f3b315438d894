"""Logins to image registries: the account of a pull, and whose right that is.

A login comes from a Secret that the pod names, was made for the pod's service account, or is the node's own: then every
pod on it may use what it pulled.
"""

from __future__ import annotations

from trikubelet.model.frozen import Discreet, Frozen


class Login(Discreet):
    """A name and a password, which no ``repr`` shows."""

    hidden = ("password",)

    username: str
    password: str


class SecretOwner(Frozen):
    """The Secret that holds a login. ``uid`` is empty for one that stands in a manifest."""

    uid: str
    namespace: str
    name: str


class AccountOwner(Frozen):
    """The service account that a credential plugin made a login for."""

    uid: str
    namespace: str
    name: str


class Credential(Frozen):
    """A login for an image, and whose it is: a Secret's, a service account's, or, with None, the node's own."""

    login: Login
    owner: SecretOwner | AccountOwner | None = None
