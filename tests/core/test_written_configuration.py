"""A configuration as a running node tells it."""

from __future__ import annotations

import json

import msgspec

from trikubelet.core.configuration import combine
from trikubelet.core.configuration.written import written
from trikubelet.core.document import parse_documents
from trikubelet.model.kubelet_configuration import KubeletConfiguration

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def test_the_defaults_can_be_read_as_a_file_and_are_the_defaults_again() -> None:
    told = json.dumps(written(KubeletConfiguration()))
    documents, faults = parse_documents(told.encode(), "configz")
    effective, wrong = combine(documents)

    assert [] == faults + wrong
    assert effective is not None
    assert KubeletConfiguration() == effective.configuration


def test_durations_are_written_as_go_does_and_other_numbers_are_not() -> None:
    told = written(KubeletConfiguration())

    assert ("1m0s", "2m0s", "4h0m0s") == (
        told["syncFrequency"],
        told["authentication"]["webhook"]["cacheTTL"],
        told["streamingConnectionIdleTimeout"],
    )
    assert ("5s", 85, 110) == (told["logging"]["flushFrequency"], told["imageGCHighThresholdPercent"], told["maxPods"])
    assert "tracing" not in told


def test_what_was_given_is_told_but_for_what_may_be_a_secret() -> None:
    text = HEAD + (
        "staticPodURLHeader: {Authorization: [Bearer abc, other]}\n"
        "crashLoopBackOff: {maxContainerRestartPeriod: 90s}\n"
        "registerWithTaints: [{key: a, effect: NoSchedule}]\n"
        "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 3}]\n"
    )
    effective, wrong = combine(parse_documents(text.encode(), "f")[0])
    assert effective is not None, wrong

    told = msgspec.json.decode(msgspec.json.encode(written(effective.configuration)))

    assert {"Authorization": ["<masked>", "<masked>"]} == told["staticPodURLHeader"]
    assert "1m30s" == told["crashLoopBackOff"]["maxContainerRestartPeriod"]
    assert [{"key": "a", "effect": "NoSchedule"}] == told["registerWithTaints"]
    assert [{"priority": 1, "shutdownGracePeriodSeconds": 3}] == told["shutdownGracePeriodByPodPriority"]
