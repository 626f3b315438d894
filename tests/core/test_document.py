"""Reading documents: values, lines, several in one text, and everything hostile or careless."""

import json
from collections.abc import Callable

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from trikubelet.core.document import Document, parse_documents
from trikubelet.core.document.record import DEPTH_MAX
from trikubelet.core.field_path import item_path, member_path, path_of, place_of

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
)

LONG = "x" * 100_000


def one(text: str | bytes) -> Document:
    documents, faults = parse_documents(text, "f")
    assert [] == faults
    (document,) = documents
    return document


def faults_of(text: str | bytes) -> list[str]:
    return [str(fault) for fault in parse_documents(text, "f")[1]]


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), VALUES, min_size=1), st.sampled_from([None, 1, 4]))
def test_json_is_read_as_the_standard_reader_reads_it(value: dict[str, object], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)

    assert json.loads(text) == one(text).value


PLAIN = st.characters(min_codepoint=0x20, max_codepoint=0x7E)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(PLAIN),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(PLAIN, min_size=1), inner, max_size=4),
)


@given(st.dictionaries(st.text(PLAIN, min_size=1), TREES, min_size=1), st.booleans())
def test_yaml_that_was_written_is_read_back(value: dict[str, object], flow: bool) -> None:
    # Everything is quoted, and what is not text is tagged, so nothing hangs on how plain words are read.
    text = yaml.safe_dump(value, default_flow_style=flow, default_style='"', explicit_start=True)

    assert value == one(text).value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("On", True), ("y", True), ("NO", False), ("off", False), ("n", False), ("true", True),
        ("yEs", "yEs"), ("~", None), ("", None), ("null", None), ("'yes'", "yes"), ('"1"', "1"), ("nil", "nil"),
        ("0644", 420), ("0o644", 420), ("0x1F", 31), ("0b11", 3), ("-0x1", -1), ("+5", 5), ("1_000", 1000),
        ("08", 8), ("1.0", 1), ("1.5", 1.5), (".5", 0.5), ("1e3", 1000), ("-1", -1), ("1:30", "1:30"),
        ("2020-01-02", "2020-01-02"), ("2020-01-02T03:04:05Z", "2020-01-02T03:04:05Z"), ("0.1.2", "0.1.2"),
        ("!!str 5", "5"), ("! 5", "5"), ("!!int 5", 5), ("!!float 5", 5), ("100m", "100m"), ("1Gi", "1Gi"),
        ("1" * 401, "1" * 401), ("[yes, {a: 0644}]", [True, {"a": 420}]),
    ],
)  # fmt: skip
def test_plain_words_mean_what_they_mean_to_kubernetes_tools(text: str, value: object) -> None:
    read = one(f"key: {text}\n").value

    assert {"key": value} == read
    assert isinstance(read, dict)
    assert type(value) is type(read["key"])


def test_keys_become_strings() -> None:
    assert {"1": "a", "true": "b", "1.5": "c"} == one("1: a\nyes: b\n1.5: c\n").value


def test_each_field_knows_its_line() -> None:
    yaml_document = one("# a comment\nspec:\n  containers:\n  - name: a\n    image:\n      b\n  - {name: c}\n")
    json_document = one('{\n "spec":\n  {"containers": [\n {"name": "a",\n"image":\n"b"},\n{"name": "c"}]}}')

    for document in (yaml_document, json_document):
        assert 2 == document.line("spec")
        assert 4 == document.line("spec.containers[0].name")
        assert 5 == document.line("spec.containers[0].image")
        assert 7 == document.line("spec.containers[1].name")
        assert 7 == document.line("spec.containers[1].missing.deeper")


def test_keys_with_dots_are_found_in_brackets() -> None:
    document = one("metadata:\n  annotations:\n    a.b/c: x\n    plain: y\n")

    assert 3 == document.line("metadata.annotations[a.b/c]")
    assert 4 == document.line("metadata.annotations[plain]")
    assert 4 == document.line("metadata.annotations.plain")


@given(st.lists(st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,5}|[0-9]{1,2}|[a-z./-]{1,8}", fullmatch=True), max_size=5))
def test_a_place_survives_being_written_as_a_path(steps: list[str]) -> None:
    assert tuple(steps) == place_of(path_of(tuple(steps)))


def test_paths_are_written_as_kubernetes_writes_them() -> None:
    path = member_path(member_path(item_path(member_path("spec", "containers"), 0), "resources"), "limits")

    assert "spec.containers[0].resources.limits[cpu]" == item_path(path, "cpu")


def test_a_broken_document_costs_only_itself() -> None:
    documents, faults = parse_documents("a: 1\n---\nb: [1,\n---\nc: 3\n---\n# nothing\n---\nd: 'x\n", "f")

    assert [{"a": 1}, {"c": 3}] == [document.value for document in documents]
    assert [0, 1] == [document.index for document in documents]
    assert [("f", 3), ("f", 9)] == [(fault.source, fault.line) for fault in faults]


@pytest.mark.parametrize("text", ["null", "~", "# x\nnull # y\n", "---\n!!null ''\n"])
def test_explicit_null_is_a_document(text: str) -> None:
    documents, faults = parse_documents(f"{text}\n---\n# nothing\n---\n", "f")

    assert ([None], []) == ([document.value for document in documents], faults)


def test_directives_stay_with_the_document_they_introduce() -> None:
    document = one("# hello\n%YAML 1.1\n# more\n---\na: 1\n")

    assert 5 == document.line("a")


def test_markers_inside_quotes_and_blocks_cut_only_at_the_margin() -> None:
    assert {"a": "--- x\n", "b": "---"} == one('a: |\n  --- x\nb: "---"\n').value


def test_lines_count_on_across_documents() -> None:
    documents, _ = parse_documents("a: 1\n---\nb: 2\n--- {c: 3}\n---\n\nd: 4\n...\n---\ne: 5\n", "f")

    assert [1, 3, 4, 7, 10] == [document.line(key) for document, key in zip(documents, "abcde", strict=True)]


def test_json_values_may_follow_one_another() -> None:
    documents, faults = parse_documents('{"a": 1}\n{"b": 2}\n', "f")

    assert [({"a": 1}, 1), ({"b": 2}, 2)] == [(document.value, document.lines[()]) for document in documents]
    assert [] == faults


def test_json_documents_may_be_separated_by_markers() -> None:
    documents, _ = parse_documents('{"a": 1}\n---\n{"b": 2}\n', "f")

    assert [{"a": 1}, {"b": 2}] == [document.value for document in documents]


@pytest.mark.parametrize("text", ["a: 1\nb:\n  c: 2\n  c: 3\n", '{"a": 1, "b":\n\n{"c": 2,\n"c": 3}}'])
def test_a_duplicate_key_is_a_fault_and_the_last_value_holds(text: str) -> None:
    documents, faults = parse_documents(text, "f")

    assert {"a": 1, "b": {"c": 3}} == documents[0].value
    assert 4 == documents[0].line("b.c")
    assert ["f:4: b.c: the key is given twice, first in line 3 (remove one of the two)"] == [str(x) for x in faults]


def test_merging_objects_gives_way_to_what_is_written_out() -> None:
    text = "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz:\n  <<: [*x, *y]\n  a: 0\n"

    assert {"a": 0, "b": 2, "c": 4} == one(text).value["z"]  # type: ignore[index]  # the value is an object


def test_aliases_are_bounded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]

    (fault,) = faults_of("\n".join(lines))
    assert "f:4: a3[7]" in fault
    assert "aliases bring more than 10000 values" in fault


LONG_AND_ALIASES = [
    (f"a: &a {LONG}\nb: [{', '.join(['*a'] * 50)}]\n", 2, 0),
    (f"a: &a {{b: {LONG}}}\n" + "".join(f"b{n}: *a\n" for n in range(50)), 43, 0),
    (f"a: &a {{{'x' * 900} : 1}}\nb: [{', '.join(['*a'] * 4500)}]\n", 2, 0),
    (f"a: &a {{b: {LONG}}}\n" + "".join(f"b{n}: {{<<: *a}}\n" for n in range(50)), 43, 0),
    (f"a: &a {'x' * 900}\nb: [{', '.join(['{*a : 1}'] * 4500)}]\n", 2, 0),
    (f"? &a {'x' * 900}\n: [{', '.join(['*a'] * 4500)}]\n", 2, 0),
    (f"a: &a {{{'c: !' + 'x' * 900 + ' b, '}}}\nb: [{', '.join(['*a'] * 5000)}]\n", 2, 0),
    ((f"a: &a {LONG}\nb: [{', '.join(['*a'] * 10)}]\n---\n") * 5, 14, 4),
    ((f"a: &a x\nb: [{', '.join(['*a'] * 9_999)}]\n---\n") * 7, 20, 6),
]
"""Texts where aliases bring too much: the line of the alias that does, and how many documents come before it."""


@pytest.mark.parametrize(("text", "line", "before"), LONG_AND_ALIASES, ids=range(len(LONG_AND_ALIASES)))
def test_aliases_bring_no_more_than_a_file_may_have(text: str, line: int, before: int) -> None:
    documents, (fault,) = parse_documents(text, "f")

    assert before == len(documents)
    assert line == fault.line
    assert "aliases bring more than 4194304 bytes into this text" == fault.problem
    assert "take up long texts less often, or split the file" == fault.remedy


def test_what_aliases_bring_into_a_broken_document_is_taken_from_no_other() -> None:
    brought = f"a: &a {LONG}\nb: [{', '.join(['*a'] * 40)}]\n"
    documents, faults = parse_documents(f"{brought}c: *d\n---\n{brought}", "f")

    assert [41] == [len(document.lines) - 2 for document in documents]
    assert ["the alias *d names nothing"] == [fault.problem for fault in faults]


@pytest.mark.parametrize("make", [lambda n: "[" * n + "]" * n, lambda n: '{"a":' * n + "1" + "}" * n])
def test_depth_is_bounded(make: Callable[[int], str]) -> None:
    for levels in (DEPTH_MAX * 2, DEPTH_MAX * 500):
        (fault,) = faults_of(make(levels))
        assert f"nested deeper than {DEPTH_MAX} levels" in fault


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a:\n\t- b\n", 2, "indent with spaces, not tabs"),
        ("a: b: c\n", 1, "this is not YAML"),
        ("a: 'x\n\n\n", 1, "this is not YAML"),
        ("a: *b\n", 1, "the alias *b names nothing"),
        ("a: &b [*b]\n", 1, "is inside the value it names"),
        ("a: 1\nb: .inf\n", 2, "b: .inf is not a number"),
        ("b: 1e999\n", 1, "larger than any number"),
        ("a: !foo b\n", 1, "the tag !foo means nothing here"),
        ("a: !!int b\n", 1, "is not what its tag int says"),
        ("[a]: b\n", 1, "a key must be a plain word"),
        ("~: b\n", 1, "a key cannot be null"),
        ("<<: 5\n", 1, "<< merges objects"),
        ("a: b\nc: \x01\n", 2, "the character U+0001"),
        (b"a: b\nc: \xff\n", 2, "the text is not UTF-8"),
        ("a: 1\nb: {{ .Values.b }}\n", 2, "this is a template and no YAML yet"),
        ("a: {{ .Values.a }}:{{ .Values.b }}\n", 1, "this is a template and no YAML yet"),
        ("a:\n  {{- if .Values.a }}\n  b: 1\n  {{- end }}\n", 2, "this is a template and no YAML yet"),
        ("{{- if .Values.a }}\na: 1\n{{- end }}\n", 1, "this is a template and no YAML yet"),
        ('a:\n{{ include "x" . | nindent 2 }}\n', 2, "this is a template and no YAML yet"),
        ("t: |\n  {{ .Values.a }}\n  b\n  c\n  d\na: b: c\n", 6, "this is not YAML"),
        ("a: '{{ b }}': c\n", 1, "this is not YAML"),
        ("a: b: c # {{ no template }}\n", 1, "this is not YAML"),
        (f"a:\n  {'b' * 600}:\n    {'c' * 400}: 1\n", 3, "this key and those around it have more than 1000"),
        (
            f"a: &a {LONG}\nb:\n  *a : 1\n",
            3,
            "this key and those around it have more than 1000 characters (shorten it)",
        ),
        (f"a: 1\nb: !{LONG} c\n", 2, "a tag of more than 1000 characters (remove it)"),
        (f"%TAG !a! tag:{LONG}\n---\na: [!a!b c, !a!b c]\n", 3, "a tag of more than 1000 characters"),
        (f"a: [!{LONG} [b]]\n", 1, "a tag of more than 1000 characters"),
        (f"%TAG !a! tag:{LONG}\n---\na: 1\n!a!b b: 1\n", 4, "a tag of more than 1000 characters"),
        (f'{{"a":\n{{"{LONG}": 1}}}}', 2, "this key and those around it have more than 1000"),
        ('{"a": 1,}', 1, "'}' where a key in double quotes should stand"),
        ('{"a": 1\n"b": 2}', 2, """'"' where "," or "}" should stand"""),
        ('{"a":\n tru}', 2, "'t' where a value should stand"),
        ('{"a": [1\n', 2, "the text ends where"),
        ('{"a": "x\ny"}', 1, "this is not JSON: invalid control character"),
        ('{"a": 1e999}', 1, "a: 1e999 is larger than any"),
        ('{"a": ' + "1" * 500 + "}", 1, "a number of more than 400 characters"),
        ('{"a": 1} nonsense', 1, "this is not JSON"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str | bytes, line: int, words: str) -> None:
    (fault,) = faults_of(text)

    assert fault.startswith(f"f:{line}: ")
    assert words in fault


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x1f\x8b\x08\x00\xff", "f: this is packed by gzip (unpack it with gunzip)"),
        (b"PK\x03\x04\xff", "f: this is a zip archive (unpack it, and take the files out of it)"),
        (b"\x7fELF\x02\x00\xff", "f: this is a binary file, no text (is this the right file?)"),
        ("a: b".encode("utf-32"), "f: the text is UTF-32 (save the file as UTF-8)"),
        (b"\0\0\xfe\xff" + "a: b".encode("utf-32-be"), "f: the text is UTF-32 (save the file as UTF-8)"),
    ],
)
def test_a_file_that_is_no_text_is_named(content: bytes, expected: str) -> None:
    assert [expected] == faults_of(content)


@pytest.mark.parametrize("written", ["a: é\n---\nb: [😀]\n", '{"a": "é"}'])
@pytest.mark.parametrize(("mark", "encoding"), [(b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")])
def test_utf_16_with_a_byte_order_mark_is_read(written: str, mark: bytes, encoding: str) -> None:
    read, faults = parse_documents(mark + written.encode(encoding), "f")
    expected, _ = parse_documents(written, "f")

    assert ([], [one.value for one in expected]) == (faults, [one.value for one in read])


@pytest.mark.parametrize("end", [b"\x62", "\ud800".encode("utf-16-le", "surrogatepass")])
def test_broken_utf_16_is_reported_with_its_line(end: bytes) -> None:
    octets = b"\xff\xfe" + "a: b\nc: ".encode("utf-16-le") + end

    assert ["f:2: the text is not UTF-16 (save the file as UTF-8)"] == faults_of(octets)


@pytest.mark.parametrize(
    "text", ["a: .nan\nb: [1, .inf]\nc: 3\nd: !foo 4\n", '{"a": 1e999,\n"b": [1, 1e999],\n"c": 3,\n"d": -1e999}\n']
)
def test_a_value_that_cannot_be_hides_nothing_of_what_stands_beside_it(text: str) -> None:
    (document,), faults = parse_documents(text, "f")

    assert {"a": None, "b": [1, None], "c": 3, "d": None} == document.value
    assert [(1, "a"), (2, "b[1]"), (4, "d")] == [(fault.line, fault.path) for fault in faults]
    assert {("a",), ("b", "1"), ("d",)} == document.unread


def test_a_value_that_cannot_be_is_said_wherever_an_alias_takes_it_up_again() -> None:
    (document,), faults = parse_documents("a: &x .nan\nb: &y {c: [1, *x], d: 2}\ne: *y\nf: *x\n", "f")

    assert {"a": None, "b": {"c": [1, None], "d": 2}, "e": {"c": [1, None], "d": 2}, "f": None} == document.value
    assert {("a",), ("b", "c", "1"), ("e", "c", "1"), ("f",)} == document.unread
    assert [(1, "a"), (2, "b.c[1]"), (3, "e.c[1]"), (4, "f")] == [(fault.line, fault.path) for fault in faults]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{,}", "f.json:1: this is not JSON: ',' where a key in double quotes should stand (correct the syntax)"),
        ("\n[{]", "f.json:2: this is not JSON: ']' where a key in double quotes should stand (correct the syntax)"),
        ('{\n  // a pod\n  "a": [}', "f.json:2: this is not JSON: '/' where a key in double quotes should stand"),
    ],
)
def test_of_a_file_that_is_called_json_it_is_said_what_is_no_json(text: str, said: str) -> None:
    documents, faults = parse_documents(text, "f.json")

    assert [] == documents
    assert [said] == [str(fault)[: len(said)] for fault in faults]


def test_yaml_in_a_file_that_is_called_json_is_read_all_the_same() -> None:
    documents, faults = parse_documents("a: 1\n", "f.json")

    assert [{"a": 1}] == [document.value for document in documents]
    assert [] == faults


def test_half_a_surrogate_pair_becomes_the_replacement_mark() -> None:
    assert {"a": "\N{REPLACEMENT CHARACTER}b", "c": "😀"} == one(r'{"a": "\ud83db", "c": "\ud83d\ude00"}').value


@settings(max_examples=examples(300))
@given(st.binary() | st.text(alphabet="{}[]:,-?&*!|>'\"%@`#\n\t ab01<~._").map(str.encode))
def test_no_text_whatsoever_raises(text: bytes) -> None:
    documents, faults = parse_documents(text, "f")

    lines = text.count(b"\n") + 2
    assert all((fault.line is None and not documents) or 1 <= (fault.line or 0) <= lines for fault in faults)
    assert all(1 <= line <= lines for document in documents for line in document.lines.values())
