"""``trikubelet validate``: the faults of manifests as an agent would report them.

It uses the same ``load_manifest`` as the agent's sources, so the results agree. In addition to the faults of one file
it reports pods and objects of one name, or pods of one UID, in several of the files; files and directories with nothing
in them; and fields that are accepted and have no effect yet. The verb in ``cli/commands`` prints the results.
"""

from __future__ import annotations

import errno
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from trikubelet.cli.terminal import in_a_cell
from trikubelet.core.containers.embedded import done_without
from trikubelet.core.containers.embedded_refusals import USE_CONTAINERD, refused
from trikubelet.core.containers.unsupported import unsupported_fields
from trikubelet.core.document.shown import shown
from trikubelet.core.file_source import why_ignored
from trikubelet.core.manifest import Loaded, load_manifest
from trikubelet.core.manifest.objects import object_name
from trikubelet.core.names import full_name
from trikubelet.kit.named_file import read_named
from trikubelet.model.bounds import Bounds
from trikubelet.model.faults import Fault
from trikubelet.model.manifest_places import EntryKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trikubelet.core.manifest import Origin
    from trikubelet.model.k8s import Pod

STDIN = "-"
EXIT_FAULTY = 1
SEEN = "1970-01-01T00:00:00Z"  # it is in no UID and never shown


class Validated(NamedTuple):
    """The results for files, in lines. ``problems``: one per fault (``FILE:LINE: FIELD: problem``), then one per field
    without effect and per empty file or directory, marked as warnings; ``exit_code``: 1 if there is a fault; ``valid``:
    one per file without a fault, with its content."""

    problems: list[str]
    exit_code: int
    valid: list[str]


def validate_files(paths: Sequence[str], node_name: str, *, embedded: bool = False) -> Validated:
    """Return the faults of the files, and the content of the others.

    A directory is the manifests that an agent would find in it, ``-`` standard input. A file that cannot be read is a
    fault too. ``embedded``: so is a field for which the embedded runtime rejects a pod, and a field that it ignores is
    a warning. Raises nothing.
    """
    texts = [load(path, node_name) for path in files_of(paths)]
    faults, warnings = _judged(texts, embedded=embedded)
    warnings += [Fault(path, None, "", "warning: no manifest in it") for path in bare_directories(paths)]
    faulty = {fault.source for fault in faults}
    good = [one for one in texts if isinstance(one, Loaded) and one.source not in faulty and (one.pods or one.objects)]
    return Validated(
        [in_a_cell(str(one)) for one in (*faults, *warnings)],
        EXIT_FAULTY if faults else 0,
        [in_a_cell(f"{one.source}: valid: {_content(one)}") for one in good],
    )


def _content(loaded: Loaded) -> str:
    """Return the numbers of pods and objects: ``1 pod, 2 ConfigMaps``."""
    counts = Counter(["pod"] * len(loaded.pods) + [type(one).__name__ for one in loaded.objects])
    return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items())


def bare_directories(paths: Sequence[str]) -> Iterator[str]:
    """Return the given directories in which an agent would find no manifest, each once."""
    return (path for path in dict.fromkeys(paths) if not _files_at(path))


def faults_of(paths: Sequence[str], node_name: str) -> list[Fault]:
    """Return the faults of the files, without warnings. Raises nothing."""
    return _judged(load(path, node_name) for path in files_of(paths))[0]


def report(texts: Iterable[Loaded | Fault]) -> tuple[list[str], int]:
    """Return the same for manifests that are loaded already, or have a fault instead of a text."""
    faults, warnings = _judged(texts)
    return [in_a_cell(str(one)) for one in (*faults, *warnings)], EXIT_FAULTY if faults else 0


def _judged(texts: Iterable[Loaded | Fault], *, embedded: bool = False) -> tuple[list[Fault], list[Fault]]:
    """Return the faults, and the warnings."""
    faults: list[Fault] = []
    warnings: list[Fault] = []
    first: dict[tuple[str, str], Origin] = {}
    for loaded in texts:
        if isinstance(loaded, Fault):
            faults.append(loaded)
            continue
        faults += loaded.faults
        if not loaded.pods and not loaded.objects and not loaded.faults:
            warnings.append(Fault(loaded.source, None, "", "warning: no pod in it"))
        for one in loaded.objects:
            name = object_name(one)
            origin = loaded.origins[name]
            earlier = first.setdefault(("metadata.name", name), origin)
            if earlier is not origin:
                faults.append(_twice(origin, earlier, "metadata.name", origin.name, "rename one of the two"))
        for pod in loaded.pods:
            origin = loaded.origins[full_name(pod)]
            earlier = first.setdefault(("metadata.name", full_name(pod)), origin)
            same_uid = first.setdefault(("metadata.uid", pod.metadata.uid), origin)
            if earlier is not origin:
                faults.append(_twice(origin, earlier, "metadata.name", origin.name, "rename one of the two"))
            elif same_uid is not origin:
                remedy = "leave it out: each pod is given one"
                faults.append(_twice(origin, same_uid, "metadata.uid", pod.metadata.uid, remedy))
            used = [field for field in unsupported_fields(pod) if origin.says(field.path)]
            if embedded:
                faults += _refused(pod, origin)
                used += [field for field in done_without(pod) if origin.says(field.path)]
            found = [origin.fault(field.path, f"warning: {field.why}") for field in used]
            warnings += sorted(found, key=lambda warning: warning.line or 0)
    return faults, warnings


def _refused(pod: Pod, origin: Origin) -> list[Fault]:
    """Return a fault for each field for which the embedded runtime rejects the pod, in the order of their lines."""
    found = [
        origin.fault(field.path, f"rejected by the embedded runtime: {field.why}", USE_CONTAINERD)
        for field in refused(pod)
    ]
    return sorted(found, key=lambda fault: fault.line or 0)


def _twice(origin: Origin, earlier: Origin, path: str, value: str, remedy: str) -> Fault:
    line, what = earlier.document.line(earlier.path(path)), "name" if path == "metadata.name" else "UID"
    problem = f"Duplicate value: {shown(value)}: {earlier.document.source}:{line} has one of that {what} already"
    return origin.fault(path, problem, remedy)


def files_of(paths: Sequence[str]) -> Iterator[str]:
    """Yield the files for the paths, each once however often it is named."""
    seen: set[str] = set()
    for path in paths:
        for file in _files_at(path):
            identity = file if file == STDIN else os.path.realpath(file)
            if identity not in seen:
                seen.add(identity)
                yield file


def _files_at(path: str) -> list[str]:
    if path == STDIN or not os.path.isdir(path):
        return [path]
    try:
        names = sorted(name for name in os.listdir(path) if why_ignored(name) is None)
    except OSError:
        return [path]  # its reader will report the error
    return [file for file in (os.path.join(path, name) for name in names) if os.path.isfile(file) or _is_lost(file)]


def _is_lost(path: str) -> bool:
    """True for a link to nothing, or one in a circle."""
    return os.path.islink(path) and not os.path.exists(path)


def load(path: str, node_name: str) -> Loaded | Fault:
    """Return a loaded manifest, or why it cannot be read. Raises nothing."""
    text = read(path)
    return text if isinstance(text, Fault) else load_manifest(text, _source(path), node_name, SEEN)


def read(path: str) -> bytes | Fault:
    """Return a manifest's text, or why it cannot be read. Raises nothing."""
    bytes_max = Bounds().manifest_bytes_max
    source = _source(path)
    try:
        octets = sys.stdin.buffer.read(bytes_max + 1) if path == STDIN else read_named(path, bytes_max)
    except OSError as error:
        if error.errno == errno.EFBIG:
            return _too_large(source, bytes_max)
        if _is_lost(path):
            kind = EntryKind.CIRCLE if error.errno == errno.ELOOP else EntryKind.LOST
            return Fault(source, None, "", f"a {kind.value}", "correct or remove the link")
        return Fault(source, None, "", f"cannot be read: {error.strerror}")
    if len(octets) > bytes_max:
        return _too_large(source, bytes_max)
    return octets


def _too_large(source: str, bytes_max: int) -> Fault:
    return Fault(source, None, "", f"larger than {bytes_max} bytes", "is this the right file?")


def _source(path: str) -> str:
    return "<stdin>" if path == STDIN else path
