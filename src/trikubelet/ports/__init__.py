"""The ports: Protocols by which the agent's packages use each other and the world.

The packages of layer 5 (pods, pleg, images, volumes, status, …) do not import one another. They know these Protocols,
and ``app/node.py`` connects them. Adapters (``cri``, ``kube``, ``host``) implement the lower half against the real
world, ``testing`` implements it in memory, and one contract suite per port holds both to the same behaviour.

``request_outcomes`` is not a Protocol: it classifies errors of the API server for callers in every layer.

No method takes a timeout: the caller holds the cancel scope. Methods that call a runtime raise the errors of
``model.runtime_errors``; those that call an API server raise the errors of ``model.api_errors``.
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
    ImageDirectory,
    ImageImports,
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
    "ImageDirectory",
    "ImageImports",
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
