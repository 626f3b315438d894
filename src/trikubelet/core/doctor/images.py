"""Judges the image directory: its archives, and the program that imports them into the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.image_archives import PROGRAMS, unsupported
from trikubelet.model.finding import error, good, warning

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from trikubelet.model.finding import Finding
    from trikubelet.model.image_archives import Archive

IMAGES: Final = "images"


def judge_image_directory(
    directory: str, archives: Sequence[Archive], runtime: str, programs: Collection[str], *, others_write: bool
) -> Iterator[Finding]:
    """Judge the image directory. ``runtime``: its name, empty if it does not answer; ``programs``: those that the agent
    finds; ``others_write``: other users can write to the directory."""
    for archive in archives:
        if archive.problem:
            yield error(IMAGES, f"{archive.path} {archive.problem}", "replace the file, or remove it")
    if runtime and runtime not in PROGRAMS:
        yield error(IMAGES, unsupported(runtime), "leave out --image-directory")
    elif runtime and PROGRAMS[runtime][0] not in programs:
        program, source = PROGRAMS[runtime]
        yield error(IMAGES, f"the program {program}, which imports for {runtime}, is not on the agent's PATH", source)
    if others_write:
        remedy = f"chown root {directory}; chmod go-w {directory}"
        yield warning(IMAGES, f"other users can write to {directory}, and so choose what pods run", remedy)
    usable = [one for one in archives if not one.problem]
    names = {image.name for one in usable for image in one.images}
    yield good(IMAGES, f"{_count(len(names), 'image')} in {_count(len(usable), 'archive')} of {directory}")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
