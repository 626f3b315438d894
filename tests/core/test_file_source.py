"""Which files are manifests, and what a faulty one keeps running."""

from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.podkit import pod
from trikubelet.core.file_source import FileState, claim, fold_file, keep_what_runs, why_ignored
from trikubelet.core.names import full_name
from trikubelet.model import k8s
from trikubelet.model.faults import Fault

FAULT = Fault("/etc/pods/a.yaml", 3, "spec", "is missing")


def named(name: str, image: str = "image:1") -> k8s.Pod:
    return pod(k8s.Container(name="a", image=image), meta={"name": name, "uid": f"{name}-{image}"})


A, B, A2 = named("a"), named("b"), named("a", "image:2")


@pytest.mark.parametrize("name", ["a.yaml", "a.json", "a", "a.yaml.txt", "#a", "tmp"])
def test_manifest_may_have_any_name_except_those_of_editor_leftovers(name: str) -> None:
    assert why_ignored(name) is None


@pytest.mark.parametrize(
    ("why", "name"),
    [
        ("a hidden file", ".a.yaml"),
        ("a hidden file", ".a.yaml.swp"),
        ("an editor's autosave", "#a.yaml#"),
        ("an editor's backup", "a.yaml~"),
        ("an editor's swap file", "a.yaml.swp"),
        ("a backup", "a.yaml.bak"),
        ("a temporary file", "a.yaml.tmp"),
        ("a package's leftover", "a.yaml.dpkg-new"),
        ("a package's leftover", "a.yaml.rpmsave"),
    ],
)
def test_leftovers_are_ignored_and_told_by_their_kind(why: str, name: str) -> None:
    assert why == why_ignored(name)


@pytest.mark.parametrize(
    ("expected", "before", "pods", "faults"),
    [
        pytest.param((A,), None, (A,), (), id="seen for the first time"),
        pytest.param((A,), None, (A,), (FAULT,), id="faulty at first sight: its good documents count"),
        pytest.param((), None, (), (FAULT,), id="faulty at first sight, nothing good in it"),
        pytest.param((A2,), (A, B), (A2,), (), id="without faults it means what it says"),
        pytest.param((), (A, B), (), (), id="emptied without a fault: all its pods go"),
        pytest.param((A, B), (A, B), (), (FAULT,), id="broken: what it had keeps running"),
        pytest.param((A2, B), (A, B), (A2,), (FAULT,), id="one document broken: the good one counts, the other stays"),
    ],
)
def test_folding_a_file(
    expected: tuple[k8s.Pod, ...],
    before: tuple[k8s.Pod, ...] | None,
    pods: tuple[k8s.Pod, ...],
    faults: tuple[Fault, ...],
) -> None:
    state = None if before is None else FileState(before)
    assert FileState(expected, faults) == fold_file("f", state, FileState(pods, faults))


def test_a_file_that_was_mended_forgets_its_faults_and_what_it_kept_for_them() -> None:
    broken = fold_file("f", FileState((A, B)), FileState((), (FAULT,)))
    assert FileState((A2,)) == fold_file("f", broken, FileState((A2,)))


FILES = st.lists(st.sampled_from([A, B, A2, named("c")]), max_size=3, unique_by=full_name).map(tuple)


@given(FILES, FILES)
def test_a_faulty_file_takes_no_pod_away_and_names_none_twice(
    before: tuple[k8s.Pod, ...], pods: tuple[k8s.Pod, ...]
) -> None:
    folded = fold_file("f", FileState(before), FileState(pods, (FAULT,))).pods
    after = [full_name(p) for p in folded]
    assert {full_name(p) for p in (*before, *pods)} == set(after)
    assert len(after) == len(set(after))
    assert all(p in folded for p in pods), "what the file says well it means"


def settings(name: str = "o", *, immutable: bool | None = None, **data: str) -> k8s.ConfigMap:
    meta = k8s.ObjectMeta(name=name, namespace="default")
    return k8s.ConfigMap(metadata=meta, data=data, immutable=immutable)


def test_a_faulty_file_keeps_the_objects_it_had_and_updates_those_that_are_good() -> None:
    before = FileState(objects=(settings(a="1"), settings("p")))

    folded = fold_file("f", before, FileState(objects=(settings(a="2"),), faults=(FAULT,)))

    assert (settings(a="2"), settings("p")) == folded.objects
    assert () == fold_file("f", before, FileState()).objects


def test_what_is_immutable_stays_as_it_was_until_it_is_taken_away() -> None:
    before = FileState(objects=(settings(immutable=True, a="1"), settings("p", a="1")))
    now = FileState(objects=(settings(immutable=True, a="2"), settings("p", a="2")), lines={"ConfigMap default/o": 4})

    folded = fold_file("f", before, now)

    assert (settings(immutable=True, a="1"), settings("p", a="2")) == folded.objects
    told = "Forbidden: ConfigMap default/o is immutable (give the changed one another name, or take it away first)"
    assert [f"f:4: immutable: {told}"] == [str(fault) for fault in folded.faults]
    assert now.objects == fold_file("f", fold_file("f", before, FileState()), now).objects
    assert () == fold_file("f", before, before).faults


def test_a_pod_that_gives_its_uid_stays_as_it_was_where_it_may_not_change() -> None:
    """Its containers would go on as they were made, and it would be shown as if they had not."""
    web, other = named("web", "image:1"), named("other")
    edited = replace(web, spec=replace(web.spec, hostname="other", volumes=(k8s.Volume(name="v"),)))
    uid = web.metadata.uid

    folded = fold_file("f", FileState((web,)), FileState((edited, other), uid_lines={uid: 4}))

    assert (web, other) == folded.pods
    told = f'Forbidden: the pod "{uid}" runs, and fields that must not change did: spec.hostname, spec.volumes'
    (fault,) = folded.faults
    assert ("f", 4, "metadata.uid", told) == (fault.source, fault.line, fault.path, fault.problem)


def test_a_pod_that_gives_its_uid_may_have_another_image() -> None:
    web = named("web", "image:1")
    edited = replace(web, spec=replace(web.spec, containers=(k8s.Container(name="a", image="image:2"),)))

    assert FileState((edited,)) == fold_file("f", FileState((web,)), FileState((edited,)))


WEB = named("web", "image:1")
RENAMED = replace(WEB, metadata=replace(WEB.metadata, name="shop"))
OTHER_HOST = replace(WEB, spec=replace(WEB.spec, hostname="other"))
OTHER_IMAGE = replace(WEB, spec=replace(WEB.spec, containers=(k8s.Container(name="a", image="image:2"),)))


@pytest.mark.parametrize(
    ("expected", "changed", "now"),
    [
        pytest.param(WEB, "", replace(WEB), id="as it was"),
        pytest.param(OTHER_IMAGE, "", OTHER_IMAGE, id="what may change"),
        pytest.param(WEB, "spec.hostname", OTHER_HOST, id="what may not: it stays"),
        pytest.param(RENAMED, "", RENAMED, id="another name: another pod"),
    ],
)
def test_a_pod_that_moves_to_another_file_with_its_uid(expected: k8s.Pod, changed: str, now: k8s.Pod) -> None:
    states = {"new": FileState((now, A), uid_lines={WEB.metadata.uid: 7}), "old": FileState((B,))}

    kept = keep_what_runs(claim(states, {("metadata.uid", WEB.metadata.uid): "old"}), [WEB, B])

    assert (expected, A, B) == kept.pods
    assert [("new", 7, "metadata.uid", changed)] * bool(changed) == [
        (fault.source, fault.line, fault.path, fault.problem.rpartition(": ")[2])
        for state in kept.states.values()
        for fault in state.faults
    ]


def test_a_copy_that_was_refused_for_its_uid_may_change_for_nothing_of_it_runs() -> None:
    copy, edited = RENAMED, replace(RENAMED, spec=OTHER_HOST.spec)
    assert FileState((edited,)) == fold_file("f", FileState((copy,)), FileState((edited,)), counted=())


class Counted(k8s.ConfigMap, frozen=True, eq=False):
    """A ConfigMap that counts how often one is compared with another, field by field."""

    compared: ClassVar[list[str]] = []

    def __eq__(self, other: object) -> bool:
        self.compared.append(self.metadata.name)
        return isinstance(other, k8s.ConfigMap) and self.data == other.data

    def __ne__(self, other: object) -> bool:
        return not self == other  # a Struct has its own, which would not be counted

    def __hash__(self) -> int:
        return hash(self.metadata.name)


def many(count: int, value: str) -> FileState:
    """A file of so many immutable ConfigMaps."""
    metas = (k8s.ObjectMeta(name=f"c{number}", namespace="default") for number in range(count))
    return FileState(objects=tuple(Counted(metadata=meta, data={"a": value}, immutable=True) for meta in metas))


def test_each_object_of_a_large_file_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "compared", [])
    before, now = many(50, "1"), many(50, "2")

    folded = fold_file("f", before, now)
    assert 50 == len(Counted.compared) == len(folded.faults)

    claims = claim({"a": before, "b": many(50, "2")}, {})
    assert 50 == len(Counted.compared)
    assert 50 == len(claims.objects) == len(claims.states["b"].faults)
