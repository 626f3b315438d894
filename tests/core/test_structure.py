"""The structural walk: every fault of shape at once, and the same opinion as the API's published schemas."""

import json
import random
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NewType

import jsonschema
import kubernetes_validate
import msgspec
import pytest

from trikubelet.core.document import Document, parse_documents
from trikubelet.core.structure import decode, examine
from trikubelet.model import k8s
from trikubelet.model.duration import parse_duration
from trikubelet.model.scalar import Scalar

SCHEMAS = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema/v1.37.0-local-strict/_definitions.json"
DEFINITIONS = json.loads(SCHEMAS.read_text())["$defs"]
POD = "io.k8s.api.core.v1.Pod"


class Colour(Enum):
    RED = "red"
    GREEN = "green"


Port = NewType("Port", int)


class Inner(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    grace_period: Annotated[float, Scalar(parse_duration, "a duration such as 1m30s")] = 0.0


class Outer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    colour: Colour = Colour.RED
    mode: Literal["none", "static"] = "none"
    port: Port = Port(0)
    ratio: float = 0.0
    inners: tuple[Inner, ...] = ()
    by_name: dict[str, Inner] = {}
    labels: dict[str, str] = {}
    limit: int | str | None = None
    wait: Annotated[float, Scalar(parse_duration, "a duration such as 1m30s")] | None = None
    anything: object = None
    on: bool = False


def document(text: str) -> Document:
    ((found,), faults) = parse_documents(text, "f")
    assert [] == faults
    return found


def faults_of(text: str, type_: type = Outer) -> list[str]:
    return [str(fault) for fault in decode(document(text), type_)[1]]


def test_a_good_document_becomes_its_type() -> None:
    text = """
        colour: green
        mode: static
        port: 80
        ratio: 1
        inners: [{name: a, gracePeriod: 1m30s}]
        byName: {x: {name: b}}
        labels: {a: b, empty: }
        limit: 10%
        wait: 500ms
        anything: {a: [1, null]}
        "on": true
    """

    expected = Outer(
        colour=Colour.GREEN,
        mode="static",
        port=Port(80),
        ratio=1.0,
        inners=(Inner("a", 90.0),),
        by_name={"x": Inner("b")},
        labels={"a": "b", "empty": ""},
        limit="10%",
        wait=0.5,
        anything={"a": [1, None]},
        on=True,
    )
    assert (expected, []) == decode(document(text), Outer)


def test_null_means_absent() -> None:
    text = "colour:\nport: null\ninners: ~\nlabels:\nlimit: null\nwait:\n"

    assert (Outer(), []) == decode(document(text), Outer)


def test_all_faults_come_at_once_with_their_lines() -> None:
    text = "colour: blu\nporrt: 1\nport: '80'\ninners:\n- gracePeriod: soon\n- 5\nlabels: {a: 1}\nlimit: 1.5\non: yes\n"

    assert [
        'f:1: colour: Unsupported value: "blu": must be one of "red", "green"',
        'f:2: porrt: unknown field (did you mean "port"?)',
        'f:3: port: Invalid value: "80": must be a whole number (write it without quotes)',
        'f:5: inners[0].gracePeriod: Invalid value: "soon": ',
        "f:5: inners[0].name: Required value (add name here)",
        "f:6: inners[1]: Invalid value: 5: must be an object",
        "f:7: labels[a]: Invalid value: 1: must be a string (put it in quotes)",
        "f:8: limit: Invalid value: 1.5: must be a whole number or a string (put it in quotes)",
        "f:9: true: unknown field (remove it, or move it where it belongs)",
    ] == [fault if "soon" not in fault else fault[: fault.index("soon") + 7] for fault in faults_of(text)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("mode: statik", 'mode: Unsupported value: "statik": must be one of "none", "static" (did you mean "static"?)'),
        ("mode: 5", 'mode: Invalid value: 5: must be one of "none", "static" (put it in quotes)'),
        ("port: 1.5", "port: Invalid value: 1.5: must be a whole number"),
        ("port: true", "port: Invalid value: true: must be a whole number"),
        ("port: 9223372036854775808", "port: Invalid value: 9223372036854775808: must fit into 64 bits"),
        ("ratio: x", 'ratio: Invalid value: "x": must be a number'),
        ("inners: {}", 'inners: Invalid value: an object: must be a list (begin each item with "- ")'),
        ("labels: []", "labels: Invalid value: a list: must be an object"),
        ("inners: [null]", "inners[0]: Invalid value: null: must be an object (give it a value or remove it)"),
        ("byName: {a.b: {}}", "byName[a.b].name: Required value (add name here)"),
        ("wait: 5", "wait: Invalid value: 5: must be a duration such as 1m30s (put it in quotes)"),
        ("a-b: 1", "[a-b]: unknown field (remove it, or move it where it belongs)"),
        ("[1]", "Invalid value: a list: must be an object"),
        (f"ratio: {'x' * 99}", f'ratio: Invalid value: "{"x" * 59}…: must be a number'),
    ],
)
def test_a_fault_says_what_was_found_and_what_belongs_there(text: str, fault: str) -> None:
    assert [f"f:1: {fault}"] == faults_of(text)


def test_what_could_be_read_is_there_for_finding_more_faults() -> None:
    examined = examine(document("inners: [{gracePeriod: x}, 5, {name: c}]\nport: a\nlimit: []\n"), Outer)

    assert Outer(inners=(Inner(""), Inner(""), Inner("c"))) == examined.value
    assert 5 == len(examined.faults)


def test_a_type_the_walk_does_not_know_is_a_programming_error() -> None:
    class Odd(msgspec.Struct):
        field: set[int]

    with pytest.raises((TypeError, KeyError)):
        decode(document("field: [1]"), Odd)


# The schemas as an oracle. Seeds make pods by the schemas, then spoil them; both must complain of the same places.

VALIDATOR = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{POD}", "$defs": DEFINITIONS})
DEPTH_MAX = 9


def make(schema: dict[str, Any], rng: random.Random, depth: int = 0) -> Any:
    """Something the schema accepts."""
    if "$ref" in schema:
        return make(DEFINITIONS[schema["$ref"].rsplit("/", 1)[-1]], rng, depth)
    if "oneOf" in schema:
        return make(rng.choice(schema["oneOf"]), rng, depth)
    if "enum" in schema:
        return rng.choice([value for value in schema["enum"] if value is not None])
    kind = next(kind for kind in [schema.get("type", "object")] if kind)
    kind = next(one for one in kind if one != "null") if isinstance(kind, list) else kind
    if kind == "object" and "properties" in schema:
        required = schema.get("required", ())
        chance = 0.9 if depth == 0 else 0.5 if depth < 3 else 0.25
        keys = [k for k in schema["properties"] if k in required or (depth < DEPTH_MAX and rng.random() < chance)]
        return {key: make(schema["properties"][key], rng, depth + 1) for key in keys}
    if kind == "object":
        inner = schema.get("additionalProperties") or {"type": "string"}
        return {rng.choice("abc"): make(inner, rng, depth + 1) for _ in range(rng.randrange(3))}
    if kind == "array":
        return [make(schema["items"], rng, depth + 1) for _ in range(rng.randrange(1, 3))]
    return {"string": "text", "integer": rng.randrange(100), "boolean": rng.random() < 0.5, "number": 0.5}[kind]


def spoil(tree: Any, rng: random.Random) -> None:
    """Change one thing somewhere: a name, a type, or something gone."""
    while True:
        keys = list(tree) if isinstance(tree, dict) else range(len(tree))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(tree[key], (dict, list)) and tree[key] and rng.random() < 0.8:
            tree = tree[key]
            continue
        match rng.randrange(3):
            case 0 if isinstance(tree, dict):
                tree[f"{key}x"] = tree.pop(key)
            case 1 if isinstance(tree, dict):
                del tree[key]
            case _:
                tree[key] = rng.choice(["text", 7, 0.5, True, [], {}, [{}], {"z": 1}])
        return


def places_by_schema(tree: Any) -> set[str]:
    """Where the schemas complain, as field paths without the difference between members and map keys."""
    places = set()
    for error in VALIDATOR.iter_errors(tree):
        place = tuple(str(step) for step in error.absolute_path)
        assert isinstance(error.instance, (dict, list, str, int, float))
        if error.validator == "additionalProperties":
            places |= {(*place, name) for name in error.instance if name not in error.schema["properties"]}
        elif error.validator == "required":
            places |= {(*place, name) for name in error.validator_value if name not in error.instance}
        elif error.validator != "enum" or not isinstance(error.instance, str):
            places.add(place)
    # Absent metadata and specs are faults for us and not for the schemas.
    return {"/".join(place) for place in places} | {key for key in ("metadata", "spec") if key not in tree}


@pytest.mark.parametrize("seed", range(150))
def test_the_walk_complains_of_what_the_schemas_complain_of(seed: int) -> None:
    rng = random.Random(seed)
    tree = make(DEFINITIONS[POD], rng)
    good, faults = decode(Document(tree, "f", 0), k8s.Pod)
    assert [] == faults if {"metadata", "spec"} <= tree.keys() else good is None
    for _ in range(rng.randrange(1, 6)):
        spoil(tree, rng)

    _, faults = decode(Document(tree, "f", 0), k8s.Pod)
    ours = {fault.path.replace("[", "/").replace("]", "").replace(".", "/") for fault in faults}
    assert places_by_schema(tree) == ours


@pytest.mark.parametrize("seed", range(40))
def test_what_the_walk_accepts_is_what_msgspec_decodes(seed: int) -> None:
    tree = make(DEFINITIONS[POD], random.Random(seed)) | {"metadata": {"name": "a"}}
    tree.setdefault("spec", {"containers": []})

    assert msgspec.json.decode(json.dumps(tree), type=k8s.Pod) == decode(Document(tree, "f", 0), k8s.Pod)[0]
