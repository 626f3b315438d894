"""The command that raises the followed release: what it compares, without the sources of a release."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "packaging"))

import follow_upstream
from trikubelet.model.gate_history import HISTORY
from trikubelet.model.upstream import KUBERNETES_VERSION

PROTO = """
syntax = "proto3";
/* message Gone { string x = 9; } */
service Runtime {
  rpc Version(VersionRequest) returns (VersionResponse) {}  // of the runtime
  rpc Stop(StopRequest) returns (StopResponse);
}
message Mount {
  // The path = 4;
  string path = 1;
  repeated string options = 2 [deprecated = true];
  map<string, string> labels = 3;
  enum Kind { NONE = 0; ALL = 1; }
  oneof source { string image = 5; }
}
message Other { Mount mount = 1; }
"""


def test_declared_names_messages_fields_and_methods_but_no_comments() -> None:
    assert {
        "Runtime",
        "Runtime.Version()",
        "Runtime.Stop()",
        "Mount",
        "Mount.path = 1",
        "Mount.options = 2",
        "Mount.labels = 3",
        "Mount.Kind",
        "Mount.Kind.NONE = 0",
        "Mount.Kind.ALL = 1",
        "Mount.source",
        "Mount.source.image = 5",
        "Other",
        "Other.mount = 1",
    } == follow_upstream.declared(PROTO)


@pytest.mark.parametrize(
    ("expected", "release"),
    [
        (["v1.36.3", "v1.37.3", "v1.38.0-beta.0"], "v1.37.3"),
        (["v1.36.3", "v1.37.2", "v1.38.0"], "v1.38.0"),
        (["v1.36.3", "v1.37.2", "v1.38.0-beta.0", "v1.39.0"], "v1.39.0"),
    ],
)
def test_new_release_takes_the_place_of_that_of_its_minor_version(expected: list[str], release: str) -> None:
    assert expected == follow_upstream.releases_with(release, ["v1.36.3", "v1.37.2", "v1.38.0-beta.0"])


def test_gates_that_differ_are_named_with_stage_and_default() -> None:
    history = {
        "Same": ("1.30:beta:on",),
        "Grown": ("1.36:alpha:off", "1.38:beta:on"),
        "Gone": ("1.30:ga:on!", "1.38:removed"),
        "New": ("1.38:alpha:off",),
    }
    before, after = (follow_upstream.gates_at(history, release) for release in ("v1.37.2", "v1.38.0"))

    assert [
        "Gone: ga:on! -> removed",
        "Grown: alpha:off -> beta:on",
        "New: unknown -> alpha:off",
    ] == list(follow_upstream.gate_changes(before, after))


def test_command_reads_the_files_of_the_project_as_they_are() -> None:
    constant = follow_upstream._CONSTANT.search(follow_upstream.UPSTREAM.read_text())
    known = follow_upstream._RELEASES.search(follow_upstream.generate_gates.TARGET.read_text())

    assert constant is not None
    assert known is not None
    assert (KUBERNETES_VERSION, True) == (constant[1], KUBERNETES_VERSION in known[1].split(", "))
    assert HISTORY.count("\n") - 1 == len(follow_upstream._history(follow_upstream.generate_gates.TARGET.read_text()))


def test_word_that_is_no_release_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        follow_upstream.main(["1.38"])

    assert "1.38 is not a release of Kubernetes, such as v1.37.3" in capsys.readouterr().err
