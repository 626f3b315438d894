"""The value of ``-o``, and API objects in that format: ``json``, ``yaml``, ``name``, ``jsonpath=TEMPLATE``. Tables,
which ``wide`` and ``custom-columns=SPEC`` are too, are printed by ``cli.listing``.

Keys are in alphabetical order, like kubectl's.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trikubelet.cli.failed import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import yaml

    from trikubelet.core.jsonpath import Part
    from trikubelet.core.kubectl.custom_columns import CustomColumn

TABLE, WIDE, NAME, JSON, YAML, JSONPATH = "table", "wide", "name", "json", "yaml", "jsonpath"
CUSTOM: Final = "custom-columns"
_FORMS: Final = (WIDE, NAME, JSON, YAML)
_YAML_COLUMNS_MAX: Final = 2**31 - 1
"""No line is folded: libyaml takes its width as a C int."""


class Output(msgspec.Struct, frozen=True):
    """The format; ``template`` of a JSONPath, ``columns`` of a table with custom columns."""

    form: str
    template: Sequence[Part] = ()
    columns: tuple[CustomColumn, ...] = ()

    @property
    def is_table(self) -> bool:
        """True for a table with the columns of a kind."""
        return self.form in (TABLE, WIDE)


def read_output(said: str) -> Output:
    """Return the value of ``-o``, for argparse; an empty one is a table."""
    if not said:
        return Output(TABLE)
    form, equals, rest = said.partition("=")
    if form in _FORMS and not equals:
        return Output(form)
    if form not in (JSONPATH, CUSTOM) or (form == JSONPATH and not equals):
        raise ArgumentTypeError(f"{said!r} is none of {', '.join(_FORMS)}, jsonpath=TEMPLATE and custom-columns=SPEC")
    if form == JSONPATH and not rest:
        raise ArgumentTypeError("template format specified but no template given: write jsonpath=TEMPLATE")
    from trikubelet.core.jsonpath import parse_template  # noqa: PLC0415 - only a template or a path needs it
    from trikubelet.core.kubectl.custom_columns import parse_columns  # noqa: PLC0415

    try:
        return Output(CUSTOM, columns=parse_columns(rest)) if form == CUSTOM else Output(JSONPATH, parse_template(rest))
    except ValueError as wrong:
        raise ArgumentTypeError(f"{form}: {wrong}") from None


def as_list(items: Iterable[Any]) -> dict[str, Any]:
    """Return the API's List of these."""
    return {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {"resourceVersion": ""}}


def show(whole: Any, names: Iterable[str], output: Output) -> None:
    """Print ``whole`` as JSON, YAML or by a template, or ``names``. Raises CommandFailed if the template has an index
    beyond a list's end."""
    if output.form == NAME:
        for name in names:
            print(name)
    elif output.form == JSON:
        print(json.dumps(msgspec.to_builtins(whole), indent=4, sort_keys=True, ensure_ascii=False))
    elif output.form == JSONPATH:
        from trikubelet.core.jsonpath import OutOfBounds, render  # noqa: PLC0415 - only a template needs it

        try:
            print(render(output.template, msgspec.to_builtins(whole)), end="")
        except OutOfBounds as error:
            raise CommandFailed(f"jsonpath: {error}") from error
    else:
        assert output.form == YAML
        print(as_yaml(msgspec.to_builtins(whole)), end="")
    sys.stdout.flush()


def as_yaml(what: object) -> str:
    """Return plain data as kubectl writes it: a text of several lines is a readable block, and no line is folded."""
    import yaml  # noqa: PLC0415 - only YAML needs it

    text = _dumped(what, yaml.CSafeDumper)
    # libyaml is ten times as fast, but writes characters above U+FFFF (emoji) as escapes.
    return _dumped(what, yaml.SafeDumper) if r"\U000" in text else text


def _dumped(what: object, base: type[yaml.SafeDumper | yaml.CSafeDumper]) -> str:
    """Return the YAML text that a subclass of `base` writes."""
    import yaml  # noqa: PLC0415 - only YAML needs it

    class Dumper(base):  # type: ignore[valid-type, misc]  # mypy takes no variable for a base class
        pass

    def represent(dumper: yaml.SafeDumper | yaml.CSafeDumper, text: str) -> yaml.Node:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    Dumper.add_representer(str, represent)
    return yaml.dump(what, Dumper=Dumper, allow_unicode=True, default_flow_style=False, width=_YAML_COLUMNS_MAX)
