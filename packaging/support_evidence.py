"""What a test speaks of: the words of its code and of all the code of the tests' own that it is made of.

A test that shows a field sets or reads it, so its name is there: as a key, an attribute or a keyword, in a manifest
that stands in a string, in a constant or a helper that the test uses. What a docstring says is no use of anything.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).resolve().parent.parent / "tests"
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Module:
    """A file of tests: what is defined at its top, and what it has from other such files, by name (there a ``file``
    and the name in it)."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    imports: dict[str, tuple[Path, str]] = field(default_factory=dict)


def is_there(proof: str) -> bool:
    """Whether there is such a test, by a proof as ``core.support.field.Works`` has it."""
    file, _, name = proof.partition("::")
    return isinstance(_read(TESTS.parent / file).definitions.get(name), ast.FunctionDef | ast.AsyncFunctionDef)


@cache
def words(proof: str) -> frozenset[str]:
    """All that a test's code speaks of, each word ``plain``; nothing where there is no such test."""
    file, _, test = proof.partition("::")
    found: set[str] = set()
    seen: set[tuple[Path, str]] = set()
    left = [(TESTS.parent / file, test)]
    while left:
        path, name = here = left.pop()
        module = _read(path)
        if name in module.imports:
            left.append(module.imports[name])
        elif name in module.definitions and here not in seen:
            seen.add(here)
            used = set(_said(module.definitions[name]))
            found |= used
            left += [(path, other) for other in used if other != name]
    return frozenset(map(plain, found))


def plain(word: str) -> str:
    """A name without what sets Python's and the command line's ways of writing it apart from the API's."""
    return word.replace("_", "").replace("-", "").lower()


@cache
def _read(path: Path) -> Module:
    if not path.is_file():
        return Module()
    read = Module()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            file = TESTS.joinpath(*(node.module or "").split(".")).with_suffix(".py")
            # A class is a whole world, of which a test uses a part: what it does there says nothing of a field.
            taken = [one for one in node.names if one.name.isupper() or one.name.islower()]
            read.imports.update({one.asname or one.name: (file, one.name) for one in taken if file.is_file()})
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            read.definitions.update({target.id: node for target in targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            read.definitions[node.name] = node
    return read


def _said(definition: Definition) -> Iterator[str]:
    """Every name and every word of a string in a piece of code."""
    comments = {id(node.value) for node in ast.walk(definition) if isinstance(node, ast.Expr)}
    for node in ast.walk(definition):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)) if id(node) not in comments:
                yield from re.findall(r"--[\w-]+|\w+", text)
