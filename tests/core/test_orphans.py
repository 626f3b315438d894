"""Which orphans are an earlier version of a pod that is wanted."""

import pytest

from trikubelet.core.orphans import awaited_by, earlier_versions, has_another_name, may_be_of_api_server
from trikubelet.core.relist import PodRecord
from trikubelet.testing.builders import pod

UUID, OWN = "0f9c3c7e-5b1a-4c55-9a55-2f1f0f9a7a11", "0f9c3c7e-5b1a-4c55-9a55-2f1f0f9a7a12"


def test_an_orphan_is_an_earlier_version_of_a_wanted_pod_of_its_namespace_and_name() -> None:
    same, other, elsewhere = (
        PodRecord(f"uid-{name}-{namespace}", name, namespace, (), ())
        for name, namespace in (("web", "default"), ("db", "default"), ("web", "kube-system"))
    )

    assert [same] == earlier_versions([other, same, elsewhere], [pod("job"), pod("web", uid="uid-new")])


def test_what_runs_under_the_uid_of_a_wanted_pod_of_another_name_is_an_earlier_version_of_it() -> None:
    orphan = PodRecord("uid-web", "shop", "default", (), ())

    assert [orphan] == earlier_versions([orphan], iter([pod("job"), pod("web")]))


@pytest.mark.parametrize(
    ("uid", "may_be"),
    [
        (UUID, True),  # or a manifest's own: nobody can tell
        ("0F9C3C7E-5B1A-4C55-9A55-2F1F0F9A7A11", True),
        ("0f9c3c7e5b1a4c559a552f1f0f9a7a11", False),  # a static pod's hash
        ("web-1", False),
        ("", False),
    ],
)
def test_only_what_has_a_uuid_may_be_of_the_api_server(uid: str, may_be: bool) -> None:
    assert may_be is may_be_of_api_server(PodRecord(uid, "web", "default", (), ()))


@pytest.mark.parametrize(
    ("namespace", "name", "another"),
    [("default", "web", False), ("default", "shop", True), ("kube-system", "web", True), ("", "", False)],
)
def test_what_a_uid_has_at_the_runtime_is_another_pod_s_by_its_name(namespace: str, name: str, another: bool) -> None:
    assert another is has_another_name(PodRecord("uid-web", name, namespace, (), ()), pod("web"))


@pytest.mark.parametrize(
    ("uid", "pod_runs", "awaited"),
    [
        ("a-hash", False, True),
        ("a-hash", True, True),
        (UUID, False, True),
        (UUID, True, False),  # the API server, which may be late, may have brought it, and may be in this pod
        (OWN, True, True),  # all that runs under its UID
    ],
)
def test_a_static_pod_waits_for_the_orphans_of_its_name_and_uid(uid: str, pod_runs: bool, awaited: bool) -> None:
    orphan = PodRecord(uid, "shop" if uid == OWN else "web", "default", (), ())
    unrelated = PodRecord("other", "db", "default", (), ())

    expected = [orphan] if awaited else []
    assert expected == awaited_by(pod("web", uid=OWN), [unrelated, orphan], pod_runs=pod_runs)
