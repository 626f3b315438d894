"""Digests of status replies in plain Python: the oracle of the compiled ones, and their fallback without a binary.

A table lists the fields of a reply that are read; they become a tuple of plain values, equal for equal records, and the
tuple's text is hashed. Every rule here must hold in ``rust/relist/src/statuses.rs``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, TypeAlias, Union

from trikubelet.core.names import CONTAINER_HASH, CONTAINER_TERMINATION_PATH, POD_UID
from trikubelet.core.wire_twin import Fault, Field, fields, inside, signed, text, unsigned

ENTRIES_MAX = 1 << 17
READY, NODE, UNKNOWN = 0, 2, 3

Values: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[bytes, Field, Values], None]
Layout: TypeAlias = dict[int, Union[Read, "Layout"]]
"""The fields of a message by number: a value to read, or a message inside it."""


class StatusDigester:
    """See ``core.statuses.StatusDigester``."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sandbox(self, reply: bytes) -> bytes:
        """See ``core.statuses.StatusDigester.sandbox``."""
        return self._digest("PodSandboxStatus", _read(reply, "PodSandboxStatus", _SANDBOX, _sandbox))

    def container(self, reply: bytes) -> bytes:
        """See ``core.statuses.StatusDigester.container``."""
        return self._digest("ContainerStatus", _read(reply, "ContainerStatus", _CONTAINER, _container))

    def _digest(self, *values: object) -> bytes:
        return blake2b(repr(values).encode(), digest_size=16, key=self._key).digest()


def _read(reply: bytes, method: str, layout: Layout, form: Callable[[Values], object]) -> object:
    values: Values = {}
    try:
        _walk(reply, fields(reply, 0, len(reply)), {1: layout}, values)
    except Fault as fault:
        raise fault.located(f"{method} reply") from None
    return form(values)


def _walk(data: bytes, message: Iterable[Field], layout: Layout, values: Values) -> None:
    """Read a message. A repeated submessage is merged, as all parts go to the same place; the last of a value wins."""
    for entry in message:
        what = layout.get(entry.number)
        if isinstance(what, dict):
            _walk(data, inside(data, entry), what, values)
        elif what is not None:
            what(data, entry, values)


# ---- what can stand in a message ----


def _text(name: str) -> Read:
    def read(data: bytes, entry: Field, values: Values) -> None:
        values[name] = text(data, entry)

    return read


def _number(name: str) -> Read:
    def read(data: bytes, entry: Field, values: Values) -> None:
        values[name] = unsigned(entry)

    return read


def _signed(name: str) -> Read:
    def read(data: bytes, entry: Field, values: Values) -> None:
        values[name] = signed(entry)

    return read


def _one_of(names: Mapping[str, str]) -> Read:
    """Read an entry of a map, if it has one of these keys. An entry with further fields does not count: the adapter's
    protobuf library ignores it."""

    def read(data: bytes, entry: Field, values: Values) -> None:
        numbers: set[int] = set()
        pair = ["", ""]
        for part in inside(data, entry):
            numbers.add(part.number)
            if part.number in (1, 2):
                pair[part.number - 1] = text(data, part)
        if numbers <= {1, 2} and pair[0] in names:
            values[names[pair[0]]] = pair[1]

    return read


def _more_ips(data: bytes, entry: Field, values: Values) -> None:
    one: Values = {}
    _walk(data, inside(data, entry), {1: _text("ip")}, one)
    ips = values.setdefault("more_ips", [])
    if len(ips) == ENTRIES_MAX:
        raise Fault(entry.end, f"a list has more than {ENTRIES_MAX} entries")
    ips.append(one.get("ip", ""))


# ---- PodSandboxStatus ----

_SANDBOX: Layout = {
    1: _text("id"),
    2: {1: _text("name"), 2: _text("uid"), 3: _text("namespace"), 4: _number("attempt")},
    3: _number("state"),
    4: _signed("created_at"),
    5: {1: _text("ip"), 2: _more_ips},
    6: {1: {2: {1: _number("network")}}},
    7: _one_of({POD_UID: "label_uid"}),
    9: _text("runtime_handler"),
}


def _sandbox(values: Values) -> object:
    ips = [values.get("ip", ""), *values.get("more_ips", ())]
    return (
        [values.get(name, "") for name in ("id", "name", "namespace", "runtime_handler")],
        values.get("uid") or values.get("label_uid", ""),
        values.get("attempt", 0),
        values.get("state", READY) == READY,
        values.get("created_at", 0),
        [ip for ip in ips if ip],
        values.get("network") == NODE,
    )


# ---- ContainerStatus ----

_CONTAINER: Layout = {
    1: _text("id"),
    2: {1: _text("name"), 2: _number("attempt")},
    3: _number("state"),
    4: _signed("created_at"),
    5: _signed("started_at"),
    6: _signed("finished_at"),
    7: _number("exit_code"),
    8: {1: _text("image"), 18: _text("user_specified_image")},
    9: _text("image_ref"),
    10: _text("reason"),
    11: _text("message"),
    13: _one_of({CONTAINER_HASH: "hash", CONTAINER_TERMINATION_PATH: "termination_path"}),
    15: _text("log_path"),
    16: {1: {1: _signed("cpu_period"), 2: _signed("cpu_quota"), 3: _signed("cpu_shares"), 4: _signed("memory_limit")}},
    17: _text("image_id"),
}


def _container(values: Values) -> object:
    return (
        [values.get(name, "") for name in ("id", "name", "image_ref", "reason", "message", "log_path")],
        [values.get(name, "") for name in ("hash", "termination_path")],
        values.get("user_specified_image") or values.get("image", ""),
        values.get("image_id") or values.get("image_ref", ""),
        [values.get(name, 0) for name in ("attempt", "created_at", "started_at", "finished_at", "exit_code")],
        min(values.get("state", 0), UNKNOWN),
        [values.get(name, 0) for name in ("cpu_period", "cpu_quota", "cpu_shares", "memory_limit")],
    )
