"""What is published of a node's CSI drivers: tables of what is there, what is registered, and what is written."""

from __future__ import annotations

import pytest

from trikubelet.core.node_status.csi_node import NODE_IDS, csi_node, node_patch
from trikubelet.model import k8s
from trikubelet.model.csi import DriverInfo

NODE = k8s.Node(metadata=k8s.ObjectMeta(name="n", uid="u"))
OWNER = k8s.OwnerReference(api_version="v1", kind="Node", name="n", uid="u")
A = DriverInfo("id-a", 5, {"zone": "z", "area": "x"})
ENTRY = k8s.CSINodeDriver(
    name="a", node_id="id-a", topology_keys=("area", "zone"), allocatable=k8s.VolumeNodeResources(count=5)
)
OLD = k8s.CSINodeDriver(name="old", node_id="id-old")


def there(*drivers: k8s.CSINodeDriver, owner: k8s.OwnerReference = OWNER) -> k8s.CSINode:
    meta = k8s.ObjectMeta(name="n", resource_version="7", annotations={"a": "b"}, owner_references=(owner,))
    return k8s.CSINode(metadata=meta, spec=k8s.CSINodeSpec(drivers=drivers))


def moved(node_id: str) -> k8s.CSINodeDriver:
    return k8s.CSINodeDriver(name="a", node_id=node_id, topology_keys=("area", "zone"))


@pytest.mark.parametrize(
    ("expected", "before", "drivers", "gone"),
    [
        pytest.param([()], None, {}, (), id="made without any"),
        pytest.param([(ENTRY,)], None, {"a": A}, (), id="made with one"),
        pytest.param([], there(ENTRY), {"a": A}, (), id="nothing new"),
        pytest.param([(OLD, ENTRY)], there(OLD), {"a": A}, (), id="an earlier life's stays"),
        pytest.param([(ENTRY,)], there(OLD, ENTRY), {"a": A}, {"old"}, id="one that went goes"),
        pytest.param(
            [(ENTRY,)],
            there(k8s.CSINodeDriver(name="a", node_id="id-a", topology_keys=("zone", "area"))),
            {"a": A},
            (),
            id="how many fit may change",
        ),
        pytest.param([(OLD,), (OLD, ENTRY)], there(OLD, moved("other")), {"a": A}, (), id="another id: out, then in"),
    ],
)
def test_drivers_are_put_in_and_taken_out(
    expected: list[tuple[k8s.CSINodeDriver, ...]],
    before: k8s.CSINode | None,
    drivers: dict[str, DriverInfo],
    gone: set[str],
) -> None:
    assert expected == [one.spec.drivers for one in csi_node(before, NODE, drivers, gone)]


def test_the_object_belongs_to_the_node_as_it_is_now_and_keeps_what_others_wrote() -> None:
    earlier = k8s.OwnerReference(api_version="v1", kind="Node", name="n", uid="before")
    (written,) = csi_node(there(ENTRY, owner=earlier), NODE, {"a": A}, ())
    assert ((OWNER,), {"a": "b"}, "7") == (
        written.metadata.owner_references,
        written.metadata.annotations,
        written.metadata.resource_version,
    )
    (made,) = csi_node(None, NODE, {}, ())
    assert ("storage.k8s.io/v1", "CSINode", "n") == (made.api_version, made.kind, made.metadata.name)


@pytest.mark.parametrize(
    ("expected", "annotation", "labels", "drivers", "gone"),
    [
        (None, "", {}, {}, ()),
        ({"annotations": {NODE_IDS: '{"a":"id-a"}'}, "labels": {"zone": "z", "area": "x"}}, "", {}, {"a": A}, ()),
        (None, '{"a":"id-a"}', {"zone": "elsewhere", "area": "x"}, {"a": A}, ()),
        ({"annotations": {NODE_IDS: '{"a":"id-a","old":"o"}'}}, '{"old":"o"}', A.topology, {"a": A}, ()),
        ({"annotations": {NODE_IDS: None}}, '{"old":"o"}', {}, {}, {"old"}),
        ({"annotations": {NODE_IDS: '{"a":"id-a"}'}}, "[not so]", A.topology, {"a": A}, ()),
    ],
)
def test_the_node_shows_its_names_by_driver_and_where_it_is(
    expected: object, annotation: str, labels: dict[str, str], drivers: dict[str, DriverInfo], gone: set[str]
) -> None:
    annotations = {NODE_IDS: annotation} if annotation else {}
    node = k8s.Node(metadata=k8s.ObjectMeta(name="n", annotations=annotations, labels=labels))
    patch = node_patch(node, drivers, gone)
    assert expected == (patch and patch["metadata"])
