"""Cuts what an API server sends into items without decoding them: objects, pages of lists, events of a watch.

Whatever it sends, nothing but an ``ApiError`` comes of it: msgspec's errors are ValueErrors, as is Python's for bytes
that are no UTF-8, and nesting without end is a RecursionError.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trikubelet.core.resource_version import is_older
from trikubelet.kube.errors import Status, error_of_status
from trikubelet.model.api import Change, ChangeKind, Item, Page
from trikubelet.model.api_errors import ApiFailure

_VERSION_MAX: Final = str(2**64 - 1)
_CHARS_MAX: Final = 50
"""Length of a version, as shown to people."""
_INITIAL_END: Final = "k8s.io/initial-events-end"


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata
    kind: str = ""
    message: str = ""


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str


class _BookmarkMetadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct, frozen=True):
    metadata: _BookmarkMetadata


class _ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMetadata
    kind: str = ""
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_OBJECTS: Final = msgspec.json.Decoder(_Object)
_VERSIONS: Final = msgspec.json.Decoder(_Version)
_BOOKMARKS: Final = msgspec.json.Decoder(_Bookmark)
_LISTS: Final = msgspec.json.Decoder(_List)
_EVENTS: Final = msgspec.json.Decoder(_Event)
_STATUSES: Final = msgspec.json.Decoder(Status)


def version_of(text: bytes | bytearray) -> str:
    """The version that a server states at ``/version``. Raises ApiFailure for anything else."""
    try:
        found = _VERSIONS.decode(text)
    except (ValueError, RecursionError) as error:
        raise ApiFailure(f"the server's answer is not a version: {error}") from error
    return found.git_version[:_CHARS_MAX]


def item_of(text: bytes | bytearray | msgspec.Raw) -> Item:
    """One object. Raises ApiFailure for anything else."""
    try:
        found = _OBJECTS.decode(text)
    except (ValueError, RecursionError) as error:
        raise ApiFailure(f"the server's answer is not an object: {error}") from error
    if found.kind == "Status":  # which has metadata, too
        raise ApiFailure(f"the server's answer is not an object: it is a Status: {found.message}")
    metadata = found.metadata
    version = _possible(metadata.resource_version)
    return Item(metadata.namespace, metadata.name, metadata.uid, version, bytes(text))


def page_of(text: bytes | bytearray) -> Page:
    """Part of a list, whose items are copied out one at a time: a node's pods are one page of many megabytes. Raises
    ApiFailure for anything else: by a list that says nothing every pod of the node is gone, so what may be no list, as
    the Status of a proxy, must not pass for an empty one. A server's lists always have their kind and a version."""
    try:
        page = _LISTS.decode(text)
    except (ValueError, RecursionError) as error:
        raise ApiFailure(f"the server's answer is not a list: {error}") from error
    version = _possible(page.metadata.resource_version)
    if not version or not page.kind.endswith("List"):
        what = f"a {page.kind}" if page.kind else "of no kind"
        raise ApiFailure(f"the server's answer is not a list: it is {what} and has {'a' if version else 'no'} version")
    return Page(map(item_of, page.items or ()), version, page.metadata.continue_token)


def change_of(line: bytes) -> Change:
    """One event of a watch. Raises what the server says instead of a change, as Expired, and ApiFailure for what is
    none."""
    try:
        event = _EVENTS.decode(line)
        if event.type == "ERROR":
            raise error_of_status(_STATUSES.decode(event.object))
        kind = ChangeKind(event.type)
        initial_end = False
        if kind is ChangeKind.BOOKMARK:
            initial_end = (_BOOKMARKS.decode(event.object).metadata.annotations or {}).get(_INITIAL_END) == "true"
    except (ValueError, RecursionError) as error:
        raise ApiFailure(f"the server's watch says what is no change: {error}") from error
    item = item_of(event.object)
    if not item.resource_version:
        raise ApiFailure("the server's watch says what has no version")
    return Change(kind, item, initial_end)


def _possible(version: str) -> str:
    """Return the version, which no etcd and no API server has with more than 64 bits: a client that believed a larger
    one would take every true one for older. Raises ApiFailure."""
    if is_older(_VERSION_MAX, version):
        raise ApiFailure(f"the server's answer has an impossible version: {version[:_CHARS_MAX]}")
    return version
