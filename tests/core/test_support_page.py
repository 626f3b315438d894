"""The page of fields cannot lie in silence: what keeps it from being true is found by its generator.

python packaging/generate_support.py --check      in ``make lint``
"""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trikubelet.core.support.field import Row, Table, Works
from trikubelet.model.kubelet_configuration import KubeletConfiguration

ROOT = Path(__file__).parent.parent.parent
PROOF = "tests/core/test_support_page.py::test_what_is_not_true_of_a_table_is_found"
LIVE = "tests/live/test_fields.py::test_pods_share_the_namespaces_they_ask_for"
OTHER = "tests/live/test_fields.py::test_users_of_a_pods_own_outlive_a_kill_and_are_no_other_pods"
FIELDS = ("hostPID", "shareProcessNamespace")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(ROOT / "packaging")
        return importlib.import_module("generate_support")


def table(proof: str = LIVE, *paths: str, rows: tuple[Row, ...] = (), **more: Any) -> Table:
    return Table((Works(proof, paths or FIELDS, **more),), rows)


@pytest.mark.parametrize(
    ("expected", "made"),
    [
        ("", table()),
        ("", table(LIVE, "hostPID", rows=(Row("shareProcessNamespace", "not yet"),))),
        ("shareProcessNamespace: in no table of core/support", table(LIVE, "hostPID")),
        ("colour: the API has no such field", table(LIVE, *FIELDS, "colour")),
        ("there is no test tests/live/test_fields.py::test_nothing", table("tests/live/test_fields.py::test_nothing")),
        ("there is no test tests/live/test_fields.py::LOOKS", table("tests/live/test_fields.py::LOOKS")),
        ("there is no test tests/live/gone.py::test_it", table("tests/live/gone.py::test_it")),
        (f"hostPID: works, and {PROOF} is neither live nor simulated", table(PROOF)),
        (f"hostPID: works, and {PROOF} is neither", table(PROOF, rows=(Row("hostPID", "not all"),))),
        (f"hostPID: works, and {PROOF} is neither", table(PROOF, limit="not always")),
        ("hostPID: works since 99.0, and this is", table(since="99.0")),
        (f"hostPID: {OTHER} does not speak of hostPID", table(OTHER)),
        ("", table(OTHER, beside=True)),
        (f"hostPID: {LIVE} speaks of it: it is not beside others", table(beside=True)),
        ("", table(OTHER, by=("node_user", "hostId"))),
        (f"hostPID: {OTHER} does not speak of colour", table(OTHER, by=("node_user", "colour"))),
    ],
)
def test_what_is_not_true_of_a_table_is_found(generator: ModuleType, expected: str, made: Table) -> None:
    found = list(generator.wrong(made, FIELDS))

    assert bool(expected) == bool(found), found
    assert any(expected in fault for fault in found) or not expected, found


def test_what_a_test_speaks_of_is_in_its_code_and_its_helpers(generator: ModuleType) -> None:
    """Not in what is said of them: nobody here uses ``hostUsers``."""
    spoken = generator.words(
        f"{Path(__file__).relative_to(ROOT)}::test_what_a_test_speaks_of_is_in_its_code_and_its_helpers"
    )

    assert {"syspathprepend", "packaging"} <= spoken, "a fixture's"
    assert "host" + "users" not in spoken
    assert "hostid" in generator.words(OTHER), "a helper's in the same file"
    assert "terminationgraceperiodseconds" in generator.words(OTHER), "a helper's from elsewhere"


def test_the_page_is_what_the_registry_says_and_the_registry_is_true(generator: ModuleType) -> None:
    pods = tuple(generator.pod_paths())

    assert [] == list(generator.wrong(generator.PODS, pods))
    assert [] == list(
        generator.wrong(generator.CONFIGURATION, tuple(generator.configuration_paths(KubeletConfiguration)))
    )
    assert len(pods) > 800
    assert "containers[].livenessProbe.httpGet.httpHeaders[].name" in pods
