"""The rules for names: what each kind accepts and what it refuses."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.model import names

GOOD = [
    (names.label_problem, ["a", "0", "a-b", "a" * 63]),
    (names.subdomain_problem, ["a", "a.b", "a-1.b-2", ".".join(["a" * 49] * 5)]),
    (names.port_name_problem, ["http", "a-1", "1a", "a" * 15]),
    (names.qualified_name_problem, ["a", "A.b_c-d", "example.com/a", "nvidia.com/gpu", "hugepages-2Mi", "a" * 63]),
    (names.label_value_problem, ["", "a", "A_b.c-1", "1"]),
    (names.uid_problem, ["a", "0", "6b7e1a3c-0f7e-4a52-9d0c-6f2a1d7c9b11", "A-b.c"]),
    (names.url_problem, ["http://a", "https://a.b:8443/x?y=z", "http://u:p@[::1]/"]),
    (names.host_problem, ["a", "A_b.c.", "10.0.0.1", "fe80::1%eth0", "a" * 63, "ex\u00e4mple.org"]),
    (names.variable_problem, ["A", "a.b-c", "with space", "$x", "1"]),
    (names.config_key_problem, ["a", "a.b", "_x", ".hidden", "a..b"]),
    (names.header_problem, ["X-Head", "accept", "x_y"]),
    (names.probe_header_problem, ["X-Head", "accept"]),
    (names.sysctl_problem, ["net.ipv4.ip_forward", "kernel/shm_rmid_forced", "a"]),
    (names.ip_problem, ["1.2.3.4", "::1", "2001:db8::"]),
    (names.path_in_volume_problem, ["a", "a/b", "..a", "a..b/c", ""]),
]
BAD = [
    (names.label_problem, ["", "A", "a.b", "-a", "a-", "a_b", "a" * 64, "a\n", "é"]),
    (names.subdomain_problem, ["", "A", ".a", "a.", "a..b", "-a", "a-.b", "a" * 254, "a\n"]),
    (names.port_name_problem, ["", "A", "1", "80", "a--b", "-a", "a-", "a_b", "a" * 16, "a\n"]),
    (names.qualified_name_problem, ["", "/a", "a/", "A/b", "a/b/c", "-a", "a-", "a b", "a" * 64, "a\n"]),
    (names.label_value_problem, ["-", "a-", ".a", "a b", "a/b", "a" * 64, "a\n"]),
    (names.uid_problem, ["", ".", "..", "../a", "a/b", "/a", "a b", "a" * 64, "a\n", "a_b"]),
    (names.url_problem, ["", "ftp://a", "http://", "http:///x", "http://a b/", "http://a:b/", "http://[a/"]),
    (names.url_problem, ["http://a..b/x", "http://.a/", f"http://{'a' * 64}.b/", "http://a/\0", "http://a\x7f/"]),
    (names.host_problem, ["", ".", ".x", "a..b", "a" * 64, "a b", "a\0", "\u2488.a", "\u00e4" * 63]),
    (names.variable_problem, ["", "a=b", "é", "a\n", "a\x00"]),
    (names.config_key_problem, ["", ".", "..", "..a", "a/b", "a b", "a" * 254, "a\n"]),
    (names.header_problem, ["", "a b", "a:", "a\n", "é"]),
    (names.probe_header_problem, ["", "a b", "x_y", "a.b", "a\n", "é"]),
    (names.sysctl_problem, ["", "A", ".a", "a.", "a b", "a" * 254, "a\n"]),
    (names.ip_problem, ["", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "fe80::1%eth0", "x", "1.2.3.4/8"]),
    (names.path_in_volume_problem, ["/a", "..", "a/..", "../a", "a/../b"]),
]


def flat(table: list[tuple[Callable[[str], str], list[str]]]) -> list[tuple[Callable[[str], str], str]]:
    return [(rule, name) for rule, names_ in table for name in names_]


@pytest.mark.parametrize(("rule", "name"), flat(GOOD))
def test_good_names_have_no_problem(rule: Callable[[str], str], name: str) -> None:
    assert "" == rule(name)


@pytest.mark.parametrize(("rule", "name"), flat(BAD))
def test_bad_names_have_a_problem_that_says_what_must_be(rule: Callable[[str], str], name: str) -> None:
    assert re.search(r"\bmust\b", rule(name))


@pytest.mark.parametrize(("number", "good"), [(0, False), (1, True), (65535, True), (65536, False), (-1, False)])
def test_ports_have_sixteen_bits_and_are_not_zero(number: int, good: bool) -> None:
    assert good is not bool(names.port_problem(number))


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True))
def test_every_label_is_also_every_wider_kind_of_name(name: str) -> None:
    for rule in (names.subdomain_problem, names.qualified_name_problem, names.label_value_problem):
        assert "" == rule(name)
