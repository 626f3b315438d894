"""Raises the release of Kubernetes that the agent follows, and prints the changes.

    python packaging/follow_upstream.py v1.37.3                 the release to follow
    python packaging/follow_upstream.py v1.38.0 --dry-run       writes nothing, prints the same

It writes the constant (src/trikubelet/model/upstream.py), the feature gates (generate_gates.py) and, where the package
kubernetes-validate of the environment has the schemas of that minor version, the types (generate_types.py). It prints
the gates whose default, stage or lock changes, and what the CRI of the new release declares and ours does not: those
files are written by hand. CONTRIBUTING.md describes what remains to be done.

The sources come from the Go module proxy, by way of ``go mod download``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from importlib import reload
from pathlib import Path
from typing import TYPE_CHECKING, Final

import generate_gates
import generate_types
from generate_gates import minor_of, source_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TOP: Final = Path(__file__).resolve().parent.parent
UPSTREAM: Final = TOP / "src/trikubelet/model/upstream.py"
TYPES: Final = TOP / "packaging/generate_types.py"
PROTOS: Final = (
    ("k8s.io/cri-api", "pkg/apis/runtime/v1/api.proto", "src/trikubelet/cri/v1/api.proto"),
    ("k8s.io/kubelet", "pkg/apis/pluginregistration/v1/api.proto", "src/trikubelet/cri/plugin_v1/registration.proto"),
    ("k8s.io/kubelet", "pkg/apis/deviceplugin/v1beta1/api.proto", "src/trikubelet/cri/plugin_v1/device.proto"),
    ("k8s.io/kubelet", "pkg/apis/podresources/v1/api.proto", "src/trikubelet/cri/plugin_v1/pod_resources.proto"),
)
"""The module, its file, and the file here that is written from it."""
_CONSTANT: Final = re.compile(r'^KUBERNETES_VERSION: Final = "(v[^"]+)"$', re.MULTILINE)
_RELEASES: Final = re.compile(r"The feature gates of the releases (.+)\.$", re.MULTILINE)
_RELEASE: Final = re.compile(r"v1\.\d+\.\d+(-[\w.]+)?")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD: Final = re.compile(
    r"\b(?:message|enum|service|oneof)\s+(\w+)\s*\{|(\w+)\s*=\s*(\d+)\s*(?:\[[^\]]*\])?;|rpc\s+(\w+)|([{}])"
)


def declared(proto: str) -> set[str]:
    """The messages, fields with their numbers, and methods of a proto file: ``Mount.mount_options = 9``."""
    found: set[str] = set()
    path: list[str] = []
    for opened, field, number, method, brace in _WORD.findall(_COMMENT.sub("", proto)):
        scope = ".".join(name for name in path if name)
        if opened:
            path.append(opened)
            found.add(".".join(name for name in path if name))
        elif field:
            found.add(f"{scope}.{field} = {number}")
        elif method:
            found.add(f"{scope}.{method}()")
        elif brace == "{":
            path.append("")
        elif path:
            path.pop()
    return found


def missing_of_protos(release: str) -> Iterator[str]:
    """Messages, fields and methods that the protos of a release declare and ours do not."""
    for module, file, ours in PROTOS:
        theirs = (source_of(module, "v0" + release.removeprefix("v1")) / file).read_text()
        for one in sorted(declared(theirs) - declared((TOP / ours).read_text())):
            yield f"{ours}: {one}"


def releases_with(release: str, known: Sequence[str]) -> list[str]:
    """The releases that the history of the gates is made of, with a new one in place of that of its minor version."""
    kept = [one for one in known if minor_of(one) != minor_of(release)]
    return sorted([*kept, release], key=lambda one: tuple(int(part) for part in minor_of(one).split(".")))


def gate_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """The gates that differ, each with its stage and default before and after."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, "unknown"), after.get(name, "removed")
        if old != new:
            yield f"{name}: {old} -> {new}"


def gates_at(history: generate_gates.Stages, release: str) -> dict[str, str]:
    """Each gate that a kubelet of a release knows, with its stage then: ``beta:on``."""
    wanted, found = _number(minor_of(release)), {}
    for name, stages in history.items():
        reached = [one.partition(":") for one in stages if _number(one.partition(":")[0]) <= wanted]
        if reached and reached[-1][2] != "removed":
            found[name] = reached[-1][2]
    return found


def _number(minor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in minor.split("."))


def _history(text: str) -> generate_gates.Stages:
    lines = text.partition('HISTORY: Final = """\n')[2].rpartition('"""')[0].splitlines()
    return {name: tuple(stages) for name, *stages in map(str.split, lines)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Follow the release that the command line names; the exit code."""
    parser = argparse.ArgumentParser(prog="follow_upstream", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("release", metavar="VERSION", help="the release of Kubernetes to follow, such as v1.37.3")
    parser.add_argument("--dry-run", action="store_true", help="print what changes, and write nothing")
    words = parser.parse_args(arguments)
    release = words.release
    if not _RELEASE.fullmatch(release):
        parser.error(f"{release} is not a release of Kubernetes, such as v1.37.3")
    text, gates = UPSTREAM.read_text(), generate_gates.TARGET.read_text()
    constant, known = _CONSTANT.search(text), _RELEASES.search(gates)
    assert constant is not None, UPSTREAM
    assert known is not None, generate_gates.TARGET
    before = _history(gates)
    releases = releases_with(release, known[1].split(", "))
    after = generate_gates.joined([(one, generate_gates.read(one)) for one in releases])
    print(f"{constant[1]} -> {release}; the gates are those of {', '.join(releases)}\n\nfeature gates:")
    _show(gate_changes(gates_at(before, constant[1]), gates_at(after, release)))
    print("\ndeclared by the protos of the release and not by ours:")
    _show(missing_of_protos(release))
    if not words.dry_run:
        UPSTREAM.write_text(text.replace(constant[1], release))
        generate_gates.write(releases, after)
        print(f"\ntypes: {_types(release)}")
        subprocess.run(["git", "--no-pager", "diff", "--stat"], cwd=TOP, check=False)
    print("\nnext: CONTRIBUTING.md, A new release of Kubernetes")
    return 0


def _show(lines: Iterator[str]) -> None:
    for line in [*lines] or ["nothing"]:
        print(f"  {line}")


def _types(release: str) -> str:
    """Write the types of a release's minor version, and describe the result."""
    version = f"v{minor_of(release)}.0"
    if generate_types.VERSION == version:
        return f"they are those of {version}"
    if not generate_types.schemas_of(version).is_dir():
        return f"kubernetes-validate has no schemas of {version}: raise it in pyproject.toml, then run this again"
    TYPES.write_text(TYPES.read_text().replace(f'VERSION = "{generate_types.VERSION}"', f'VERSION = "{version}"'))
    fresh = reload(generate_types)
    fresh.TARGET.write_text(fresh.generate())
    return f"written from the schemas of {version}"


if __name__ == "__main__":
    sys.exit(main())
