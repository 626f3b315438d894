"""Writes tests/recorded again: what the real API server has for types, and what it says of the pods of tests/corpus.

Called by ``make record`` (``python -m live.kit record``), and by the live test that holds the record to a server.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus import cases
from corpus.verdicts import Server, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .control_plane import ControlPlane

TYPES = Path(__file__).resolve().parent.parent.parent / "recorded" / "pod_types.txt"
_CORE = "io.k8s.api.core.v1."


def server_of(plane: ControlPlane) -> Server:
    """A connection to the API server as somebody who may do everything."""
    return Server(plane.url, plane.authority.certificate, plane.user("corpus", "system:masters"))


def verdicts_of(server: Server) -> dict[str, list[str]]:
    """What the server says of every pod of the corpus."""
    return {name: server.verdict(pod) for name, pod in cases().items()}


def record(plane: ControlPlane) -> None:
    """Write both files."""
    with server_of(plane) as server:
        TYPES.write_text(pod_types(server.schemas()))
        write(verdicts_of(server))


def pod_types(schemas: dict[str, Any]) -> str:
    """The type of a pod's spec and all it is made of: a line for each type, with its members by name. A list's has
    ``[]`` behind it, an object's ``=`` and its type."""
    found: dict[str, str] = {}
    todo = [f"{_CORE}PodSpec"]
    while todo:
        full = todo.pop()
        if full in found:
            continue
        members = dict(_members(schemas[full].get("properties", {}), schemas))
        found[full] = " ".join(name + (f"={_short(inner)}" if inner else "") for name, inner in members.items())
        todo += filter(None, members.values())
    return "".join(f"{_short(full)}: {members}\n" for full, members in sorted(found.items()))


def _members(properties: dict[str, Any], schemas: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each member's name and the full name of its type, which is empty where that has no members."""
    for name, schema in sorted(properties.items()):
        of = schema.get("items", schema)
        inner = next((part["$ref"].rpartition("/")[2] for part in (of, *of.get("allOf", ())) if "$ref" in part), "")
        yield name + ("[]" if "items" in schema else ""), inner if schemas.get(inner, {}).get("properties") else ""


def _short(full: str) -> str:
    return full.rpartition(".")[2]
