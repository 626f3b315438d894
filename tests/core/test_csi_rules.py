"""What a CSI driver is told of a volume, and what the volume is called: tables of upstream's rules."""

from __future__ import annotations

import json

import pytest

from core.podkit import pod
from trikubelet.core import csi
from trikubelet.core.claims import Claim
from trikubelet.model import k8s
from trikubelet.model.csi import AccessMode, Capability
from trikubelet.model.objects import ServiceAccountToken
from trikubelet.model.plugins import PluginFailed, PluginInfo

DRIVER = "disk.example.com"


def persistent(claim: Claim = Claim("data"), **spec: object) -> csi.Volume:  # noqa: B008 - it is frozen
    source = k8s.CSIPersistentVolumeSource(driver=DRIVER, volume_handle="handle", fs_type=str(spec.pop("fs_type", "")))
    held = k8s.PersistentVolume(metadata=k8s.ObjectMeta(name="pv"), spec=k8s.PersistentVolumeSpec(csi=source, **spec))  # type: ignore[arg-type]
    return csi.claimed(held, source, claim)


def of_pod(**source: object) -> csi.Volume:
    return csi.inline(pod(meta={"uid": "u"}), "v", k8s.CSIVolumeSource(driver=DRIVER, **source))  # type: ignore[arg-type]


def object_of(**spec: object) -> k8s.CSIDriver:
    return k8s.CSIDriver(spec=k8s.CSIDriverSpec(**spec))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expected", "told_apart", "modes"),
    [
        (AccessMode.SINGLE_NODE_WRITER, False, ()),
        (AccessMode.SINGLE_NODE_WRITER, False, ("ReadWriteOnce",)),
        (AccessMode.SINGLE_NODE_WRITER, False, ("ReadWriteOncePod",)),
        (AccessMode.SINGLE_NODE_MULTI_WRITER, True, ("ReadWriteOnce",)),
        (AccessMode.SINGLE_NODE_SINGLE_WRITER, True, ("ReadWriteOncePod",)),
        (AccessMode.MULTI_NODE_READER_ONLY, True, ("ReadOnlyMany",)),
        (AccessMode.MULTI_NODE_MULTI_WRITER, False, ("ReadWriteMany", "ReadWriteOnce")),
    ],
)
def test_the_first_access_mode_counts_as_finely_as_the_driver_tells_them_apart(
    expected: AccessMode, told_apart: bool, modes: tuple[str, ...]
) -> None:
    can = {Capability.SINGLE_NODE_MULTI_WRITER} if told_apart else set()
    assert expected == csi.use_of(persistent(access_modes=modes), can, None).access_mode


def test_the_group_and_options_are_told_for_files_and_not_for_a_device() -> None:
    can = {Capability.VOLUME_MOUNT_GROUP}
    options: dict[str, object] = {"mount_options": ("noatime",), "fs_type": "ext4"}
    files = csi.use_of(persistent(**options), can, 2000)
    device = csi.use_of(persistent(volume_mode="Block", **options), can, 2000)

    assert (False, "ext4", ("noatime",), "2000") == (files.is_block, files.fs_type, files.mount_flags, files.group)
    assert (True, "", (), "") == (device.is_block, device.fs_type, device.mount_flags, device.group)
    assert "" == csi.use_of(persistent(**options), set(), 2000).group


@pytest.mark.parametrize(
    ("expected", "policy", "volume"),
    [
        pytest.param(True, "", persistent(fs_type="ext4", access_modes=("ReadWriteOnce",)), id="default"),
        pytest.param(True, "", persistent(fs_type="ext4", access_modes=("ReadWriteOncePod",)), id="for one pod"),
        pytest.param(False, "", persistent(access_modes=("ReadWriteOnce",)), id="no file system type"),
        pytest.param(False, "", persistent(fs_type="nfs", access_modes=("ReadWriteMany",)), id="many nodes"),
        pytest.param(False, "", persistent(fs_type="ext4"), id="no access mode"),
        pytest.param(True, "", of_pod(fs_type="ext4"), id="of the pod alone"),
        pytest.param(False, "", of_pod(), id="of the pod alone without a type"),
        pytest.param(True, "File", persistent(access_modes=("ReadWriteMany",)), id="always"),
        pytest.param(False, "File", persistent(Claim("data", read_only=True)), id="read-only"),
        pytest.param(False, "File", persistent(volume_mode="Block"), id="a device"),
        pytest.param(
            False, "None", persistent(fs_type="ext4", access_modes=("ReadWriteOnce",)), id="the driver says never"
        ),
    ],
)
def test_files_get_the_pods_group_by_the_drivers_policy(expected: bool, policy: str, volume: csi.Volume) -> None:
    assert expected == csi.applies_fs_group(volume, object_of(fs_group_policy=policy), set())


def test_a_driver_that_sees_to_the_group_itself_is_left_to_it() -> None:
    can = {Capability.VOLUME_MOUNT_GROUP}
    assert not csi.applies_fs_group(persistent(), object_of(fs_group_policy="File"), can)


@pytest.mark.parametrize(
    ("expected", "volume", "driver"),
    [
        ("", persistent(), None),
        ("", persistent(), object_of()),
        ("", of_pod(), object_of(volume_lifecycle_modes=("Persistent", "Ephemeral"))),
        (f'volume mode "Ephemeral" not supported by driver {DRIVER} (no CSIDriver object)', of_pod(), None),
        (
            f'volume mode "Ephemeral" not supported by driver {DRIVER} (only supports ["Persistent"])',
            of_pod(),
            object_of(),
        ),
        (
            f'volume mode "Persistent" not supported by driver {DRIVER} (only supports ["Ephemeral"])',
            persistent(),
            object_of(volume_lifecycle_modes=("Ephemeral",)),
        ),
    ],
)
def test_a_driver_says_how_long_its_volumes_live(expected: str, volume: csi.Volume, driver: k8s.CSIDriver) -> None:
    assert expected == csi.lifecycle_problem(volume, driver)


@pytest.mark.parametrize(
    ("expected", "volume", "driver"),
    [
        (True, persistent(), None),
        (True, persistent(), object_of()),
        (True, persistent(), object_of(attach_required=True)),
        (False, persistent(), object_of(attach_required=False)),
        (False, of_pod(), object_of()),
    ],
)
def test_a_volume_is_attached_first_unless_its_driver_says_no(
    expected: bool, volume: csi.Volume, driver: k8s.CSIDriver
) -> None:
    assert expected == csi.is_attached_first(volume, driver)


def test_names_are_upstreams() -> None:
    # By sha256sum of "handledisk.example.comn", of "uv" and of "handle".
    assert csi.attachment_name(persistent(), "n") == f"csi-{_sha('handledisk.example.comn')}"
    assert of_pod().handle == f"csi-{_sha('uv')}"
    assert csi.handle_digest("handle") == _sha("handle")
    assert "kubernetes.io/csi/disk.example.com^handle" == csi.unique_name(DRIVER, "handle")


def _sha(text: str) -> str:
    from hashlib import sha256  # noqa: PLC0415 - the second opinion of one test

    return sha256(text.encode()).hexdigest()


def test_driver_receives_the_pod_info() -> None:
    told = csi.pod_info(pod(service_account_name="robot", meta={"uid": "u", "name": "p", "namespace": "ns"}), of_pod())
    prefix = "csi.storage.k8s.io/"
    assert {
        f"{prefix}pod.name": "p",
        f"{prefix}pod.namespace": "ns",
        f"{prefix}pod.uid": "u",
        f"{prefix}serviceAccount.name": "robot",
        f"{prefix}ephemeral": "true",
    } == told


def test_tokens_are_reported_by_audience_and_not_at_all_where_there_are_none() -> None:
    told = csi.token_context({"b": ServiceAccountToken("two", "2"), "": ServiceAccountToken("one", "1")})
    assert ["csi.storage.k8s.io/serviceAccount.tokens"] == list(told)
    assert {
        "": {"token": "one", "expirationTimestamp": "1"},
        "b": {"token": "two", "expirationTimestamp": "2"},
    } == json.loads(told["csi.storage.k8s.io/serviceAccount.tokens"])
    assert {} == csi.token_context({})


@pytest.mark.parametrize(
    ("expected", "versions"),
    [
        ("", ("1.0.0",)),
        ("", ("0.3", "v1.5.1")),
        ("speaks versions that this node does not: 0.3, 2.0; 1.x is needed", ("0.3", "2.0")),
        ("speaks versions that this node does not: none; 1.x is needed", ()),
    ],
)
def test_only_csi_drivers_of_version_1_are_taken(expected: str, versions: tuple[str, ...]) -> None:
    problem = csi.plugin_problem(PluginInfo("CSIPlugin", "p", "/s", versions))
    assert problem.endswith(expected)
    assert bool(expected) == bool(problem)


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        (True, "Internal"),
        (True, "InvalidArgument"),
        (True, "NotFound"),
        *((False, code) for code in ("Aborted", "Canceled", "DeadlineExceeded", "ResourceExhausted", "Unavailable")),
    ],
)
def test_some_failures_leave_open_whether_it_was_done(expected: bool, code: str) -> None:
    failed = PluginFailed(code, "why")
    assert expected == failed.is_final
    assert f"rpc error: code = {code} desc = why" == str(failed)


@pytest.mark.parametrize(
    ("expected", "code"),
    [(True, "InvalidArgument"), (True, "OutOfRange"), (True, "NotFound"), (False, "Internal"), (False, "Aborted")],
)
def test_what_a_driver_never_will_do_is_known_by_its_code(expected: bool, code: str) -> None:
    assert expected == PluginFailed(code, "why").is_infeasible
