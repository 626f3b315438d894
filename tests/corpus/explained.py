"""Where this agent and the API server do not say the same of a pod, and why: the whole list, by patterns.

A verdict is a set of ``path: Kind``. ``NAMED`` rewrites our paths where the server names another one for the same
thing; ``OURS`` are what we refuse and the server does not, ``THEIRS`` what it refuses and we do not, ``KINDS`` what
both refuse for another reason, and ``UNASKED`` are pods it refused without having looked at the fields. Every entry is
needed by some pod of the corpus, which a test sees to. Three things hold everywhere: the server does not look into what
it refuses whole; what is there and empty is, to us, not there; and a request that nobody wrote, which both derive from
a limit that is refused, is refused by the server too, and by us not, who name what can be mended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from corpus.verdicts import ours

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


@dataclass(frozen=True)
class Named:
    """``ours``, a pattern of our ``path: Kind``, is the server's path ``theirs``."""

    ours: str
    theirs: str
    why: str


@dataclass(frozen=True)
class Alone:
    """Only one side says what is like ``pattern``: of pods whose name in the corpus is like ``of``, and where the
    server names a field like ``beside`` too."""

    pattern: str
    why: str
    of: str = ""
    beside: str = ""


@dataclass(frozen=True)
class Otherwise:
    """Both have something against the same place, of other kinds. ``place``: what its path, as the server names it,
    ends with, a pattern; ``kinds``: ours and the server's, ``Kind, Kind | Kind``. ``missing``: only where the pod has
    nothing, or what is empty, at what we say is required."""

    place: str
    kinds: str
    why: str
    missing: bool = False


_MAP = "the server names the map, we the key in it, which has a line"
_INDEX = "the server leaves out which one of the list it is"
_MEMBER = "the server names what holds the member, or the member that held it once"
_LATE = "the server would take it, and the pod would wait for ever"

NAMED = (
    Named(r"(metadata\.(?:ownerReferences|finalizers))\[\d+\](\.\w+)?: .*", r"\1\2", _INDEX),
    Named(r"(metadata\.ownerReferences)\[\d+\]\.controller: .*", r"\1", _INDEX),
    Named(r"(metadata\.annotations)\[scheduler\.alpha\.kubernetes\.io/tolerations\]: .*", r"\1", _MAP),
    Named(r"metadata\.annotations\[(.*seccomp.*)\]: .*", r"metadata.annotations.\1", "the server's spelling"),
    Named(
        r"spec\.resources\.limits\[.*\]: .*",
        "spec.resources.requests",
        "the server names a request nobody may have written",
    ),
    Named(r"(.*(?:[lL]abels|nodeSelector))\[.*\]: .*", r"\1", _MAP),
    Named(r"(.*\.resources\.(?:requests|limits))\[.*\]: .*", r"\1", _MAP),
    Named(r"spec\.overhead\[(.*)\]: .*", r"spec.overhead.limits[\1]", "the server takes an overhead for limits"),
    Named(r"(.*\.volumeMounts)\[\d+\](\..*): .*", r"\1\2", _INDEX),
    Named(r"(.*\.downwardAPI)\.items\[\d+\](.*): .*", r"\1\2", _INDEX),
    Named(r"(.*\.downwardAPI)\.items\[\d+\](\.fieldRef)\.fieldPath: Invalid value", r"\1\2", _INDEX),
    Named(r"(.*\.envFrom)\[\d+\].*: .*", r"\1", _INDEX),
    Named(r"(.*\.httpHeaders)\[\d+\].*: .*", r"\1", _INDEX),
    Named(r"(.*\.resizePolicy)\[\d+\].*: [^D].*", r"\1", _INDEX),
    Named(r"(.*\.namespace)s\[\d+\]: .*", r"\1", _INDEX),
    Named(r"(.*\.projected)\.sources\[\d+\]\..*\.path: Duplicate value", r"\1", _INDEX),
    Named(r"(.*\.projected)\.sources\[\d+\]\.serviceAccountToken\.path: .*", r"\1.path", _INDEX),
    Named(r"(.*\.resizePolicy\[\d+\])\..*: Duplicate value", r"\1", _MEMBER),
    Named(r"(.*\.claims\[\d+\])\.name: .*", r"\1", _MEMBER),
    Named(r"(spec\.resources\.claims)\[\d+\]: .*", r"\1", _INDEX),
    Named(r"(.*\.sleep)\.seconds: .*", r"\1", _MEMBER),
    Named(r"(.*\.options\[\d+\])\.name: .*", r"\1", _MEMBER),
    Named(r"(.*\.fieldRef)\.fieldPath: Invalid value", r"\1", _MEMBER),
    Named(r"(.*(?:\.valueFrom|\.sources\[\d+\]))\.\w+: Forbidden", r"\1", _MEMBER),
    Named(r"(.*\.downwardAPI)\.items\[\d+\]\.\w+: Forbidden", r"\1", _MEMBER),
    Named(r"(.*\.)downwardAPI: Forbidden", r"\1downwarAPI", "the server's spelling"),
    Named(r"(.*\.securityContext)\.allowPrivilegeEscalation: .*", r"\1", _MEMBER),
    Named(r"(.*\.topologySpreadConstraints\[\d+\])\.topologyKey: D.*", r"\1.{topologyKey, whenUnsatisfiable}", _MEMBER),
    Named(r"spec\.dnsConfig\.nameservers: Required value", "spec.dnsConfig", _MEMBER),
    Named(r"spec\.os\.name: .*", "spec.os", _MEMBER),
    Named(r"spec\.shareProcessNamespace: .*", "spec.securityContext.shareProcessNamespace", _MEMBER),
    Named(
        r"spec\.(?:hostNetwork|setHostnameAsFQDN): .*", "spec.hostnameOverride", "the server blames the other of two"
    ),
    Named(r"spec\.host(IPC|PID): .*", r"spec.Host\1", "the server's spelling"),
    Named(r"(.*\.)gcePersistentDisk(\..*): .*", r"\1persistentDisk\2", "the server's spelling"),
    Named(r"(.*\.iscsi\.)initiatorName: .*", r"\1initiatorname", "the server's spelling"),
    Named(r"(.*\.csi\.)nodePublishSecretRef\.(name): .*", r"\1\2", _MEMBER),
    Named(r"(.*\.tolerations\[\d+\])\.value: .*", r"\1.operator", "the server blames the operator for the value"),
    Named(
        r"spec\.(containers\[\d+\])\.resources\.limits(\[.*\]): .*",
        r"spec.resources.\1\2.limits",
        "the server tells it of the pod's own resources",
    ),
)

OURS = (
    Alone(
        r".*\.(?:preference|podAffinityTerm|value|spec|lun): Required value",
        "the API's schema wants it there, and the server takes nothing for zero",
    ),
    Alone(
        r"spec\.volumes\[\d+\]\.name: Duplicate value",
        "to the server a volume with a fault is none, and its name is free",
        beside=r"spec\.volumes\[",
    ),
    Alone(
        r"metadata\.name: Invalid value", "a static pod's name gets the node's, and has no room for it", r"long name"
    ),
    Alone(r".*\.localhostProfile: Required value", "an empty name is none here", r'localhostProfile": ""'),
    Alone(r".*\.clusterTrustBundle(?:\..*)?: .*", "the server drops it while its feature gate is off"),
    Alone(
        r".*\.fileKeyRef\.path: Invalid value", "the API's description wants it relative, and the server does not look"
    ),
    Alone(r"spec\.os\.name: Invalid value", "a pod of another system cannot run on this node"),
    Alone(
        r"spec\.schedulingGates\[\d+\]: Forbidden", "a static pod is on its node already, and nobody opens its gates"
    ),
    Alone(r".*\.configMap\.name: Invalid value", f"no ConfigMap can have the name; {_LATE}"),
    Alone(r".*\.secret\.(?:secretName|name): Invalid value", f"no Secret can have the name; {_LATE}"),
    Alone(r".*\.persistentVolumeClaim\.claimName: Invalid value", f"no claim can have the name; {_LATE}"),
    Alone(r".*\.(?:secret|configMap)\.items\[\d+\]\.key: Invalid value", f"no object can have the key; {_LATE}"),
    Alone(r".*\.resourceFieldRef\.containerName: Invalid value", f"the pod has no such container; {_LATE}"),
    Alone(r".*\.nfs\.server: Invalid value", "mount(8) would take it for an option, and the server lets it be"),
    Alone(r".*\.hostPath\.path: Invalid value", f"a relative path names nothing that a runtime can mount; {_LATE}"),
    Alone(r".*\.emptyDir\.medium: Unsupported value", f"nothing is such a medium; {_LATE}"),
    Alone(r".*\.hostIP: Invalid value", "it is no address; the server lets it be, and no runtime can bind it"),
    Alone(
        r"spec\..*\.hostPort: Duplicate value",
        "the server compares regular containers only, and a sidecar that has the port keeps it from the others",
    ),
    Alone(
        r"spec\.initContainers\[\d+\]\.restartPolicyRules.*",
        "the server looks at an init container's rules only where it has a policy; we tell all at once",
        beside=r"spec\.initContainers\[\d+\]\.restartPolicy$",
    ),
    Alone(r".*\.lifecycle\.stopSignal: .*", "the server drops it while its feature gate is off, and does not look"),
    Alone(r".*\.resources\.limits\[\w+\]: Invalid value", "without a digit it is no amount", r'": "\."'),
    Alone(r".*\.resources\.limits\[\w+\]: Invalid value", "what is not filled in is not zero", "null"),
    Alone(r".*\.(?:env|containers)\[\d+\]: Invalid value", "there is nothing that could have a name", "null"),
    Alone(r"spec: Required value", "nothing of it is there, which is said once", r'"spec": null'),
    Alone(r".*\.fieldRef\.apiVersion: Unsupported value", "the server tells it of the fieldPath alone"),
)

THEIRS = (
    Alone(r"spec\.containers", "nothing of the spec is there, which is said once", r'"spec": null'),
    Alone(r".*\.fieldRef\.fieldPath", "it is the version that is wrong, and named", r'"apiVersion": "v2"'),
    Alone(r".*\.podAffinityTerm\.topologyKey", "the term is missing whole, which is said once", r'\[\{"weight": 1\}\]'),
    Alone(r".*\.(?:env|containers)\[\d+\]\.(?:name|image)", "there is nothing that could have a name", "null"),
    Alone(r".*\.windowsOptions\..*", "options of Windows have no effect here, and are reported as such"),
    Alone(r"spec\.hostNetwork|spec", "a host process of Windows must have the host's network", r"hostProcess"),
    Alone(
        r"spec\.(?:hostPID|hostUsers|resources|securityContext\.\w+)",
        "the pod is refused whole: it is for another system",
        r'"windows"',
    ),
    Alone(r"spec\.nodeName", "the pod is refused for its gates", r"schedulingGates"),
    Alone(r"spec\.resources\.claims", "said once of each claim, which is enough"),
    Alone(
        r".*\.ephemeral\.volumeClaimTemplate\..*",
        "a static pod may not have ephemeral volumes at all, and their templates come from an API server otherwise",
    ),
    Alone(
        r".*\.hostPort", "the server derived it from a containerPort and says the same of both", beside=r"containerPort"
    ),
    Alone(
        r".*\.volume(?:Mounts|Devices)\[\d+\]\.name",
        "to the server a volume with a fault is none; when it is mended, its mounts are right too",
        beside=r"spec\.volumes\[",
    ),
    Alone(r".*\.volumeMounts\.subPathExpr", "said once", beside=r"volumeMounts\[\d+\]\.subPathExpr"),
)

_EMPTY = "what is empty is missing here; the server has a look at it as at anything else"
_FURTHER = "the server looks no further into what it has found wrong once"
_WORDS = "where only certain words are right we name them; the server says that this one is wrong"
_BESIDE = "what may not stand beside something else is forbidden here, and invalid to the server"
_ONE_OF = "of several members one is required here, and invalid to the server is what has none of them"
_TWICE = "the same thing twice is a duplicate here, and invalid to the server"


def _each(kinds: str, why: str, *places: str, missing: bool = False) -> tuple[Otherwise, ...]:
    """An entry for each place, so that each is needed."""
    return tuple(Otherwise(place, kinds, why, missing) for place in places)


KINDS = (
    *_each(
        "Required value | Invalid value",
        _EMPTY,
        r"\.match(?:Expressions|Fields)\[\d+\]\.key",
        r"\.configMapKeyRef\.name",
        r"\.weight",
        r"\.maxSkew",
        r"\.secretKeyRef\.name",
        r"\.(?:httpGet|tcpSocket|grpc)\.port",
        r"\.nameservers\[\d+\]",
        r"\.searches\[\d+\]",
        r"\.hostAliases\[\d+\]\.ip",
        r"\.hostnames\[\d+\]",
        r"\.conditionType",
        r"metadata\.ownerReferences\.\w+",
        missing=True,
    ),
    *_each("Invalid value, Required value | Invalid value", _EMPTY, r"\.httpHeaders", missing=True),
    *_each(
        "Required value | Unsupported value",
        _EMPTY,
        r"\.restartPolicyRules\[\d+\]\.action",
        r"\.exitCodes\.operator",
        missing=True,
    ),
    *_each("Required value | Invalid value, Required value", _EMPTY, r"\.topologyKey", missing=True),
    *_each(
        "Required value | Not found, Required value",
        _EMPTY,
        r"\.fileKeyRef\.volumeName",
        r"\.volumeMounts\[\d+\]\.name",
        r"\.volumeDevices\[\d+\]\.name",
        missing=True,
    ),
    *_each("Required value | Required value, Unsupported value", _EMPTY, r"\.azureDisk\.diskURI", missing=True),
    *_each("Invalid value | Invalid value, Required value", _EMPTY, r"\.nfs\.path"),
    *_each("Required value | Invalid value", _WORDS, r"\.operator", missing=True),
    *_each("Required value | Unsupported value", _WORDS, r"\.whenUnsatisfiable", missing=True),
    *_each(
        "Unsupported value | Invalid value",
        _WORDS,
        r"\.matchExpressions\[\d+\]\.operator",
        r"\.matchFields\[\d+\]\.operator",
        r"\.matchFields\[\d+\]\.key",
        r"\.fieldRef\.fieldPath",
        r"\.resources\.limits\[.*\]",
        r"\.resources\.requests\[.*\]",
        r"\.overhead\.limits\[.*\]",
    ),
    *_each(
        "Invalid value | Unsupported value",
        "the other way round: what is right, there is more than a few words",
        r"spec\.os",
        r"\.azureDisk\.diskURI",
    ),
    *_each(
        "Forbidden | Invalid value",
        _BESIDE,
        r"\.envFrom",
        r"\.valueFrom",
        r"\.volumes\[\d+\]\.downwardAPI",
        r"\.sources\[\d+\]\.downwardAPI",
        r"\.flocker",
        r"\.readinessProbe\.terminationGracePeriodSeconds",
        r"\.seccompProfile\.localhostProfile",
        r"\.appArmorProfile\.localhostProfile",
    ),
    *_each(
        "Forbidden, Invalid value | Invalid value",
        _BESIDE,
        r"\.seccompProfile\.localhostProfile",
        r"\.volumeMounts\[\d+\]\.subPathExpr",
    ),
    *_each("Required value | Invalid value", _ONE_OF, r"\.envFrom", r"\.valueFrom"),
    *_each(
        "Invalid value, Required value | Invalid value",
        "blanks are nothing, too",
        r"\.appArmorProfile\.localhostProfile",
    ),
    *_each("Invalid value | Forbidden", "a negative amount is invalid here, as elsewhere", r"\.emptyDir\.sizeLimit"),
    *_each("Forbidden, Invalid value | Forbidden", _FURTHER, r"\.sleep"),
    *_each("Required value, Unsupported value | Required value", _FURTHER, r"\.resizePolicy", missing=True),
    *_each(
        "Duplicate value | Duplicate value, Invalid value",
        "the server derived it from a containerPort and says the same of both",
        r"\.hostPort",
    ),
    *_each("Forbidden | Duplicate value", "a static pod may have no gate at all", r"\.schedulingGates\[\d+\]"),
    *_each("Forbidden | Invalid value", "a static pod may have no gate at all", r"\.schedulingGates\[\d+\]"),
    *_each("Forbidden | Not found", "no claim may stand there, whichever it is", r"spec\.resources\.claims\[\d+\]"),
    *_each("Duplicate value | Invalid value", _TWICE, r"\.volumeDevices\[\d+\]\.name", r"\.projected"),
    *_each("Invalid value | Required value", "it is there and too long", r"\.quobyte\.tenant"),
)

UNASKED = (
    Alone(
        r"PriorityClass|integer value of priority", "classes and priorities are a cluster's; here they stand as written"
    ),
    Alone(r"RuntimeClass", "the same"),
)


@dataclass(frozen=True)
class Differences:
    """What only we say of a pod, what only the server says, and where both say it of another kind."""

    ours: set[str] = field(default_factory=set)
    theirs: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)


NONE = Differences()


def differences(name: str, pod: dict[str, Any], verdict: list[str], used: set[object] | None = None) -> Differences:
    """Where we and the server differ about the pod ``name``, and nobody explained. ``used`` gets the entries that
    explained something."""
    used = set() if used is None else used
    mine = ours(pod)
    if verdict and verdict[0].startswith("["):
        excuse = next((one for one in UNASKED if re.search(one.pattern, verdict[0]) and not mine), None)
        used |= {excuse} if excuse else set()
        return NONE if mine or excuse else Differences(theirs=set(verdict))
    theirs = _by_place(dict.fromkeys(verdict, ""))
    said = {one: _named(one, theirs, used) for one in mine}
    whole = [*theirs, *(_place(one) for one, path in said.items() if path in theirs)]
    only_ours = {one for one, path in said.items() if path not in theirs and not _is_below(path, whole)}
    # What is there and empty we cannot tell from what is not there.
    only_theirs = {path for path in theirs if path not in said.values() and "" not in _held(pod, path)}
    only_theirs = {path for path in only_theirs if not _is_derived(pod, path, theirs)}
    return Differences(
        {one for one in only_ours if not _explained(name, one, OURS, theirs, used)},
        {path for path in only_theirs if not _explained(name, path, THEIRS, theirs, used)},
        {told for told in _otherwise(_by_place(said), theirs) if not _is_known_kind(pod, told, said, used)},
    )


def _place(said: str) -> str:
    return said.rpartition(": ")[0]


def _by_place(said: dict[str, str]) -> dict[str, set[str]]:
    """The kinds of problems at each place, which is the path they were given or their own."""
    found: dict[str, set[str]] = {}
    for one, named in said.items():
        path, _, kind = one.rpartition(": ")
        found.setdefault(named or path, set()).add(kind)
    return found


def _otherwise(mine: dict[str, set[str]], theirs: dict[str, set[str]]) -> Iterator[str]:
    """The places where both say something, of other kinds."""
    for path, kinds in mine.items():
        if theirs.get(path, kinds) != kinds:
            yield f"{path}: {', '.join(sorted(kinds))} | {', '.join(sorted(theirs[path]))}"


def _is_known_kind(pod: dict[str, Any], told: str, said: dict[str, str], used: set[object]) -> bool:
    place, _, kinds = told.partition(": ")
    required = [_place(one) for one, named in said.items() if named == place and one.endswith(": Required value")]
    is_missing = not any(any(_held(pod, path)) for path in required)
    for one in KINDS:
        if kinds == one.kinds and re.search(f"(?:{one.place})$", place) and (is_missing or not one.missing):
            used.add(one)
            return True
    return False


def _held(pod: dict[str, Any], path: str) -> list[object]:
    """What stands at a path: in a list without an index in each item, and however the server spells it."""
    found: list[object] = [pod]
    for name in re.findall(r"[^.\[\]]+", path):
        if not name.isdecimal():
            found = [item for one in found for item in (one if isinstance(one, list) else [one])]
        found = [held for one in found for held in _member(one, name)]
    return found


def _is_derived(pod: dict[str, Any], path: str, theirs: Collection[str]) -> bool:
    """Whether it is a request that nobody wrote, and the limit it comes from is refused too."""
    above, of, resource = path.rpartition(".resources.requests[")
    written = [key for held in _held(pod, f"{above}.resources.requests") if isinstance(held, dict) for key in held]
    limits = f"{above}.resources.limits"
    return bool(of) and resource[:-1] not in written and not {limits, f"{limits}[{resource}"}.isdisjoint(theirs)


def _member(value: object, name: str) -> list[object]:
    if isinstance(value, list):
        return value[int(name) :][:1]
    return [held for key, held in value.items() if key.lower() == name.lower()] if isinstance(value, dict) else []


def _named(said: str, theirs: Collection[str], used: set[object]) -> str:
    """The path the server gave it, where it gave one."""
    path = _place(said)
    for one in () if path in theirs else NAMED:
        found, times = re.subn(f"^(?:{one.ours})$", one.theirs, said)
        if times and found in theirs:
            used.add(one)
            return found
    return path


def _is_below(path: str, refused: list[str]) -> bool:
    """Whether the server has refused whole what this is a part of."""
    return any(path.startswith(f"{whole}.") for whole in refused)


def _explained(name: str, said: str, alone: tuple[Alone, ...], theirs: Collection[str], used: set[object]) -> bool:
    for one in alone:
        beside = not one.beside or any(re.search(one.beside, path) for path in theirs)
        if beside and re.fullmatch(one.pattern, said) and re.search(one.of, name):
            used.add(one)
            return True
    return False
