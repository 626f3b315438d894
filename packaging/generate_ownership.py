"""Writes docs/ownership.md: which class owns which fact, as the classes themselves say.

    python packaging/generate_ownership.py [--check]

A class that keeps state between two calls says "Owns …" in the first paragraph of its docstring. This collects what
follows, so that the page is as true as the docstrings; "Owns nothing" and "Owns no state" are no rows. ``--check``
compares and ends with 1 when the page is not what it should be. With and without it, a class of the shell that makes a
collection in its ``__init__``, and neither says what it owns nor stands in ``EXEMPT``, ends this with 1: somebody is to
say which.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent.parent
SOURCE = HERE / "src" / "trikubelet"
PAGE = HERE / "docs" / "ownership.md"
LEFT_OUT = {"v1", "testing", "benchmark", "cli"}
"""Not of the agent: what is made of protobuf, the test kit, what measures, what lives for one command."""
SENTENCE = re.compile(r"(?:^|[.)] )Owns (.*)")
"""What a class owns: from the sentence that says so to the end of its paragraph."""
NOTHING = ("nothing", "no state")
HELD = {"pods", "pleg", "node", "status", "volumes", "probes", "images", "stats", "sources", "kube", "server"}
"""The packages in which every class that keeps a collection must say what it owns."""
COLLECTIONS = {"set", "dict", "list", "Counter", "deque", "defaultdict", "OrderedDict"}
EXEMPT = {
    ("PodCredentials", "images/credentials.py"): "never changes: the plugins, each of which owns what it keeps",
    ("_Text", "server/exposition.py"): "lives for one answer",
    ("KubectlApi", "server/kubectl/api.py"): "never changes: the resources, whose histories own what they keep",
    ("LocalApi", "server/local_api.py"): "never changes: what answers at each path",
}
"""Class and module, and why its collections are no state of the agent."""
HEAD = """# Who owns what

The classes that keep state from one call to the next, each with what it alone changes; others are handed immutable
values or ask it. This page is made of the first paragraphs of the classes' docstrings by
`packaging/generate_ownership.py`. `make lint` compares, and holds that each class of the shell that keeps a collection
is here. State of another form is here as far as its class says so. The command line and the benchmarks are left out.

| Class | Where | Owns |
|---|---|---|
"""


def owners() -> Iterator[tuple[str, str, str]]:
    """Class, module and fact, in the order of the modules."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE)
        if LEFT_OUT & set(module.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                told = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
                said = SENTENCE.search(told)
                if said and not said[1].startswith(NOTHING):
                    yield node.name, str(module), said[1].replace("``", "`")


def keeps_collections(made: ast.ClassDef) -> list[str]:
    """The attributes that ``__init__`` gives a new collection."""
    found = []
    inits = [one for one in made.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    for node in (node for init in inits for node in ast.walk(init)):
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        else:
            continue
        if is_collection(node.value):
            found += [
                one.attr for one in targets if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self"
            ]
    return found


def is_collection(value: ast.expr | None) -> bool:
    """Whether the expression makes a collection that can change."""
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in COLLECTIONS
    return isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp)


def unowned() -> Iterator[str]:
    """Classes of the shell that keep collections and say of none what it is; exemptions that nobody needs."""
    said, needed = {(name, module) for name, module, _ in owners()}, set()
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE)
        if module.parts[0] not in HELD:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef) or not (kept := keeps_collections(node)):
                continue
            key = (node.name, str(module))
            if key not in said:
                needed.add(key)
                if key not in EXEMPT:
                    names = ", ".join(kept)
                    yield f"{module}: {node.name} keeps {names}: say in its docstring what it owns, or exempt it"
    for name, where in sorted(EXEMPT.keys() - needed):
        yield f"{where}: {name} is exempt and need not be"


def main() -> int:
    """Write, or compare; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    asked = parser.parse_args()
    if faults := list(unowned()):
        sys.stderr.write("".join(f"{fault}\n" for fault in faults))
        return 1
    page = HEAD + "".join(f"| `{name}` | {module} | {fact} |\n" for name, module, fact in owners())
    if not asked.check:
        PAGE.write_text(page)
        return 0
    if PAGE.exists() and PAGE.read_text() == page:
        return 0
    sys.stderr.write("docs/ownership.md is not what the classes say: run packaging/generate_ownership.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
