"""Writes docs/support.md: what becomes of every field, by the registry in src/trikubelet/core/support.

    python packaging/generate_support.py [--check]

The fields of a pod's spec are those of the API server's OpenAPI as tests/recorded/pod_types.txt has them, those of a
configuration the ones of its record. Ends with 1, and writes nothing, where a field is in no table, where an entry
names a field that there is not, where what works, if only within limits, is proved by no live or simulated test, where
a proof is not to be found, or where it does not speak of the field (``support_evidence``). ``--check`` also compares
the page with what it should be.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from support_evidence import is_there, plain, words
from trikubelet.core.support.configuration import CONFIGURATION
from trikubelet.core.support.pods import PODS
from trikubelet.model.api_names import fields_of
from trikubelet.model.kubelet_configuration import KubeletConfiguration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trikubelet.core.support.field import FieldSupport, Table, Works

HERE = Path(__file__).resolve().parent.parent
TYPES = HERE / "tests" / "recorded" / "pod_types.txt"
PAGE = HERE / "docs" / "support.md"
SIMULATED = ("tests/live/", "tests/otel/", "tests/simulation/", "tests/shell/")
"""Tests of the whole: on real runtimes, or of the shell against a world in memory, on virtual time."""
LISTS = ("containers[]", "initContainers[]", "ephemeralContainers[]", "volumes[]")
"""What pods are made of: tests make these by helpers, so that no name of theirs need be said."""
HEAD = """# What works

Every field of a pod's spec and of a KubeletConfiguration, what becomes of it here, since which version, and the test
that shows it: on a real runtime (tests/live), or against a simulated world (tests/shell, tests/simulation). The test
sets or reads the field itself; of one that is *shown with its siblings* it does so with others of the same kind, which
the same code reads and carries out. A pod that uses a field that is *reported as unsupported*, or one that *works with
limits* beyond them, gets an event `UnsupportedFields` and a line in the log with the field's path; a configuration's
field is named in a warning at start. Fields that only the embedded runtime ignores are reported in the same way, for a
pod that runs on it.
A *refused* field is rejected with its path. Static pods may have fewer fields than pods of an API server, here as
upstream: no ephemeral containers, service accounts and claims.

Made of `src/trikubelet/core/support` by `packaging/generate_support.py`; `make lint` compares. How a field moves from
one state to another is described in [CONTRIBUTING.md](../CONTRIBUTING.md). `[]` stands for each of a list. Of what
does not work all that is below a field is one line. Init and ephemeral containers are as containers where nothing else
is said.
"""


def main() -> int:
    """Write, or compare; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    asked = parser.parse_args()
    pods, settings = tuple(pod_paths()), tuple(configuration_paths(KubeletConfiguration))
    faults = [*wrong(PODS, pods), *wrong(CONFIGURATION, settings)]
    page = HEAD
    for title, table, paths in sections(pods, settings):
        page += f"\n## {title}\n| Field | State | Since | Shown by, and what is to be said |\n|---|---|---|---|\n"
        page += "".join(row(name, support) for name, support in shown(table, paths).items())
    if not faults and not asked.check:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        faults.append("docs/support.md is not what the registry says: run packaging/generate_support.py")
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


def sections(pods: tuple[str, ...], settings: tuple[str, ...]) -> Iterator[tuple[str, Table, Iterable[str]]]:
    """The parts of the page: title, table and fields."""
    yield "The pod", PODS, [path for path in pods if not path.startswith(LISTS)]
    yield "Containers", PODS, [path for path in pods if path.startswith("containers[]")]
    # Of the others only what is not as in a container.
    for title, head in (("Init containers", "initContainers[]"), ("Ephemeral containers", "ephemeralContainers[]")):
        own = [path for path in pods if path.startswith(head)]
        yield title, PODS, [p for p in own if PODS.support_of(p) != PODS.support_of(p.replace(head, "containers[]"))]
    yield "Volumes", PODS, [path for path in pods if path.startswith("volumes[]")]
    yield "KubeletConfiguration", CONFIGURATION, settings


def shown(table: Table, paths: Iterable[str]) -> dict[str, FieldSupport]:
    """The lines of a table: each field that works, and of what does not the whole that this is said of."""
    found: dict[str, FieldSupport] = {}
    for path in paths:
        support = table.support_of(path)
        if support is None:
            continue
        name = path
        if support.shown is None:
            same = [parent for parent in parents(path) if table.support_of(parent) is support]
            name = same[-1] if same else path
        found[name] = support
    return found


def row(path: str, support: FieldSupport) -> str:
    """One line of a table."""
    notes, since = "; ".join(support.why), ""
    if support.shown is not None:
        since = support.shown.since
        file, _, name = support.shown.proof.partition("::")
        notes = "; ".join(
            (
                f"[{name.removeprefix('test_').replace('_', ' ')}](../{file})",
                *(["shown with its siblings"] if support.shown.beside else []),
                *support.why,
            )
        )
    return f"| `{path}` | {support.state.value} | {since} | {notes} |\n"


def wrong(table: Table, paths: tuple[str, ...]) -> Iterator[str]:
    """What keeps the table from being true of these fields."""
    yield from (f"{path}: in no table of core/support" for path in paths if table.support_of(path) is None)
    known = {path.removesuffix("[]") for path in paths} | {parent for path in paths for parent in parents(path)}
    yield from (f"{path}: the API has no such field" for path in sorted(table.paths - known))
    version = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["version"]
    for one in table.works:
        named = one.paths[0]
        if numbers(one.since) > numbers(version):
            yield f"{named}: works since {one.since}, and this is {version}"
        if not is_there(one.proof):
            yield f"{named}: there is no test {one.proof}"
        if not one.proof.startswith(SIMULATED):
            yield f"{named}: works, and {one.proof} is neither live nor simulated"
    for path in paths:
        support = table.support_of(path)
        # What holds for containers of every kind is shown by those of one.
        if support is not None and support.shown is not None and path.partition(".")[0] not in table.same:
            yield from unspoken(path, support.shown)


def unspoken(path: str, one: Works) -> Iterator[str]:
    """What a test does not say of a field that it is to show, or says of one that it is not."""
    meant = one.by or tuple(part.removesuffix("[]") for part in path.split(".") if part not in LISTS)
    left_out = [word for word in meant if plain(word) not in words(one.proof)]
    if left_out and not one.beside:
        yield f"{path}: {one.proof} does not speak of {', '.join(left_out)}"
    if one.beside and not left_out:
        yield f"{path}: {one.proof} speaks of it: it is not beside others"


def parents(path: str) -> Iterator[str]:
    """What a field stands in, the nearest first."""
    while path := path.rpartition(".")[0]:
        yield path
        yield path.removesuffix("[]")


def numbers(version: str) -> tuple[int, ...]:
    """A version, to be compared."""
    return tuple(int(part) for part in version.split("."))


def pod_paths() -> Iterator[str]:
    """Every field of a pod's spec that has no fields itself, by the recorded types."""
    types: dict[str, list[tuple[str, str]]] = {}
    for line in TYPES.read_text().splitlines():
        name, _, members = line.partition(": ")
        types[name] = [(member.partition("=")[0], member.partition("=")[2]) for member in members.split()]

    def below(type_: str, where: str) -> Iterator[str]:
        for member, inner in types[type_]:
            if inner:
                yield from below(inner, f"{where}{member}.")
            else:
                yield where + member.removesuffix("[]")

    yield from below("PodSpec", "")


def configuration_paths(record: type[msgspec.Struct], where: str = "") -> Iterator[str]:
    """Every field of a configuration that has no fields itself."""
    for name, field in fields_of(record).items():
        kinds = (field.type, *get_args(field.type))
        inner = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)), None)
        if inner is None:
            yield where + name
        else:
            yield from configuration_paths(inner, f"{where}{name}.")


if __name__ == "__main__":
    sys.exit(main())
