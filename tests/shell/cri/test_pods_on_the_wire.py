"""What a pod asks for is in the messages that a runtime gets, from the pod's spec to the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shell.pods.shellkit import Bench, until
from trikubelet.cri import to_wire
from trikubelet.model import k8s
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock


def labelled(level: str) -> k8s.SELinuxOptions:
    return k8s.SELinuxOptions(level=level, role="r", type="t", user="u")


async def test_containers_have_the_selinux_label_of_their_pod_or_their_own_and_the_pods_volumes_are_relabelled(
    autojump_clock: MockClock,
) -> None:
    mounts = tuple(k8s.VolumeMount(name=name, mount_path=f"/{name}") for name in ("own", "node"))
    volumes = (
        k8s.Volume(name="own", empty_dir=k8s.EmptyDirVolumeSource()),
        k8s.Volume(name="node", host_path=k8s.HostPathVolumeSource(path="/etc")),
    )
    whole = k8s.PodSecurityContext(se_linux_options=labelled("s1"), se_linux_change_policy="Recursive")
    own = k8s.SecurityContext(se_linux_options=labelled("s2"))
    bench = Bench()
    web = pod(
        "web",
        container("pods", volume_mounts=mounts),
        container("own", security_context=own),
        security_context=whole,
        volumes=volumes,
    )
    async with bench.agent(web):
        await until(lambda: bench.running() == ["own", "pods"])

    made = {one.config.name: to_wire.container_config(one.config) for one in bench.world.containers.values()}
    (sandbox,) = map(to_wire.sandbox_config, bench.world.sandbox_configs.values())
    found = {name: one.linux.security_context.selinux_options for name, one in made.items()}
    found["sandbox"] = sandbox.linux.security_context.selinux_options
    assert {"pods": "s1", "own": "s2", "sandbox": "s1"} == {name: one.level for name, one in found.items()}
    assert {("u", "r", "t")} == {(one.user, one.role, one.type) for one in found.values()}
    relabelled = {one.container_path: one.selinux_relabel for one in made["pods"].mounts}
    assert (True, False) == (relabelled["/own"], relabelled["/node"])
