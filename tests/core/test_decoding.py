"""From an API server's JSON to typed objects: nulls are absent, the rest must fit."""

from __future__ import annotations

import msgspec
import pytest

from trikubelet.model import decoding, k8s
from trikubelet.model.api import Item
from trikubelet.model.api_errors import ApiFailure
from trikubelet.model.decoding import decode_object, read_item

POD = b'{"metadata":{"name":"a","creationTimestamp":null},"spec":{"containers":[{"name":"c","env":null}]}%b}'


def test_what_is_null_is_not_there() -> None:
    status = b',"status":{"conditions":[{"type":"Ready","status":"True","lastProbeTime":null}],"phase":null}'
    pod = decode_object(POD % status, k8s.Pod)

    assert ("", ()) == (pod.metadata.creation_timestamp, pod.spec.containers[0].env)
    assert pod.status == k8s.PodStatus(conditions=(k8s.PodCondition(type="Ready", status="True"),))


def test_the_word_null_in_a_string_stays() -> None:
    pod = decode_object(POD % b',"status":{"message":"null"}', k8s.Pod)

    assert pod.status == k8s.PodStatus(message="null")


@pytest.mark.parametrize("wrong", [b',"status":{"phase":1}', b',"status":{"phase":1,"message":null}'])
def test_what_does_not_fit_is_named(wrong: bytes) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.status\.phase"):
        decode_object(POD % wrong, k8s.Pod)


@pytest.mark.parametrize(
    "wrong",
    [
        b',"status":{"phase":"\xff"}',
        b',"status":{"phase":"\xff","message":null}',
        b',"x":' + b"[" * 100_000 + b"]" * 100_000,
        b',"x":null,"y":' + b"[" * 900 + b"]" * 900,
    ],
)
def test_what_is_no_text_or_has_no_end_is_an_error_like_others(wrong: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_object(POD % wrong, k8s.Pod)


def test_what_has_no_parts_is_not_looked_into_for_nulls(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, look = [0], decoding._without_nulls

    def counting(value: object) -> object:
        looked[0] += 1
        return look(value)

    monkeypatch.setattr(decoding, "_without_nulls", counting)
    many = b",".join([b'{},[],"",0,1,null,"a",true'] * 100)
    tree = decode_object(b'{"a":{},"b":null,"c":[%b],"d":{"e":[{"f":null}]}}' % many, dict)

    assert {"a": {}, "c": [{}, [], "", 0, 1, None, "a", True] * 100, "d": {"e": [{}]}} == tree
    assert 5 == looked[0]  # the whole, c, d, and the two in d


def test_an_answer_that_cannot_be_read_is_the_servers_failure() -> None:
    with pytest.raises(ApiFailure, match=r"no Lease: .*spec"):
        read_item(Item("n", "a", "u", "1", b'{"metadata":{"name":"a"},"spec":7}'), k8s.Lease)
