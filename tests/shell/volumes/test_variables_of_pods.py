"""Containers whose variables come from objects, files and services: what they wait for, and what heals them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.memberkit import Bench as Cluster
from shell.memberkit import until
from shell.pods.shellkit import Bench
from trikubelet.model import k8s
from trikubelet.model.api import CONFIG_MAPS, PODS, SECRETS, SERVICES, PatchKind
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock


def key(name: str, object_: str, key: str = "k") -> k8s.EnvVar:
    return k8s.EnvVar(
        name=name, value_from=k8s.EnvVarSource(config_map_key_ref=k8s.ConfigMapKeySelector(name=object_, key=key))
    )


KEYS = k8s.EnvFromSource(secret_ref=k8s.SecretEnvSource(name="keys"), prefix="S_")
NEEDY = container("main", image="web:1", env=(key("A", "settings"),), env_from=(KEYS,))


def variables(bench: Bench | Cluster) -> list[dict[str, str]]:
    """Return the variables of every container, in the order of creation."""
    return [dict(one.config.envs) for one in bench.world.containers.values()]


def waiting(status: k8s.PodStatus | None) -> tuple[str, str]:
    """Why the pod's first container waits."""
    state = (status or k8s.PodStatus()).container_statuses[0].state
    assert state is not None
    assert state.waiting is not None
    return state.waiting.reason, state.waiting.message


async def test_a_container_waits_for_what_it_needs_and_starts_when_the_last_of_it_comes(
    autojump_clock: MockClock,
) -> None:
    bench = Cluster()
    async with bench.agent() as (node, _):
        bench.schedule("web", NEEDY)
        await trio.sleep(30)
        found = bench.pod("web")
        assert found is not None
        assert ("CreateContainerConfigError", 'secret "keys" not found') == waiting(found.status)
        said = {event.message for event in node.events.all() if event.reason == "Failed"}
        assert {'Error: secret "keys" not found'} == said

        bench.server.create(SECRETS, {"metadata": {"name": "keys"}, "data": {"k": "dg=="}}, "default")
        await until(lambda: waiting((bench.pod("web") or found).status)[1] == 'configmap "settings" not found', 2)
        bench.server.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"other": "x"}}, "default")
        missing = "couldn't find key k in ConfigMap default/settings"
        await until(lambda: waiting((bench.pod("web") or found).status)[1] == missing, 2)
        before = [one.id for one in bench.world.sandboxes.values()]
        bench.server.patch(CONFIG_MAPS, "settings", {"data": {"k": "1"}}, "default", kind=PatchKind.MERGE)
        await until(lambda: bench.running() == ["main"], 2)

        (made,) = variables(bench)
        assert ("1", "v") == (made["A"], made["S_k"])
        assert before == [one.id for one in bench.world.sandboxes.values()]


async def test_a_change_reaches_no_variable_of_a_container_that_runs(autojump_clock: MockClock) -> None:
    bench = Cluster()
    bench.server.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"k": "1"}}, "default")
    async with bench.agent() as (_, member):
        bench.schedule("web", container("main", image="web:1", env=(key("A", "settings"),)))
        await until(lambda: bench.running() == ["main"])
        bench.server.patch(CONFIG_MAPS, "settings", {"data": {"k": "2"}}, "default", kind=PatchKind.MERGE)
        await trio.sleep(200)
        assert ["1"] == [made["A"] for made in variables(bench)]

        bench.world.end(next(iter(bench.world.containers)), 1)
        await until(lambda: [made["A"] for made in variables(bench)][-1] == "2")
        assert 1 == len(member.objects.config_maps)
        bench.server.delete(PODS, "web", "default", 0)
        await until(lambda: len(member.objects.config_maps) == 0, 60)


async def test_a_pod_is_told_of_the_clusters_services_and_waits_until_they_are_known(
    autojump_clock: MockClock,
) -> None:
    bench = Cluster()
    spec = {"clusterIP": "10.96.0.1", "ports": [{"port": 443, "name": "https"}]}
    bench.server.create(SERVICES, {"metadata": {"name": "kubernetes"}, "spec": spec}, "default")
    async with bench.agent():
        bench.schedule("web", container("main", image="web:1"), enable_service_links=False)
        await until(lambda: bench.running() == ["main"])

    (made,) = variables(bench)
    assert ("10.96.0.1", "443") == (made["KUBERNETES_SERVICE_HOST"], made["KUBERNETES_SERVICE_PORT_HTTPS"])


async def test_a_variable_is_read_from_the_file_another_container_left(autojump_clock: MockClock) -> None:
    bench = Bench()
    ref = k8s.FileKeySelector(key="DB", path="vars.env", volume_name="v", optional=False)
    reader = container("main", env=(k8s.EnvVar(name="A", value_from=k8s.EnvVarSource(file_key_ref=ref)),))
    volume = k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource())
    async with bench.agent(pod("web", reader, volumes=(volume,))) as node:
        await trio.sleep(5)
        assert (
            "CreateContainerConfigError",
            'couldn\'t parse env file "vars.env" of volume "v": there is no such file',
        ) == waiting(node.statuses.get("uid-web"))
        bench.volumes.left["/pods/uid-web/volumes/v/vars.env"] = b"DB='here'\n"
        await until(lambda: bench.running() == ["main"])

    assert ["here"] == [made["A"] for made in variables(bench)]


async def test_variables_come_from_as_many_files_of_one_volume_as_are_named(autojump_clock: MockClock) -> None:
    bench = Bench()
    env = tuple(
        k8s.EnvVar(name=name, value_from=k8s.EnvVarSource(file_key_ref=ref))
        for name in ("A", "B", "C")
        for ref in [k8s.FileKeySelector(key="K", path=f"{name}.env", volume_name="v", optional=False)]
    )
    volume = k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource())
    for name in ("A", "B", "C"):
        bench.volumes.left[f"/pods/uid-web/volumes/v/{name}.env"] = f"K='of {name}'\n".encode()
    async with bench.agent(pod("web", container("main", env=env), volumes=(volume,))):
        await until(lambda: bench.running() == ["main"])

    assert [("of A", "of B", "of C")] == [(made["A"], made["B"], made["C"]) for made in variables(bench)]


async def test_files_of_variables_that_are_too_large_together_are_not_read_on(autojump_clock: MockClock) -> None:
    bench = Bench()
    env = tuple(
        k8s.EnvVar(name=f"E{n}", value_from=k8s.EnvVarSource(file_key_ref=ref))
        for n in range(200)
        for ref in [k8s.FileKeySelector(key="K", path=str(n), volume_name="v")]
    )
    volume = k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource())
    text = b"K='v'\n".ljust(64 * 1024)
    bench.volumes.left.update({f"/pods/uid-web/volumes/v/{n}": text for n in range(200)})
    async with bench.agent(pod("web", container("main", env=env), volumes=(volume,))) as node:
        await trio.sleep(5)
        assert (
            "CreateContainerConfigError",
            "file 96 of volume v: with it the files that the container's variables come from are larger than 6291456 "
            "bytes",
        ) == waiting(node.statuses.get("uid-web"))


SETTINGS = k8s.ConfigMap(metadata=k8s.ObjectMeta(name="settings", namespace="default"), data={"k": "1"})
OTHER = k8s.ConfigMap(metadata=k8s.ObjectMeta(name="other", namespace="default"))
VOLUME = k8s.Volume(name="c", config_map=k8s.ConfigMapVolumeSource(name="settings"))


async def test_a_static_pod_waits_for_what_stands_in_no_manifest_and_starts_when_it_does(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    web = pod("web", container("main", env=(key("A", "settings"),)))
    mounting = pod("mounting", volumes=(VOLUME,))
    async with bench.agent(web, mounting, sources=("file", "http")) as node:
        await trio.sleep(30)
        where = 'not found among the manifests, in namespace "default"'
        assert ("CreateContainerConfigError", f'configmap "settings" {where}') == waiting(node.statuses.get("uid-web"))
        refused = f'MountVolume.SetUp failed for volume "c" : configmap "settings" {where}'
        assert refused in {event.message for event in node.events.all() if event.reason == "FailedMount"}

        elsewhere = k8s.ConfigMap(metadata=k8s.ObjectMeta(name="settings", namespace="other"), data={"k": "0"})
        node.slots["http"].put(Snapshot(objects=(elsewhere,)))
        await trio.sleep(30)
        assert [] == bench.running()
        node.slots["file"].put(Snapshot((web, mounting), objects=(SETTINGS,)))
        await until(lambda: bench.running() == ["main", "main"], 1)
        assert {"1"} == {made["A"] for made in variables(bench) if "A" in made}


async def test_a_manifests_object_that_changes_reaches_the_volumes_and_goes_with_its_last_reader(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    mounting, other = pod("mounting", volumes=(VOLUME,)), pod("other")

    def content() -> list[bytes]:
        return [file.content for files in bench.volumes.files.values() for file in files.values()]

    async with bench.agent() as node:
        node.slots["file"].put(Snapshot((mounting, other), objects=(SETTINGS,)))
        await until(lambda: bench.running() == ["main", "main"])
        syncs = {worker.pod.metadata.name: worker.statistics().syncs for worker in node.workers}
        changed = k8s.ConfigMap(metadata=SETTINGS.metadata, data={"k": "2"})
        node.slots["file"].put(Snapshot((mounting, other), objects=(changed,)))
        await until(lambda: content() == [b"2"], 3)
        assert syncs["other"] == node.workers.worker("uid-other").statistics().syncs

        node.slots["file"].put(Snapshot((mounting, other)))
        await trio.sleep(30)
        assert [b"2"] == content()
        assert ["main", "main"] == bench.running()
        node.slots["file"].put(Snapshot((other,)))
        await until(lambda: "0 pods" in repr(node.objects.manifests) and bench.running() == ["main"])


async def test_a_static_pod_of_a_cluster_reads_manifests_alone_and_the_clusters_pods_never_do(
    autojump_clock: MockClock,
) -> None:
    bench = Cluster()
    bench.server.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"k": "of the cluster"}}, "default")
    fixed = pod("fixed", container("main", env=(key("A", "settings"),)))
    async with bench.agent(fixed) as (node, _):
        bench.schedule("web", container("main", image="web:1", env=(key("A", "settings"),)))
        await until(lambda: bench.running() == ["main"])
        assert ["of the cluster"] == [made["A"] for made in variables(bench)]

        node.slots["file"].put(Snapshot((fixed,), objects=(SETTINGS,)))
        await until(lambda: bench.running() == ["main", "main"], 2)
        assert ["of the cluster", "1"] == [made["A"] for made in variables(bench)]


async def test_of_two_sources_with_one_object_the_first_counts_until_it_has_it_no_more(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    mounting = pod("mounting", volumes=(VOLUME,))
    later = k8s.ConfigMap(metadata=SETTINGS.metadata, data={"k": "from the URL"})

    def content() -> list[bytes]:
        return [file.content for files in bench.volumes.files.values() for file in files.values()]

    async with bench.agent(sources=("file", "http")) as node:
        node.slots["http"].put(Snapshot(objects=(later,)))
        await trio.sleep(1)
        node.slots["file"].put(Snapshot((mounting,), objects=(SETTINGS,)))
        await until(lambda: content() == [b"1"])
        node.slots["file"].put(Snapshot((mounting,), objects=(SETTINGS, OTHER)))
        await trio.sleep(1)
        told = "ConfigMap default/settings is given by the sources file and http; the first counts"
        assert [told] == [record.message for record in caplog.records if "the first counts" in record.message]
        node.slots["file"].put(Snapshot((mounting,)))
        await until(lambda: content() == [b"from the URL"], 3)
