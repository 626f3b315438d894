"""Which orphans are an earlier version of a pod that is wanted."""

from trikubelet.core.orphans import earlier_versions
from trikubelet.core.relist import PodRecord
from trikubelet.testing.builders import pod


def test_an_orphan_is_an_earlier_version_of_a_wanted_pod_of_its_namespace_and_name() -> None:
    same, other, elsewhere = (
        PodRecord(f"uid-{name}-{namespace}", name, namespace, (), ())
        for name, namespace in (("web", "default"), ("db", "default"), ("web", "kube-system"))
    )

    assert [same] == earlier_versions([other, same, elsewhere], [pod("job"), pod("web", uid="uid-new")])
