"""Reads YAML from libyaml's events, so that lines are kept and the resources for hostile texts are bounded.

Building values from events rather than from the library's nodes lets this module bound the nesting and the growth
through aliases, and detect duplicate keys. ``parse_documents`` passes one piece between two ``---`` markers at a time.

An alias costs nothing here, because it is the same object again. But later steps write the value out: a pod is encoded,
hashed and checked as if it had no aliases. So aliases are counted as if written out: the values in each document, and
the bytes in all documents of the text, since there may be thousands of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from trikubelet.core.document.record import DEPTH_MAX, PATH_TOO_LONG, Document, duplicate_key, is_path_too_long
from trikubelet.core.document.scalars import key_text, resolve
from trikubelet.core.document.shown import shown
from trikubelet.core.field_path import Place, path_of, place_of
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

ALIASED_NODES_MAX = 10_000
"""The limit of values through aliases in one document; a few lines of aliases of aliases would make billions."""
ALIASED_BYTES_MAX = 4 * 1024 * 1024
"""The limit of bytes through aliases in all documents of one text: the maximum size of a manifest without aliases."""
_VALUE_BYTES = 64
"""The size of a value in addition to its text: about the memory that it takes."""

TAG_CHARS_MAX = 1000
"""The limit for a tag: a shorthand of two letters stands for a text that is written once (%TAG), and is repeated for
each value that has it."""

_STANDARD = "tag:yaml.org,2002:"
_TYPES = {"bool": (bool,), "int": (int,), "float": (int, float), "null": (type(None),)}
_MERGE = "<<"
_TEMPLATE = re.compile(r"""[^'"#]*\{\{""")


class _Broken(Exception):
    """A document, or one value, that cannot be kept, with the place and line (counted from 0) of the reason. Caught in
    ``read``, and in ``_Reader``."""

    def __init__(self, problem: str, place: Place, line: int, remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.place = place
        self.line = line
        self.remedy = remedy

    def fault(self, source: str, lines_before: int) -> Fault:
        return Fault(source, lines_before + self.line + 1, path_of(self.place), self.problem, self.remedy)


class _Size(NamedTuple):
    """The size of a value if it were written out: the number of values in it, and bytes (a character counts as one)."""

    values: int
    octets: int

    def __add__(self, other: _Size) -> _Size:  # type: ignore[override]  # a tuple's would be a longer tuple
        return _Size(self.values + other.values, self.octets + other.octets)


class AliasBytes:
    """Owns the number of bytes that aliases have added to the documents of one text so far."""

    def __init__(self) -> None:
        self.octets = 0


class _Anchored(NamedTuple):
    """An anchored value with its size, and the unreadable values in it, which are unreadable at each alias too: their
    places within it, with the problem and the remedy."""

    read: tuple[object, _Size]
    unread: list[tuple[Place, str, str]]


def read(
    text: str, lines_before: int, source: str, documents: list[Document], faults: list[Fault], aliased: AliasBytes
) -> None:
    """Add the documents and faults of a text that begins after ``lines_before`` lines of its source to the lists, and
    the bytes of their aliases to ``aliased``."""
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                _read_document(events, lines_before, source, documents, faults, aliased)
    except _Broken as wrong:
        template = _template_fault(text, wrong.line, lines_before, source)
        faults.append(template or wrong.fault(source, lines_before))
    except yaml.MarkedYAMLError as wrong:
        faults.append(_syntax_fault(wrong, text, lines_before, source))
    except yaml.reader.ReaderError as wrong:
        line = lines_before + text.encode()[: wrong.position].count(b"\n") + 1
        problem = f"this is not YAML: the character U+{wrong.character:04X} may not stand in a text"
        faults.append(Fault(source, line, "", problem, "remove it, or write it as an escape in double quotes"))


def _read_document(
    events: Iterator[yaml.Event],
    lines_before: int,
    source: str,
    documents: list[Document],
    faults: list[Fault],
    aliased: AliasBytes,
) -> None:
    reader = _Reader(events, lines_before, aliased.octets)
    first = next(events)
    reader.lines[()] = lines_before + _line(first) + 1
    value, _ = reader.value(first, ())
    next(events)  # the document's end: a syntax error after the value is raised here, before the value is kept
    doubles = [duplicate_key(source, *double) for double in reader.duplicates]
    if value is not None or (_is_written(first) and not reader.unread):
        aliased.octets += reader.aliased.octets  # a broken document is not kept, so it does not count
        doubted = frozenset(place_of(double.path) for double in doubles)
        unread = frozenset(place_of(path_of(one.place)) for one in reader.unread)
        documents.append(Document(value, source, len(documents), reader.lines, doubted, unread, reader.written))
    faults += doubles
    faults += [one.fault(source, lines_before) for one in reader.unread]


def _syntax_fault(wrong: yaml.MarkedYAMLError, text: str, lines_before: int, source: str) -> Fault:
    mark = wrong.problem_mark or wrong.context_mark
    # An unclosed quote or bracket is only detected after the last line, where the user would not search.
    line = min(mark.line if mark is not None else 0, text.rstrip().count("\n"))
    if (template := _template_fault(text, line, lines_before, source)) is not None:
        return template
    content = text.split("\n")[line]
    indent = content[: len(content) - len(content.lstrip())]
    remedy = "indent with spaces, not tabs" if "\t" in indent else "check the indentation, quotes and colons here"
    context = f" {wrong.context}" if wrong.context else ""
    problem = f"this is not YAML: {wrong.problem}{context}"
    return Fault(source, lines_before + line + 1, "", problem, remedy)


def _template_fault(text: str, line: int, lines_before: int, source: str) -> Fault | None:
    """Return the fault of a template for a program such as Helm, if the line with the error (from 0), or one just
    above, has its braces outside of quotes."""
    lines = text.split("\n")
    first = next((n for n in range(max(0, line - 2), line + 1) if _TEMPLATE.match(lines[n])), None)
    if first is None:
        return None
    problem = "this is a template and no YAML yet: {{ … }} is for Helm, or a program like it, to replace"
    return Fault(source, lines_before + first + 1, "", problem, "render it first, as `helm template` does")


class _Reader:
    """The reading of one document. A value comes with its size, aliases counted in full."""

    def __init__(self, events: Iterator[yaml.Event], lines_before: int, octets_before: int) -> None:
        """``octets_before``: the bytes of aliases in the documents before this one."""
        self._events = events
        self._lines_before = lines_before
        self._anchors: dict[str, _Anchored | None] = {}
        self._octets_before = octets_before
        self.aliased = _Size(0, 0)
        self.lines: dict[Place, int] = {}
        self.written: dict[Place, str] = {}
        """The texts of values that YAML converts."""
        self.duplicates: list[tuple[Place, int, int]] = []
        self.unread: list[_Broken] = []
        """Faults of single values that do not affect their neighbours."""

    def value(self, event: Any, place: Place) -> tuple[object, _Size]:
        """Return the value that begins with ``event``. A member of an object has the line of its key."""
        line = _line(event)
        if len(place) > DEPTH_MAX:
            raise _Broken(f"the document is nested deeper than {DEPTH_MAX} levels", (), line)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, place)
        self._check_tag(event, place)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        unread_before = len(self.unread)
        read: tuple[object, _Size]
        if isinstance(event, yaml.ScalarEvent):
            read = self._plain(event, place), _size(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            read = self._sequence(place)
        else:
            read = self._mapping(place)
        if event.anchor is not None:
            lost = [(one.place[len(place) :], one.problem, one.remedy) for one in self.unread[unread_before:]]
            self._anchors[event.anchor] = _Anchored(read, lost)
        return read

    def _check_tag(self, event: Any, place: Place) -> None:
        if len(event.tag or "") > TAG_CHARS_MAX:
            raise _Broken(f"a tag of more than {TAG_CHARS_MAX} characters", place, _line(event), "remove it")

    def _plain(self, event: yaml.ScalarEvent, place: Place) -> object:
        try:
            value = _scalar(event, place)
        except _Broken as wrong:
            self.unread.append(wrong)
            return None
        if isinstance(value, (bool, int, float)) and event.value != shown(value):
            self.written[place] = event.value
        return value

    def _alias(self, event: yaml.AliasEvent, place: Place) -> tuple[object, _Size]:
        line = _line(event)
        name = event.anchor
        if name not in self._anchors:
            raise _Broken(f"the alias *{name} names nothing", place, line, f"write &{name} before the value it names")
        known = self._anchors[name]
        if known is None:
            raise _Broken(f"the alias *{name} is inside the value it names", place, line, "write it out")
        self.aliased += known.read[1]
        if self.aliased.values > ALIASED_NODES_MAX:
            problem = f"aliases bring more than {ALIASED_NODES_MAX} values into this document"
            raise _Broken(problem, place, line, "write it out, or split it")
        if self._octets_before + self.aliased.octets > ALIASED_BYTES_MAX:
            problem = f"aliases bring more than {ALIASED_BYTES_MAX} bytes into this text"
            raise _Broken(problem, place, line, "take up long texts less often, or split the file")
        self.unread += [_Broken(problem, (*place, *inner), line, remedy) for inner, problem, remedy in known.unread]
        return known.read

    def _sequence(self, place: Place) -> tuple[object, _Size]:
        items: list[object] = []
        size = _Size(1, _VALUE_BYTES)
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            inner = (*place, str(len(items)))
            self.lines[inner] = self._lines_before + _line(event) + 1
            item, item_size = self.value(event, inner)
            items.append(item)
            size += item_size
        return items, size

    def _mapping(self, place: Place) -> tuple[object, _Size]:
        found: dict[str, object] = {}
        merged: list[dict[str, object]] = []
        size = _Size(1, _VALUE_BYTES)
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = self._lines_before + _line(event) + 1
            if _is_merge(event):
                self.lines[(*place, _MERGE)] = line
                value, value_size = self.value(next(self._events), (*place, _MERGE))
                merged += _merged_maps(value, (*place, _MERGE), _line(event))
                size += value_size
                continue
            key = self._key(event, place)
            inner = (*place, key)
            if is_path_too_long(inner):
                raise _Broken(PATH_TOO_LONG, place, _line(event), "shorten it")
            if key in found:
                self.duplicates.append((inner, self.lines[inner], line))
            self.lines[inner] = line
            found[key], value_size = self.value(next(self._events), inner)
            size += value_size + _Size(0, len(key))
        for other in merged:
            for key, value in other.items():
                found.setdefault(key, value)
        return found, size

    def _key(self, event: Any, place: Place) -> str:
        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            value, _ = self._alias(event, place)
        elif isinstance(event, yaml.ScalarEvent):
            self._check_tag(event, place)
            value = _scalar(event, place)
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchored((value, _size(event)), [])
        else:
            value = ()
        if isinstance(value, (list, dict, tuple)):
            raise _Broken("a key must be a plain word, not a list or an object", place, line, "quote braces in values")
        try:
            return key_text(value)
        except ValueError as wrong:
            raise _Broken(str(wrong), place, line, "write a word before the colon") from None


def _line(event: yaml.Event) -> int:
    """Return the line where an event begins, from 0."""
    assert event.start_mark is not None
    return event.start_mark.line


def _is_written(event: yaml.Event) -> bool:
    """True if the value was written. For comments only, libyaml returns an empty value."""
    return not isinstance(event, yaml.ScalarEvent) or bool(event.value or event.tag)


def _size(event: yaml.ScalarEvent) -> _Size:
    return _Size(1, _VALUE_BYTES + len(event.value) + len(event.tag or ""))  # a fault quotes the tag


def _is_merge(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.value == _MERGE and event.implicit[0]


def _merged_maps(value: object, place: Place, line: int) -> list[dict[str, object]]:
    """Return the objects that ``<<`` merges; the first one with a key wins."""
    several = value if isinstance(value, list) else [value]
    maps = [one for one in several if isinstance(one, dict)]
    if len(maps) != len(several):
        raise _Broken("<< merges objects, and this is not one", place, line, "give it an alias of an object")
    return maps


def _scalar(event: yaml.ScalarEvent, place: Place) -> object:
    text: str = event.value
    line = _line(event)
    tag: str | None = event.tag
    if tag is None:
        plain = event.implicit[0]
    elif tag in {"!", _STANDARD + "str"}:
        return text
    else:
        plain = True
    if not plain:
        return text
    try:
        value = resolve(text)
    except ValueError as wrong:
        raise _Broken(str(wrong), place, line, "quote it if it is text") from None
    if tag is None:
        return value
    kind = tag.removeprefix(_STANDARD)
    if kind not in _TYPES:
        raise _Broken(f"the tag {tag} means nothing here", place, line, "remove it")
    if type(value) not in _TYPES[kind]:
        raise _Broken(f"{text!r} is not what its tag {kind} says", place, line, "remove the tag")
    return value
