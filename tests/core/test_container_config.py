"""A container's configuration as a whole: every part in its place, and what a later agent reads of it."""

import json
from typing import Any

import pytest

from core.podkit import container, pod
from trikubelet.core import names
from trikubelet.core.container_hash import container_hash
from trikubelet.core.containers import ConfigError, ContainerParts, NodeFacts, container_config
from trikubelet.core.containers.container import SIGNALS
from trikubelet.core.containers.environment import EnvSources
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model import k8s
from trikubelet.model.runtime import ImageInfo
from trikubelet.model.runtime_config import ContainerConfig, IdRange, Mount, NamespaceMode

FACTS = NodeFacts("node-a", memory_bytes=2**32)
PARTS = ContainerParts(
    attempt=2,
    image=ImageInfo("sha256:1", uid=1000),
    ips=("10.0.0.1",),
    volume_paths={"v": "/volumes/v"},
    hosts_path="/pods/u/etc-hosts",
    termination_log_path="/pods/u/containers/a/2",
    sources=EnvSources(services={"SVC": "10.96.0.1"}),
)


def configured(parts: ContainerParts = PARTS, whole: dict[str, Any] | None = None, **fields: Any) -> ContainerConfig:
    it = container("a", **fields)
    volume = k8s.Volume(name="v", empty_dir=k8s.EmptyDirVolumeSource())
    return container_config(pod(it, volumes=(volume,), **(whole or {})), it, parts, FACTS)


def test_every_part_is_in_its_place() -> None:
    made = configured(
        image="web:1",
        command=("serve", "$(PORT)"),
        args=("--from=$(SVC)", "$$(PORT)", "$(ABSENT)"),
        working_dir="/srv",
        env=(k8s.EnvVar(name="PORT", value="80"),),
        volume_mounts=(k8s.VolumeMount(name="v", mount_path="/v"),),
        termination_message_path="/dev/termination-log",
        stdin=True,
        tty=True,
        lifecycle=k8s.Lifecycle(stop_signal="SIGUSR1"),
        resources=k8s.ResourceRequirements(limits={"cpu": "1"}),
    )

    assert ("a", 2, "sha256:1", "web:1") == (made.name, made.attempt, made.image, made.user_specified_image)
    assert (("serve", "80"), ("--from=10.96.0.1", "$(PORT)", "$(ABSENT)")) == (made.command, made.args)
    assert ("/srv", "a/2.log") == (made.working_dir, made.log_path)
    assert (("PORT", "80"), ("SVC", "10.96.0.1")) == made.envs
    assert (
        Mount("/v", "/volumes/v", selinux_relabel=True),
        Mount("/etc/hosts", "/pods/u/etc-hosts", selinux_relabel=True),
        Mount("/dev/termination-log", "/pods/u/containers/a/2", selinux_relabel=True),
    ) == made.mounts
    assert (True, False, True) == (made.stdin, made.stdin_once, made.tty)
    assert (100_000, 1000) == (made.resources.cpu_quota_us, made.security.run_as_user)
    assert "SIGUSR1" == SIGNALS[made.stop_signal]
    assert names.container_labels(pod(), "a") == made.labels


def test_a_later_agent_finds_in_the_annotations_what_it_needs() -> None:
    hook = k8s.LifecycleHandler(exec=k8s.ExecAction(command=("bye",)))
    ports = (k8s.ContainerPort(container_port=80, host_port=8080, protocol="TCP", name="web"),)
    it: dict[str, Any] = {
        "lifecycle": k8s.Lifecycle(pre_stop=hook),
        "ports": ports,
        "termination_message_path": "/dev/termination-log",
        "termination_message_policy": "File",
    }
    made = configured(whole={"termination_grace_period_seconds": 0, "meta": {"deletion_grace_period_seconds": 5}}, **it)

    assert {
        "io.kubernetes.container.hash": container_hash(container("a")),
        "io.kubernetes.container.restartCount": "2",
        "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.pod.terminationGracePeriod": "0",
        "io.kubernetes.pod.deletionGracePeriod": "5",
        "io.kubernetes.container.preStopHandler": made.annotations["io.kubernetes.container.preStopHandler"],
        "io.kubernetes.container.ports": made.annotations["io.kubernetes.container.ports"],
    } == made.annotations
    assert {"exec": {"command": ["bye"]}} == json.loads(made.annotations["io.kubernetes.container.preStopHandler"])
    assert [{"containerPort": 80, "hostPort": 8080, "name": "web", "protocol": "TCP"}] == json.loads(
        made.annotations["io.kubernetes.container.ports"]
    )


def test_what_was_not_said_is_not_annotated() -> None:
    assert {
        "io.kubernetes.container.hash",
        "io.kubernetes.container.restartCount",
        "io.kubernetes.container.terminationMessagePath",
        "io.kubernetes.container.terminationMessagePolicy",
    } == configured().annotations.keys()


def test_signals_have_the_cris_numbers() -> None:
    assert dict(pb.Signal.items()) == {name: n for n, name in enumerate(wire_names())}
    assert 0 == configured().stop_signal


def wire_names() -> tuple[str, ...]:
    """The signals as the CRI spells them."""
    spelled = (name.replace("+", "PLUS").replace("-", "MINUS") for name in SIGNALS)
    return tuple(f"SIGNAL_{name or 'RUNTIME_DEFAULT'}" for name in spelled)


def test_unknown_signal_fails_the_container() -> None:
    with pytest.raises(ConfigError, match=r"lifecycle.stopSignal 'SIGNOTHING' is not a signal the runtime knows"):
        configured(lifecycle=k8s.Lifecycle(stop_signal="SIGNOTHING"))


def test_a_containers_users_are_those_the_pod_was_given() -> None:
    given = IdRange(65536, 65536)
    made = configured(ContainerParts(attempt=0, image=ImageInfo("i"), users=given))

    assert given == made.security.namespaces.users


def test_an_ephemeral_container_sees_its_targets_processes() -> None:
    parts = ContainerParts(attempt=0, image=ImageInfo("i"), target_id="target-1")
    made = configured(parts).security.namespaces

    assert (NamespaceMode.TARGET, "target-1") == (made.pid, made.target_id)


def test_a_part_that_cannot_be_fails_the_whole() -> None:
    with pytest.raises(ConfigError, match="runAsNonRoot"):
        configured(
            ContainerParts(attempt=0, image=ImageInfo("i")),
            security_context=k8s.SecurityContext(run_as_non_root=True),
        )


@pytest.mark.parametrize(
    ("named", "fields"),
    [
        ("command[1]", {"command": ("sh", "$(A)" * 40)}),
        ("args[0]", {"args": ("$(A)" * 40,)}),
        ("args[1]", {"command": ("$(A)" * 20,), "args": ("", "$(A)" * 20)}),
        (
            "volumeMounts[1].subPathExpr",
            {
                "volume_mounts": (
                    k8s.VolumeMount(name="v", mount_path="/v"),
                    k8s.VolumeMount(name="v", mount_path="/w", sub_path_expr="$(A)" * 40),
                )
            },
        ),
    ],
)
def test_what_its_variables_make_too_large_fails_the_container(named: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as failed:
        configured(env=(k8s.EnvVar(name="A", value="x" * 200_000),), **fields)

    assert failed.value.message.startswith(f"{named}: with it the container's variables, command, arguments")
    assert ("CreateContainerConfigError", "a") == (failed.value.reason, failed.value.container)
