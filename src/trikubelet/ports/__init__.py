"""The ports: what the agent's own packages ask of each other and of the world, as Protocols.

The packages of layer 5 (pods, pleg, images, volumes, status, …) do not import one another; they meet here and are
joined in ``app/node.py``. Adapters (``cri``, ``kube``, ``host``) implement the lower half against the real world,
``testing`` implements it in memory, and one contract suite per port holds both to the same behaviour.

``request_outcomes`` is no Protocol: it is what all callers of an API server, of whatever layer, make of an error.

No method takes a timeout: the caller holds the cancel scope. Every method that talks to a runtime raises the errors
of ``model.runtime_errors``; every one that talks to an API server those of ``model.api_errors``.
"""

from trikubelet.ports.cluster import Api, ApiPods, CertificateStore, Claims, PodObjects
from trikubelet.ports.devices import (
    DevicePlugin,
    DeviceSockets,
    PodDevices,
    PodResourcesAnswers,
    PodResourcesSocket,
)
from trikubelet.ports.machine import (
    Clock,
    ContainerLogs,
    FileWatcher,
    Gauges,
    HostIps,
    HostNetwork,
    NodeLogins,
    PodCgroups,
    PullRecords,
    ShutdownManager,
    ShutdownRecords,
    ShutdownSession,
    Volumes,
)
from trikubelet.ports.observed import (
    NodePressure,
    NodeUsage,
    PodCache,
    PodDeletionSafetyProvider,
    Relister,
    RuntimePods,
    ShutdownState,
)
from trikubelet.ports.plugins import CsiDriver, PluginSockets
from trikubelet.ports.pod_files import ContainerFiles, PodDirectories, PodFiles, PodNotes
from trikubelet.ports.pod_services import Events, ImagePuller, Probes, Statuses
from trikubelet.ports.runtime import Handlers, Images, Runtime, RuntimeHealth

__all__ = [
    "Api",
    "ApiPods",
    "CertificateStore",
    "Claims",
    "Clock",
    "ContainerFiles",
    "ContainerLogs",
    "CsiDriver",
    "DevicePlugin",
    "DeviceSockets",
    "Events",
    "Gauges",
    "Handlers",
    "HostIps",
    "HostNetwork",
    "ImagePuller",
    "Images",
    "NodeLogins",
    "PluginSockets",
    "NodePressure",
    "NodeUsage",
    "PodCache",
    "PodCgroups",
    "PodDeletionSafetyProvider",
    "PodDevices",
    "PodDirectories",
    "PodFiles",
    "PodNotes",
    "PodObjects",
    "PodResourcesAnswers",
    "PodResourcesSocket",
    "Probes",
    "PullRecords",
    "Relister",
    "Runtime",
    "RuntimeHealth",
    "RuntimePods",
    "ShutdownManager",
    "ShutdownRecords",
    "ShutdownSession",
    "ShutdownState",
    "Statuses",
    "Volumes",
    "FileWatcher",
]
