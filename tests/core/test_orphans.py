"""Which orphans are an earlier version of a pod that is wanted."""

import pytest

from trikubelet.core.orphans import earlier_versions, may_be_of_api_server
from trikubelet.core.relist import PodRecord
from trikubelet.testing.builders import pod


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
        ("0f9c3c7e-5b1a-4c55-9a55-2f1f0f9a7a11", True),  # or a manifest's own: nobody can tell
        ("0F9C3C7E-5B1A-4C55-9A55-2F1F0F9A7A11", True),
        ("0f9c3c7e5b1a4c559a552f1f0f9a7a11", False),  # a static pod's hash
        ("web-1", False),
        ("", False),
    ],
)
def test_only_what_has_a_uuid_may_be_of_the_api_server(uid: str, may_be: bool) -> None:
    assert may_be is may_be_of_api_server(PodRecord(uid, "web", "default", (), ()))
