"""API objects as they are printed: ``-o json``, ``-o yaml``, ``-o name``. Keys in alphabetical order, as kubectl's."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.model.k8s import Event, Pod

TABLE, WIDE, NAME, JSON, YAML = "table", "wide", "name", "json", "yaml"


def as_list(items: Sequence[Pod] | Sequence[Event]) -> dict[str, Any]:
    """The API's List of these."""
    return {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {"resourceVersion": ""}}


def show(whole: Pod | dict[str, Any], items: Iterable[Pod] | Iterable[Event], output: str) -> None:
    """Print ``whole`` as JSON or YAML, or the names of ``items``."""
    if output == NAME:
        for item in items:
            print(f"{(item.kind or 'Pod').lower()}/{item.metadata.name}")
    elif output == JSON:
        print(json.dumps(msgspec.to_builtins(whole), indent=4, sort_keys=True, ensure_ascii=False))
    else:
        assert output == YAML
        # Only who wants YAML waits for it to load.
        import yaml  # noqa: PLC0415

        print(yaml.safe_dump(msgspec.to_builtins(whole), allow_unicode=True, default_flow_style=False), end="")
    sys.stdout.flush()
