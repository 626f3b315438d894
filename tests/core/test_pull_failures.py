"""A failed pull: its reason, and the pause after it."""

import pytest

from trikubelet.core.pull_failures import failed, reason_and_message


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (("ErrImagePull", "not found"), "not found"),
        (
            ("RegistryUnavailable", "image pull failed for web:2 because the registry is unavailable: no route"),
            "RegistryUnavailable: no route",
        ),
        (
            ("SignatureValidationFailed", "image pull failed for web:2 because the signature validation failed"),
            "SignatureValidationFailed",
        ),
        (
            ("ErrImagePull", "it said RegistryUnavailable"),
            "it said RegistryUnavailable",
        ),
    ],
)
def test_a_runtime_that_knows_more_says_so_in_its_first_word(expected: tuple[str, str], said: str) -> None:
    assert expected == reason_and_message("web:2", said)


def test_each_pause_is_twice_the_last_up_to_five_minutes() -> None:
    last, now, pauses = None, 100.0, []
    for _ in range(8):
        last = failed(last, "no", now)
        pauses.append(last.seconds)
        now = last.at
    assert [10, 20, 40, 80, 160, 300, 300, 300] == pauses


@pytest.mark.parametrize(("expected", "later_seconds"), [(20, 600), (10, 600.1)])
def test_ten_minutes_without_a_failure_are_a_new_beginning(expected: float, later_seconds: float) -> None:
    first = failed(None, "no", 100.0)
    assert expected == failed(first, "no", 100.0 + later_seconds).seconds
