"""The ports of a node on this machine: its disk, its cgroups, its network, and its runtime.

The simulation has other ports (``testing``); ``app/node.py`` connects them to the parts.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trikubelet.app.endpoint import FAKE
from trikubelet.app.node import Ports
from trikubelet.app.translate import bounds_of
from trikubelet.core.configuration.effect import without_effect_in_version_1
from trikubelet.cri.device_plugins import GrpcDeviceSockets
from trikubelet.cri.plugin_sockets import GrpcPlugins
from trikubelet.devices.holdings import DeviceHoldings
from trikubelet.devices.none import NoDevices
from trikubelet.devices.plugins import DevicePlugins
from trikubelet.devices.pod_devices import PluginDevices
from trikubelet.handlers.network import FakeHandlers, NetworkHandlers
from trikubelet.host import mounts
from trikubelet.host.cgroups import NoPodCgroups, choose_cgroups, read_hierarchies
from trikubelet.host.container_logs import DiskContainerLogs
from trikubelet.host.no_mounts import NoMounts
from trikubelet.host.node_logins import HostLogins
from trikubelet.host.pod_files import DiskPodFiles
from trikubelet.host.pull_records import DiskPullRecords
from trikubelet.host.subordinate_ids import read_ranges_of_users
from trikubelet.host.user_tmpfs import UserTmpfs
from trikubelet.host.watch import InotifyWatcher
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.csi import CSI_PLUGIN
from trikubelet.model.devices import DEVICE_PLUGIN
from trikubelet.model.errors import StartFailed
from trikubelet.plugins.watcher import PluginWatcher
from trikubelet.volumes.fake import FakeVolumes
from trikubelet.volumes.side_by_side import HANGING_PER_POD_MAX
from trikubelet.volumes.volumes import DiskVolumes

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from trikubelet.app.settings import Settings
    from trikubelet.core.containers import NodeFacts
    from trikubelet.images.imports import ArchiveImports
    from trikubelet.plugins.watcher import PluginHandler
    from trikubelet.ports import Clock, Images, PodCgroups, PodDevices, Runtime, Volumes
    from trikubelet.volumes.csi import CsiVolumes

log = logging.getLogger(__name__)

VOLUME_THREADS_MAX: Final = 16
IMAGE_THREADS_MAX: Final = 4
LOG_SIZE_THREADS_MAX: Final = 2
REMOVAL_THREADS_MAX: Final = 8
"""For pods' directories, and as many for logs: twice the pods whose files are removed concurrently, because a slow
removal frees its place and keeps its thread."""
PLUGIN_THREADS_MAX: Final = 3
"""Looking for plugins, recording devices, and one for a disk that hangs."""
POD_FILE_THREADS_MAX: Final = 8
"""For the files in pods' directories, and the termination messages that containers leave there; with logs, which may
hang, each pod can have one more busy."""


def machine_ports(
    settings: Settings,
    facts: NodeFacts,
    clock: Clock,
    runtime: Runtime,
    images: Images,
    chance: random.Random,
    *,
    inside: bool,
    in_cluster: bool,
) -> tuple[Ports, NodeFacts]:
    """Return the ports, and the facts with the known state of cgroups. ``inside``: the runtime is in this process.
    Raises StartFailed if a directory for files cannot be created."""
    facts, cgroups = _cgroups(facts, settings, inside=inside)
    threads = ThreadPool("images", IMAGE_THREADS_MAX)
    files, records = _files(settings, threads)
    volumes, handlers = _volumes(settings, facts, in_cluster=in_cluster)
    devices, plugins = _devices(settings, handlers, facts.booted_ns, chance)
    imports, images = _imports(settings, runtime, images)
    ports = Ports(
        runtime=runtime,
        images=images,
        files=files,
        logs=DiskContainerLogs(
            settings.pod_logs_dir,
            ThreadPool("sizes of logs", LOG_SIZE_THREADS_MAX),
            ThreadPool("logs of containers", settings.configuration.container_log_max_workers),
        ),
        volumes=volumes,
        cgroups=cgroups,
        handlers=FakeHandlers() if settings.runtime.endpoint == FAKE else NetworkHandlers(),
        records=records,
        logins=HostLogins(settings.root_dir, settings.credential_plugin_dir, os.environ, threads),
        clock=clock,
        ids_of_users=read_ranges_of_users,
        imports=imports,
        plugins=plugins,
        devices=devices,
    )
    return ports, facts


def _imports(settings: Settings, runtime: Runtime, images: Images) -> tuple[ArchiveImports | None, Images]:
    """Return the imports from the image directory, and the images of which those of its archives are pinned. Loaded
    only where there is one."""
    if settings.image_directory is None:
        return None, images
    from trikubelet.cri.endpoint import socket_path  # noqa: PLC0415
    from trikubelet.host.image_directory import DiskImageDirectory  # noqa: PLC0415
    from trikubelet.images.imports import ArchiveImports, PinnedImages  # noqa: PLC0415

    directory = DiskImageDirectory(settings.image_directory, os.environ, ThreadPool("image archives", 1))
    socket = socket_path(settings.image_endpoint or settings.runtime.endpoint)
    imports = ArchiveImports(directory, images, runtime, socket, bounds_of(settings.configuration))
    return imports, PinnedImages(images, imports)


def _files(settings: Settings, images: ThreadPool) -> tuple[DiskPodFiles, DiskPullRecords]:
    """Return pods' files and logs, and the records of images, with the given threads. Raises StartFailed."""
    try:
        files = DiskPodFiles(
            settings.root_dir,
            settings.pod_logs_dir,
            settings.container_logs_dir,
            ThreadPool("removed files", REMOVAL_THREADS_MAX, REMOVAL_THREADS_MAX),
            ThreadPool("files of pods", POD_FILE_THREADS_MAX, settings.configuration.max_pods),
        )
        return files, DiskPullRecords(settings.root_dir, images)
    except OSError as error:
        why = "it is not a directory" if isinstance(error, FileExistsError) else error.strerror
        raise StartFailed(
            f"{error.filename or settings.root_dir}: {why}; the agent keeps files there: remove what is in the way, "
            "or choose another --root-dir or podLogsDir"
        ) from error


def _volumes(settings: Settings, facts: NodeFacts, *, in_cluster: bool) -> tuple[Volumes, dict[str, PluginHandler]]:
    """Return the pods' volumes, simulated ones where containers are only simulated, and the handlers of the plugins
    that they need."""
    if settings.runtime.endpoint == FAKE:
        return FakeVolumes(settings.root_dir, facts), {}
    threads = ThreadPool("volumes", VOLUME_THREADS_MAX, HANGING_PER_POD_MAX * settings.configuration.max_pods)
    csi, handlers = _csi(settings, threads) if in_cluster else (None, {})
    if facts.may_mount:
        return DiskVolumes(settings.root_dir, facts, mounts, threads, csi=csi), handlers
    memory = UserTmpfs(settings.root_dir.resolve(), os.environ)
    return DiskVolumes(settings.root_dir, facts, NoMounts(), threads, csi=csi, user_memory=memory), handlers


def _csi(settings: Settings, threads: ThreadPool) -> tuple[CsiVolumes, dict[str, PluginHandler]]:
    """Return the volumes of CSI drivers, and the handler of the drivers. Loaded only in a cluster: such a volume cannot
    be looked up elsewhere."""
    from trikubelet.volumes.csi import CsiVolumes  # noqa: PLC0415
    from trikubelet.volumes.csi_attachments import CsiAttachments  # noqa: PLC0415
    from trikubelet.volumes.csi_records import CsiRecords  # noqa: PLC0415
    from trikubelet.volumes.csi_registration import RegisteredDrivers  # noqa: PLC0415

    root = settings.root_dir.resolve()  # by which the kernel knows what is mounted there
    drivers = RegisteredDrivers(GrpcPlugins())
    volumes = CsiVolumes(
        settings.node_name,
        drivers,
        CsiAttachments(settings.node_name),
        CsiRecords(root, mounts, threads),
        mounts,
        threads,
    )
    return volumes, {CSI_PLUGIN: drivers}


def _devices(
    settings: Settings, handlers: Mapping[str, PluginHandler], booted_ns: int, chance: random.Random
) -> tuple[PodDevices, PluginWatcher | None]:
    """Return the devices of pods, and the watcher of all kinds of plugins; none where containers are only simulated.
    ``handlers``: those of the other kinds."""
    if settings.runtime.endpoint == FAKE:
        return NoDevices(), None
    threads = ThreadPool("plugins", PLUGIN_THREADS_MAX)
    sockets, directory = GrpcDeviceSockets(), settings.root_dir / "device-plugins"
    plugins = DevicePlugins(directory, sockets, threads)
    holdings = DeviceHoldings(directory, plugins, threads, booted_ns=booted_ns)
    devices = PluginDevices(
        plugins,
        holdings,
        sockets,
        shows_health=settings.gate("ResourceHealthStatus"),
        wait_seconds=settings.device_wait_seconds,
    )
    watcher = PluginWatcher(
        settings.root_dir.resolve() / "plugins_registry",
        {**handlers, DEVICE_PLUGIN: plugins},
        GrpcPlugins(),
        InotifyWatcher(threads),
        chance,
        threads,
    )
    return devices, watcher


def _cgroups(facts: NodeFacts, settings: Settings, *, inside: bool) -> tuple[NodeFacts, PodCgroups]:
    """Return the pods' cgroups, and the facts that go with them. Containers of an in-process runtime stay in the
    agent's."""
    hierarchies = read_hierarchies()
    if hierarchies.version == 1 and (idle := without_effect_in_version_1(settings.configuration)):
        log.warning(
            "These settings have no effect in version 1 of cgroups, which is this machine's: %s", ", ".join(idle)
        )
    if inside:
        return replace(facts, cgroups_managed=False), NoPodCgroups()
    chosen = choose_cgroups(facts, hierarchies)
    if chosen.why_not:
        log.warning("Pods have no cgroups of their own: %s", chosen.why_not)
    return chosen.facts, chosen.cgroups
