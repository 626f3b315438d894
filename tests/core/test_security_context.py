"""Security contexts: the container's word over the pod's, row by row, and who may not run as root."""

from typing import Any

import pytest

from core.podkit import container, pod
from trikubelet.core.containers import ConfigError, NodeFacts
from trikubelet.core.containers.security import (
    MASKED_PATHS,
    READONLY_PATHS,
    container_security,
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
    annotations: dict[str, str] | None = None,
) -> Security:
    it = container("a", security_context=k8s.SecurityContext(**own) if own is not None else None)
    context = k8s.PodSecurityContext(**whole) if whole is not None else None
    return container_security(
        pod(it, security_context=context, meta={"annotations": annotations or {}}), it, image, facts
    )


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
def test_who_a_container_runs_as(
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
def test_who_may_not_be_root_is_not_started_as_root(told: str, own: Context, whole: Context, image: ImageInfo) -> None:
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
def test_who_is_not_root_runs(own: Context, whole: Context, image: ImageInfo) -> None:
    secured(own, whole, image)


def test_groups_are_the_pods_with_that_of_its_volumes_each_once() -> None:
    made = secured(whole={"supplemental_groups": (3, 4), "fs_group": 3, "supplemental_groups_policy": "Strict"})

    assert ((3, 4), True) == (made.supplemental_groups, made.supplemental_groups_strict)
    assert (3, 9) == secured(whole={"supplemental_groups": (3,), "fs_group": 9}).supplemental_groups


def test_capabilities_and_escalation_are_passed_on() -> None:
    capabilities = k8s.Capabilities(add=("NET_ADMIN",), drop=("ALL",))
    made = secured(
        {"capabilities": capabilities, "allow_privilege_escalation": False, "read_only_root_filesystem": True}
    )

    assert (("NET_ADMIN",), ("ALL",)) == (made.add_capabilities, made.drop_capabilities)
    assert made.no_new_privs
    assert made.readonly_rootfs
    assert not secured({"allow_privilege_escalation": True}).no_new_privs


@pytest.mark.parametrize("own", [{"privileged": True}, {"proc_mount": "Unmasked"}])
def test_nothing_is_hidden_from_who_is_privileged_or_asked_for_all_of_proc(own: Context) -> None:
    made = secured(own)

    assert ((), ()) == (made.masked_paths, made.readonly_paths)
    assert made.privileged == ("privileged" in own)


def profile(type_: str, name: str = "") -> k8s.SeccompProfile:
    return k8s.SeccompProfile(type=type_, localhost_profile=name)


@pytest.mark.parametrize(
    ("expected", "own", "whole", "is_default"),
    [
        pytest.param(SecurityProfile(ProfileType.UNCONFINED), None, None, False, id="nobody says"),
        pytest.param(SecurityProfile(ProfileType.RUNTIME_DEFAULT), None, None, True, id="the node says"),
        pytest.param(
            SecurityProfile(ProfileType.RUNTIME_DEFAULT), None, profile("RuntimeDefault"), False, id="the pod says"
        ),
        pytest.param(
            SecurityProfile(ProfileType.UNCONFINED),
            profile("Unconfined"),
            profile("RuntimeDefault"),
            True,
            id="the container says",
        ),
        pytest.param(
            SecurityProfile(ProfileType.LOCALHOST, "/seccomp/a/b.json"),
            profile("Localhost", "a/b.json"),
            None,
            False,
            id="a file",
        ),
    ],
)
def test_the_seccomp_profile(
    expected: SecurityProfile, own: k8s.SeccompProfile | None, whole: k8s.SeccompProfile | None, is_default: bool
) -> None:
    facts = NodeFacts("n", seccomp_root="/seccomp", seccomp_default=is_default)

    assert expected == secured({"seccomp_profile": own}, {"seccomp_profile": whole}, facts=facts).seccomp


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../outside.json", "a/../../outside.json"])
def test_a_seccomp_profile_outside_its_directory_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="must be a path below /seccomp"):
        secured({"seccomp_profile": profile("Localhost", name)})


def armor(type_: str, name: str = "") -> k8s.AppArmorProfile:
    return k8s.AppArmorProfile(type=type_, localhost_profile=name)


LEGACY = "container.apparmor.security.beta.kubernetes.io/a"


@pytest.mark.parametrize(
    ("expected", "own", "whole", "annotation"),
    [
        pytest.param(None, None, None, "", id="nobody says"),
        pytest.param(
            SecurityProfile(ProfileType.LOCALHOST, "strict"),
            armor("Localhost", "strict"),
            armor("Unconfined"),
            "unconfined",
            id="the container",
        ),
        pytest.param(SecurityProfile(ProfileType.RUNTIME_DEFAULT), None, armor("RuntimeDefault"), "", id="the pod"),
        pytest.param(
            SecurityProfile(ProfileType.LOCALHOST, "old"),
            None,
            armor("Unconfined"),
            "localhost/old",
            id="the annotation is the container's",
        ),
        pytest.param(
            SecurityProfile(ProfileType.RUNTIME_DEFAULT), None, None, "runtime/default", id="the annotation's default"
        ),
        pytest.param(SecurityProfile(ProfileType.UNCONFINED), None, None, "unconfined", id="the annotation's none"),
        pytest.param(None, None, None, "rubbish", id="the annotation's rubbish"),
    ],
)
def test_the_apparmor_profile(
    expected: SecurityProfile | None,
    own: k8s.AppArmorProfile | None,
    whole: k8s.AppArmorProfile | None,
    annotation: str,
) -> None:
    annotations = {LEGACY: annotation} if annotation else {}

    assert (
        expected == secured({"app_armor_profile": own}, {"app_armor_profile": whole}, annotations=annotations).apparmor
    )


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
def test_whose_namespaces_a_container_shares(expected: Namespaces, fields: dict[str, Any], target: str) -> None:
    assert expected == namespaces(pod(**fields), target)


def test_the_sandbox_is_privileged_when_one_of_its_containers_is() -> None:
    may = container("b", security_context=k8s.SecurityContext(privileged=True))

    assert [False, True, True] == [
        sandbox_security(it).privileged for it in (pod("a"), pod("a", may), pod("a", init=(may,)))
    ]


def test_the_sandbox_runs_as_the_pod_says_under_the_runtimes_own_profile() -> None:
    context = k8s.PodSecurityContext(
        run_as_user=5, run_as_group=6, supplemental_groups=(7,), fs_group=8, seccomp_profile=profile("Unconfined")
    )
    made = sandbox_security(pod(security_context=context))

    assert (5, 6, (7, 8)) == (made.run_as_user, made.run_as_group, made.supplemental_groups)
    assert SecurityProfile(ProfileType.RUNTIME_DEFAULT) == made.seccomp


def test_a_group_of_the_sandbox_without_a_user_is_left_out() -> None:
    assert sandbox_security(pod(security_context=k8s.PodSecurityContext(run_as_group=6))).run_as_group is None
