"""Reads text into documents that remember the line of every value.

``parse_documents`` splits a text into its YAML or JSON documents. Each is read by itself, so a broken one does not
affect others; all errors are collected as faults. A document's value is plain JSON-like data (dict, list, str, int,
float, bool, None); ``core.structure`` checks its shape.

A text that begins with ``{`` and a quoted key is JSON, any other YAML with the rules Kubernetes' tools share: YAML 1.1
booleans and octal numbers, no dates, keys are strings.
"""

from __future__ import annotations

import re

from trikubelet.core.document import json_text
from trikubelet.core.document.encoding import UTF_16, as_text, encoding_of
from trikubelet.core.document.record import Document, is_duplicate_key
from trikubelet.model.faults import Fault

__all__ = ["Document", "as_text", "is_duplicate_key", "parse_documents"]

_JSON = re.compile(r"\s*\{\s*[\"}]")
_JSON_NAME = ".json"
_MARKER = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_OTHERS = (
    (b"\x1f\x8b", "this is packed by gzip", "unpack it with gunzip"),
    (b"PK\x03\x04", "this is a zip archive", "unpack it, and take the files out of it"),
    (b"\xff\xfe\0\0", "the text is UTF-32", "save the file as UTF-8"),
    (b"\0\0\xfe\xff", "the text is UTF-32", "save the file as UTF-8"),
)
"""How files begin that users mistake for manifests."""
_LOOKED_AT_BYTES_MAX = 4096
_ONLY_PREAMBLE = re.compile(r"(?:[ \t]*(?:[%#][^\n]*)?(?:\n|\Z))*")


def parse_documents(text: str | bytes, source: str) -> tuple[list[Document], list[Fault]]:
    """Return the documents of a text, in order, and the faults that kept others from being read.

    ``source`` names the text in faults. Empty documents (comments only) are left out; a null is not, because its author
    wrote it. A document with a duplicate key is returned, with the last of the values, together with its fault; one
    with a syntax error is not. Raises nothing.
    """
    octets = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    encoding = encoding_of(octets)
    try:
        text = octets.decode(encoding)
    except UnicodeDecodeError as broken:
        if encoding != UTF_16 and (problem := _why_no_text(octets)) is not None:
            return [], [Fault(source, None, "", *problem)]
        line = as_text(octets[: broken.start]).count("\n") + 1
        name = encoding.upper().removesuffix("-SIG")
        return [], [Fault(source, line, "", f"the text is not {name}", "save the file as UTF-8")]
    documents: list[Document] = []
    faults: list[Fault] = []
    if _JSON.match(text) and not _MARKER.search(text):
        json_text.read(text, source, documents, faults)
    else:
        from trikubelet.core.document import yaml_text  # noqa: PLC0415 - libyaml takes long to load

        aliased = yaml_text.AliasBytes()
        for line, chunk in _chunks(text):
            yaml_text.read(chunk, line, source, documents, faults, aliased)
        if faults and not documents and source.endswith(_JSON_NAME):
            in_json: list[Fault] = []  # a file named as JSON gets the errors of JSON, not of YAML
            json_text.read(text, source, [], in_json)
            faults = in_json or faults
    return documents, faults


def _why_no_text(octets: bytes) -> tuple[str, str] | None:
    """Return why a file is no text of a supported encoding, with the remedy; None if it may be one."""
    for magic, problem, remedy in _OTHERS:
        if octets.startswith(magic):
            return problem, remedy
    if b"\0" in octets[:_LOOKED_AT_BYTES_MAX]:
        return "this is a binary file, no text", "is this the right file?"
    return None


def _chunks(text: str) -> list[tuple[int, str]]:
    """Return the text cut before each ``---`` line, with the number of lines before each piece.

    At the left margin these three characters are always a document marker, even inside quotes or a block of text, so
    the cut is exact. Directives and comments before a marker stay with the document they introduce.
    """
    starts = [0, *(match.start() for match in _MARKER.finditer(text) if match.start())]
    chunks: list[tuple[int, str]] = []
    pending = ""
    line = 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = pending + text[start:end]
        if _ONLY_PREAMBLE.fullmatch(piece):
            pending = piece
            continue
        chunks.append((line, piece))
        line += piece.count("\n")
        pending = ""
    return chunks
