"""The sources of this agent's pods: the manifest directory, the manifest URL, the API server, or several of them.

The composition root builds them from settings; each source writes into the slot of its name, which the mux reads. The
API server's pods come with the membership of its cluster (``app/cluster.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.names import API_SOURCE
from trikubelet.host.manifests import DiskManifests
from trikubelet.host.watch import InotifyWatcher
from trikubelet.model.frozen import Frozen
from trikubelet.sources.file import FileSource
from trikubelet.sources.url import UrlSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.app.settings import Settings
    from trikubelet.core.file_source import FileState
    from trikubelet.kit.slot import Slot
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.bounds import Bounds
    from trikubelet.ports import Clock, PodDirectories
    from trikubelet.sources.snapshot import Snapshot

FILE: Final = "file"
URL: Final = "http"


class Sources(Frozen):
    """The configured sources."""

    all: tuple[FileSource | UrlSource, ...]

    def files(self) -> Mapping[str, FileState]:
        """Return the pods of every file and URL, and its faults."""
        return {place: state for source in self.all for place, state in source.files().items()}


def source_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of the sources in these settings."""
    asked = ((FILE, settings.manifest_path), (URL, settings.manifest_url), (API_SOURCE, not settings.standalone))
    return tuple(name for name, is_asked in asked if is_asked)


def build_sources(
    settings: Settings,
    slots: Mapping[str, Slot[Snapshot]],
    directories: PodDirectories,
    clock: Clock,
    threads: ThreadPool,
    bounds: Bounds,
) -> Sources:
    """Return the sources, each with its slot."""
    found: list[FileSource | UrlSource] = []
    node = settings.node_name
    if settings.manifest_path:
        disk = DiskManifests(settings.manifest_path, bounds.manifest_bytes_max, threads)
        watcher = InotifyWatcher(threads)
        path, slot = settings.manifest_path, slots[FILE]
        found.append(FileSource(path, node, disk, directories, watcher, threads, clock, slot, bounds))
    if settings.manifest_url:
        from trikubelet.kube.manifest_url import ManifestUrl  # noqa: PLC0415 - few nodes need an HTTP client for it

        fetch = ManifestUrl(settings.manifest_url, settings.manifest_url_headers, bounds.manifest_bytes_max)
        found.append(UrlSource(settings.manifest_url, node, fetch, threads, clock, slots[URL], bounds))
    return Sources(tuple(found))
