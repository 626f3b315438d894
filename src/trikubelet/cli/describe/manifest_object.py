"""The description of a ConfigMap or Secret of a manifest: its manifest, its keys, and the pods that read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trikubelet.cli.describe.layout import Layout
from trikubelet.cli.describe.pod import pairs

if TYPE_CHECKING:
    from collections.abc import Mapping


def describe_object(whole: Mapping[str, Any]) -> list[str]:
    """Return the lines about an object as ``get`` prints it, without its values."""
    out = Layout()
    meta = whole["metadata"]
    out.field(0, "Name", meta["name"])
    out.field(0, "Namespace", meta["namespace"])
    out.fields(0, "Labels", pairs(meta["labels"], "="))
    out.field(0, "Manifest", whole["manifest"])
    if "type" in whole:
        out.field(0, "Type", whole["type"])
    out.field(0, "Immutable", "yes" if whole["immutable"] else "no")
    out.fields(0, "Keys", whole["keys"])
    out.fields(0, "Used By", whole["usedBy"])
    return out.lines()
