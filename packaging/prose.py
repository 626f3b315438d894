"""Counts constructions of prose that readers stumble over, and fails where a file has more of them than is recorded.

    python packaging/prose.py            compare with packaging/prose.toml; ends with 1 where a count rose
    python packaging/prose.py --lower    record the counts that fell
    python packaging/prose.py --list KIND [ROOM]    print the places, as file:line

The rules and the replacements are in CONTRIBUTING.md. The comments, docstrings and texts of Python, the comments of
Rust, the names of tests and the pages of Markdown are read. The counts of a file may only fall; a new file has none.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TOP: Final = Path(__file__).resolve().parent.parent
RECORD: Final = TOP / "packaging" / "prose.toml"
PAGES_LEFT_OUT: Final = ("CONTRIBUTING.md",)  # it names the constructions

_START: Final = r"(?:^|(?<=[.;:!?] ))"
KINDS: Final[Mapping[str, re.Pattern[str]]] = {
    "person": re.compile(r"\b(?:no|some|any|every)body(?:'s)?\b", re.IGNORECASE),
    "relative": re.compile(
        r"\bwho(?:m|so)?ever\b|\bwhom\b|(?:^|(?<=[.;:,(] )|(?<=\(|:))who\b(?![^.;]*\?)", re.IGNORECASE
    ),
    "what-subject": re.compile(rf"{_START}What (?!if\b)\w+(?![^.;]*\?)"),
    "of-sentence": re.compile(rf"{_START}Of (?!course)"),
}
"""The constructions in prose of any kind. Questions are none of them."""
OPENING: Final = re.compile(r"(?:What|Whether|Who|How|Of|The same)\b")
TEST_NAME: Final = re.compile(r"_(?:who|whom|whoever|whose|nobody|somebody|anybody|everybody)(?:_|$)")


class Place(NamedTuple):
    """A construction in a file."""

    kind: str
    line: int
    text: str


class _Text(NamedTuple):
    line: int
    text: str


def places(path: Path) -> list[Place]:
    """Return the constructions in a file of Python, Rust or Markdown."""
    source = path.read_text()
    if path.suffix == ".md":
        return list(_in_texts(_paragraphs(source)))
    if path.suffix == ".rs":
        return list(_in_texts(_blocks(_rust_comments(source))))
    nodes = list(ast.walk(ast.parse(source)))
    return [*_in_texts(_blocks(_python_comments(source))), *_in_texts(_strings(nodes)), *_in_definitions(nodes)]


def _in_texts(texts: Iterable[_Text]) -> Iterator[Place]:
    for text in texts:
        joined = " ".join(text.text.split())
        for kind, pattern in KINDS.items():
            for found in pattern.finditer(joined):
                yield Place(kind, text.line, joined[max(0, found.start() - 10) : found.start() + 70])


def _in_definitions(nodes: Iterable[ast.AST]) -> Iterator[Place]:
    """Yield the docstrings of functions that open with the wrong word, and the names of tests."""
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if OPENING.match(opening := (ast.get_docstring(node) or "")):
            yield Place("opening", node.body[0].lineno, opening.splitlines()[0])
        if node.name.startswith("test_") and TEST_NAME.search(node.name):
            yield Place("test-name", node.lineno, node.name)


def _strings(nodes: Iterable[ast.AST]) -> Iterator[_Text]:
    """Yield docstrings and every text with a blank in it: messages are prose too."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield _Text(node.lineno, node.value)


def _python_comments(source: str) -> Iterator[_Text]:
    """Yield the text after each number sign, also in strings: that is rare, and a tokenizer takes seconds."""
    for number, line in enumerate(source.splitlines(), 1):
        if comment := re.match(r"(?:|.*\s)#[:!]? (.*)", line):
            yield _Text(number, comment[1])


def _rust_comments(source: str) -> Iterator[_Text]:
    for number, line in enumerate(source.splitlines(), 1):
        if comment := re.match(r"\s*//[/!]? ?(.*)", line):
            yield _Text(number, comment[1])


def _blocks(lines: Iterable[_Text]) -> Iterator[_Text]:
    """Join comments on lines that follow each other."""
    block: list[_Text] = []
    for one in lines:
        if block and one.line != block[-1].line + 1:
            yield _Text(block[0].line, " ".join(part.text for part in block))
            block = []
        block.append(one)
    if block:
        yield _Text(block[0].line, " ".join(part.text for part in block))


def _paragraphs(source: str) -> Iterator[_Text]:
    """Yield the paragraphs, list items and rows of a page, without blocks of code."""
    lines: list[_Text] = []
    is_code = False
    for number, line in enumerate(source.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if is_code or not line.strip() or line.lstrip().startswith(("```", "- ", "|", "#", "* ")):
            yield from _blocks(lines)
            lines = []
        if not is_code and line.strip():
            lines.append(_Text(number, line.strip().lstrip("-*|# ")))
    yield from _blocks(lines)


def _files() -> list[Path]:
    """Return the sources that are committed or about to be."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=TOP, capture_output=True, text=True, check=True).stdout.split("\0")
    return [path for name in listed if name.endswith((".py", ".rs", ".md")) and _is_prose(path := TOP / name)]


def _is_prose(path: Path) -> bool:
    return path.exists() and path not in {Path(__file__), *(TOP / name for name in PAGES_LEFT_OUT)}


def counts(files: Iterable[Path]) -> dict[str, dict[str, int]]:
    """Return the number of constructions of each kind, by file; files without any are left out."""
    found = {str(path.relative_to(TOP)): dict(Counter(one.kind for one in places(path))) for path in files}
    return {name: kinds for name, kinds in sorted(found.items()) if kinds}


def risen(now: Mapping[str, Mapping[str, int]], before: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a line for each count that is higher than the recorded one."""
    for name, kinds in now.items():
        for kind, count in sorted(kinds.items()):
            if count > (allowed := before.get(name, {}).get(kind, 0)):
                yield f"{name}: {kind}: {count}, allowed {allowed} (packaging/prose.py --list {kind} {name})"


def _lowered(now: Mapping[str, Mapping[str, int]], before: Mapping[str, Mapping[str, int]]) -> str:
    lines = []
    for name, kinds in now.items():
        kept = {kind: min(count, before.get(name, {}).get(kind, count)) for kind, count in sorted(kinds.items())}
        lines.append(f'"{name}" = {{ {", ".join(f"{kind} = {count}" for kind, count in kept.items())} }}\n')
    return "# Constructions of prose per file; the counts may only fall (packaging/prose.py --lower).\n" + "".join(
        lines
    )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="prose", description="Count constructions of prose.")
    parser.add_argument("--lower", action="store_true", help="record the counts that fell")
    parser.add_argument("--list", nargs="+", metavar="KIND", help="print the places of a kind, below a path")
    asked = parser.parse_args()
    if asked.list:
        kind, below = asked.list[0], asked.list[1] if len(asked.list) > 1 else ""
        for path in _files():
            if (name := str(path.relative_to(TOP))).startswith(below):
                print(
                    *(f"{name}:{one.line}: {one.text}" for one in places(path) if one.kind == kind), sep="\n", end="\n"
                )
        return
    now = counts(_files())
    before = tomllib.loads(RECORD.read_text()) if RECORD.exists() else now
    if found := list(risen(now, before)):
        sys.exit("\n".join(["prose: write it plainer (CONTRIBUTING.md):", *found]))
    if asked.lower:
        RECORD.write_text(_lowered(now, before))
    for root in ("src", "tests", "docs"):
        total: Counter[str] = sum((Counter(kinds) for name, kinds in now.items() if name.startswith(root)), Counter())
        print(f"{root}: {', '.join(f'{kind} {count}' for kind, count in sorted(total.items()))}")


if __name__ == "__main__":
    main()
