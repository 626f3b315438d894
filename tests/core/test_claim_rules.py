"""Claims: which a volume names, and when it may be used, in upstream's texts."""

import pytest

from core.podkit import container, pod
from trikubelet.core.claims import (
    Claim,
    claim_of,
    claim_problem,
    group_wanted,
    is_for_one_pod,
    use_problem,
    volume_problem,
)
from trikubelet.model import k8s

POD = pod(meta={"name": "web", "namespace": "ns", "uid": "u"})
PLAIN = Claim("data")
TEMPLATE = k8s.PersistentVolumeClaimTemplate(spec=k8s.PersistentVolumeClaimSpec())


def held(phase: str = "Bound", volume: str = "pv", deleted: str = "", owner: str = "") -> k8s.PersistentVolumeClaim:
    owners = (
        k8s.OwnerReference(api_version="v1", kind="Pod", name="web", uid=owner, controller=True) if owner else None,
    )
    meta = k8s.ObjectMeta(
        name="data",
        namespace="ns",
        uid="c",
        deletion_timestamp=deleted,
        owner_references=tuple(one for one in owners if one),
    )
    return k8s.PersistentVolumeClaim(
        metadata=meta,
        spec=k8s.PersistentVolumeClaimSpec(volume_name=volume),
        status=k8s.PersistentVolumeClaimStatus(phase=phase),
    )


def persistent(claim: str | None = "c", **spec: object) -> k8s.PersistentVolume:
    ref = None if claim is None else k8s.ObjectReference(uid=claim)
    spec_ = k8s.PersistentVolumeSpec(claim_ref=ref, **spec)  # type: ignore[arg-type]
    return k8s.PersistentVolume(metadata=k8s.ObjectMeta(name="pv"), spec=spec_)


@pytest.mark.parametrize(
    ("expected", "volume"),
    [
        (None, k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource())),
        (
            Claim("data", read_only=True),
            k8s.Volume(
                name="v",
                persistent_volume_claim=k8s.PersistentVolumeClaimVolumeSource(claim_name="data", read_only=True),
            ),
        ),
        (
            Claim("web-v", of_pod=True),
            k8s.Volume(name="v", ephemeral=k8s.EphemeralVolumeSource(volume_claim_template=TEMPLATE)),
        ),
    ],
)
def test_a_volume_names_its_claim(expected: Claim | None, volume: k8s.Volume) -> None:
    assert expected == claim_of(POD, volume)


@pytest.mark.parametrize(
    ("expected", "claim", "found"),
    [
        ("", PLAIN, held()),
        ("PVC is not bound", PLAIN, held(phase="Pending")),
        ("PVC is not bound", PLAIN, held(volume="")),
        ("PVC is being deleted", PLAIN, held(deleted="2026-11-21T00:00:00Z")),
        ("", Claim("data", of_pod=True), held(owner="u")),
        (
            "PVC ns/data was not created for pod ns/web (pod is not owner)",
            Claim("data", of_pod=True),
            held(owner="other"),
        ),
        ("PVC ns/data was not created for pod ns/web (pod is not owner)", Claim("data", of_pod=True), held()),
    ],
)
def test_a_claim_must_be_bound_and_the_pods(expected: str, claim: Claim, found: k8s.PersistentVolumeClaim) -> None:
    assert expected == claim_problem(POD, claim, found)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("", persistent()),
        (
            'found PV object "pv" but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim',
            persistent(None),
        ),
        (
            'found PV object "pv" but its pv.Spec.ClaimRef.UID "other" does not point to claim.UID "c"',
            persistent("other"),
        ),
    ],
)
def test_the_volume_must_be_the_claims(expected: str, found: k8s.PersistentVolume) -> None:
    assert expected == volume_problem(held(), found)


MOUNTING = container("a", volume_mounts=(k8s.VolumeMount(name="v", mount_path="/v"),))
USING = container("a", volume_devices=(k8s.VolumeDevice(name="v", device_path="/dev/v"),))


@pytest.mark.parametrize(
    ("expected", "mode", "user"),
    [
        ("", "Filesystem", MOUNTING),
        ("", "", MOUNTING),
        ("", "Block", USING),
        ("volume v has volumeMode Block, but is specified in volumeMounts", "Block", MOUNTING),
        ("volume v has volumeMode Filesystem, but is specified in volumeDevices", "Filesystem", USING),
    ],
)
def test_a_device_is_used_as_one_and_a_directory_is_mounted(expected: str, mode: str, user: k8s.Container) -> None:
    assert expected == use_problem(pod(user), "v", persistent(volume_mode=mode))
    assert expected == use_problem(pod(container("b"), init=(user,)), "v", persistent(volume_mode=mode))


def test_only_that_mode_alone_means_one_pod() -> None:
    assert is_for_one_pod(persistent(access_modes=("ReadWriteOncePod",)))
    assert not is_for_one_pod(persistent(access_modes=("ReadWriteOnce",)))
    assert not is_for_one_pod(persistent())


@pytest.mark.parametrize(
    ("expected", "annotations"),
    [
        (3000, {"pv.beta.kubernetes.io/gid": "3000"}),
        (0, {"pv.beta.kubernetes.io/gid": "0"}),
        (2147483647, {"pv.beta.kubernetes.io/gid": "2147483647"}),
        (None, {"pv.beta.kubernetes.io/gid": "2147483648"}),
        (None, {"pv.beta.kubernetes.io/gid": "9" * 5000}),
        (None, {"pv.beta.kubernetes.io/gid": "staff"}),
        (None, {"pv.beta.kubernetes.io/gid": "-1"}),
        (None, {"pv.beta.kubernetes.io/gid": ""}),
        (None, {}),
    ],
)
def test_the_group_a_volume_wants_is_a_number(expected: int | None, annotations: dict[str, str]) -> None:
    meta = k8s.ObjectMeta(name="pv", annotations=annotations)

    assert expected == group_wanted(k8s.PersistentVolume(metadata=meta, spec=k8s.PersistentVolumeSpec()))
