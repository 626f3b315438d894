"""Volumes that are expanded: when a node has to do something about one, and what is written to its claim."""

from __future__ import annotations

import pytest

from trikubelet.core.volume_expansion import Expansion, begun, claimed_bytes, due, ended, failed
from trikubelet.model import k8s
from trikubelet.model.plugins import PluginFailed

MIB = 1024**2
PENDING = {"allocated_resource_statuses": {"storage": "NodeResizePending"}}
INFEASIBLE = {"storage": "NodeResizeInfeasible"}
EXPANDED = Expansion("2Mi", 2 * MIB, is_claims=True)


def condition(type_: str, status: str = "True") -> k8s.PersistentVolumeClaimCondition:
    return k8s.PersistentVolumeClaimCondition(type=type_, status=status)


def waiting(status: str = "True") -> dict[str, object]:
    return {"conditions": (condition("FileSystemResizePending", status),)}


def claim(
    size: str = "1Mi", *, asked: str = "2Mi", volume_name: str = "pv", **status: object
) -> k8s.PersistentVolumeClaim:
    return k8s.PersistentVolumeClaim(
        metadata=k8s.ObjectMeta(name="data", resource_version="7"),
        spec=k8s.PersistentVolumeClaimSpec(
            volume_name=volume_name, resources=k8s.VolumeResourceRequirements(requests={"storage": asked})
        ),
        status=k8s.PersistentVolumeClaimStatus(capacity={"storage": size} if size else {}, **status),  # type: ignore[arg-type]
    )


def on_many_nodes(
    held: k8s.PersistentVolumeClaim, annotations: dict[str, str] | None = None
) -> k8s.PersistentVolumeClaim:
    return k8s.PersistentVolumeClaim(
        metadata=k8s.ObjectMeta(name="data", annotations=annotations or {}),
        spec=k8s.PersistentVolumeClaimSpec(volume_name="pv", access_modes=("ReadWriteMany",)),
        status=held.status,
    )


def volume(size: str) -> k8s.PersistentVolume:
    return k8s.PersistentVolume(
        metadata=k8s.ObjectMeta(name="pv"), spec=k8s.PersistentVolumeSpec(capacity={"storage": size} if size else {})
    )


@pytest.mark.parametrize(
    ("expected", "held", "size", "here_bytes"),
    [
        pytest.param(None, claim(), "1Mi", MIB, id="nothing grew"),
        pytest.param(None, claim(**PENDING), "1Mi", MIB, id="marked, and nothing grew"),
        pytest.param(None, claim(), "2Mi", MIB, id="a controller has not finished"),
        pytest.param(EXPANDED, claim(**PENDING), "2Mi", MIB, id="a controller has finished"),
        pytest.param(EXPANDED, claim(**PENDING), "2048Ki", 2 * MIB, id="whatever was done here"),
        pytest.param(
            EXPANDED,
            claim(allocated_resource_statuses={"storage": "NodeResizeInProgress"}),
            "2Mi",
            MIB,
            id="begun in an earlier life",
        ),
        pytest.param(EXPANDED, claim(**waiting()), "2Mi", MIB, id="an older controller has finished"),
        pytest.param(None, claim(**waiting("False")), "2Mi", MIB, id="and says that it has not"),
        pytest.param(
            None,
            claim(allocated_resource_statuses={"storage": "NodeResizeInfeasible"}, **waiting()),
            "2Mi",
            MIB,
            id="it cannot be done",
        ),
        pytest.param(None, claim("2Mi"), "2Mi", MIB, id="a controller did all of it"),
        pytest.param(None, claim(volume_name="again", **PENDING), "2Mi", MIB, id="another claim of its name"),
        pytest.param(
            Expansion("2Mi", 2 * MIB, is_claims=False),
            on_many_nodes(claim("2Mi")),
            "2Mi",
            MIB,
            id="another node told the claim",
        ),
        pytest.param(None, on_many_nodes(claim("2Mi")), "2Mi", 2 * MIB, id="and so did this one"),
        pytest.param(
            None,
            on_many_nodes(claim("2Mi"), {"volume.kubernetes.io/node-expansion-not-required": "true"}),
            "2Mi",
            MIB,
            id="nodes have nothing to do",
        ),
        pytest.param(None, claim(""), "2Mi", 0, id="the claim's size is not known"),
        pytest.param(None, claim(), "", 0, id="nor the volume's"),
    ],
)
def test_a_node_expands_what_a_controller_has_made_larger(
    expected: Expansion | None, held: k8s.PersistentVolumeClaim, size: str, here_bytes: int
) -> None:
    assert expected == due(held, volume(size), here_bytes)


def test_a_claims_size_is_what_its_status_says() -> None:
    assert (MIB, None) == (claimed_bytes(claim()), claimed_bytes(claim("")))


@pytest.mark.parametrize(
    ("expected", "state"),
    [(None, ""), ({"storage": "NodeResizeInProgress"}, "NodeResizePending"), (None, "NodeResizeInProgress")],
)
def test_a_claim_that_has_states_shows_when_it_begins(expected: dict[str, str] | None, state: str) -> None:
    told = begun(claim(allocated_resource_statuses={"storage": state} if state else {}))

    assert expected == (told["status"]["allocatedResourceStatuses"] if told is not None else None)


def test_claim_of_an_expanded_volume_has_its_size_and_no_expansion_conditions() -> None:
    held = claim(**PENDING, conditions=(condition("Resizing"), condition("FileSystemResizePending"), condition("Mine")))

    assert {
        "metadata": {"resourceVersion": "7"},
        "status": {
            "capacity": {"storage": "2Mi"},
            "conditions": [{"type": "Mine", "status": "True"}],
            "allocatedResourceStatuses": {"storage": None},
        },
    } == ended(held, EXPANDED)
    assert {"capacity": {"storage": "2Mi"}, "conditions": []} == ended(claim(**waiting()), EXPANDED)["status"]


@pytest.mark.parametrize(
    ("expected", "code", "asked", "before"),
    [
        pytest.param(INFEASIBLE, "OutOfRange", "2Mi", "NodeResizeError", id="it never will"),
        pytest.param(None, "Internal", "2Mi", "NodeResizeError", id="it may yet"),
        pytest.param(None, "Internal", "2048Ki", "NodeResizeError", id="the same size in other words"),
        pytest.param(INFEASIBLE, "Internal", "1536Ki", "NodeResizeError", id="the request was taken back"),
        pytest.param(None, "Internal", "3Mi", "Resizing", id="another request, and this one fails for the first time"),
    ],
)
def test_a_claim_shows_why_its_volume_was_not_expanded_and_whether_it_ever_will_be(
    expected: dict[str, str] | None, code: str, asked: str, before: str
) -> None:
    held = claim(asked=asked, **PENDING, conditions=(condition("Mine"), condition(before)))
    status = failed(held, EXPANDED, PluginFailed(code, "no"))["status"]

    assert expected == status.get("allocatedResourceStatuses")
    said = f"failed to expand pvc with rpc error: code = {code} desc = no"
    assert [
        {"type": "Mine", "status": "True"},
        *([] if before == "NodeResizeError" else [{"type": before, "status": "True"}]),
        {"type": "NodeResizeError", "status": "True", "message": said},
    ] == status["conditions"]
