"""What makes a running container another one than the spec asks for."""

import msgspec
import pytest

from core.podkit import container
from trikubelet.core.container_hash import container_hash, is_made_from
from trikubelet.model import k8s

A = container("a", image="busybox:1")


# Made with upstream's own function, in 1.36 and 1.37.
UPSTREAM = [
    ("a", "busybox", "5264866e"),
    ("nginx", "docker.io/library/nginx:1.27", "96d3bc94"),
    ("a", "", "33f2e30"),
    ("x-1", "img<&>\u00e9\u2028@sha256:00", "b09537ce"),
    ('a"b', "c\\d", "21f6a958"),
]


@pytest.mark.parametrize(("name", "image", "expected"), UPSTREAM, ids=ascii)
def test_hash_is_the_one_of_the_upstream_kubelet(name: str, image: str, expected: str) -> None:
    # Another value restarts every container when a node changes between the two.
    assert expected == container_hash(container(name, image=image))


# The hash that this agent wrote before it had upstream's: FNV-1a, 32 bits, of {"image":"busybox:1","name":"a"}.
@pytest.mark.parametrize("written", [container_hash(A), "4a1b2edf", ""], ids=["now", "earlier", "none"])
def test_container_is_kept_whichever_hash_of_its_spec_it_has(written: str) -> None:
    assert is_made_from(A, written)


@pytest.mark.parametrize("written", ["1", "4a1b2ede", container_hash(container("a", image="busybox:2"))])
def test_container_with_the_hash_of_another_spec_has_changed(written: str) -> None:
    assert not is_made_from(A, written)


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
