"""Security contexts: the container's word over the pod's, row by row, and who may not run as root."""

from typing import Any

import pytest

from core.podkit import container, pod
from trikubelet.core.containers import ConfigError, NodeFacts
from trikubelet.core.containers.security import (
    MASKED_PATHS,
    READONLY_PATHS,
    container_security,
    in_groups,
    namespaces,
    sandbox_security,
)
from trikubelet.model import k8s
from trikubelet.model.runtime import ImageInfo
from trikubelet.model.runtime_config import (
    NamespaceMode,
    Namespaces,
    ProfileType,
    Security,
    SecurityProfile,
    SELinuxOptions,
)

FACTS = NodeFacts("n", seccomp_root="/seccomp")
ROOT, NUMBERED, NAMED = ImageInfo("i"), ImageInfo("i", uid=1000), ImageInfo("i", username="app")
Context = dict[str, Any]


def secured(
    own: Context | None = None,
    whole: Context | None = None,
    image: ImageInfo = ROOT,
    facts: NodeFacts = FACTS,
) -> Security:
    it = container("a", security_context=k8s.SecurityContext(**own) if own is not None else None)
    context = k8s.PodSecurityContext(**whole) if whole is not None else None
    return container_security(pod(it, security_context=context), it, image, facts)


def test_a_container_that_says_nothing_runs_as_its_image_says_with_the_usual_paths_hidden() -> None:
    expected = Security(
        namespaces=Namespaces(),
        run_as_user=0,
        masked_paths=MASKED_PATHS,
        readonly_paths=READONLY_PATHS,
        seccomp=SecurityProfile(ProfileType.UNCONFINED),
    )
    assert expected == secured()


@pytest.mark.parametrize(
    ("expected", "own", "whole", "image"),
    [
        pytest.param((0, "", None), {}, {}, ROOT, id="an image that names nobody runs as root"),
        pytest.param((1000, "", None), {}, {}, NUMBERED, id="the image's number"),
        pytest.param((None, "app", None), {}, {}, NAMED, id="the image's name"),
        pytest.param((0, "", None), {}, {}, ImageInfo("i", uid=0), id="the image's number is root's"),
        pytest.param((5, "", 6), {}, {"run_as_user": 5, "run_as_group": 6}, NAMED, id="the pod's word"),
        pytest.param(
            (7, "", 8),
            {"run_as_user": 7, "run_as_group": 8},
            {"run_as_user": 5, "run_as_group": 6},
            NAMED,
            id="the container's word",
        ),
        pytest.param(
            (0, "", 0),
            {"run_as_user": 0, "run_as_group": 0},
            {"run_as_user": 5, "run_as_group": 6},
            NAMED,
            id="root is a word too",
        ),
        pytest.param((0, "", 8), {"run_as_group": 8}, {}, ROOT, id="a group beside the image's user"),
    ],
)
def test_user_and_groups_of_a_container(
    expected: tuple[int | None, str, int | None], own: Context, whole: Context, image: ImageInfo
) -> None:
    made = secured(own, whole, image)

    assert expected == (made.run_as_user, made.run_as_username, made.run_as_group)


WHOSE = r'\(pod: "pod_default\(12345678\)", container: a\)'


@pytest.mark.parametrize(
    ("told", "own", "whole", "image"),
    [
        pytest.param(
            "container's runAsUser breaks non-root policy",
            {"run_as_user": 0},
            {"run_as_non_root": True},
            NUMBERED,
            id="asked to be root",
        ),
        pytest.param(
            "container has runAsNonRoot and image will run as root",
            {"run_as_non_root": True},
            {},
            ROOT,
            id="an image that names nobody",
        ),
        pytest.param(
            "container has runAsNonRoot and image will run as root",
            {"run_as_non_root": True},
            {},
            ImageInfo("i", uid=0),
            id="root's number",
        ),
        pytest.param(
            r"container has runAsNonRoot and image has non-numeric user \(app\), cannot verify user is non-root",
            {"run_as_non_root": True},
            {},
            NAMED,
            id="a name may be anybody's",
        ),
    ],
)
def test_run_as_non_root_container_is_not_started_as_root(
    told: str, own: Context, whole: Context, image: ImageInfo
) -> None:
    with pytest.raises(ConfigError, match=f"^CreateContainerConfigError: {told} {WHOSE}$"):
        secured(own, whole, image)


@pytest.mark.parametrize(
    ("own", "whole", "image"),
    [
        pytest.param({"run_as_non_root": True}, {}, NUMBERED, id="the image's number is nobody's business"),
        pytest.param({"run_as_non_root": True, "run_as_user": 1}, {}, NAMED, id="a number makes a name irrelevant"),
        pytest.param({"run_as_non_root": False}, {"run_as_non_root": True}, ROOT, id="the container may take it back"),
        pytest.param({}, {"run_as_non_root": True, "run_as_user": 1}, ROOT, id="the pod's number"),
    ],
)
def test_non_root_container_is_started(own: Context, whole: Context, image: ImageInfo) -> None:
    secured(own, whole, image)


def test_groups_are_the_pods_with_that_of_its_volumes_each_once() -> None:
    made = secured(whole={"supplemental_groups": (3, 4), "fs_group": 3, "supplemental_groups_policy": "Strict"})

    assert ((3, 4), True) == (made.supplemental_groups, made.supplemental_groups_strict)
    assert (9, 3) == secured(whole={"supplemental_groups": (3,), "fs_group": 9}).supplemental_groups


def test_what_volumes_want_comes_beside_the_groups_of_the_pod() -> None:
    it = pod("a")
    assert it is in_groups(it, ())
    context = k8s.PodSecurityContext(supplemental_groups=(3,), fs_group=4, run_as_user=5)
    within = in_groups(pod("a", security_context=context), (9, 3))

    made = container_security(within, container("a"), ROOT, FACTS)
    assert (5, (4, 3, 9)) == (made.run_as_user, made.supplemental_groups)
    assert (9,) == sandbox_security(in_groups(it, (9,))).supplemental_groups


def test_capabilities_and_escalation_are_passed_on() -> None:
    capabilities = k8s.Capabilities(add=("NET_ADMIN",), drop=("ALL",))
    made = secured(
        {"capabilities": capabilities, "allow_privilege_escalation": False, "read_only_root_filesystem": True}
    )

    assert (("NET_ADMIN",), ("ALL",)) == (made.add_capabilities, made.drop_capabilities)
    assert made.no_new_privs
    assert made.readonly_rootfs
    assert not secured({"allow_privilege_escalation": True}).no_new_privs


def test_what_the_machine_has_beside_the_usual_paths_is_hidden_too() -> None:
    heat = "/sys/devices/system/cpu/cpu0/thermal_throttle"

    assert (*MASKED_PATHS, heat) == secured(facts=NodeFacts("n", throttle_paths=(heat,))).masked_paths


@pytest.mark.parametrize("own", [{"privileged": True}, {"proc_mount": "Unmasked"}])
def test_privileged_and_unmasked_containers_have_no_masked_paths(own: Context) -> None:
    made = secured(own)

    assert ((), ()) == (made.masked_paths, made.readonly_paths)
    assert made.privileged == ("privileged" in own)


def test_selinux_labels_are_the_containers_or_the_pods() -> None:
    own, whole = k8s.SELinuxOptions(type="t", level="s0"), k8s.SELinuxOptions(user="u", role="r")

    assert SELinuxOptions("", "", "t", "s0") == secured({"se_linux_options": own}, {"se_linux_options": whole}).selinux
    assert SELinuxOptions("u", "r", "", "") == secured({}, {"se_linux_options": whole}).selinux


@pytest.mark.parametrize(
    ("expected", "fields", "target"),
    [
        pytest.param(Namespaces(), {}, "", id="its own"),
        pytest.param(
            Namespaces(NamespaceMode.NODE, NamespaceMode.NODE, NamespaceMode.NODE),
            {"host_network": True, "host_pid": True, "host_ipc": True},
            "",
            id="the node's",
        ),
        pytest.param(Namespaces(pid=NamespaceMode.POD), {"share_process_namespace": True}, "", id="one for the pod"),
        pytest.param(
            Namespaces(pid=NamespaceMode.TARGET, target_id="c"),
            {"share_process_namespace": True},
            "c",
            id="another container's",
        ),
    ],
)
def test_namespaces_that_a_container_shares(expected: Namespaces, fields: dict[str, Any], target: str) -> None:
    assert expected == namespaces(pod(**fields), target_id=target)


def test_the_sandbox_is_privileged_when_one_of_its_containers_is() -> None:
    may = container("b", security_context=k8s.SecurityContext(privileged=True))

    debugger = k8s.EphemeralContainer(name="d", security_context=k8s.SecurityContext(privileged=True))
    pods = (pod("a"), pod("a", may), pod("a", init=(may,)), pod("a", ephemeral=(debugger,)))

    assert [False, True, True, True] == [sandbox_security(it).privileged for it in pods]


def test_the_sandbox_runs_as_the_pod_says_under_the_runtimes_own_profile() -> None:
    context = k8s.PodSecurityContext(
        run_as_user=5,
        run_as_group=6,
        supplemental_groups=(7,),
        fs_group=8,
        seccomp_profile=k8s.SeccompProfile(type="Unconfined"),
    )
    made = sandbox_security(pod(security_context=context))

    assert (5, 6, (8, 7)) == (made.run_as_user, made.run_as_group, made.supplemental_groups)
    assert SecurityProfile(ProfileType.RUNTIME_DEFAULT) == made.seccomp


def test_a_group_of_the_sandbox_without_a_user_is_left_out() -> None:
    assert sandbox_security(pod(security_context=k8s.PodSecurityContext(run_as_group=6))).run_as_group is None
