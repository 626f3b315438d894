"""The text format of Prometheus.

Prometheus' own library makes an object of each sample and takes fifteen times as long. With the cgroups of a hundred
pods that alone would block the event loop noticeably. (exposition_formats.md of Prometheus, version 0.0.4)

``gauge``, ``counter`` and ``histogram`` format dictionaries and distributions; ``sample`` formats single values.
``in_steps`` makes the text on the event loop, a little at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

import trio

from trikubelet.kit.distribution import Distribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

K = TypeVar("K", bound=str | Sequence[object])
"""A label's value, or the values of all of them."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SAMPLES_PER_STEP_MAX: Final = 500
"""Approximate number of samples formatted between two checkpoints: about a millisecond's work."""
_GO_EXPONENT_MIN, _GO_EXPONENT_MAX = -4, 5
"""Powers of ten within which Go writes a number without an exponent (strconv, format 'g' with as many digits as it
takes)."""
_MS_NS: Final = 1_000_000
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Family(NamedTuple):
    """One metric, or a part of it: a family right after one of the same name continues it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: list[str]


def labels(**values: str) -> str:
    """Return labels without the braces, so that others can be appended."""
    return ",".join([f'{name}="{value.translate(_ESCAPES)}"' for name, value in values.items()])


def sample(name: str, labelled: str, value: float, at_ns: int = 0) -> str:
    """Return one line. ``labelled``: the result of ``labels``, or empty; ``at_ns``: time of the measurement, 0 for
    now."""
    named = f"{name}{{{labelled}}}" if labelled else name
    return f"{named} {value} {at_ns // _MS_NS}\n" if at_ns else f"{named} {value}\n"


def gauge(name: str, help_: str, values: float | Mapping[K, float], *names: str) -> Family:
    """Return the family of a value, or of one for each key; ``names``: of the labels."""
    return Family(name, "gauge", help_, _samples(name, values, names))


def counter(name: str, help_: str, values: float | Mapping[K, float], *names: str) -> Family:
    """Return the same for a value that only grows."""
    return Family(name, "counter", help_, _samples(name, values, names))


def histogram(name: str, help_: str, values: Distribution | Mapping[K, Distribution], *names: str) -> Family:
    """Return the family of a distribution, or of one for each key; ``names``: of the labels."""
    family = Family(name, "histogram", help_, [])
    keyed = [((), values)] if isinstance(values, Distribution) else values.items()
    for key, spread in keyed:
        labelled = _labelled(names, key)
        more = f"{labelled}," if labelled else ""
        for bound, count in spread.buckets:
            family.samples.append(f'{name}_bucket{{{more}le="{_bound(bound)}"}} {count}\n')
        family.samples.append(sample(f"{name}_sum", labelled, spread.sum))
        family.samples.append(sample(f"{name}_count", labelled, spread.count))
    return family


def exposed(families: Iterable[Family]) -> bytes:
    """Return the whole text, without metrics that have no samples. The lines of one family are freed before the next is
    made: those of a hundred pods are megabytes, and allocating these from the kernel takes longer than writing them."""
    text = _Text()
    for one in families:
        text.put(one)
    return text.whole()


async def in_steps(families: Iterable[Family]) -> bytes:
    """Return the same for an iterable that makes each family when it is needed, with a checkpoint every few hundred
    samples."""
    text, samples_since_checkpoint = _Text(), 0
    for one in families:
        text.put(one)
        samples_since_checkpoint += len(one.samples)
        if samples_since_checkpoint >= SAMPLES_PER_STEP_MAX:
            samples_since_checkpoint = 0
            await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()
    return text.whole()


class _Text:
    """Holds the text so far."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._name = ""

    def put(self, one: Family) -> None:
        if one.samples and one.name != self._name:
            self._parts.append(f"# HELP {one.name} {one.help}\n# TYPE {one.name} {one.kind}\n".encode())
            self._name = one.name
        self._parts.append("".join(one.samples).encode())

    def whole(self) -> bytes:
        return b"".join(self._parts)


@cache
def _bound(value: float) -> str:
    """Return a bucket's bound as Go writes it, because dashboards select by it: 1, 0.005, 1.048576e+06."""
    if value == float("inf"):
        return "+Inf"
    _, digits, least = Decimal(repr(float(value))).normalize().as_tuple()
    assert isinstance(least, int), "bounds are finite"
    exponent = len(digits) + least - 1
    if _GO_EXPONENT_MIN <= exponent <= _GO_EXPONENT_MAX:
        return f"{value:.{max(0, -least)}f}"
    return f"{value:.{len(digits) - 1}e}"


def _samples(name: str, values: float | Mapping[K, float], names: Sequence[str]) -> list[str]:
    if isinstance(values, int | float):
        return [sample(name, "", values)]
    return [sample(name, _labelled(names, key), value) for key, value in values.items()]


def _labelled(names: Sequence[str], key: str | Sequence[object]) -> str:
    values = (key,) if isinstance(key, str) else key
    return labels(**{name: _word(value) for name, value in zip(names, values, strict=True)})


def _word(value: object) -> str:
    """Return a label's value as Go writes it: booleans are lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)
