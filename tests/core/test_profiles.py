"""Profiles: whose word counts, where a file of this node's own must lie, and which pods need AppArmor."""

from typing import Any

import msgspec
import pytest

from core.podkit import container, pod
from trikubelet.core.containers import ConfigError, NodeFacts
from trikubelet.core.containers.profiles import apparmor_profile, needs_apparmor, seccomp_profile
from trikubelet.model import k8s
from trikubelet.model.runtime_config import ProfileType, SecurityProfile

LEGACY = "container.apparmor.security.beta.kubernetes.io/a"


def asking(own: dict[str, Any], whole: dict[str, Any], annotation: str = "") -> k8s.Pod:
    """A pod of a container ``a``, with these fields in its context and in the pod's."""
    it = container("a", security_context=k8s.SecurityContext(**own))
    meta = {"annotations": {LEGACY: annotation} if annotation else {}}
    return pod(it, security_context=k8s.PodSecurityContext(**whole), meta=meta)


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

    it = asking({"seccomp_profile": own}, {"seccomp_profile": whole})
    assert expected == seccomp_profile(it, it.spec.containers[0], facts)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../outside.json", "a/../../outside.json"])
def test_a_seccomp_profile_outside_its_directory_is_refused(name: str) -> None:
    it = asking({"seccomp_profile": profile("Localhost", name)}, {})
    with pytest.raises(ConfigError, match="must be a path below /seccomp"):
        seccomp_profile(it, it.spec.containers[0], NodeFacts("n", seccomp_root="/seccomp"))


def armor(type_: str, name: str = "") -> k8s.AppArmorProfile:
    return k8s.AppArmorProfile(type=type_, localhost_profile=name)


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
    it = asking({"app_armor_profile": own}, {"app_armor_profile": whole}, annotation)
    assert expected == apparmor_profile(it, it.spec.containers[0])


def debugging(profile: k8s.AppArmorProfile) -> k8s.Pod:
    one = k8s.EphemeralContainer(name="e", security_context=k8s.SecurityContext(app_armor_profile=profile))
    it = pod("a")
    return msgspec.structs.replace(it, spec=msgspec.structs.replace(it.spec, ephemeral_containers=(one,)))


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param(False, pod("a"), id="nobody asks"),
        pytest.param(False, asking({"app_armor_profile": armor("Unconfined")}, {}), id="not to be confined"),
        pytest.param(True, asking({"app_armor_profile": armor("RuntimeDefault")}, {}), id="a container"),
        pytest.param(True, asking({}, {"app_armor_profile": armor("Localhost", "p")}), id="the pod"),
        pytest.param(
            True,
            asking({"app_armor_profile": armor("Unconfined")}, {"app_armor_profile": armor("RuntimeDefault")}),
            id="the pod, though its only container does not",
        ),
        pytest.param(True, debugging(armor("RuntimeDefault")), id="an ephemeral container"),
        pytest.param(True, asking({}, {}, "localhost/old"), id="an annotation"),
        pytest.param(False, asking({}, {}, "unconfined"), id="an annotation that asks for none"),
    ],
)
def test_which_pods_need_apparmor(expected: bool, it: k8s.Pod) -> None:
    assert expected == needs_apparmor(it)
