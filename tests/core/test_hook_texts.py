"""What users are told of a lifecycle hook that failed."""

from __future__ import annotations

import pytest

from core.podkit import container, pod
from trikubelet.core.hooks import OUTPUT_BYTES_MAX, exec_error, failure
from trikubelet.model import k8s
from trikubelet.model.runtime import ExecResult

POD = pod("a")
WHO = f'for Container "a" in Pod "{POD.metadata.name}_{POD.metadata.namespace}({POD.metadata.uid})" failed - error: '
EXEC = k8s.LifecycleHandler(exec=k8s.ExecAction(command=("sh", "-c", "exit 3")))


def test_a_command_that_ended_well_has_no_error() -> None:
    assert "" == exec_error(("true",), ExecResult(0, b"out", b"err"))


def test_a_commands_error_has_its_words_its_code_and_what_it_complained_of() -> None:
    assert "command 'sh -c exit 3' exited with 3: no" == exec_error(("sh", "-c", "exit 3"), ExecResult(3, b"x", b"no"))


@pytest.mark.parametrize(
    ("expected", "handler", "output"),
    [
        (f'Exec lifecycle hook ([sh -c exit 3]) {WHO}why, message: "a \\"b\\"\\nc"', EXEC, b'a "b"\nc'),
        (
            f"HTTP lifecycle hook (/bye) {WHO}why",
            k8s.LifecycleHandler(http_get=k8s.HTTPGetAction(path="/bye", port=80)),
            b"",
        ),
        ("Cannot run handler: invalid handler: why", k8s.LifecycleHandler(), b""),
    ],
)
def test_a_failure_is_told_as_users_know_it(expected: str, handler: k8s.LifecycleHandler, output: bytes) -> None:
    assert expected == failure(POD, container("a"), handler, "why", output)


def test_of_a_long_output_only_the_beginning_is_reported_and_bytes_that_are_no_text_do_no_harm() -> None:
    told = failure(POD, container("a"), EXEC, "why", b"\xff" + b"x" * OUTPUT_BYTES_MAX)

    assert told.endswith('"\ufffd' + "x" * (OUTPUT_BYTES_MAX - 1) + '"')
