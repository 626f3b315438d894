"""Writes docs/ownership.md: which class owns which fact, as the classes themselves say.

    python packaging/generate_ownership.py [--check]

A class that keeps state opens its docstring with "Owns …". This collects those lines, so that the page is as true as
the docstrings. ``--check`` compares and ends with 1 when the page is not what it should be.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent.parent
SOURCE = HERE / "src" / "trikubelet"
PAGE = HERE / "docs" / "ownership.md"
LEFT_OUT = {"v1", "testing"}
HEAD = """# Who owns what

Every piece of state has one class that owns it and one task that writes it; everybody else is handed immutable values.
This page is made of the classes' own first lines by `packaging/generate_ownership.py`; `make lint` compares. What is
not here keeps no state between two calls.

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
                if told.startswith("Owns "):
                    yield node.name, str(module), told.removeprefix("Owns ").replace("``", "`")


def main() -> int:
    """Write, or compare; the exit code."""
    page = HEAD + "".join(f"| `{name}` | {module} | {fact} |\n" for name, module, fact in owners())
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page)
        return 0
    if PAGE.exists() and PAGE.read_text() == page:
        return 0
    sys.stderr.write("docs/ownership.md is not what the classes say: run packaging/generate_ownership.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
