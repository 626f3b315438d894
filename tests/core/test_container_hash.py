"""What makes a running container another one than the spec asks for."""

import msgspec
import pytest

from core.podkit import container
from trikubelet.core.container_hash import container_hash
from trikubelet.model import k8s

A = container("a", image="busybox:1")


def test_the_hash_is_written_into_containers_and_must_never_change() -> None:
    # FNV-1a, 32 bits, of {"image":"busybox:1","name":"a"}: another value restarts every container at an upgrade.
    assert "4a1b2edf" == container_hash(A)


@pytest.mark.parametrize("other", [container("a", image="busybox:2"), container("b", image="busybox:1")])
def test_another_name_or_image_is_another_container(other: k8s.Container) -> None:
    assert container_hash(A) != container_hash(other)


@pytest.mark.parametrize(
    "fields",
    [
        {"args": ("x",)},
        {"env": (k8s.EnvVar(name="A", value="b"),)},
        {"resources": k8s.ResourceRequirements(limits={"cpu": "1"})},
        {"image_pull_policy": "Always"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_an_upgrade_may_default_or_a_resize_may_change_does_not_count(fields: dict[str, object]) -> None:
    assert container_hash(A) == container_hash(msgspec.structs.replace(A, **fields))


def test_an_ephemeral_container_is_hashed_as_any_other() -> None:
    assert container_hash(A) == container_hash(k8s.EphemeralContainer(name="a", image="busybox:1"))
