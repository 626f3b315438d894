"""How much of everything one pod of a manifest may have."""

from collections.abc import Iterator

import pytest

from core.podkit import pod
from trikubelet.core.manifest.validation import pod_problems
from trikubelet.core.manifest.validation.counts import CONTAINERS_MAX, ITEMS_MAX, VOLUMES_MAX, count_problems
from trikubelet.model import k8s

MANY_CONTAINERS = "must not have more than 1000 containers, of all kinds together"


def containers(count: int, prefix: str = "c") -> tuple[k8s.Container, ...]:
    return tuple(k8s.Container(name=f"{prefix}{n}", image="a") for n in range(count))


def with_items(*counts: int) -> k8s.Pod:
    """A pod whose containers have so many variables each."""
    variables = (k8s.EnvVar(name="A"),)
    return pod(*(k8s.Container(name=f"c{n}", image="a", env=variables * count) for n, count in enumerate(counts)))


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ([], pod(*containers(CONTAINERS_MAX))),
        ([("spec.containers", MANY_CONTAINERS)], pod(*containers(CONTAINERS_MAX + 1))),
        ([], pod(*containers(CONTAINERS_MAX - 9), init=containers(9, "i"))),
        (
            [("spec.initContainers", MANY_CONTAINERS)],
            pod(*containers(CONTAINERS_MAX - 9), init=containers(10, "i")),
        ),
        ([], pod(*containers(1), volumes=(k8s.Volume(name="v"),) * VOLUMES_MAX)),
        (
            [("spec.volumes", "must not have more than 2000")],
            pod(*containers(1), volumes=(k8s.Volume(name="v"),) * (VOLUMES_MAX + 1)),
        ),
        ([], with_items(ITEMS_MAX - 1, 1)),
        (
            [("spec.containers[1].env", "must not have more than 10000 in all spec.containers.env together")],
            with_items(ITEMS_MAX - 1, 2, 5),
        ),
        (
            [("metadata.labels", "must not have more than 10000 in all metadata.labels together")],
            pod(*containers(1), meta={"labels": {str(n): "" for n in range(ITEMS_MAX + 1)}}),
        ),
    ],
)
def test_of_everything_there_may_be_so_much(expected: list[tuple[str, str]], found: k8s.Pod) -> None:
    problems = list(count_problems(found))

    assert expected == [(one.path, one.text.removeprefix("Too many: ")) for one in problems]
    assert all(one.remedy for one in problems)


def test_a_pod_that_has_too_much_is_looked_at_no_further() -> None:
    same = pod(*containers(1) * 5000)  # each of which would be one of a name that is taken

    assert ["spec.containers"] == [problem.path for problem in pod_problems(same, "node")]


class Counted(tuple[k8s.Volume, ...]):
    """Volumes that count how often somebody goes through them."""

    times = 0

    def __iter__(self) -> Iterator[k8s.Volume]:
        self.times += 1
        return super().__iter__()

    def __reversed__(self) -> Iterator[k8s.Volume]:
        self.times += 1
        return reversed(tuple(super().__iter__()))


def looks(count: int) -> int:
    """Return how often the volumes of a pod with that many containers, mounts, devices and variables are read."""
    volumes = Counted((k8s.Volume(name="dir"), k8s.Volume(name="disk")))
    one = k8s.Container(
        name="a",
        image="a",
        volume_mounts=(k8s.VolumeMount(name="dir", mount_path="/a"),) * count,
        volume_devices=(k8s.VolumeDevice(name="disk", device_path="/b"),) * count,
        env=(
            k8s.EnvVar(
                name="A",
                value_from=k8s.EnvVarSource(file_key_ref=k8s.FileKeySelector(volume_name="dir", path="a", key="b")),
            ),
        )
        * count,
    )
    assert list(pod_problems(pod(*(one,) * count, volumes=volumes), "node"))
    return volumes.times


def test_a_pods_volumes_are_not_gone_through_for_each_thing_that_names_one() -> None:
    assert looks(1) == looks(20)
