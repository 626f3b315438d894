"""The small programs of ``packaging`` that have a say in what is delivered: the single file's first step, the list of
its parts, and what replaces a file in it. `test_package_scripts.py` has what dpkg and rpm run."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import pytest

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

PACKAGING = Path(__file__).parents[3] / "packaging"
OURS = sysconfig.get_config_var("EXT_SUFFIX")


def started(archive: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The archive as somebody starts it who has not set more than this."""
    own = {"PATH": "/usr/bin:/bin", "HOME": str(archive.parent)} | environment
    line = [sys.executable, archive, *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, env=own)


TELLS = "print(os.environ.get('SHIV_ROOT'))"


def single_file(directory: Path, suffix: str = OURS, bootstrap: str = TELLS) -> Path:
    """A file with the first step, something compiled, and a stand-in for shiv that tells where it would unpack."""
    archive = directory / "trikubelet"
    with ZipFile(archive, "w") as made:
        made.write(PACKAGING / "first_step.py", "__main__.py")
        made.writestr("_bootstrap.py", f"import os\ndef bootstrap(): {bootstrap}\n")
        made.writestr(f"site-packages/msgspec/_core{suffix}", "")
        made.writestr("environment.json", '{"build_id": "b1"}')
    return archive


def test_root_unpacks_where_the_service_does_and_another_place_can_be_named(tmp_path: Path) -> None:
    expected = "/var/cache/trikubelet" if os.geteuid() == 0 else f"{tmp_path}/.cache/trikubelet"
    assert (0, f"{expected}\n") == ((done := started(single_file(tmp_path))).returncode, done.stdout), done.stderr
    assert f"{tmp_path}/mine\n" == started(single_file(tmp_path), SHIV_ROOT=f"{tmp_path}/mine").stdout


@pytest.mark.parametrize(
    ("where", "cache"),
    [("/home/me/.cache/trikubelet", ""), ("/c/trikubelet", "/c"), ("/home/me/.cache/trikubelet", "c")],
)
def test_an_ordinary_user_unpacks_in_a_cache_of_that_name(where: str, cache: str, tmp_path: Path) -> None:
    fakes = "os.geteuid = lambda: 1000; os.access = lambda *_: True; sys.argv = sys.argv[1:]; "
    disk = "os.statvfs = lambda _: types.SimpleNamespace(f_flag=0, f_bavail=10**9, f_frsize=1); "
    code = f"import os, runpy, sys, types; {fakes}{disk}runpy.run_path(sys.argv[0])"
    words = [sys.executable, "-c", code, single_file(tmp_path)]
    own = {"HOME": "/home/me", "XDG_CACHE_HOME": cache}

    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=own)

    assert (0, f"{where}\n") == (done.returncode, done.stdout), done.stderr


PROGRAM = "import sys\ndef program():\n    print(__file__, sys.argv[1:])\n    return 7\n"


def with_program(directory: Path) -> Path:
    """Return the same with a program of its own, which prints where it is run from."""
    archive = single_file(directory)
    with ZipFile(archive, "a") as made:
        for name in ("__init__", "cli/__init__"):
            made.writestr(f"site-packages/trikubelet/{name}.py", "")
        made.writestr("site-packages/trikubelet/cli/main.py", PROGRAM)
    return archive


def test_what_is_unpacked_is_run_without_reading_the_archive_again(tmp_path: Path) -> None:
    archive, packages = with_program(tmp_path), tmp_path / "mine/trikubelet_b1/site-packages"
    with ZipFile(archive) as made:
        made.extractall(tmp_path / "mine/trikubelet_b1")

    done = started(archive, "get", "pods", SHIV_ROOT=f"{tmp_path}/mine")
    assert (7, f"{packages}/trikubelet/cli/main.py ['get', 'pods']\n") == (done.returncode, done.stdout), done.stderr

    by_shiv = started(archive, "get", "pods", SHIV_ROOT=f"{tmp_path}/mine", SHIV_FORCE_EXTRACT="1")
    assert (0, f"{tmp_path}/mine\n") == (by_shiv.returncode, by_shiv.stdout)


@pytest.mark.parametrize(
    ("unpacks", "words"),
    [
        (False, "version"),
        (False, "--version"),
        (False, "help"),
        (False, "help agent"),
        (False, "--help"),
        (False, "run --help"),
        (False, "completion bash"),
        (False, "man"),
        (True, "version -o json"),
        (True, "get pods"),
        (True, "--v=0 --help"),
        (True, "--standalone --version"),
        (True, ""),
    ],
)
def test_nothing_is_unpacked_for_a_command_that_needs_nothing_compiled(
    unpacks: bool, words: str, tmp_path: Path
) -> None:
    archive = with_program(tmp_path)

    done = started(archive, *words.split(), SHIV_ROOT=f"{tmp_path}/mine")

    by_us = f"{archive}/site-packages/trikubelet/cli/main.py {words.split()}\n"
    assert (f"{tmp_path}/mine\n" if unpacks else by_us) == done.stdout, done.stderr


def test_a_program_that_is_installed_on_the_machine_is_not_taken_for_what_is_unpacked(tmp_path: Path) -> None:
    archive = single_file(tmp_path)
    (tmp_path / "mine/trikubelet_b1/site-packages").mkdir(parents=True)

    done = started(archive, "version", SHIV_ROOT=f"{tmp_path}/mine")  # ours is on the path of this interpreter

    assert (0, f"{tmp_path}/mine\n") == (done.returncode, done.stdout), done.stderr


def test_a_part_that_is_missed_only_when_it_is_needed_is_named_too(tmp_path: Path) -> None:
    archive = with_program(tmp_path)
    unpacked = tmp_path / "mine/trikubelet_b1"
    with ZipFile(archive) as made:
        made.extractall(unpacked)
    lost = unpacked / "site-packages/msgspec" / f"_core{OURS}"
    lost.unlink()
    (unpacked / "site-packages/trikubelet/cli/main.py").write_text("def program(): import msgspec_that_is_lost")

    done = started(archive, "get", SHIV_ROOT=f"{tmp_path}/mine")

    assert f"error: {lost} is missing: remove {unpacked}; it is unpacked again\n" == done.stderr


def test_where_it_cannot_be_unpacked_it_says_what_to_set(tmp_path: Path) -> None:
    done = started(single_file(tmp_path), SHIV_ROOT="/dev/null/unpacked")

    assert (1, "") == (done.returncode, done.stdout)
    assert (
        "error: trikubelet unpacks itself once below /dev/null/unpacked, and /dev/null is no directory: " in done.stderr
    )
    assert 1 == len(done.stderr.splitlines())


def test_below_a_directory_that_may_not_be_searched_it_says_what_to_set_too(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0)
    code = "import json, os, sys, sysconfig, zipfile; os.geteuid() or os.setuid(65534); exec(sys.argv[1])"
    words = [sys.executable, "-c", code, (PACKAGING / "first_step.py").read_text()]
    own = {"SHIV_ROOT": f"{tmp_path}/locked/mine"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=own)

    assert 1 == done.returncode
    told = r"error: .* cannot be written: set SHIV_ROOT to another directory\n"
    assert re.fullmatch(told, done.stderr), done.stderr


@pytest.mark.parametrize(
    ("told", "flags", "free", "unpacked"),
    [
        ("is mounted noexec, where nothing compiled can be loaded", "os.ST_NOEXEC", 10**9, True),
        ("has less than the 0 MB free that it takes", "0", 10, False),
        ("", "0", 10, True),
    ],
)
def test_a_disk_that_runs_nothing_or_has_no_room_is_reported_before_anything_is_unpacked(
    tmp_path: Path, told: str, flags: str, free: int, unpacked: bool
) -> None:
    root = tmp_path / "mine"
    root.mkdir()
    if unpacked:
        (root / "trikubelet_b1").mkdir()
    disk = f"types.SimpleNamespace(f_flag={flags}, f_bavail={free}, f_frsize=1)"
    code = f"import os, runpy, sys, types; os.statvfs = lambda _: {disk}; sys.argv = sys.argv[1:]; "
    words = [sys.executable, "-c", f"{code}runpy.run_path(sys.argv[0])", single_file(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env={"SHIV_ROOT": str(root)})

    where = f"error: trikubelet unpacks itself once below {root}, and {root} "
    expected = f"{where}{told}: set SHIV_ROOT to another directory\n" if told else ""
    assert (bool(told), expected) == (bool(done.returncode), done.stderr)


def test_on_a_machine_it_was_not_built_for_it_says_for_which_it_was(tmp_path: Path) -> None:
    done = started(single_file(tmp_path, ".cpython-39-s390x-linux-gnu.so"))

    assert (1, "") == (done.returncode, done.stdout)
    assert f"nothing compiled for this Python ({OURS}), but for .cpython-39-s390x-linux-gnu.so: " in done.stderr


@pytest.mark.parametrize("lost", [True, False])
def test_an_unpacked_copy_that_has_lost_a_part_is_named_for_removal(tmp_path: Path, lost: bool) -> None:
    archive = single_file(tmp_path, bootstrap="import a_part_of_it")
    copy = tmp_path / "mine" / "trikubelet_b1"
    part = copy / "site-packages" / "msgspec" / f"_core{OURS}"
    part.parent.mkdir(parents=True)
    if not lost:
        part.touch()
    done = started(archive, SHIV_ROOT=f"{tmp_path}/mine")

    told = f"error: {part} is missing: remove {copy}; it is unpacked again\n"
    assert (1, lost, not lost) == (done.returncode, told == done.stderr, "ModuleNotFoundError" in done.stderr)


def test_a_python_too_old_for_the_agent_says_which_it_needs(tmp_path: Path) -> None:
    code = "import sys; sys.version_info = (3, 10, 13); exec(sys.argv[1])"
    words = [sys.executable, "-c", code, (PACKAGING / "first_step.py").read_text()]
    own = {"SHIV_ROOT": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=own)

    told = r"error: trikubelet needs Python 3\.11 or newer, and this is 3\.10 \(.*\): start it with such a one .*\n"
    assert re.fullmatch(told, done.stderr), done.stderr


def test_a_python_too_old_for_the_agent_can_read_the_first_step() -> None:
    source = (PACKAGING / "first_step.py").read_text()
    with pytest.raises(SyntaxError):
        ast.parse("(one := 1)", feature_version=(3, 6))

    assert [] != ast.parse(source, feature_version=(3, 6)).body


def test_a_file_in_an_archive_is_replaced_and_nothing_else_changes(tmp_path: Path) -> None:
    archive = single_file(tmp_path)
    archive.write_bytes(b"#!/usr/bin/env python3\n" + archive.read_bytes())
    archive.chmod(0o755)
    (tmp_path / "new").write_text("print('other')")
    words = [sys.executable, PACKAGING / "replace_entry.py", archive, "__main__.py", tmp_path / "new"]
    before = ZipFile(archive).namelist()

    subprocess.run(words, check=True)
    once = archive.read_bytes()
    subprocess.run(words, check=True)

    assert "other\n" == started(archive).stdout
    assert (before, once, 0o100755) == (ZipFile(archive).namelist(), archive.read_bytes(), archive.stat().st_mode)


def listed(site: Path) -> dict[str, Any]:
    words = [sys.executable, PACKAGING / "list_parts.py", site]
    done = subprocess.run(words, capture_output=True, check=True, env={"SOURCE_DATE_EPOCH": "1000000000"})
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory of two packages, one with a list of what was compiled into it."""
    for name, said in (
        ("trikubelet", "License-Expression: Apache-2.0"),
        ("Some_Thing", "License: BSD, the new one\n  or"),
    ):
        info = tmp_path / f"{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.2\n{said}\n\nLicense: of the text\n"
        )
    (info / "sboms").mkdir()
    crate = {"type": "library", "name": "pyo3", "version": "0.30.0", "purl": "pkg:cargo/pyo3@0.30.0"}
    here = {"bom-ref": f"path+file://{tmp_path}", "externalReferences": []}
    (info / "sboms/rust.cyclonedx.json").write_text(json.dumps({"components": [crate | here]}))
    return tmp_path


def test_the_parts_of_a_file_are_its_packages_and_what_they_list_themselves(site: Path) -> None:
    found = listed(site)

    assert ("CycloneDX", "1.6") == (found["bomFormat"], found["specVersion"])
    assert {"timestamp": "2001-09-09T01:46:40+00:00"}.items() <= found["metadata"].items()
    whole = found["metadata"]["component"]
    assert ("application", "trikubelet", "1.2") == (whole["type"], whole["name"], whole["version"])
    assert [{"expression": "Apache-2.0"}] == whole["licenses"]
    assert [
        {
            "bom-ref": "pkg:cargo/pyo3@0.30.0",
            "type": "library",
            "name": "pyo3",
            "version": "0.30.0",
            "purl": "pkg:cargo/pyo3@0.30.0",
        },
        {
            "bom-ref": "pkg:pypi/some-thing@1.2",
            "type": "library",
            "name": "some-thing",
            "version": "1.2",
            "purl": "pkg:pypi/some-thing@1.2",
            "licenses": [{"license": {"name": "BSD, the new one"}}],
        },
    ] == found["components"]


def test_the_same_parts_are_listed_in_the_same_bytes_and_others_get_another_number(site: Path) -> None:
    first = listed(site)
    assert first == listed(site)
    (site / "Some_Thing-1.2.dist-info/sboms/rust.cyclonedx.json").unlink()
    assert first["serialNumber"] != listed(site)["serialNumber"]


def test_a_wheel_does_not_tell_where_it_was_built_and_its_record_is_right(tmp_path: Path) -> None:
    listed, record = (f"x-1.dist-info/{name}" for name in ("sboms/crates.json", "RECORD"))

    def wheel(checkout: str) -> bytes:
        made = tmp_path / "x-1.whl"
        text = f'{{"bom-ref": "path+file://{checkout}/rust#0.1.0"}}'
        with ZipFile(made, "w") as archive:
            archive.writestr(ZipInfo(listed), text)
            archive.writestr(ZipInfo(record), f"{noted(text.encode())}\n{record},,\n")
        subprocess.run([sys.executable, PACKAGING / "forget_checkout.py", made, checkout], check=True)
        return made.read_bytes()

    def noted(content: bytes) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        return f"{listed},sha256={digest},{len(content)}"

    assert wheel("/home/one/trikubelet") == wheel("/srv/another")
    with ZipFile(tmp_path / "x-1.whl") as archive:
        assert b"file:///trikubelet/rust#0.1.0" in archive.read(listed)
        assert noted(archive.read(listed)) in archive.read(record).decode()
