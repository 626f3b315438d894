"""The commands that run from the single file's archive before it is unpacked load no compiled package."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trikubelet.cli.verbs import VERBS

COMPILED = "_cffi_backend cffi cryptography google msgspec trikubelet._relist yaml"
WITHOUT = """
import sys

class Archive:
    def find_spec(self, name, path=None, target=None):
        if name in COMPILED or name.partition(".")[0] in COMPILED:
            raise ModuleNotFoundError(name, name=name)

COMPILED = frozenset(sys.argv[1].split())
sys.meta_path.insert(0, Archive())
from trikubelet.cli.main import main
sys.exit(main(sys.argv[2:]))
"""
LINES = [
    "version",
    "--version",
    "help",
    "-h",
    "help agent",
    "completion bash",
    "completion zsh",
    "completion fish",
    "man",
    *(f"help {verb}" for verb in VERBS),
]


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_command_about_the_program_itself_loads_no_compiled_package(line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, COMPILED, *line.split()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
