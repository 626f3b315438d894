"""What the pages say of the command line is what it knows; that it does what they show is tests/live/test_guides.py."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from shell.docskit import PAGES, STEPS, TOP, blocks, fences, typed
from trikubelet.app.flags import parse_agent_flags
from trikubelet.cli.options import split_flags
from trikubelet.cli.verbs import EXIT_CODES, VERBS, parser_of

SHOWN = [(page.name, block, one) for page in PAGES for block in blocks(page) for one in block.shown]
OURS = [(page.name, command) for page in PAGES for command in typed(page)]
PROOFS = {
    ("every verb", "0"): "shell/cli/test_cli.py::test_the_version_is_reported_either_way",
    ("every verb", "1"): "shell/cli/test_commands.py::test_every_verb_says_that_there_is_no_agent",
    ("every verb", "2"): "shell/cli/test_cli.py::test_wrong_words_for_a_verb_are_one_line_and_exit_2",
    ("every verb", "130"): "shell/cli/test_cli.py::test_an_interrupted_verb_ends_as_the_shell_expects",
    ("attach", "N"): "shell/cli/test_talking_commands.py::test_a_containers_own_process_is_heard_and_hears",
    (
        "diff",
        "1",
    ): "shell/cli/test_diff_command.py::test_diff_shows_what_apply_would_change_and_changes_nothing",
    ("diff", "3"): "shell/cli/test_diff_command.py::test_exit_code_after_an_error_is_larger_than_one",
    ("doctor", "1"): "shell/app/test_doctor.py::test_the_command_says_what_the_agent_finds_and_ends_by_the_worst",
    ("doctor", "3"): "shell/app/test_doctor.py::test_the_command_says_what_the_agent_finds_and_ends_by_the_worst",
    ("exec", "N"): "shell/cli/test_talking_commands.py::test_a_command_runs_in_a_container_and_its_end_is_ours",
    ("run", "N"): "shell/cli/test_run_command.py::test_a_pods_words_and_its_exit_code_are_ours_and_nothing_of_it_stays",
    ("run", "124"): "shell/cli/test_run_command.py::test_timed_out_pod_is_stopped_with_its_grace",
    ("the agent", "0"): "shell/app/test_supervise.py::test_a_signal_ends_a_real_process_in_good_order",
    ("the agent", "1"): "shell/app/test_agent_start.py::test_a_kubeconfig_that_cannot_be_read_ends_the_start",
}


def test_every_block_says_whether_it_is_run_or_why_not() -> None:
    marks = re.compile(r"run(: (agent|beside|containerd|fails|machine|throwaway|as in \S+))?|not run: \S.+")
    assert [] == [(name, block.mark) for name, block, _ in SHOWN if not marks.fullmatch(block.mark)]


def test_no_block_hides_its_commands_from_the_tests() -> None:
    said = [(page.name, mark, language) for page in (*PAGES, STEPS) for mark, language in fences(page)]
    known = ("console", "yaml", "json", "toml", "ini")
    hidden = [one for one in said if one[2] not in known and one[1:] != ("drawing", "")]
    assert [] == hidden


def test_what_is_run_as_another_page_shows_it_stands_there_and_is_run() -> None:
    for name, block, one in SHOWN:
        if block.mark.startswith("run: as in "):
            there = TOP / "docs" / block.mark.removeprefix("run: as in ")
            run = {shown.command for found in blocks(there) if found.mark.startswith("run") for shown in found.shown}
            assert one.command in run, name


@pytest.mark.parametrize(("page", "command"), OURS)
def test_every_command_that_is_shown_is_understood(page: str, command: str) -> None:
    _, first, *rest = shlex.split(re.split(r" [|>&]+ ", command)[0])
    if first.startswith("-"):
        assert () == parse_agent_flags([first, *rest]).faults
        return
    assert first in VERBS
    own, behind = split_flags(rest)
    _, handed_on = parser_of(first).parse_known_intermixed_args(own)
    flags = [] if first == "exec" else list(behind or ())  # behind -- are the container's words, elsewhere the agent's
    assert () == parse_agent_flags([*handed_on, *flags]).faults


def test_the_unit_of_an_ordinary_user_starts_an_agent_with_known_flags() -> None:
    unit = (TOP / "examples/systemd/trikubelet.service").read_text()
    (command,) = re.findall(r"^ExecStart=%h/\.local/bin/trikubelet (.+)$", unit, re.MULTILINE)
    assert () == parse_agent_flags(shlex.split(command)).faults


@pytest.mark.parametrize("unit", ["packaging/packages/trikubelet.service", "packaging/packages/kubelet.service"])
def test_a_unit_does_not_wait_for_the_network(unit: str) -> None:
    lines = (TOP / unit).read_text().splitlines()
    assert [] == [line for line in lines if "network" in line and not line.startswith("#")]


def test_the_page_has_every_exit_code_and_each_is_proved() -> None:
    rows = re.findall(r"^\|([^|]*)\| (\w+) \| ([^|]+) \|$", _part("## Exit codes"), re.MULTILINE)
    found: dict[str, dict[str, str]] = {}
    who = ""
    for said, code, meaning in rows:
        who = said.strip().strip("`") or who
        found.setdefault(who, {})[code] = meaning

    assert EXIT_CODES == found
    assert {(who, code) for who, codes in EXIT_CODES.items() for code in codes} == set(PROOFS)
    for proof in PROOFS.values():
        path, test = proof.split("::")
        assert f"def {test}(" in (Path(TOP) / "tests" / path).read_text()


def test_each_thing_a_container_or_a_spec_can_influence_is_held_by_a_test() -> None:
    page = (TOP / "docs/security.md").read_text()
    rows = [
        line
        for line in page.splitlines()
        if line.startswith("| ") and not line.startswith(("| A container", "| A pod", "| A server"))
    ]
    proofs = re.findall(r"`([\w/]+\.py)::(test_\w+)`", page)

    assert len(rows) + 1 == len(proofs)  # the names that become paths stand below the tables
    for path, test in proofs:
        assert f"def {test}(" in (TOP / "tests" / path).read_text(), f"{path}::{test}"


def _part(heading: str) -> str:
    """Return the text below a heading of the page about operations."""
    return (TOP / "docs/operations.md").read_text().partition(f"{heading}\n")[2].partition("\n## ")[0]


def test_every_decision_has_a_numbered_title_a_status_and_a_date() -> None:
    states = r"(accepted|proposed|superseded by \[\d{4}\]\(\d{4}-[a-z0-9-]+\.md\))(, [^\n]+)?"
    form = re.compile(rf"# (\d{{4}})\. [^\n]+[^\n.]\n\nStatus: {states}\nDate: \d{{4}}-\d\d-\d\d\n\n[^\n]")
    pages = {path.name: form.match(path.read_text()) for path in (TOP / "docs" / "decisions").glob("*.md")}
    assert [] == [name for name, found in pages.items() if found is None or found[1] != name[:4]]
