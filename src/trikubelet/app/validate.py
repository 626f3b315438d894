"""``trikubelet validate``: what an agent would say about manifests, before it has to.

The same ``load_manifest`` as the agent's sources, so there is one opinion. Beyond what one file can tell: pods of the
same name in several of the files, and fields that are accepted and not honoured yet. The verb in ``app/commands``
prints what comes from here.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from trikubelet.core.containers.unsupported import unsupported_fields
from trikubelet.core.document.shown import shown
from trikubelet.core.file_source import why_ignored
from trikubelet.core.manifest import load_manifest
from trikubelet.core.names import full_name
from trikubelet.model.bounds import Bounds
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trikubelet.core.manifest import Loaded, Origin

STDIN = "-"
EXIT_FAULTY = 1
_SEEN = "1970-01-01T00:00:00Z"  # it is in no UID and nobody sees these pods


def validate_files(paths: Sequence[str], node_name: str) -> tuple[list[str], int]:
    """One line per fault of the files (``FILE:LINE: FIELD: what is wrong``), then one per field that has no effect
    yet, marked as a warning; and the exit code: 1 where there is a fault.

    A directory stands for the manifests an agent would find in it, ``-`` for standard input. A file that cannot be
    read is a fault too. Raises nothing.
    """
    return report(_load(path, node_name) for path in _files(paths))


def report(texts: Iterable[Loaded | Fault]) -> tuple[list[str], int]:
    """The same for manifests that are loaded already, or have a fault instead of a text."""
    faults: list[Fault] = []
    warnings: list[Fault] = []
    first: dict[str, Origin] = {}
    for loaded in texts:
        if isinstance(loaded, Fault):
            faults.append(loaded)
            continue
        faults += loaded.faults
        for pod in loaded.pods:
            origin = loaded.origins[full_name(pod)]
            earlier = first.setdefault(full_name(pod), origin)
            if earlier is not origin:
                faults.append(_twice(origin, earlier))
            used = [field for field in unsupported_fields(pod) if origin.says(field.path)]
            told = [origin.fault(field.path, f"warning: {field.why}") for field in used]
            warnings += sorted(told, key=lambda warning: warning.line or 0)
    return [*map(str, faults), *map(str, warnings)], EXIT_FAULTY if faults else 0


def _twice(origin: Origin, earlier: Origin) -> Fault:
    line = earlier.document.line(earlier.path("metadata.name"))
    problem = f"Duplicate value: {shown(origin.name)}: {earlier.document.source}:{line} has a pod of that name already"
    return origin.fault("metadata.name", problem, "rename one of the two")


def _files(paths: Sequence[str]) -> Iterator[str]:
    """The files meant by the paths, each once however often it is named."""
    seen: set[str] = set()
    for path in paths:
        for file in _files_of(path):
            identity = file if file == STDIN else os.path.realpath(file)
            if identity not in seen:
                seen.add(identity)
                yield file


def _files_of(path: str) -> list[str]:
    if path == STDIN or not os.path.isdir(path):
        return [path]
    try:
        names = sorted(name for name in os.listdir(path) if why_ignored(name) is None)
    except OSError:
        return [path]  # whoever reads it will say why that cannot be done
    return [file for file in (os.path.join(path, name) for name in names) if os.path.isfile(file)]


def _load(path: str, node_name: str) -> Loaded | Fault:
    bytes_max = Bounds().manifest_bytes_max
    source = "<stdin>" if path == STDIN else path
    try:
        if path == STDIN:
            octets = sys.stdin.buffer.read(bytes_max + 1)
        else:
            with open(path, "rb") as file:
                octets = file.read(bytes_max + 1)
    except OSError as error:
        return Fault(source, None, "", f"cannot be read: {error.strerror}")
    if len(octets) > bytes_max:
        return Fault(source, None, "", f"larger than {bytes_max} bytes", "no manifest is; is this the right file?")
    return load_manifest(octets, source, node_name, _SEEN)
