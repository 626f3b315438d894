"""References to Kubernetes objects: enough of one to name it in a log line, an event or a table."""

from __future__ import annotations

from trikubelet.model.frozen import Discreet, Frozen


class ObjectRef(Frozen):
    """One object. ``field_path`` narrows it down, as events do: ``spec.containers{web}``."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    field_path: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class PodCertificate(Discreet):
    """A pod's key and the chain of certificates a signer made for it, both in PEM. The key shows in no log."""

    hidden = ("key_pem",)

    key_pem: bytes
    chain_pem: bytes


class ServiceAccountToken(Discreet):
    """A token of a service account; ``expires`` as the server says it (RFC 3339). Its text shows in no log."""

    hidden = ("text",)

    text: str
    expires: str
