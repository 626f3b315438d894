"""Who has a pod's name when several files give it, and when a file is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import pod
from trikubelet.core.file_source import Claim, Claims, FileState, claim, may_be_half_written, state_of
from trikubelet.core.manifest import load_manifest
from trikubelet.core.names import full_name
from trikubelet.model import k8s
from trikubelet.model.faults import Fault

FAULT = Fault("a", 1, "", "bad")


def named(name: str) -> k8s.Pod:
    return pod(k8s.Container(name="a", image="b"), meta={"name": name, "uid": name})


A, B = named("a"), named("b")
SETTINGS = k8s.ConfigMap(metadata=k8s.ObjectMeta(name="o", namespace="default"))


def who(claims: Claims) -> dict[str, list[str]]:
    return {path: [each.metadata.name for each in state.pods] for path, state in claims.states.items()}


def test_among_new_files_the_first_by_name_has_the_pod() -> None:
    claims = claim({"y": FileState((A, B)), "x": FileState((A,), lines={full_name(A): 4})}, {})

    assert {"x": ["a"], "y": ["b"]} == who(claims)
    assert [("y", None, "metadata.name")] == [(f.source, f.line, f.path) for f in claims.states["y"].faults]
    assert () == claims.states["x"].faults


def test_a_file_keeps_the_pod_it_had_for_as_long_as_it_gives_it() -> None:
    first = claim({"y": FileState((A,))}, {})
    both = claim({"x": FileState((A,), lines={full_name(A): 4}), "y": FileState((A,))}, first.owners)
    alone = claim({"x": FileState((A,))}, both.owners)
    back = claim({"x": FileState((A,)), "y": FileState((A,))}, alone.owners)

    assert {"x": [], "y": ["a"]} == who(both)
    assert [4] == [fault.line for fault in both.states["x"].faults]
    assert {"x": ["a"]} == who(alone)
    assert {"x": ["a"], "y": []} == who(back)


@pytest.mark.parametrize(("owner", "expected"), [("", "y"), ("x", "x"), ("y", "y")])
def test_file_with_the_pod_of_an_earlier_agent_wins_among_new_files(owner: str, expected: str) -> None:
    before = {("metadata.name", full_name(A)): owner, ("metadata.uid", "a"): owner}
    begun = pod(k8s.Container(name="a", image="b"), meta={"name": "a", "uid": "begun"})
    before |= {("metadata.uid", "begun"): owner}
    claims = claim({"x": FileState((A,)), "y": FileState((begun,)), "z": FileState((A,))}, before, {"begun"})

    assert [expected] == [path for path, state in claims.states.items() if state.pods]


def test_a_uid_that_another_file_has_is_a_fault_where_it_is_written() -> None:
    thief = pod(k8s.Container(name="a", image="b"), meta={"name": "thief", "uid": "a"})
    claims = claim({"x": FileState((A,)), "y": FileState((thief, B), uid_lines={"a": 7})}, {})

    assert {"x": ["a"], "y": ["b"]} == who(claims)
    assert [("y", 7, "metadata.uid")] == [(f.source, f.line, f.path) for f in claims.states["y"].faults]


def test_the_lines_of_uids_that_were_written_are_known() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n{}spec: {{containers: [{{name: a, image: b}}]}}\n"
    said, silent = (load_manifest(text.format(uid), "f", "node", "") for uid in ("  uid: u\n", ""))

    assert {"u": 5} == state_of(said).uid_lines
    assert {} == state_of(silent).uid_lines


def test_an_object_belongs_to_one_file_and_has_nothing_to_do_with_a_pod_of_its_name() -> None:
    pod_o, secret = named("o"), k8s.Secret(metadata=SETTINGS.metadata)
    both = {
        "x": FileState(objects=(SETTINGS,)),
        "y": FileState((pod_o,), objects=(SETTINGS, secret), lines={"ConfigMap default/o": 3}),
    }
    claims = claim(both, {})

    assert (SETTINGS, secret) == claims.objects
    assert (pod_o,) == claims.pods
    assert [
        'y:3: metadata.name: Duplicate value: "o": x has ConfigMap default/o, which counts '
        "(rename one of the two or remove one of the files)"
    ] == [str(fault) for fault in claims.states["y"].faults]
    assert (SETTINGS, secret) == claim({"y": both["y"]}, claims.owners).objects


def test_faults_of_the_file_itself_stay_before_those_of_others() -> None:
    claims = claim({"x": FileState((A,)), "y": FileState((A,), (FAULT,))}, {})

    assert ["bad", "Duplicate value"] == [fault.problem.partition(":")[0] for fault in claims.states["y"].faults]


@given(
    st.dictionaries(st.sampled_from("uvwxyz"), st.sets(st.sampled_from("abc"))),
    st.dictionaries(
        st.sampled_from([("metadata.name", full_name(named(name))) for name in "abc"]), st.sampled_from("uvwxyz")
    ),
)
def test_every_pod_that_is_given_runs_exactly_once(files: dict[str, set[str]], before: dict[Claim, str]) -> None:
    states = {path: FileState(tuple(named(name) for name in sorted(names))) for path, names in files.items()}
    claims = claim(states, before)

    assert sorted({name for names in files.values() for name in names}) == sorted(p.metadata.name for p in claims.pods)
    assert claims.states == claim(states, claims.owners).states


@pytest.mark.parametrize(
    ("before", "now", "age", "expected"),
    [
        (None, FileState((A,)), 0.0, False),
        (None, FileState(), 0.0, False),
        (None, FileState((), (FAULT,)), 0.0, True),
        (None, FileState((), (FAULT,)), 0.999, True),
        (None, FileState((), (FAULT,)), 1.0, False),
        (None, FileState((), (FAULT,)), -0.1, False),
        (FileState((A,)), FileState(), 0.0, True),
        (FileState((A,)), FileState((B,)), 0.0, True),
        (FileState((A,)), FileState((A, B)), 0.0, False),
        (FileState((A,)), FileState(), 1.0, False),
        (FileState((A,), objects=(SETTINGS,)), FileState((A,)), 0.0, True),
    ],
)
def test_a_young_file_with_faults_or_fewer_pods_is_not_believed_yet(
    before: FileState | None, now: FileState, age: float, expected: bool
) -> None:
    assert expected is may_be_half_written(before, now, age)


@pytest.mark.parametrize(("wrong", "kept", "last"), [(100, 100, "Required value"), (103, 101, "3 more faults")])
def test_of_very_many_faults_the_first_are_kept_and_the_rest_counted(wrong: int, kept: int, last: str) -> None:
    state = state_of(load_manifest("---\na: b\n" * wrong, "f", "node", ""))

    assert kept == len(state.faults)
    assert state.faults[-1].problem.startswith(last)
