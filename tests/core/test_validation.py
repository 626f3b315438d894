"""What a pod must not say: one row per rule, and one pod that says nothing wrong."""

import pytest
import yaml

from trikubelet.core.document import parse_documents
from trikubelet.core.manifest.defaults import with_defaults
from trikubelet.core.manifest.validation import pod_problems
from trikubelet.core.structure import examine
from trikubelet.model import k8s

GOOD = """
apiVersion: v1
kind: Pod
metadata: {name: web.a, namespace: web, labels: {a.example/b: c}, annotations: {A.example/B: anything goes}}
spec:
  hostname: web
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 9
  dnsPolicy: None
  dnsConfig: {nameservers: [10.9.8.7], searches: [_tcp.example., "."], options: [{name: ndots, value: "1"}]}
  hostAliases: [{ip: "2001:db8::1", hostnames: [a.example]}]
  nodeSelector: {disk: ssd}
  os: {name: linux}
  tolerations:
  - {operator: Exists}
  - {key: a, operator: Gt, value: "5"}
  - {key: a, effect: NoExecute, tolerationSeconds: 3}
  readinessGates: [{conditionType: example.com/gate}]
  securityContext:
    sysctls: [{name: net.ipv4.tcp_syncookies, value: "1"}]
    seccompProfile: {type: RuntimeDefault}
    runAsUser: 0
    supplementalGroups: [5]
  initContainers:
  - {name: first, image: a, ports: [{containerPort: 1, hostPort: 9}]}
  - name: sidecar
    image: a
    restartPolicy: Always
    startupProbe: {grpc: {port: 5}}
  containers:
  - name: main
    image: example.com/a:1
    command: [a]
    restartPolicy: Never
    restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]
    lifecycle: {stopSignal: SIGUSR1, preStop: {sleep: {seconds: 9}}}
    ports:
    - {name: web, containerPort: 80, hostPort: 9}
    - {name: web-udp, containerPort: 80, hostPort: 9, protocol: UDP}
    - {containerPort: 81, hostPort: 9, hostIP: 127.0.0.1}
    livenessProbe: {httpGet: {port: web, httpHeaders: [{name: X-A, value: b}]}, terminationGracePeriodSeconds: 5}
    readinessProbe: {exec: {command: [a]}, successThreshold: 3}
    env:
    - {name: A, value: b}
    - {name: B, valueFrom: {fieldRef: {fieldPath: "metadata.labels['a.example/b']"}}}
    - {name: C, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
    - {name: D, valueFrom: {fileKeyRef: {volumeName: dir, path: a/b, key: K}}}
    resources: {limits: {cpu: 1, memory: 1Gi, example.com/gpu: 2, hugepages-2Mi: 4Mi}, requests: {cpu: 0.5}}
    resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]
    securityContext:
      privileged: true
      appArmorProfile: {type: Localhost, localhostProfile: mine}
    volumeMounts:
    - {name: dir, mountPath: /a, subPath: x, mountPropagation: Bidirectional}
    - {name: host, mountPath: /b, readOnly: true, recursiveReadOnly: Enabled}
  volumes:
  - {name: dir}
  - {name: shm, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
  - {name: huge, emptyDir: {medium: HugePages-2Mi}}
  - {name: host, hostPath: {path: /srv, type: Directory}}
  - {name: image, image: {reference: a, pullPolicy: Never}}
  - {name: nfs, nfs: {server: a, path: /a}}
  - name: facts
    downwardAPI: {defaultMode: 0400, items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
  - name: mixed
    projected:
      sources:
      - downwardAPI:
          items: [{path: cpu, mode: 0777, resourceFieldRef: {containerName: main, resource: requests.cpu}}]
"""

INVALID, REQUIRED, UNSUPPORTED = "Invalid value", "Required value", "Unsupported value"
DUPLICATE, FORBIDDEN, NOT_FOUND = "Duplicate value", "Forbidden", "Not found"

LONG_RULE = f"{{action: Restart, exitCodes: {{operator: '', values: {[1] * 256}}}}}"
RULE = "{action: Restart, exitCodes: {operator: In, values: [1]}}"

# What is laid over a pod with one container "main" and one volume "dir", and the problems it then has.
POD = [
    ("metadata: {name: ''}", [("metadata.name", REQUIRED)]),
    ("metadata: {name: Web}", [("metadata.name", INVALID)]),
    ("metadata: {name: web_a}", [("metadata.name", INVALID)]),
    (f"metadata: {{name: {'a' * 248}}}", []),
    (f"metadata: {{name: {'a' * 249}}}", [("metadata.name", INVALID)]),
    ("metadata: {name: a, namespace: a.b}", [("metadata.namespace", INVALID)]),
    ("metadata: {name: a, labels: {a/b/c: d}}", [("metadata.labels", INVALID)]),
    ("metadata: {name: a, labels: {a: -d}}", [("metadata.labels[a]", INVALID)]),
    ("metadata: {name: a, annotations: {-a: d}}", [("metadata.annotations", INVALID)]),
    (f"metadata: {{name: a, annotations: {{a: {'d' * 262144}}}}}", [("metadata.annotations", INVALID)]),
]
SPEC = [
    ("hostnameOverride: A", [("spec.hostnameOverride", INVALID)]),
    (
        f"dnsConfig: {{searches: [{', '.join(['a' * 63 + '.' + 'b' * 63 + '.' + 'c' * 63] * 11)}]}}",
        [("spec.dnsConfig.searches", INVALID)],
    ),
    ("restartPolicy: always", [("spec.restartPolicy", UNSUPPORTED)]),
    ("terminationGracePeriodSeconds: -1", [("spec.terminationGracePeriodSeconds", INVALID)]),
    ("terminationGracePeriodSeconds: 0", []),
    ("activeDeadlineSeconds: 0", [("spec.activeDeadlineSeconds", INVALID)]),
    ("activeDeadlineSeconds: 2147483648", [("spec.activeDeadlineSeconds", INVALID)]),
    ("preemptionPolicy: a", [("spec.preemptionPolicy", UNSUPPORTED)]),
    ("runtimeClassName: A", [("spec.runtimeClassName", INVALID)]),
    ("priorityClassName: A", [("spec.priorityClassName", INVALID)]),
    ("imagePullSecrets: [{}]", [("spec.imagePullSecrets[0].name", REQUIRED)]),
    ("nodeSelector: {a: '!'}", [("spec.nodeSelector[a]", INVALID)]),
    ("readinessGates: [{conditionType: ''}]", [("spec.readinessGates[0].conditionType", REQUIRED)]),
    ("tolerations: [{effect: a, operator: Exists}]", [("spec.tolerations[0].effect", UNSUPPORTED)]),
    ("tolerations: [{operator: a, key: b}]", [("spec.tolerations[0].operator", UNSUPPORTED)]),
    ("tolerations: [{value: a}]", [("spec.tolerations[0].operator", REQUIRED)]),
    ("tolerations: [{key: a, operator: Exists, value: a}]", [("spec.tolerations[0].value", INVALID)]),
    ("tolerations: [{key: a, operator: Lt, value: five}]", [("spec.tolerations[0].value", INVALID)]),
    ("tolerations: [{key: a, operator: Lt, value: '-9223372036854775808'}]", []),
    ("tolerations: [{key: a, operator: Lt, value: '9223372036854775808'}]", [("spec.tolerations[0].value", INVALID)]),
    (
        "tolerations: [{key: a/, tolerationSeconds: 1}]",
        [("spec.tolerations[0].key", INVALID), ("spec.tolerations[0].effect", INVALID)],
    ),
    ("os: {name: windows}", [("spec.os.name", INVALID)]),
    ("os: {name: ''}", [("spec.os.name", REQUIRED)]),
    ("schedulingGates: [{name: a}]", [("spec.schedulingGates[0]", FORBIDDEN)]),
    ("ephemeralContainers: [{name: a, image: b}]", [("spec.ephemeralContainers", FORBIDDEN)]),
    (
        "resourceClaims: [{name: a, resourceClaimName: b}, {name: a}]",
        [("spec.resourceClaims[1].name", DUPLICATE), ("spec.resourceClaims[1]", INVALID)],
    ),
    ("hostname: a.b", [("spec.hostname", INVALID)]),
    ("subdomain: A", [("spec.subdomain", INVALID)]),
    (f"hostnameOverride: {'a' * 65}", [("spec.hostnameOverride", INVALID)]),
    (
        "{hostnameOverride: a, hostNetwork: true, setHostnameAsFQDN: true}",
        [("spec.setHostnameAsFQDN", FORBIDDEN), ("spec.hostNetwork", FORBIDDEN)],
    ),
    ("dnsPolicy: none", [("spec.dnsPolicy", UNSUPPORTED)]),
    ("dnsPolicy: None", [("spec.dnsConfig.nameservers", REQUIRED)]),
    (
        "dnsConfig: {nameservers: [a, 1.1.1.1, 1.1.1.2, 1.1.1.3]}",
        [("spec.dnsConfig.nameservers", INVALID), ("spec.dnsConfig.nameservers[0]", INVALID)],
    ),
    (f"dnsConfig: {{searches: [{', '.join(['a'] * 33)}]}}", [("spec.dnsConfig.searches", INVALID)]),
    (
        "dnsConfig: {searches: [a..b], options: [{value: a}]}",
        [("spec.dnsConfig.searches[0]", INVALID), ("spec.dnsConfig.options[0].name", REQUIRED)],
    ),
    (
        "hostAliases: [{ip: a, hostnames: [A]}]",
        [("spec.hostAliases[0].ip", INVALID), ("spec.hostAliases[0].hostnames[0]", INVALID)],
    ),
    ("{hostPID: true, shareProcessNamespace: true}", [("spec.shareProcessNamespace", INVALID)]),
    (
        "{hostUsers: false, hostPID: true, hostIPC: true, hostNetwork: true}",
        [("spec.hostNetwork", FORBIDDEN), ("spec.hostPID", FORBIDDEN), ("spec.hostIPC", FORBIDDEN)],
    ),
    (
        "securityContext: {runAsUser: -1, fsGroup: 2147483648, supplementalGroups: [0, -1]}",
        [
            ("spec.securityContext.runAsUser", INVALID),
            ("spec.securityContext.fsGroup", INVALID),
            ("spec.securityContext.supplementalGroups[1]", INVALID),
        ],
    ),
    (
        "securityContext: {fsGroupChangePolicy: a, supplementalGroupsPolicy: b, seLinuxChangePolicy: c}",
        [
            ("spec.securityContext.fsGroupChangePolicy", UNSUPPORTED),
            ("spec.securityContext.supplementalGroupsPolicy", UNSUPPORTED),
            ("spec.securityContext.seLinuxChangePolicy", UNSUPPORTED),
        ],
    ),
    (
        "securityContext: {sysctls: [{name: net.a, value: ''}, {name: net/a, value: ''}, {name: A, value: ''}]}",
        [("spec.securityContext.sysctls[1].name", DUPLICATE), ("spec.securityContext.sysctls[2].name", INVALID)],
    ),
    (
        "securityContext: {seccompProfile: {type: Localhost}, appArmorProfile: {type: '', localhostProfile: a}}",
        [
            ("spec.securityContext.seccompProfile.localhostProfile", REQUIRED),
            ("spec.securityContext.appArmorProfile.type", REQUIRED),
            ("spec.securityContext.appArmorProfile.localhostProfile", FORBIDDEN),
        ],
    ),
    (
        "securityContext: {seccompProfile: {type: Localhost, localhostProfile: ../a}, windowsOptions: {}}",
        [
            ("spec.securityContext.seccompProfile.localhostProfile", INVALID),
        ],
    ),
    (
        "{os: {name: linux}, securityContext: {windowsOptions: {}}}",
        [("spec.securityContext.windowsOptions", FORBIDDEN)],
    ),
    (
        "resources: {limits: {cpu: 1, ephemeral-storage: 1}, claims: [{name: a}]}",
        [("spec.resources.limits[ephemeral-storage]", UNSUPPORTED), ("spec.resources.claims[0]", FORBIDDEN)],
    ),
    ("overhead: {cpu: -1, gpu: 1}", [("spec.overhead[cpu]", INVALID), ("spec.overhead[gpu]", UNSUPPORTED)]),
    ("containers: []", [("spec.containers", REQUIRED)]),
]
CONTAINER = [
    (f"{{restartPolicy: Never, restartPolicyRules: [{', '.join([RULE] * 21)}]}}", [("restartPolicyRules", INVALID)]),
    (f"{{restartPolicy: Never, restartPolicyRules: [{LONG_RULE}]}}",
     [("restartPolicyRules[0].exitCodes.operator", REQUIRED), ("restartPolicyRules[0].exitCodes.values", INVALID)]),
    ("env: [{name: A, valueFrom: {fieldRef: {fieldPath: ''}}}]", [("env[0].valueFrom.fieldRef.fieldPath", REQUIRED)]),
    ("env: [{name: A, valueFrom: {fileKeyRef: {volumeName: '', path: a, key: B}}}]",
     [("env[0].valueFrom.fileKeyRef.volumeName", REQUIRED)]),
    ("volumeMounts: [{name: '', mountPath: /a, mountPropagation: Slave, recursiveReadOnly: 'Yes'}]",
     [("volumeMounts[0].name", REQUIRED), ("volumeMounts[0].mountPropagation", UNSUPPORTED),
      ("volumeMounts[0].recursiveReadOnly", UNSUPPORTED)]),
    ("volumeDevices: [{name: a, devicePath: ''}]",
     [("volumeDevices[0].name", NOT_FOUND), ("volumeDevices[0].devicePath", REQUIRED)]),
    ("name: A", [("name", INVALID)]),
    ("name: ''", [("name", REQUIRED)]),
    ("image: ''", [("image", REQUIRED)]),
    ("image: 'a '", [("image", INVALID)]),
    ("imagePullPolicy: always", [("imagePullPolicy", UNSUPPORTED)]),
    ("terminationMessagePolicy: a", [("terminationMessagePolicy", UNSUPPORTED)]),
    ("restartPolicy: a", [("restartPolicy", UNSUPPORTED)]),
    ("restartPolicyRules: [{action: ''}]",
     [("restartPolicy", REQUIRED), ("restartPolicyRules[0].action", REQUIRED),
      ("restartPolicyRules[0].exitCodes", REQUIRED)]),
    ("{restartPolicy: Never, restartPolicyRules: [{action: a, exitCodes: {operator: b}}]}",
     [("restartPolicyRules[0].action", UNSUPPORTED), ("restartPolicyRules[0].exitCodes.operator", UNSUPPORTED),
      ("restartPolicyRules[0].exitCodes.values", REQUIRED)]),
    ("lifecycle: {stopSignal: SIGWHAT}", [("lifecycle.stopSignal", UNSUPPORTED), ("lifecycle.stopSignal", FORBIDDEN)]),
    ("lifecycle: {preStop: {}}", [("lifecycle.preStop", REQUIRED)]),
    ("lifecycle: {preStop: {sleep: {seconds: 31}}}", [("lifecycle.preStop.sleep.seconds", INVALID)]),
    ("lifecycle: {postStart: {sleep: {seconds: -1}, exec: {}}}",
     [("lifecycle.postStart.sleep", FORBIDDEN), ("lifecycle.postStart.exec.command", REQUIRED),
      ("lifecycle.postStart.sleep.seconds", INVALID)]),
    ("livenessProbe: {}", [("livenessProbe", REQUIRED)]),
    ("livenessProbe: {exec: {command: [a]}, tcpSocket: {port: 1}}", [("livenessProbe.tcpSocket", FORBIDDEN)]),
    ("livenessProbe: {grpc: {port: 1}, successThreshold: 2}", [("livenessProbe.successThreshold", INVALID)]),
    ("startupProbe: {grpc: {port: 1}, successThreshold: 2}", [("startupProbe.successThreshold", INVALID)]),
    ("startupProbe: {grpc: {port: 0}, initialDelaySeconds: -1, timeoutSeconds: -1}",
     [("startupProbe.initialDelaySeconds", INVALID), ("startupProbe.timeoutSeconds", INVALID),
      ("startupProbe.grpc.port", INVALID)]),
    ("readinessProbe: {grpc: {port: 1}, terminationGracePeriodSeconds: 1}",
     [("readinessProbe.terminationGracePeriodSeconds", FORBIDDEN)]),
    ("readinessProbe: {httpGet: {port: '', scheme: http, httpHeaders: [{name: 'a b', value: ''}]}}",
     [("readinessProbe.httpGet.port", REQUIRED), ("readinessProbe.httpGet.scheme", UNSUPPORTED),
      ("readinessProbe.httpGet.httpHeaders[0].name", INVALID)]),
    ("readinessProbe: {tcpSocket: {port: web_1}}", [("readinessProbe.tcpSocket.port", INVALID)]),
    ("ports: [{containerPort: 0}]", [("ports[0].containerPort", REQUIRED)]),
    ("ports: [{containerPort: 65536, hostPort: -1, hostIP: a, protocol: tcp}]",
     [("ports[0].containerPort", INVALID), ("ports[0].hostPort", INVALID), ("ports[0].protocol", UNSUPPORTED),
      ("ports[0].hostIP", INVALID)]),
    ("ports: [{containerPort: 1, name: a}, {containerPort: 2, name: a}, {containerPort: 3, name: '1'}]",
     [("ports[1].name", DUPLICATE), ("ports[2].name", INVALID)]),
    ("ports: [{containerPort: 1, hostPort: 9}, {containerPort: 2, hostPort: 9}]", [("ports[1].hostPort", DUPLICATE)]),
    ("env: [{name: ''}, {name: a=b}]", [("env[0].name", REQUIRED), ("env[1].name", INVALID)]),
    ("env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]", [("env[0].valueFrom", INVALID)]),
    ("env: [{name: A, valueFrom: {}}]", [("env[0].valueFrom", REQUIRED)]),
    ("env: [{name: A, valueFrom: {fieldRef: {apiVersion: v2, fieldPath: metadata.labels}}}]",
     [("env[0].valueFrom.fieldRef.apiVersion", UNSUPPORTED), ("env[0].valueFrom.fieldRef.fieldPath", UNSUPPORTED)]),
    ("env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['!']\"}}}]",
     [("env[0].valueFrom.fieldRef.fieldPath", INVALID)]),
    ("env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.gpu, containerName: b, divisor: a}}}]",
     [("env[0].valueFrom.resourceFieldRef.resource", UNSUPPORTED),
      ("env[0].valueFrom.resourceFieldRef.containerName", INVALID),
      ("env[0].valueFrom.resourceFieldRef.divisor", INVALID)]),
    ("env: [{name: A, valueFrom: {fileKeyRef: {volumeName: host, path: /a, key: ''}}}]",
     [("env[0].valueFrom.fileKeyRef.volumeName", INVALID), ("env[0].valueFrom.fileKeyRef.path", INVALID),
      ("env[0].valueFrom.fileKeyRef.key", REQUIRED)]),
    ("env: [{name: A, valueFrom: {configMapKeyRef: {key: '..a'}}}]",
     [("env[0].valueFrom.configMapKeyRef.name", REQUIRED), ("env[0].valueFrom.configMapKeyRef.key", INVALID)]),
    ("envFrom: [{prefix: '='}, {secretRef: {name: A}}]",
     [("envFrom[0].prefix", INVALID), ("envFrom[0]", REQUIRED), ("envFrom[1].secretRef.name", INVALID)]),
    ("volumeMounts: [{name: dri, mountPath: /a}, {name: dir, mountPath: ''}]",
     [("volumeMounts[0].name", NOT_FOUND), ("volumeMounts[1].mountPath", REQUIRED)]),
    ("volumeMounts: [{name: dir, mountPath: /a}, {name: dir, mountPath: /a}]",
     [("volumeMounts[1].mountPath", INVALID)]),
    ("volumeMounts: [{name: dir, mountPath: /a, subPath: ../a, subPathExpr: /a}]",
     [("volumeMounts[0].subPath", INVALID), ("volumeMounts[0].subPathExpr", INVALID),
      ("volumeMounts[0].subPathExpr", FORBIDDEN)]),
    ("volumeMounts: [{name: dir, mountPath: /a, mountPropagation: Bidirectional}]",
     [("volumeMounts[0].mountPropagation", FORBIDDEN)]),
    ("volumeMounts: [{name: dir, mountPath: /a, recursiveReadOnly: Enabled, mountPropagation: HostToContainer}]",
     [("volumeMounts[0].recursiveReadOnly", FORBIDDEN), ("volumeMounts[0].recursiveReadOnly", FORBIDDEN)]),
    ("volumeDevices: [{name: dir, devicePath: /dev/../a}]",
     [("volumeDevices[0].name", INVALID), ("volumeDevices[0].devicePath", INVALID)]),
    ("resources: {limits: {gpu: 1}}",
     [("resources.limits[gpu]", UNSUPPORTED), ("resources.requests[gpu]", UNSUPPORTED)]),
    ("resources: {requests: {cpu: -1}}", [("resources.requests[cpu]", INVALID)]),
    ("resources: {limits: {cpu: 1}, requests: {cpu: 1001m}}", [("resources.requests[cpu]", INVALID)]),
    ("resources: {requests: {a.b/c: 1}}", [("resources.limits[a.b/c]", REQUIRED)]),
    ("resources: {limits: {a.b/c: 2}, requests: {a.b/c: 1}}", [("resources.requests[a.b/c]", INVALID)]),
    ("resources: {limits: {a.b/c: 1.5}}",
     [("resources.limits[a.b/c]", INVALID), ("resources.requests[a.b/c]", INVALID)]),
    ("resources: {limits: {hugepages-2Mi: 2Mi}}", [("resources", FORBIDDEN)]),
    ("resources: {claims: [{name: a}, {name: ''}]}",
     [("resources.claims[0].name", NOT_FOUND), ("resources.claims[1].name", REQUIRED)]),
    ("resizePolicy: [{resourceName: disk, restartPolicy: a}]",
     [("resizePolicy[0].resourceName", UNSUPPORTED), ("resizePolicy[0].restartPolicy", UNSUPPORTED)]),
    ("securityContext: {procMount: Unmasked}", [("securityContext.procMount", INVALID)]),
    ("securityContext: {allowPrivilegeEscalation: false, privileged: true, capabilities: {add: [CAP_SYS_ADMIN]}}",
     [("securityContext.allowPrivilegeEscalation", INVALID), ("securityContext.allowPrivilegeEscalation", INVALID)]),
]  # fmt: skip
VOLUME = [
    ("name: A", [("name", INVALID)]),
    ("name: dir", [("name", DUPLICATE)]),
    ("{emptyDir: {}, hostPath: {path: /a}}", [("hostPath", FORBIDDEN)]),
    ("hostPath: {path: ''}", [("hostPath.path", REQUIRED)]),
    ("hostPath: {path: /a/../b, type: Dir}", [("hostPath.path", INVALID), ("hostPath.type", UNSUPPORTED)]),
    ("emptyDir: {medium: memory, sizeLimit: -1}", [("emptyDir.sizeLimit", INVALID), ("emptyDir.medium", UNSUPPORTED)]),
    ("image: {pullPolicy: a}", [("image.reference", REQUIRED), ("image.pullPolicy", UNSUPPORTED)]),
    ("nfs: {server: '', path: a}", [("nfs.server", REQUIRED), ("nfs.path", INVALID)]),
    ("configMap: {defaultMode: 512, items: [{key: a, path: b}, {key: '', path: b}]}",
     [("configMap.name", REQUIRED), ("configMap.defaultMode", INVALID), ("configMap.items[1].key", REQUIRED),
      ("configMap.items[1].path", DUPLICATE)]),
    ("secret: {secretName: A, items: [{key: a, path: ..b, mode: -1}]}",
     [("secret.secretName", INVALID), ("secret.items[0].path", INVALID), ("secret.items[0].mode", INVALID)]),
    ("persistentVolumeClaim: {claimName: ''}", [("persistentVolumeClaim.claimName", REQUIRED)]),
    ("csi: {driver: '!'}", [("csi.driver", INVALID)]),
    ("ephemeral: {}", [("ephemeral.volumeClaimTemplate", REQUIRED)]),
    ("downwardAPI: {items: [{path: /a}, {path: b, resourceFieldRef: {resource: ''}}]}",
     [("downwardAPI.items[0].path", INVALID), ("downwardAPI.items[0]", REQUIRED),
      ("downwardAPI.items[1].resourceFieldRef.resource", REQUIRED),
      ("downwardAPI.items[1].resourceFieldRef.containerName", REQUIRED)]),
    ("projected: {sources: [{}, {serviceAccountToken: {path: a, expirationSeconds: 1}},"
     " {clusterTrustBundle: {path: a}}]}",
     [("projected.sources[0]", REQUIRED), ("projected.sources[1].serviceAccountToken.expirationSeconds", INVALID),
      ("projected.sources[2].clusterTrustBundle", INVALID),
      ("projected.sources[2].clusterTrustBundle.path", DUPLICATE)]),
]  # fmt: skip


def problems_of(value: object) -> list[tuple[str, str]]:
    text = yaml.safe_dump(value)
    ((document,), wrong) = parse_documents(text, "f")
    assert wrong == []
    examined = examine(document, k8s.Pod)
    assert examined.faults == ()
    return [(one.path, one.text.partition(":")[0]) for one in pod_problems(with_defaults(examined.value), "nod1")]


def pod(**spec: object) -> dict[str, object]:
    base = {"containers": [{"name": "main", "image": "a"}], "volumes": [{"name": "dir"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": base | spec}


def test_a_pod_with_something_of_everything_has_no_problem() -> None:
    assert [] == problems_of(yaml.safe_load(GOOD))


@pytest.mark.parametrize(("said", "expected"), POD)
def test_metadata_is_held_to_its_rules(said: str, expected: list[tuple[str, str]]) -> None:
    assert expected == problems_of(pod() | yaml.safe_load(said))


@pytest.mark.parametrize(("said", "expected"), SPEC)
def test_a_spec_is_held_to_its_rules(said: str, expected: list[tuple[str, str]]) -> None:
    assert expected == problems_of(pod(**yaml.safe_load(said)))


@pytest.mark.parametrize(("said", "expected"), CONTAINER)
@pytest.mark.parametrize("place", ["containers", "initContainers"])
def test_a_container_is_held_to_its_rules_wherever_it_stands(
    said: str, expected: list[tuple[str, str]], place: str
) -> None:
    # A sidecar, for one that is not restarted may have neither hooks nor probes.
    kind = {"restartPolicy": "Always"} if place == "initContainers" and "restartPolicy" not in said else {}
    if kind or place == "containers":
        container = {"name": "tested", "image": "a"} | kind | yaml.safe_load(said)
        others = {} if place == "containers" else {"initContainers": [container]}
        spec = others or {"containers": [container]}
        assert [(f"spec.{place}[0].{path}", text) for path, text in expected] == problems_of(pod(**spec))


@pytest.mark.parametrize(("said", "expected"), VOLUME)
def test_a_volume_is_held_to_its_rules(said: str, expected: list[tuple[str, str]]) -> None:
    volumes = [{"name": "dir"}, {"name": "tested"} | yaml.safe_load(said)]

    assert [(f"spec.volumes[1].{path}", text) for path, text in expected] == problems_of(pod(volumes=volumes))


def test_init_containers_that_end_have_neither_hooks_nor_probes() -> None:
    probe = {"exec": {"command": ["a"]}}
    first = {"name": "first", "image": "a", "lifecycle": {"postStart": probe}}
    first |= {"livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe}
    fields = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")

    expected = [(f"spec.initContainers[0].{field}", FORBIDDEN) for field in fields]
    assert expected == problems_of(pod(initContainers=[first]))


def test_no_two_containers_share_a_name() -> None:
    twin = {"name": "main", "image": "a"}

    expected = [("spec.containers[0].name", DUPLICATE), ("spec.containers[1].name", DUPLICATE)]
    assert expected == problems_of(pod(initContainers=[twin], containers=[twin, twin]))


def test_a_host_port_is_shared_only_by_those_who_never_run_together() -> None:
    port = {"ports": [{"containerPort": 1, "hostPort": 9}]}
    one, two = {"name": "one", "image": "a"} | port, {"name": "two", "image": "a"} | port
    sidecar = {"name": "sidecar", "image": "a", "restartPolicy": "Always"} | port

    assert [] == problems_of(pod(initContainers=[one, two], containers=[{"name": "main", "image": "a"} | port]))
    both = [
        ("spec.initContainers[1].ports[0].hostPort", DUPLICATE),
        ("spec.containers[0].ports[0].hostPort", DUPLICATE),
    ]
    assert both == problems_of(pod(initContainers=[sidecar, one], containers=[two]))


def test_in_the_hosts_network_a_port_is_the_hosts_port() -> None:
    ports = [{"containerPort": 1, "hostPort": 2}, {"containerPort": 3}]
    twice = {"name": "b", "image": "a", "ports": [{"containerPort": 3}]}
    first = {"name": "main", "image": "a", "ports": ports}

    expected = [("spec.containers[0].ports[0].hostPort", INVALID), ("spec.containers[1].ports[0].hostPort", DUPLICATE)]
    assert expected == problems_of(pod(hostNetwork=True, containers=[first, twice]))


def test_a_pods_own_resources_hold_those_of_its_containers() -> None:
    asks = {"resources": {"requests": {"cpu": "600m"}}}
    containers = [{"name": "a", "image": "a"} | asks, {"name": "b", "image": "a", "resources": {"limits": {"cpu": 3}}}]
    own = {"limits": {"cpu": 2}, "requests": {"cpu": 1}}

    expected = [("spec.resources.requests[cpu]", INVALID), ("spec.containers[1].resources.limits[cpu]", INVALID)]
    assert expected == problems_of(pod(resources=own, containers=containers))


def test_a_block_device_is_a_claim_and_mounted_in_no_other_way() -> None:
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": "a"}}, {"name": "dir"}]
    container: dict[str, object] = {"name": "main", "image": "a"}
    device = {"name": "disk", "devicePath": "/dev/a"}
    mounted = container | {"volumeDevices": [device], "volumeMounts": [{"name": "disk", "mountPath": "/a"}]}
    again = container | {"volumeDevices": [device, {"name": "disk", "devicePath": "/dev/b"}]}

    assert [] == problems_of(pod(volumes=volumes, containers=[container | {"volumeDevices": [device]}]))
    expected = [("spec.containers[0].volumeDevices[0].name", INVALID)]
    assert expected == problems_of(pod(volumes=volumes, containers=[mounted]))
    expected = [("spec.containers[0].volumeDevices[1].name", DUPLICATE)]
    assert expected == problems_of(pod(volumes=volumes, containers=[again]))
