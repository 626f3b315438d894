"""What of the node's logs is asked for, and how."""

from __future__ import annotations

import pytest

from trikubelet.core.node_logs import (
    NodeLogQuery,
    filter_command,
    journal_command,
    node_log_query,
    service_files,
)

HEAD = ["journalctl", "--utc", "--no-pager", "--output=short-precise"]


@pytest.mark.parametrize(
    ("wanted", "asked", "query"),
    [
        (NodeLogQuery(("kubelet",)), ["kubelet"], {}),
        (NodeLogQuery(("a", "b@1.service")), ["a", "b@1.service"], {}),
        (NodeLogQuery(file="/syslog"), ["/syslog"], {}),
        (
            NodeLogQuery(file="apt/term.log", tail_lines=5, pattern="x"),
            ["apt/term.log"],
            {"tailLines": "5", "pattern": "x"},
        ),
        (
            NodeLogQuery(("a",), since=1.5, until=2.0, tail_lines=100_000, pattern="^e", boot=-1),
            ["a"],
            {
                "sinceTime": "1970-01-01T00:00:01.5Z",
                "untilTime": "1970-01-01T00:00:02Z",
                "tailLines": "100000",
                "pattern": "^e",
                "boot": "-1",
            },
        ),
        (NodeLogQuery(("a",), boot=0), ["a"], {"boot": "0"}),
    ],
)
def test_a_query_is_read(wanted: NodeLogQuery, asked: list[str], query: dict[str, str]) -> None:
    assert wanted == node_log_query(query, asked)


@pytest.mark.parametrize(
    ("why", "asked", "query"),
    [
        ("one to 4 services", [], {}),
        ("one to 4 services", ["a", "b", "c", "d", "e"], {}),
        ("one file, or services", ["/a", "/b"], {}),
        ("one file, or services", ["/a", "b"], {}),
        ("no name of a service", ["--help"], {}),
        ("no name of a service", ["a b"], {}),
        ("no name of a service", [""], {}),
        ("no name of a service", ["x" * 300], {}),
        ("tailLines=0", ["a"], {"tailLines": "0"}),
        ("tailLines=100001", ["a"], {"tailLines": "100001"}),
        ("tailLines=x", ["a"], {"tailLines": "x"}),
        ("sinceTime=yesterday", ["a"], {"sinceTime": "yesterday"}),
        ("untilTime", ["a"], {"sinceTime": "1970-01-01T00:00:02Z", "untilTime": "1970-01-01T00:00:01Z"}),
        ("boot=1", ["a"], {"boot": "1"}),
        ("pattern", ["a"], {"pattern": "x" * 2000}),
        ("pattern", ["a"], {"pattern": "a\nb"}),
        ("for services", ["/a"], {"boot": "0"}),
    ],
)
def test_what_cannot_be_meant_is_refused_and_why(why: str, asked: list[str], query: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=why):
        node_log_query(query, asked)


def test_journalctl_is_given_each_value_with_its_option() -> None:
    whole = NodeLogQuery(("a", "b"), since=1.5, until=2.0, tail_lines=3, pattern="--help", boot=-1)

    assert [*HEAD, "--unit=a"] == journal_command(NodeLogQuery(("a",)))
    wanted = [
        "--unit=a",
        "--unit=b",
        "--since=@1.500000",
        "--until=@2.000000",
        "--lines=3",
        "--grep=--help",
        "--boot=-1",
    ]
    assert HEAD + wanted == journal_command(whole)


@pytest.mark.parametrize(
    ("wanted", "query"),
    [
        ([], NodeLogQuery(file="/a")),
        (["tail", "--lines=3"], NodeLogQuery(file="/a", tail_lines=3)),
        (["grep", "--text", "--extended-regexp", "--regexp=-x"], NodeLogQuery(file="/a", pattern="-x")),
    ],
)
def test_a_file_is_poured_through_a_program_only_where_something_is_asked_for(
    wanted: list[str], query: NodeLogQuery
) -> None:
    assert wanted == filter_command(query)


def test_a_pattern_never_becomes_a_part_of_a_shells_program() -> None:
    command = filter_command(NodeLogQuery(file="/a", pattern="'; rm -rf /", tail_lines=3))

    assert ["sh", "--regexp='; rm -rf /", "--lines=3"] == command[-3:]
    assert "rm" not in command[2]


def test_a_service_without_a_journal_may_have_a_file_of_its_name() -> None:
    assert ("a", "a.log", "a/a.log") == service_files("a")
