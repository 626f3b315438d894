"""One inspection: what is asked, what of it is decoded, and what the observation has of the one before."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TypeVar

import pytest

from trikubelet.core.relist import ContainerRecord, PodChange, PodRecord
from trikubelet.core.statuses import KEY_BYTES, StatusDigester
from trikubelet.model.runtime import (
    ContainerState,
    ContainerStatus,
    PodObservation,
    SandboxState,
    SandboxStatus,
    Undecoded,
)
from trikubelet.model.runtime_errors import NotFound, RuntimeFailure
from trikubelet.pleg.inspection import inspect
from trikubelet.testing.replies import container_reply, sandbox_reply
from trikubelet.testing.side_by_side import statuses_side_by_side

Record = TypeVar("Record", "SandboxStatus", "ContainerStatus")

READY, NOTREADY = SandboxState.READY, SandboxState.NOTREADY
LABELS = {"a": "b", "c": "d", "e": "f", "g": "h"}


class Pod:
    """A runtime that has one pod, an agent that inspects it, and what it decodes."""

    def __init__(self) -> None:
        self.sandboxes = {"s": sandbox("s")}
        self.containers = {name: container(name) for name in ("c1", "c2")}
        self.decoded: list[str] = []
        self.broken: set[str] = set()
        self.seen = PodObservation("u")
        self._chance = random.Random(0)
        self._digester = StatusDigester(bytes(KEY_BYTES))

    async def sandbox_status(self, id_: str) -> Undecoded[SandboxStatus]:
        if id_ not in self.sandboxes:
            raise NotFound(id_)
        return self._watched(id_, sandbox_reply(self.sandboxes[id_], self._chance, LABELS, LABELS))

    async def container_status(self, id_: str) -> Undecoded[ContainerStatus]:
        if id_ not in self.containers:
            raise NotFound(id_)
        return self._watched(id_, container_reply(self.containers[id_], self._chance, LABELS, LABELS))

    statuses = statuses_side_by_side

    def _watched(self, id_: str, reply: Undecoded[Record]) -> Undecoded[Record]:
        def decode(raw: bytes) -> Record:
            self.decoded.append(id_)
            return reply.decoder(raw)

        return Undecoded(id_, b"\xff" if id_ in self.broken else reply.raw, decode)

    async def inspect(self, at: float = 0.0, *, vanished: tuple[str, ...] = ()) -> list[str]:
        """Inspect the pod; whose status was decoded."""
        self.decoded.clear()
        change = PodChange("u", "web", "default", (), tuple(self.sandboxes), (*self.containers, *vanished))
        listed = PodRecord("u", "web", "default", (), tuple(ContainerRecord(c, c, 0, 1, "s") for c in self.containers))
        self.seen = await inspect(self, self._digester, change, listed, self.seen, at)  # type: ignore[arg-type]
        return sorted(self.decoded)


def sandbox(id_: str, state: SandboxState = READY, ips: tuple[str, ...] = ("10.0.0.1",)) -> SandboxStatus:
    return SandboxStatus(id_, "u", "web", "default", 0, state, 1, ips)


def container(id_: str) -> ContainerStatus:
    return ContainerStatus(id_, id_, 0, ContainerState.RUNNING, 1, image_id="i", sandbox_id="s")


async def test_the_first_inspection_decodes_everything_and_says_what_the_runtime_says() -> None:
    pod = Pod()

    assert ["c1", "c2", "s"] == await pod.inspect(1.0)
    assert ("u", "web", "default", ("10.0.0.1",)) == (pod.seen.uid, pod.seen.name, pod.seen.namespace, pod.seen.ips)
    assert tuple(pod.sandboxes.values()) == pod.seen.sandboxes
    assert tuple(pod.containers.values()) == pod.seen.containers
    assert 1.0 == pod.seen.observed_at


async def test_an_inspection_that_finds_nothing_new_decodes_nothing_and_moves_the_time() -> None:
    pod = Pod()
    await pod.inspect(1.0)
    before = pod.seen

    assert [] == await pod.inspect(2.0)
    assert before == pod.seen
    assert before.sandboxes is pod.seen.sandboxes
    assert before.containers is pod.seen.containers
    assert 2.0 == pod.seen.observed_at


async def test_only_what_changed_is_decoded() -> None:
    pod = Pod()
    await pod.inspect()
    before = pod.seen
    pod.containers["c2"] = replace(pod.containers["c2"], reason="OOMKilled")

    assert ["c2"] == await pod.inspect()
    assert before != pod.seen
    assert "OOMKilled" == pod.seen.containers[1].reason
    assert before.containers[0] is pod.seen.containers[0]
    assert before.sandboxes[0] is pod.seen.sandboxes[0]


async def test_a_pod_that_has_more_or_less_or_another_order_is_seen_without_decoding_what_is_known() -> None:
    pod = Pod()
    await pod.inspect()
    c1, c2 = pod.containers.values()
    pod.containers = {"c3": container("c3"), "c2": c2, "c1": c1}
    assert ["c3"] == await pod.inspect()
    assert ("c3", "c2", "c1") == tuple(c.id for c in pod.seen.containers)
    pod.sandboxes = {"t": sandbox("t"), **pod.sandboxes}
    assert ["t"] == await pod.inspect()
    del pod.containers["c2"]

    assert [] == await pod.inspect()
    assert ("c3", "c1") == tuple(c.id for c in pod.seen.containers)
    assert ("t", "s") == tuple(s.id for s in pod.seen.sandboxes)


async def test_what_has_vanished_since_the_list_is_left_out_and_the_rest_still_known() -> None:
    pod = Pod()
    await pod.inspect()
    before = pod.seen

    assert [] == await pod.inspect(vanished=("gone",))
    assert before == pod.seen


@pytest.mark.parametrize("broken", ["s", "c1"])
async def test_a_reply_that_cannot_be_read_is_a_failed_call_and_names_the_place(broken: str) -> None:
    pod = Pod()
    await pod.inspect()
    before = pod.seen
    pod.broken = {broken}
    with pytest.raises(RuntimeFailure, match="Status reply, at byte 0: the reply ends inside a field") as failure:
        await pod.inspect()

    assert "INTERNAL" == failure.value.code
    assert before is pod.seen


async def test_a_reply_that_only_the_protobuf_library_refuses_is_a_failed_call_as_well() -> None:
    reply = container_reply(container("c"), random.Random(0))
    broken = replace(reply, raw=reply.raw + b"\x12\x02\x0a\x7f")  # its `info`, which no digest looks into

    with pytest.raises(RuntimeFailure, match="ContainerStatus: the runtime's reply cannot be read"):
        broken.decode()


@pytest.mark.parametrize(("sandboxes", "ips"), [
    ([sandbox("s", READY, ("10.0.0.2",))], ("10.0.0.2",)),
    ([sandbox("s", READY, ())], ()),
    ([sandbox("s", NOTREADY, ())], ("10.0.0.1",)),
    ([sandbox("t", READY, ()), sandbox("s", NOTREADY, ())], ()),
    ([sandbox("t", NOTREADY, ()), sandbox("s", READY, ("10.0.0.1",))], ()),
    ([sandbox("s", NOTREADY, ("10.0.0.3", "fd00::3"))], ("10.0.0.3", "fd00::3")),
    ([], ("10.0.0.1",)),
])  # fmt: skip
async def test_a_pod_keeps_its_addresses_while_no_sandbox_is_ready(
    sandboxes: list[SandboxStatus], ips: tuple[str, ...]
) -> None:
    pod = Pod()
    await pod.inspect()
    pod.sandboxes = {s.id: s for s in sandboxes}
    for _ in range(2):  # the second time there is nothing new, and what was kept is kept
        await pod.inspect()

        assert ips == pod.seen.ips


@pytest.mark.parametrize(("asked", "told"), [("s2", "s"), ("c1", "c2"), ("c2", "c1")])
async def test_an_answer_about_another_is_none_though_it_is_known(asked: str, told: str) -> None:
    pod = Pod()
    await pod.inspect()
    before = pod.seen
    if asked == "s2":  # one is asked for as before, and its answer is the same
        pod.sandboxes = {"s2": pod.sandboxes["s"]}
    else:
        pod.containers[asked] = pod.containers[told]

    with pytest.raises(RuntimeFailure, match=f"asked for the status of {asked}, the runtime returned that of {told}"):
        await pod.inspect()
    assert before is pod.seen
