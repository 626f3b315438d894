"""The manifests given by ``-f`` to ``apply``, ``delete`` and ``diff``: files, directories, URLs, standard input.

    FILE            as it is                     http(s)://…   fetched, within a size and a time
    DIR             its .yaml, .yml and .json    -             standard input
    DIR with -R     also those below it

As with kubectl, other files of a directory are skipped: a README is no manifest. ``validate DIR`` differs, because it
checks the files that an agent would read there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.manifest_directory import Given
from trikubelet.cli.validate import SEEN, STDIN, read, report
from trikubelet.core.file_source import why_ignored
from trikubelet.core.manifest import load_manifest
from trikubelet.core.manifest.static import is_url
from trikubelet.model.bounds import Bounds
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ENDINGS: Final = (".yaml", ".yml", ".json")
FILES_MAX: Final = 10_000
"""Files in one command; a directory with more is not for manifests."""
FETCH_SECONDS_MAX: Final = 30.0
_OK: Final = 200


def given_manifests(paths: Sequence[str], node: str, *, recursive: bool) -> list[Given]:
    """Return the manifests. Raises CommandFailed with every fault of every file, and for a directory without a
    manifest, which is probably a mistake."""
    found: list[Given] = []
    faults: list[Fault] = []
    for path in _files(paths, recursive=recursive):
        text = fetch(path) if is_url(path) else read(path)
        if isinstance(text, Fault):
            faults.append(text)
        else:
            found.append(Given(path, text, load_manifest(text, _source(path), node, SEEN)))
    lines, code = report([*faults, *(one.loaded for one in found)])
    if code:
        raise CommandFailed("\n".join(lines))
    return found


def _files(paths: Sequence[str], *, recursive: bool) -> list[str]:
    """Return the given files, each once. Raises CommandFailed."""
    files: dict[str, str] = {}
    for path in paths:
        if path == STDIN or is_url(path) or not os.path.isdir(path):
            files.setdefault(path if path == STDIN or is_url(path) else os.path.realpath(path), path)
            continue
        before = len(files)
        for file in _files_below(path, recursive=recursive):
            files.setdefault(os.path.realpath(file), file)
            if len(files) > FILES_MAX:
                raise CommandFailed(f"more than {FILES_MAX} manifests in {path}: is it the right directory?")
        if len(files) == before and not any(_files_below(path, recursive=recursive)):
            more = "" if recursive else ", and -R those of its subdirectories"
            raise CommandFailed(f"no manifest in {path} (files that end with .yaml, .yml or .json count{more})")
    return list(files.values())


def _files_below(path: str, *, recursive: bool) -> Iterator[str]:
    """Yield the manifests of a directory, in the order of their names. Raises OSError."""
    for name in sorted(os.listdir(path)):
        file = os.path.join(path, name)
        if why_ignored(name) is not None:
            continue
        if os.path.isdir(file):
            # Links are not followed, because they may form a circle; kubectl follows none either.
            if recursive and not os.path.islink(file):
                yield from _files_below(file, recursive=True)
        elif name.endswith(ENDINGS):
            yield file


def _source(path: str) -> str:
    """Return the name of the manifest in faults, with a URL's password masked."""
    if is_url(path):
        parts = urlsplit(path)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return "<stdin>" if path == STDIN else path


def fetch(url: str) -> bytes | Fault:
    """Return the manifest at a URL, or the fault."""
    # Only a URL needs Trio and an HTTP client.
    import trio  # noqa: PLC0415

    from trikubelet.cli import interruptible  # noqa: PLC0415
    from trikubelet.kube.manifest_url import ManifestUrl  # noqa: PLC0415
    from trikubelet.model.manifest_places import ManifestAnswer  # noqa: PLC0415

    async def ask() -> ManifestAnswer:
        with trio.fail_after(FETCH_SECONDS_MAX):
            return await ManifestUrl(url, {}, Bounds().manifest_bytes_max).fetch()

    try:
        answer = interruptible.run(ask)
    except trio.TooSlowError:
        return Fault(_source(url), None, "", f"cannot be fetched within {FETCH_SECONDS_MAX:g} s")
    except OSError as error:
        return Fault(_source(url), None, "", f"cannot be fetched: {error.strerror or error}")
    if answer.status != _OK:
        return Fault(_source(url), None, "", f"cannot be fetched: the server answers {answer.status}")
    return answer.body
