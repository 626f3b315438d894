"""Frozen records made of structs: what the functions of ``dataclasses`` do with them."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest
from msgspec import field

import trikubelet.core
import trikubelet.model
from trikubelet.model.frozen import Discreet, Frozen


class Place(Frozen):
    name: str
    labels: dict[str, str] = field(default_factory=dict)


class Farther(Place):
    miles: int = 0


class Journey(Frozen):
    to: Place
    stops: tuple[Place, ...] = ()


class Single(Frozen, eq=False):
    name: str


class Key(Discreet):
    hidden = ("text", "notes")

    name: str
    text: str
    notes: dict[str, str] = field(default_factory=dict)


def test_replace_changes_the_named_fields_and_keeps_the_others():
    assert Place("b", {"k": "v"}) == replace(Place("a", {"k": "v"}), name="b")


def test_replace_of_an_unknown_field_fails():
    changes: dict[str, Any] = {"length": 3}
    with pytest.raises(TypeError, match="length"):
        replace(Place("a"), **changes)


def test_a_subclass_has_the_fields_of_its_base_and_its_own_whichever_is_read_first():
    assert ["name", "labels"] == [one.name for one in fields(Place)]
    assert ["name", "labels", "miles"] == [one.name for one in fields(Farther)]
    assert Farther("a", miles=3) == replace(Farther("a", miles=2), miles=3)


def test_a_record_becomes_a_dict_with_the_records_in_it():
    assert {"to": {"name": "a", "labels": {}}, "stops": ({"name": "b", "labels": {}},)} == asdict(
        Journey(Place("a"), (Place("b"),))
    )


def test_a_field_cannot_be_set():
    with pytest.raises(AttributeError):
        Place("a").name = "b"


def test_records_of_different_classes_are_not_equal():
    assert Place("a") != Farther("a")


def test_a_record_that_is_compared_by_identity_is_hashable_by_it():
    one, other = Single("a"), Single("a")
    assert one != other
    assert {one, other} == {other, one}
    assert 2 == len({one, other})


def test_hidden_fields_are_not_printed_but_compared():
    key = Key("a", "secret", {"k": "secret"})
    assert "Key(name='a')" == repr(key)
    assert "[Key(name='a')]" == str([key])
    assert key == replace(Key("a", "other", {"k": "secret"}), text="secret")
    assert key != Key("a", "other", {"k": "secret"})


def test_every_hidden_name_is_a_field():
    for package in (trikubelet.core, trikubelet.model):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    records = [kind for kind in Discreet.__subclasses__() if kind is not Key]
    assert {"Login", "Bearer", "EnvSources", "EnvFile", "Stage", "Publish", "Expand"} <= {
        one.__name__ for one in records
    }
    for record in records:
        assert set() == set(record.hidden) - set(record.__struct_fields__), record
        assert record.hidden
