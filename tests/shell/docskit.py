"""What the pages show of the command line: their console blocks, and the files they have a reader write.

A block is preceded by a comment that says what a test makes of it:

    <!-- run -->              each command is run; it must succeed, and print what is shown, if anything is shown
    <!-- run: agent -->       the agent of this page, which runs until its end, and says what is shown, if anything is
    <!-- run: beside -->      each command runs beside what follows, until the end of the page
    <!-- run: containerd -->  an agent, which runs on a containerd and is asked for its pods
    <!-- run: fails -->       each command must not succeed
    <!-- run: machine -->     each command is run, by tests/live/test_from_nothing.py, on a copy of the machine
    <!-- run: throwaway -->   each command is run, by tests/live/test_packages.py, on a copy of the machine
    <!-- run: as in FILE -->  each command is one that is run in that page of docs
    <!-- not run: REASON -->  it is only looked at

No other block may show commands: one that says nothing of its language is a drawing, and says so by
``<!-- drawing -->``. And ``<!-- file: NAME -->`` before a block of YAML, JSON, TOML or ini (a systemd unit) is a file
that is there from the beginning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parents[2]
STEPS = TOP / "docs/steps.md"
"""Its blocks are run by a test of their own, tests/live/test_steps.py."""
PAGES = [TOP / "README.md", *(path for path in sorted((TOP / "docs").glob("*.md")) if path != STEPS)]
_CONSOLE = re.compile(r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(
    r"^<!-- file: (?P<name>\S+) -->\n```(?:yaml|json|toml|ini)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_FENCED = re.compile(r"^```(?:console|sh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPENING = re.compile(r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```(?P<language>\S*)\n.*?^```$", re.MULTILINE | re.DOTALL)
_PROMPT = re.compile(r"^[$#] ", re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """One command line, without its prompt and with its lines joined, and what is shown of its output."""

    command: str
    output: str


@dataclass(frozen=True)
class Block:
    """One block and what is to be made of it; ``mark`` is empty where nobody said."""

    mark: str
    shown: tuple[Shown, ...]


def blocks(page: Path) -> list[Block]:
    """The console blocks of a page, in order."""
    return [Block(found["mark"] or "", _shown(found["text"])) for found in _CONSOLE.finditer(page.read_text())]


def fences(page: Path) -> list[tuple[str, str]]:
    """Return the comment before every fenced block of a page, and its language, in order."""
    return [(found["mark"] or "", found["language"]) for found in _OPENING.finditer(page.read_text())]


def typed(page: Path) -> list[str]:
    """Every command line of ours that a page shows, with a prompt or without."""
    lines = [line for found in _FENCED.findall(page.read_text()) for line in found.replace("\\\n", "").splitlines()]
    bare = [re.sub(r"\s+", " ", _PROMPT.sub("", line)).strip() for line in lines]
    return [line for line in bare if re.match(r"(\S*/)?trikubelet ", line)]


def files(page: Path) -> dict[str, str]:
    """The files a page has a reader write, by their names."""
    return {found["name"]: found["text"] for found in _FILE.finditer(page.read_text())}


def _shown(text: str) -> tuple[Shown, ...]:
    found = []
    for one in _PROMPT.split(text.replace("\\\n", ""))[1:]:
        command, _, output = one.partition("\n")
        found.append(Shown(re.sub(r"\s+", " ", command), output))
    return tuple(found)
