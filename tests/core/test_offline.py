"""Which remembered pods start while no API server answers: tables and properties."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import container, pod
from trikubelet.core.offline import (
    NOT_READY,
    UNREACHABLE,
    Away,
    Boot,
    Contact,
    Fate,
    OfflineRules,
    Owner,
    Remembered,
    away,
    foreign,
    is_same_life,
    kept_seconds,
    tolerated_seconds,
    verdict,
)
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Sequence

RULES = OfflineRules()
READY, NOT = Contact(1_000 * SECOND_NS, was_ready=True), Contact(1_000 * SECOND_NS, was_ready=False)
HOUR = Away(3600.0, 0.0)
ANYTHING = k8s.Toleration(operator="Exists")


def tolerating(taint: k8s.Taint, seconds: int | None = None) -> k8s.Toleration:
    return k8s.Toleration(key=taint.key, operator="Exists", effect="NoExecute", toleration_seconds=seconds)


DEFAULTS = (tolerating(NOT_READY, 300), tolerating(UNREACHABLE, 300))
ENDLESS = (tolerating(NOT_READY), tolerating(UNREACHABLE))


def wanted(*tolerations: k8s.Toleration, phase: str = "Running", deleted: str | None = None) -> k8s.Pod:
    found = pod(container("c"), tolerations=tolerations)
    metadata = msgspec.structs.replace(found.metadata, deletion_timestamp=deleted)
    return msgspec.structs.replace(found, metadata=metadata, status=k8s.PodStatus(phase=phase))


@pytest.mark.parametrize(
    ("expected", "tolerations"),
    [
        (0, ()),
        (300, DEFAULTS),
        (None, ENDLESS),
        (None, (ANYTHING,)),
        (0, (tolerating(NOT_READY),)),
        (0, (tolerating(UNREACHABLE, -5),)),
        (0, (k8s.Toleration(key=UNREACHABLE.key, operator="Exists", effect="NoSchedule"),)),
        (60, (k8s.Toleration(key=UNREACHABLE.key, operator="Exists", toleration_seconds=60),)),
        (60, (tolerating(UNREACHABLE, 60), tolerating(UNREACHABLE))),
        (None, (ANYTHING, tolerating(UNREACHABLE, 60))),
        (0, (k8s.Toleration(key=UNREACHABLE.key, operator="Equal", value="x"),)),
        (None, (k8s.Toleration(key=UNREACHABLE.key),)),
    ],
)
def test_the_first_toleration_that_matches_decides_how_long_a_pod_stays(
    expected: float | None, tolerations: Sequence[k8s.Toleration]
) -> None:
    assert expected == tolerated_seconds(wanted(*tolerations), UNREACHABLE)


@pytest.mark.parametrize(
    ("expected", "contact", "tolerations"),
    [
        (None, READY, (tolerating(UNREACHABLE),)),
        (0, NOT, (tolerating(UNREACHABLE),)),
        (300, NOT, (tolerating(UNREACHABLE), tolerating(NOT_READY, 300))),
        (60, NOT, (tolerating(UNREACHABLE, 60), tolerating(NOT_READY, 300))),
        (60, READY, (tolerating(UNREACHABLE, 60), tolerating(NOT_READY, 10))),
        (None, NOT, ENDLESS),
    ],
)
def test_not_ready_counts_only_for_a_node_that_was_not_ready_at_the_last_contact(
    expected: float | None, contact: Contact, tolerations: Sequence[k8s.Toleration]
) -> None:
    assert expected == kept_seconds(wanted(*tolerations), contact)


@pytest.mark.parametrize(
    ("expected", "one", "since"),
    [
        (Fate.STARTS, Remembered(wanted(*ENDLESS), True), HOUR),
        (Fate.STARTS, Remembered(wanted(*DEFAULTS), True), Away(299.0, 0.0)),
        (Fate.TAKEN_AWAY, Remembered(wanted(*DEFAULTS), True), Away(300.0, 0.0)),
        (Fate.TAKEN_AWAY, Remembered(wanted(), True), Away(0.0, 0.0)),
        (Fate.TAKEN_AWAY, Remembered(wanted(*DEFAULTS), True), Away(10.0, 400.0)),
        (Fate.TAKEN_AWAY, Remembered(wanted(*DEFAULTS), True), Away(None, 400.0)),
        (Fate.AGE_UNKNOWN, Remembered(wanted(*DEFAULTS), True), Away(None, 10.0)),
        (Fate.STARTS, Remembered(wanted(*ENDLESS), True), Away(None, 10.0)),
        (Fate.TOO_OLD, Remembered(wanted(*ENDLESS), True), Away(8 * 24 * 3600.0, 0.0)),
        (Fate.TOO_OLD, Remembered(wanted(*ENDLESS), True), Away(None, 8 * 24 * 3600.0)),
        (Fate.NEVER_ADMITTED, Remembered(wanted(*ENDLESS), False), HOUR),
        (Fate.NAME_TAKEN, Remembered(wanted(*ENDLESS), True, name_taken=True), HOUR),
        (Fate.OVER, Remembered(wanted(*ENDLESS), True, is_over=True), HOUR),
        (Fate.OVER, Remembered(wanted(*ENDLESS, phase="Failed"), True), HOUR),
        (Fate.OVER, Remembered(wanted(*ENDLESS, phase="Succeeded", deleted="2026-01-01T00:00:00Z"), True), HOUR),
        (Fate.ENDS, Remembered(wanted(*ENDLESS, deleted="2026-01-01T00:00:00Z"), True), HOUR),
        (Fate.TAKEN_AWAY, Remembered(wanted(*DEFAULTS), True, runs=True), HOUR),
    ],
)
def test_after_a_reboot_a_pod_has_one_fate(expected: Fate, one: Remembered, since: Away) -> None:
    assert expected is verdict(one, READY, since, RULES, same_life=False).fate


@pytest.mark.parametrize(
    ("expected", "one"),
    [
        (Fate.ADOPTED, Remembered(wanted(*DEFAULTS), True, runs=True)),
        (Fate.ADOPTED, Remembered(wanted(*DEFAULTS), False, runs=True)),
        (Fate.TAKEN_AWAY, Remembered(wanted(*DEFAULTS), True)),
        (Fate.OVER, Remembered(wanted(*DEFAULTS), True, is_over=True, runs=True)),
        (Fate.ENDS, Remembered(wanted(deleted="2026-01-01T00:00:00Z"), True, runs=True)),
    ],
)
def test_after_a_restart_of_the_agent_alone_running_pods_are_adopted(expected: Fate, one: Remembered) -> None:
    assert expected is verdict(one, READY, HOUR, RULES, same_life=True).fate


def test_with_all_pods_asked_for_only_tolerations_are_passed_over() -> None:
    rules = OfflineRules(starts_all=True)
    assert Fate.STARTS is verdict(Remembered(wanted(), True), READY, Away(None, 9.0), rules, same_life=False).fate
    assert Fate.OVER is verdict(Remembered(wanted(), True, True), READY, HOUR, rules, same_life=False).fate
    late = Away(200 * 3600.0, 0.0)
    assert Fate.TOO_OLD is verdict(Remembered(wanted(), True), READY, late, rules, same_life=False).fate


@pytest.mark.parametrize(
    ("expected", "store"),
    [
        ("", Owner("c", "n", "m")),
        ("it belongs to another cluster", Owner("d", "n", "m")),
        ("it belongs to the node other", Owner("c", "other", "m")),
        ("it was copied from another machine", Owner("c", "n", "x")),
    ],
)
def test_a_store_of_another_cluster_node_or_machine_is_foreign(expected: str, store: Owner) -> None:
    assert expected == foreign(store, Owner("c", "n", "m"))


@pytest.mark.parametrize(
    ("expected", "before", "boot"),
    [
        (True, "a", Boot("a", has_containers=True)),
        (False, "a", Boot("b", has_containers=True)),
        (False, "a", Boot("a", has_containers=False)),
        (False, "", Boot("", has_containers=True)),
    ],
)
def test_the_same_boot_with_nothing_running_is_another_life(expected: bool, before: str, boot: Boot) -> None:
    assert expected is is_same_life(before, boot)


@pytest.mark.parametrize(
    ("expected", "now_seconds", "trusted"),
    [(Away(500.0, 7.0), 1_500, True), (Away(None, 7.0), 1_500, False), (Away(None, 7.0), 999, True)],
)
def test_a_clock_before_the_last_contact_is_not_trusted(expected: Away, now_seconds: int, trusted: bool) -> None:
    assert expected == away(READY, now_seconds * SECOND_NS, 7.0, clock_is_trusted=trusted)


TOLERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["", UNREACHABLE.key, NOT_READY.key, "other"]),
        st.sampled_from(["Exists", "Equal", ""]),
        st.sampled_from(["", "NoExecute", "NoSchedule"]),
        st.none() | st.integers(-1, 1000),
    ).map(lambda drawn: k8s.Toleration(key=drawn[0], operator=drawn[1], effect=drawn[2], toleration_seconds=drawn[3])),
    max_size=4,
)
REMEMBERED = st.tuples(TOLERATIONS, st.booleans(), st.booleans(), st.booleans(), st.booleans()).map(
    lambda drawn: Remembered(wanted(*drawn[0]), *drawn[1:])
)
SECONDS = st.floats(0, 1e6)
AWAY = st.tuples(st.none() | SECONDS, SECONDS).map(lambda drawn: Away(*drawn))
CONTACTS = st.sampled_from([READY, NOT])


@given(REMEMBERED, CONTACTS, AWAY, SECONDS, st.booleans(), st.booleans())
def test_a_longer_absence_starts_no_further_pod(
    one: Remembered, contact: Contact, since: Away, more: float, starts_all: bool, same_life: bool
) -> None:
    rules = OfflineRules(starts_all=starts_all)
    later = Away(None if since.seconds is None else since.seconds + more, since.seconds_counted + more)
    if verdict(one, contact, later, rules, same_life=same_life).fate is Fate.STARTS:
        assert Fate.STARTS is verdict(one, contact, since, rules, same_life=same_life).fate


@given(REMEMBERED, CONTACTS, AWAY, st.booleans(), st.booleans())
def test_ended_and_never_admitted_pods_do_not_start(
    one: Remembered, contact: Contact, since: Away, starts_all: bool, same_life: bool
) -> None:
    found = verdict(one, contact, since, OfflineRules(starts_all=starts_all), same_life=same_life)
    if one.is_over or not one.was_admitted or one.name_taken:
        assert found.fate is not Fate.STARTS
    if found.fate is Fate.ADOPTED:
        assert same_life
        assert one.runs
    assert bool(found.reason) is (found.fate not in (Fate.STARTS, Fate.ADOPTED))


@given(REMEMBERED, CONTACTS, AWAY, st.booleans())
def test_an_untrusted_clock_starts_only_pods_without_a_limit(
    one: Remembered, contact: Contact, since: Away, same_life: bool
) -> None:
    unknown = Away(None, since.seconds_counted)
    if verdict(one, contact, unknown, RULES, same_life=same_life).fate is Fate.STARTS:
        assert kept_seconds(one.pod, contact) is None
        assert since.seconds_counted <= RULES.age_seconds_max
