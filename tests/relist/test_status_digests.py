"""Digests of status replies: the same for replies of which the same record is made, different for all others.

The oracle is what the agent does with a reply that is new: the protobuf library and ``cri.from_wire``. Both backends
are held to it, and to one another on bytes that are no reply.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from google.protobuf.message import DecodeError as ProtobufError
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from relist.saying import say
from relist.wire import message as length_delimited
from relist.wire import number, varint
from trikubelet.core.names import CONTAINER_HASH, CONTAINER_TERMINATION_PATH, POD_UID
from trikubelet.core.statuses import KEY_BYTES, StatusDigester
from trikubelet.core.statuses_twin import ENTRIES_MAX
from trikubelet.cri import from_wire
from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

RUST, TWIN = (StatusDigester(bytes(range(KEY_BYTES)), backend) for backend in ("rust", "python"))
both = pytest.mark.parametrize("digester", [RUST, TWIN], ids=["rust", "python"])

# ---- replies ----

few = st.sampled_from(["", "a", "b", "ä\U0001f600"])
times = st.sampled_from([0, 1, 2**31, 2**63 - 1, -1])
keys = st.sampled_from([POD_UID, CONTAINER_HASH, CONTAINER_TERMINATION_PATH, "", "a", "b"])
maps = st.dictionaries(keys, few, max_size=4)
states = st.sampled_from([0, 1, 2, 3, 4, 127, -1])
attempts = st.sampled_from([0, 1, 2**32 - 1])

sandbox_statuses = st.builds(
    pb.PodSandboxStatus,
    id=few,
    metadata=st.builds(pb.PodSandboxMetadata, name=few, uid=few, namespace=few, attempt=attempts),
    state=states,
    created_at=times,
    network=st.none()
    | st.builds(
        pb.PodSandboxNetworkStatus,
        ip=few,
        additional_ips=st.lists(st.builds(pb.PodIP, ip=few), max_size=3),
    ),
    linux=st.none()
    | st.builds(
        lambda mode: pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=pb.NamespaceOption(network=mode, pid=1))),
        st.sampled_from([0, 1, 2, 3]),
    ),
    labels=maps,
    annotations=maps,
    runtime_handler=few,
)
sandbox_replies = st.builds(pb.PodSandboxStatusResponse, status=sandbox_statuses, info=maps, timestamp=times)
container_statuses = st.builds(
    pb.ContainerStatus,
    id=few,
    metadata=st.builds(pb.ContainerMetadata, name=few, attempt=attempts),
    state=states,
    created_at=times,
    started_at=times,
    finished_at=times,
    exit_code=st.sampled_from([0, 1, 137, -1]),
    image=st.none() | st.builds(pb.ImageSpec, image=few, user_specified_image=few, annotations=maps),
    image_ref=few,
    reason=few,
    message=few,
    labels=maps,
    annotations=maps,
    mounts=st.lists(st.builds(pb.Mount, container_path=few, host_path=few), max_size=2),
    log_path=few,
    image_id=few,
    resources=st.none()
    | st.builds(
        lambda amounts, oom: pb.ContainerResources(
            linux=pb.LinuxContainerResources(
                cpu_period=amounts[0],
                cpu_quota=amounts[1],
                cpu_shares=amounts[2],
                memory_limit_in_bytes=amounts[3],
                oom_score_adj=oom,
            )
        ),
        st.tuples(*[st.sampled_from([0, 1, 2**40, -1])] * 4),
        st.sampled_from([0, 1000]),
    ),
)
container_replies = st.builds(pb.ContainerStatusResponse, status=container_statuses, info=maps)

Reply = pb.PodSandboxStatusResponse | pb.ContainerStatusResponse
Change = tuple[str, "Callable[[Reply], object]"]


def digest(digester: StatusDigester, reply: Reply, raw: bytes) -> bytes:
    return (digester.sandbox if isinstance(reply, pb.PodSandboxStatusResponse) else digester.container)(raw)


def record(reply: Reply) -> object:
    if isinstance(reply, pb.PodSandboxStatusResponse):
        return from_wire.sandbox_status(reply)
    return from_wire.container_status(reply)


def mixed(one: Reply, other: Reply, takes: set[int]) -> Reply:
    """``one`` with some of its status' fields taken from ``other``: two replies that differ in little."""
    made = type(one)()
    made.CopyFrom(one)
    for field in made.status.DESCRIPTOR.fields:
        if field.number in takes:
            made.status.ClearField(field.name)
            part = type(other.status)()
            part.CopyFrom(other.status)
            for unwanted in part.DESCRIPTOR.fields:
                if unwanted.number != field.number:
                    part.ClearField(unwanted.name)
            made.status.MergeFrom(part)
    return made


@pytest.mark.parametrize("replies", [sandbox_replies, container_replies], ids=["sandbox", "container"])
def test_two_replies_have_one_digest_if_and_only_if_they_make_one_record(replies: st.SearchStrategy[Reply]) -> None:
    @settings(max_examples=examples(80))
    @given(replies, replies, st.sets(st.integers(1, 17), max_size=2), st.randoms(use_true_random=False))
    def holds(one: Reply, other: Reply, takes: set[int], chance: random.Random) -> None:
        other = mixed(one, other, takes)
        first, second = say(one, chance), say(other, chance)
        assert record(one) == record(type(one).FromString(first)), "the same was said in another way"
        for digester in (RUST, TWIN):
            same = digest(digester, one, first) == digest(digester, other, second)

            assert (record(one) == record(other)) is same

    holds()


# ---- field by field ----

SANDBOX = pb.PodSandboxStatusResponse(
    status=pb.PodSandboxStatus(
        id="s",
        metadata=pb.PodSandboxMetadata(name="n", uid="u", namespace="ns", attempt=1),
        state=pb.SANDBOX_READY,
        created_at=5,
        network=pb.PodSandboxNetworkStatus(ip="10.0.0.1", additional_ips=[pb.PodIP(ip="fd00::1")]),
        linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=pb.NamespaceOption(network=pb.POD))),
        labels={"a": "b", POD_UID: "u"},
        annotations={"c": "d"},
        runtime_handler="runc",
    ),
    info={"info": "{}"},
    timestamp=7,
)
CONTAINER = pb.ContainerStatusResponse(
    status=pb.ContainerStatus(
        id="c",
        metadata=pb.ContainerMetadata(name="n", attempt=1),
        state=pb.CONTAINER_EXITED,
        created_at=5,
        started_at=6,
        finished_at=7,
        exit_code=1,
        image=pb.ImageSpec(image="i", user_specified_image="u"),
        image_ref="sha256:1",
        reason="Error",
        message="m",
        labels={"a": "b"},
        annotations={"c": "d", CONTAINER_HASH: "h"},
        mounts=[pb.Mount(container_path="/a"), pb.Mount(container_path="/b")],
        log_path="/l",
        image_id="sha256:2",
    ),
    info={"pid": "7"},
)


def set_(name: str, value: object) -> Change:
    """Set a field by its path."""

    def change(reply: Reply) -> None:
        *path, last = name.split(".")
        inner: object = reply
        for step in path:
            inner = getattr(inner, step)
        setattr(inner, last, value)

    return name, change


def put(name: str, key: str, value: str) -> Change:
    """Set an entry of a map."""
    return f"{name} {key}", lambda reply: getattr(reply.status, name).update({key: value})


COUNTS: list[tuple[Reply, Change]] = [
    *(
        (SANDBOX, change)
        for change in (
            set_("status.id", "t"),
            set_("status.metadata.name", "m"),
            set_("status.metadata.uid", "v"),
            set_("status.metadata.namespace", "other"),
            set_("status.metadata.attempt", 2),
            set_("status.state", pb.SANDBOX_NOTREADY),
            set_("status.created_at", 6),
            set_("status.network.ip", "10.0.0.2"),
            ("an address more", lambda reply: reply.status.network.additional_ips.add(ip="fd00::2")),
            ("an address less", lambda reply: reply.status.network.ClearField("additional_ips")),
            set_("status.linux.namespaces.options.network", pb.NODE),
            set_("status.runtime_handler", "gvisor"),
        )
    ),
    *(
        (CONTAINER, change)
        for change in (
            set_("status.id", "d"),
            set_("status.metadata.name", "m"),
            set_("status.metadata.attempt", 2),
            set_("status.state", pb.CONTAINER_RUNNING),
            set_("status.state", pb.CONTAINER_UNKNOWN),
            set_("status.created_at", 6),
            set_("status.started_at", 5),
            set_("status.finished_at", 8),
            set_("status.exit_code", -1),
            set_("status.image.user_specified_image", "v"),
            set_("status.image_ref", "sha256:3"),
            set_("status.reason", "OOMKilled"),
            set_("status.message", ""),
            set_("status.log_path", "/m"),
            set_("status.image_id", "sha256:3"),
            *(
                set_(f"status.resources.linux.{name}", 7)
                for name in ("cpu_period", "cpu_quota", "cpu_shares", "memory_limit_in_bytes")
            ),
            put("annotations", CONTAINER_HASH, "i"),
            put("annotations", CONTAINER_TERMINATION_PATH, "/dev/termination-log"),
        )
    ),
]
DOES_NOT_COUNT: list[tuple[Reply, Change]] = [
    (SANDBOX, set_("timestamp", 8)),
    (SANDBOX, ("info", lambda reply: reply.info.update(more="less"))),
    (SANDBOX, ("containers", lambda reply: reply.containers_statuses.add(id="c"))),
    (SANDBOX, set_("status.linux.namespaces.options.pid", pb.NODE)),
    (SANDBOX, set_("status.linux.namespaces.options.network", pb.CONTAINER)),
    (SANDBOX, ("an empty address", lambda reply: reply.status.network.additional_ips.add())),
    (SANDBOX, put("labels", POD_UID, "another than the metadata's")),
    (SANDBOX, put("labels", "a", "c")),
    (SANDBOX, put("annotations", "c", "c")),
    (CONTAINER, put("labels", CONTAINER_HASH, "i")),
    (CONTAINER, put("annotations", "c", "c")),
    (CONTAINER, ("info", lambda reply: reply.info.update(pid="8"))),
    (CONTAINER, ("mounts", lambda reply: reply.status.mounts.reverse())),
    (CONTAINER, set_("status.user.linux.uid", 7)),
    (CONTAINER, set_("status.resources.linux.oom_score_adj", 7)),
    (CONTAINER, ("resources of which nothing is told", lambda reply: reply.status.resources.linux.SetInParent())),
    (CONTAINER, set_("status.stop_signal", pb.SIGNAL_SIGINT)),
    (CONTAINER, set_("status.image.image", "an image nobody asked for by this name")),
]


@both
@pytest.mark.parametrize(("reply", "change", "counts"), [
    pytest.param(reply, change, counts, id=f"{type(reply).__name__} {name}")
    for counts, cases in ((True, COUNTS), (False, DOES_NOT_COUNT))
    for reply, (name, change) in cases
])  # fmt: skip
def test_what_the_agent_reads_counts_and_nothing_else(
    digester: StatusDigester, reply: Reply, change: Callable[[Reply], object], counts: bool
) -> None:
    changed = type(reply)()
    changed.CopyFrom(reply)
    change(changed)
    assert changed != reply, "the test changes something"
    assert (record(changed) != record(reply)) is counts
    before, after = (digest(digester, r, r.SerializeToString()) for r in (reply, changed))

    assert (before != after) is counts


@both
def test_what_stands_next_to_each_other_is_not_confused(digester: StatusDigester) -> None:
    one = pb.ContainerStatus(annotations={CONTAINER_HASH: "ab", CONTAINER_TERMINATION_PATH: "c"})
    two = pb.ContainerStatus(annotations={CONTAINER_HASH: "a", CONTAINER_TERMINATION_PATH: "bc"})
    three = pb.ContainerStatus(annotations={CONTAINER_HASH: "abc"})
    four = pb.ContainerStatus(reason="ab", message="c")
    five = pb.ContainerStatus(reason="a", message="bc")
    digests = {digester.container(pb.ContainerStatusResponse(status=s).SerializeToString()) for s in (one, two, three)}
    digests |= {digester.container(pb.ContainerStatusResponse(status=s).SerializeToString()) for s in (four, five)}

    assert 5 == len(digests)


@both
def test_of_an_entry_that_stands_twice_the_last_counts_and_one_with_more_than_a_value_is_none(
    digester: StatusDigester,
) -> None:
    def annotated(*values: bytes) -> bytes:
        key = length_delimited(1, CONTAINER_HASH.encode())
        entries = b"".join(length_delimited(13, key + value) for value in values)
        return digester.container(length_delimited(1, entries))

    a, b = length_delimited(2, b"a"), length_delimited(2, b"b")

    assert annotated(b) == annotated(a, b) == annotated(b, a + number(3, 1))
    assert annotated(b) != annotated(b, a)


@both
def test_a_sandbox_and_a_container_are_never_the_same(digester: StatusDigester) -> None:
    assert digester.sandbox(b"") != digester.container(b"")


@pytest.mark.parametrize("backend", ["rust", "python"])
def test_digests_of_different_keys_cannot_be_foretold_from_one_another(backend: str) -> None:
    one, two = (StatusDigester(bytes([n]) * KEY_BYTES, backend) for n in (1, 2))  # type: ignore[arg-type]

    assert one.sandbox(b"") != two.sandbox(b"")


# ---- bytes that are no reply ----


def answer(digester: StatusDigester, name: str, raw: bytes) -> tuple[str, int] | None:
    """What is wrong with a reply and where, or None."""
    try:
        assert 16 == len(getattr(digester, name)(raw))
    except ValueError as error:
        return str(error), error.offset  # type: ignore[attr-defined]
    return None


@pytest.mark.parametrize(("raw", "problem"), [
    (b"\xff", "at byte 0: the reply ends inside a field"),
    (b"\x0a\x05", "at byte 2: the reply ends inside a field"),
    (b"\x08\x01", "at byte 2: a field has the wrong wire type"),
    (b"\x0a\x03\x0a\x01\xff", "at byte 4: a string is not UTF-8"),
    (b"\x0a\x02\x0a\x7f", "at byte 4: the reply ends inside a field"),
    (b"\x0a\x02\x18", "at byte 2: the reply ends inside a field"),
    (b"\x0b", "at byte 1: a field has the wrong wire type"),
    (b"\x00\x00", "at byte 1: a field number is out of range"),
    (b"\x0a\x0c\x18" + b"\xff" * 11, "at byte 3: an integer is longer than ten bytes"),
])  # fmt: skip
@both
@pytest.mark.parametrize(("name", "method"), [("sandbox", "PodSandboxStatus"), ("container", "ContainerStatus")])
def test_a_broken_reply_is_refused_with_the_place(
    name: str, method: str, digester: StatusDigester, raw: bytes, problem: str
) -> None:
    told = answer(digester, name, raw)

    assert f"{method} reply, {problem}" == (told and told[0])
    assert told is not None
    assert int(problem.split()[2][:-1]) == told[1]


@both
def test_a_list_may_be_long_but_not_without_end(digester: StatusDigester) -> None:
    long, longer = (
        length_delimited(1, length_delimited(5, length_delimited(2, b"") * count))
        for count in (ENTRIES_MAX, ENTRIES_MAX + 1)
    )
    assert answer(digester, "sandbox", long) is None
    told = answer(digester, "sandbox", longer)
    assert told is not None
    assert f"at byte {len(longer)}: a list has more than {ENTRIES_MAX} entries" in told[0]


# Fields good and bad, in any order and number, cut off anywhere: a grammar in which mistakes are frequent.
numbers = st.sampled_from([0, 1, 2, 3, 4, 127, 128, 2**31, 2**32, 2**32 + 1, 2**63, 2**64 - 1])
scraps = st.recursive(
    st.sampled_from([b"", b"a", b"b", "ä".encode(), b"\xff", POD_UID.encode()]),
    lambda inner: st.lists(
        st.one_of(
            st.builds(length_delimited, st.integers(1, 19), inner),
            st.builds(length_delimited, st.sampled_from([1, 2]), inner),
            st.builds(number, st.integers(1, 19), numbers),
            st.builds(lambda n, v: varint(n << 3 | 5) + v, st.integers(1, 19), st.binary(min_size=4, max_size=4)),
        ),
        max_size=5,
    ).map(b"".join),
    max_leaves=12,
)
replies = st.builds(length_delimited, st.sampled_from([1, 1, 1, 2]), scraps)
wounds = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**6), st.integers(0, 255)), max_size=3)


def wounded(raw: bytes, wounds: list[tuple[int, int, int]]) -> bytes:
    found = bytearray(raw)
    for how, anywhere, value in wounds:
        place = anywhere % (len(found) + 1)
        if how == 0:
            found.insert(place, value)
        elif how == 1:
            del found[place:]
        elif place < len(found):
            if how == 2:
                found[place] = value
            else:
                del found[place]
    return bytes(found)


@settings(max_examples=examples(150))
@given(replies | sandbox_replies.map(lambda r: r.SerializeToString()), wounds)
def test_both_backends_refuse_the_same_bytes_for_the_same_reason(
    raw: bytes, wounds: list[tuple[int, int, int]]
) -> None:
    raw = wounded(raw, wounds)
    for name in ("sandbox", "container"):
        assert answer(TWIN, name, raw) == answer(RUST, name, raw)


@settings(max_examples=examples(150))
@given(st.lists(replies, min_size=2, max_size=2))
def test_of_odd_replies_that_protobuf_reads_as_well_those_of_one_record_have_one_digest(raws: list[bytes]) -> None:
    for name, type_ in (("sandbox", pb.PodSandboxStatusResponse), ("container", pb.ContainerStatusResponse)):
        if any(answer(RUST, name, raw) for raw in raws):
            continue
        try:
            records = [record(type_.FromString(raw)) for raw in raws]  # type: ignore[attr-defined]
        except ProtobufError:
            continue  # it reads what nobody asked it for
        for digester in (RUST, TWIN):
            one, two = (getattr(digester, name)(raw) for raw in raws)
            assert (records[0] == records[1]) is (one == two)
