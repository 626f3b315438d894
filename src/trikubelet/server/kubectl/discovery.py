"""The discovery documents that kubectl reads first: groups, resources, version and schemas.

The OpenAPI schemas have the parts that ``kubectl explain`` prints, fields and types, and the server-side field
validation that ``kubectl apply`` and ``create`` require before they send an object. So these commands get as far as the
answer that nothing can be written here, which says what to do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, get_args

import trio

from trikubelet.core.kubectl.schemas import schemas
from trikubelet.server.kubectl.resources import Thing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.server.kubectl.resources import Resource

_READING: Final = ["get", "list", "watch"]
_OPENAPI: Final = "/openapi/v3/api/v1"


def documents(resources: Sequence[Resource], version: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the documents by their paths. ``version``: the node's, which begins with the Kubernetes version:
    ``v1.37.2+…``."""
    return {
        "/version": _version(version),
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
        "/api/v1": {
            "kind": "APIResourceList",
            "groupVersion": "v1",
            "resources": [one for resource in resources for one in _of(resource)],
        },
        "/openapi/v3": {"paths": {"api/v1": {"serverRelativeURL": _OPENAPI}}},
        _OPENAPI: {
            "openapi": "3.0.0",
            "info": {"title": "trikubelet", "version": version},
            "paths": {_object_path(resource): _patch(resource) for resource in resources},
            "components": {"schemas": {}},
        },
    }


async def with_schemas(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document, with a schema of each kind if it is the OpenAPI document for them."""
    if "components" not in document:
        return dict(document)
    found = {}
    for name, schema in schemas(get_args(Thing)):
        found[name] = schema
        await trio.lowlevel.checkpoint()  # together they take a few tens of milliseconds
    return {**document, "components": {"schemas": found}}


def _version(version: str) -> dict[str, str]:
    found = re.match(r"v(\d+)\.(\d+)", version)
    assert found is not None
    return {"major": found[1], "minor": found[2], "gitVersion": version, "platform": "linux"}


def _of(resource: Resource) -> list[dict[str, Any]]:
    shared = {"namespaced": resource.namespaced}
    whole = {
        "name": resource.name,
        "singularName": resource.singular,
        "kind": resource.kind,
        "shortNames": list(resource.short),
        "categories": list(resource.categories),
        "verbs": _READING,
        **shared,
    }
    parts = [
        {"name": f"{resource.name}/{part}", "singularName": "", "kind": resource.kind, "verbs": ["get"], **shared}
        for part in resource.parts
    ]
    return [whole, *parts]


def _object_path(resource: Resource) -> str:
    between = "namespaces/{namespace}/" if resource.namespaced else ""
    return f"/api/v1/{between}{resource.name}/{{name}}"


def _patch(resource: Resource) -> dict[str, Any]:
    """Return the PATCH operation, whose parameter announces server-side field validation."""
    kind = {"group": "", "version": "v1", "kind": resource.kind}
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    return {"patch": {"x-kubernetes-group-version-kind": kind, "parameters": [parameter], "responses": {}}}
