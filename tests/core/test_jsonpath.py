"""JSONPath templates: what kubectl's users write, and what comes of it."""

from __future__ import annotations

import pytest

from trikubelet.core.jsonpath import OutOfBounds, parse_template, render

PODS = {
    "kind": "List",
    "items": [
        {
            "metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "web"}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "restarts": 3},
        },
        {"metadata": {"name": "b"}, "status": {"phase": "Pending", "restarts": 0, "ready": False}},
    ],
}


@pytest.mark.parametrize(
    ("said", "template"),
    [
        ("plain", "plain"),
        ("List", "{.kind}"),
        ("List", "{kind}"),
        ("List", "{$.kind}"),
        ("a b", "{.items[*].metadata.name}"),
        ("a b", "{..name}"),
        ("a", "{.items[0].metadata.name}"),
        ("b", "{.items[-1].metadata.name}"),
        ("b", "{.items[1:].metadata.name}"),
        ("a", "{.items[:1].metadata.name}"),
        ("a b", "{.items[0,1]['metadata']['name']}"),
        ("web", r"{.items[0].metadata.labels.app\.kubernetes\.io/name}"),
        ("web", "{.items[0].metadata.labels['app.kubernetes.io/name']}"),
        ("", "{.nothing.here}{.nothing[7]}{.kind[7]}"),
        ("", "{.items[?(@.status.conditions[7])].metadata.name}"),
        ("3 0", "{.items[*].status.restarts}"),
        ("false", "{.items[*].status.ready}"),
        ('{"name":"b"}', "{.items[1].metadata}"),
        ("True", '{.items[*].status.conditions[?(@.type=="Ready")].status}'),
        ("a", "{.items[?(@.status.restarts>2)].metadata.name}"),
        ("b", "{.items[?(@.status.restarts<=2)].metadata.name}"),
        ("b", "{.items[?(@.status.phase!='Running')].metadata.name}"),
        ("a", "{.items[?(@.metadata.labels)].metadata.name}"),
        ("", "{.items[?(@.status.phase>2)].metadata.name}"),
        ("a\tRunning\nb\tPending\n", r'{range .items[*]}{.metadata.name}{"\t"}{.status.phase}{"\n"}{end}'),
        ("{}", "{'{}'}"),
        ("[Ready];[];", "{range .items[*]}[{range .status.conditions[*]}{.type}{end}];{end}"),
        ("Running 3", "{.items[0].status['phase','restarts']}"),
    ],
)
def test_a_template_says_what_kubectl_says(said: str, template: str) -> None:
    assert said == render(parse_template(template), PODS)


@pytest.mark.parametrize(
    ("told", "template"),
    [
        ("index 99, length 2", "{.items[99]}"),
        ("index 2, length 2", "{.items[0,2].metadata.name}"),
        ("index -1, length 2", "{.items[-3]}"),
        ("index 1, length 1", "{range .items[*]}{.status.conditions[1].type}{end}"),
        ("index 0, length 0", "{.items[0].metadata.none[0]}"),
        ("index 7, length 1", "{.items[?(@.status.conditions[7].type=='Ready')]}"),
    ],
)
def test_what_a_list_is_too_short_for_is_an_error(told: str, template: str) -> None:
    pods = {"items": [{**PODS["items"][0], "metadata": {"none": []}}, PODS["items"][1]]}  # type: ignore[dict-item]
    with pytest.raises(OutOfBounds, match=f"^array index out of bounds: {told}$"):
        render(parse_template(template), pods)


@pytest.mark.parametrize(
    ("told", "template"),
    [
        ("array index out of bounds: index 8, length 2", "{.items[0:9].metadata.name}"),
        ("array index out of bounds: index 2, length 2", "{.items[1:3].metadata.name}"),
        ("array index out of bounds: index 5, length 2", "{.items[5:].metadata.name}"),
        ("array index out of bounds: index 5, length 2", "{.items[5:7].metadata.name}"),
        ("array index out of bounds: index 2, length 2", "{.items[2:4].metadata.name}"),
        ("array index out of bounds: index -3, length 2", "{.items[-5:].metadata.name}"),
        ("array index out of bounds: index -4, length 2", "{.items[1:-5].metadata.name}"),
        ("array index out of bounds: index 0, length 0", "{.none[0:3]}"),
        ("array index out of bounds: index 2, length 2", "{.items[2:1].metadata.name}"),
        ("starting index 1 is greater than ending index 0", "{.items[1:-2].metadata.name}"),
        ("starting index 1 is greater than ending index 0", "{.items[1:0:0].metadata.name}"),
        ("the step must be more than 0", "{.items[0:2:0].metadata.name}"),
        ("the step must be more than 0", "{.items[0:2:00].metadata.name}"),
    ],
)
def test_a_part_that_a_list_does_not_have_is_an_error(told: str, template: str) -> None:
    with pytest.raises(OutOfBounds, match=f"^{told}$"):
        render(parse_template(template), {**PODS, "none": []})


@pytest.mark.parametrize(
    ("expected", "template"),
    [
        ("a b", "{.items[0:2].metadata.name}"),
        ("b", "{.items[-1:].metadata.name}"),
        ("a", "{.items[:-1].metadata.name}"),
        ("a", "{.items[::2].metadata.name}"),
        ("", "{.items[1:1].metadata.name}"),
        ("", "{.items[1:1:0].metadata.name}"),
        ("", "{.items[7:7].metadata.name}"),
        ("", "{.items[2:].metadata.name}"),
    ],
)
def test_a_part_of_a_list(expected: str, template: str) -> None:
    assert expected == render(parse_template(template), PODS)


def test_tuples_are_lists() -> None:
    value = {"a": ({"n": 1}, {"n": 2})}

    assert "2 1 2 2 1" == " ".join(
        render(parse_template(template), value)
        for template in ("{.a[?(@.n==2)].n}", "{.a[*].n}", "{.a[-1].n}", "{.a[:1].n}")
    )


@pytest.mark.parametrize(
    ("why", "template"),
    [
        ("a brace without its other half", "{.kind"),
        ("a brace without its other half", "x}"),
        ("{end} without a {range}", "{end}"),
        ("a {range} without its {end}", "{range .items[*]}x"),
        ("is no step of a path", "{.a b}"),
        ("is no step of a path", "{.a[1}"),
        ("is neither a path, a number nor a quoted text", "{.a[?(@.x==yes)]}"),
        ("[] selects nothing", "{.a[]}"),
    ],
)
def test_what_is_no_template_is_refused_with_the_reason(why: str, template: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the words are compared below
        parse_template(template)
    assert why in str(refused.value)
