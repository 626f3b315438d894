"""The pods by which two kubelets are compared, and the moment of each at which its status is taken: a table.

Each entry is a pod and a condition on it; the first status that satisfies is the one that counts. No pod depends on
another, and none on a registry or a resolver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from . import images
from .manifests import pod, shell, state, waiting_reason
from .watched import condition, is_ready

if TYPE_CHECKING:
    from collections.abc import Callable

Pod = dict[str, Any]

STAY: Final = "trap 'exit 0' TERM; while :; do sleep 1; done"
PATIENT: Final = {"periodSeconds": 1, "timeoutSeconds": 20}
"""On a machine with much else to do the probes' command takes longer than the second that is the default."""
OK: Final = {"exec": {"command": ["true"]}, **PATIENT}
NO: Final = {"exec": {"command": ["false"]}, **PATIENT, "failureThreshold": 1, "periodSeconds": 20}
"""It fails rarely: a kubelet sends at most 25 events about a pod in a short time, and the Killing event comes last."""
BURSTABLE: Final = {"requests": {"cpu": "20m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
GUARANTEED: Final = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "32Mi"}}
VOLUMES: Final[dict[str, dict[str, Any]]] = {
    "empty": {"emptyDir": {}},
    "memory": {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    "settings": {"configMap": {"name": "kube-root-ca.crt"}},
    "labels": {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    "host": {"hostPath": {"path": "/etc/hostname", "type": "File"}},
}


@dataclass(frozen=True)
class Case:
    """One pod, and the condition at which its status is taken."""

    pod: Pod
    settled: Callable[[Pod], bool]

    @property
    def name(self) -> str:
        """The name of the pod."""
        return str(self.pod["metadata"]["name"])


def ready(*containers: dict[str, Any], name: str, **spec: Any) -> Case:
    """Return a pod that becomes ready."""
    return Case(pod(name, *containers, **spec), is_ready)


def ended(name: str, script: str, **spec: Any) -> Case:
    """Return a pod of one container that runs a script and is not restarted."""
    phases = ("Succeeded", "Failed")
    made = pod(name, shell("c", script), restartPolicy="Never", **spec)
    return Case(made, lambda one: one["status"].get("phase") in phases)


def waiting(made: Pod, reason: str, container: str = "c") -> Case:
    """Return a pod whose sandbox is ready, and of which a container waits for a reason."""

    def waits(one: Pod) -> bool:
        return waiting_reason(one, container) == reason and condition(one, "PodReadyToStartContainers") == "True"

    return Case(made, waits)


def stay(name: str = "c", **fields: Any) -> dict[str, Any]:
    """Return a container that runs until it is stopped."""
    return shell(name, STAY, **fields)


def restarted(made: Pod, container: str = "c") -> Case:
    """Return a pod of which a container was started once more and runs."""

    def again(one: Pod) -> bool:
        found = state(one, container)
        return bool(found.get("restartCount") == 1 and found.get("state", {}).get("running"))

    return Case(made, again)


def cases() -> list[Case]:
    """Return the table."""
    missing = {"configMapKeyRef": {"name": "missing", "key": "key"}}
    fields = ("metadata.name", "metadata.namespace", "spec.nodeName", "spec.serviceAccountName")
    variables = [
        {"name": f"V{number}", "valueFrom": {"fieldRef": {"fieldPath": one}}} for number, one in enumerate(fields)
    ]
    limits = {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}
    once = "if [ -e /kept/begun ]; then " + STAY + "; fi; touch /kept/begun; exit 1"
    kept = {"volumeMounts": [{"name": "kept", "mountPath": "/kept"}]}
    keeping = [{"name": "kept", "emptyDir": {}}]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in VOLUMES]
    hook = {"exec": {"command": ["true"]}}
    return [
        ready(stay(), name="plain"),
        ready(stay("b"), stay("a"), name="two"),
        ready(stay(resources=BURSTABLE), name="burstable"),
        ready(stay(resources=GUARANTEED), name="guaranteed"),
        ready(stay(), name="init", initContainers=[shell("i", "echo done >/dev/termination-log")]),
        ready(stay(), name="inits", initContainers=[shell("second", "true"), shell("first", "true")]),
        ready(stay(), name="sidecar", initContainers=[stay("s", restartPolicy="Always", startupProbe=OK)]),
        Case(
            pod("init-fails-never", stay(), initContainers=[shell("i", "exit 4")], restartPolicy="Never"),
            lambda one: one["status"].get("phase") == "Failed",
        ),
        waiting(pod("init-fails-always", stay(), initContainers=[shell("i", "exit 4")]), "CrashLoopBackOff", "i"),
        ended("succeeded", "echo bye >/dev/termination-log"),
        ended("failed", "exit 3"),
        ended("killed", "kill -9 $$"),
        restarted(pod("retried", shell("c", once, **kept), volumes=keeping, restartPolicy="OnFailure")),
        waiting(pod("crashing", shell("c", "exit 5")), "CrashLoopBackOff"),
        waiting(
            pod("image-never", stay() | {"image": f"{images.REGISTRY}/missing:1", "imagePullPolicy": "Never"}),
            "ErrImageNeverPull",
        ),
        waiting(pod("image-invalid", stay() | {"image": "UPPER CASE"}), "InvalidImageName"),
        waiting(pod("config-missing", stay(env=[{"name": "V", "valueFrom": missing}])), "CreateContainerConfigError"),
        waiting(pod("root-refused", stay(securityContext={"runAsNonRoot": True})), "CreateContainerConfigError"),
        ready(stay(env=variables), name="env-fields"),
        ready(stay(env=[{"name": "M", "valueFrom": limits}], resources=BURSTABLE), name="env-limits"),
        ready(
            stay(volumeMounts=mounts), name="volumes", volumes=[{"name": name, **one} for name, one in VOLUMES.items()]
        ),
        ready(
            stay(volumeMounts=[{"name": "kept", "mountPath": "/a", "subPath": "a/b"}]), name="sub-path", volumes=keeping
        ),
        ready(stay(), name="host", hostNetwork=True, hostPID=True),
        ready(stay(), name="shared-processes", shareProcessNamespace=True),
        ready(
            stay(
                securityContext={
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
                }
            ),
            name="user",
            securityContext={"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [4000, 1]},
        ),
        ready(stay(securityContext={"privileged": True}), name="privileged"),
        ready(stay(readinessProbe=OK), name="readiness"),
        Case(
            pod("not-ready", stay(readinessProbe=NO)),
            lambda one: bool(state(one, "c").get("started")) and condition(one, "Ready") == "False",
        ),
        restarted(
            pod(
                "unhealthy",
                shell(
                    "c",
                    f"test ! -e /kept/begun || touch /kept/well; touch /kept/begun; {STAY}",
                    livenessProbe={"exec": {"command": ["test", "-e", "/kept/well"]}, **PATIENT, "failureThreshold": 2},
                    **kept,
                ),
                volumes=keeping,
            )
        ),
        ready(stay(startupProbe=OK), name="startup"),
        ready(stay(lifecycle={"postStart": hook}), name="post-start"),
        ready(stay(lifecycle={"preStop": hook}), name="pre-stop"),
        Case(
            pod("deadline", stay(), activeDeadlineSeconds=90),
            lambda one: one["status"].get("phase") == "Failed",
        ),
        Case(
            pod(
                "message-from-logs",
                shell("c", "echo one; echo two; exit 6", terminationMessagePolicy="FallbackToLogsOnError"),
                restartPolicy="Never",
            ),
            lambda one: one["status"].get("phase") == "Failed",
        ),
        ready(stay(), name="named", hostname="given", subdomain="below"),
        ready(stay(), name="aliases", hostAliases=[{"ip": "10.0.0.9", "hostnames": ["nine", "neuf"]}]),
        ready(stay(), name="dns", dnsPolicy="None", dnsConfig={"nameservers": ["10.0.0.8"], "searches": ["there"]}),
        ready(
            stay(ports=[{"containerPort": 80, "name": "web"}, {"containerPort": 53, "protocol": "UDP"}]), name="ports"
        ),
        Case(
            pod("gated", stay(), readinessGates=[{"conditionType": "example.test/gate"}]),
            lambda one: condition(one, "ContainersReady") == "True",
        ),
        ready(stay(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]), name="resizable"),
        Case(
            pod("too-large", stay(resources={"requests": {"cpu": "1000"}})),
            lambda one: one["status"].get("phase") == "Failed",
        ),
        Case(
            pod("elsewhere", stay(), nodeSelector={"example.test/there": "yes"}),
            lambda one: one["status"].get("phase") == "Failed",
        ),
    ]
