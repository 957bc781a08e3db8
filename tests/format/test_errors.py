"""The drawing at the top of errors.py, and what every error can do."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from sealberg import errors

CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, Exception) and kind.__module__ == errors.__name__
}


def drawn() -> list[tuple[int, str, str]]:
    """(depth, name, remark) of every line of the drawing."""
    lines = re.finditer(r"^    ([ │├└─]*)(\w+Error) {2,}(\S.*)$", str(errors.__doc__), re.MULTILINE)
    return [(len(line[1]) // 4, line[2], line[3]) for line in lines]


def drawn_parents() -> dict[str, str]:
    parents: dict[str, str] = {}
    above: list[str] = []
    for depth, name, _ in drawn():
        above[depth:] = [name]
        parents[name] = above[depth - 1] if depth else "Exception"
    return parents


def test_drawing_names_every_class_once() -> None:
    names = [name for _, name, _ in drawn()]
    assert sorted(names) == sorted(CLASSES)
    assert len(names) == len(set(names))


def test_drawing_nests_as_the_classes_do() -> None:
    assert drawn_parents() == {name: kind.__bases__[0].__name__ for name, kind in CLASSES.items()}


def test_drawing_and_module_have_one_order() -> None:
    assert [name for _, name, _ in drawn()] == list(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_error_is_ours_and_says_what_it_means(name: str) -> None:
    kind = CLASSES[name]
    assert issubclass(kind, errors.SealbergError)
    assert kind.__doc__
    assert kind.__doc__ != errors.SealbergError.__doc__ or kind is errors.SealbergError


@pytest.mark.parametrize("name", CLASSES)
def test_error_survives_pickling(name: str) -> None:
    """Spark workers hand their errors to the driver that way."""
    again = pickle.loads(pickle.dumps(CLASSES[name]("what was found")))
    assert type(again) is CLASSES[name]
    assert str(again) == "what was found"


def test_key_access_error_learns_more_on_its_way_up() -> None:
    error = errors.AccessDeniedError("not for you", provider="aws", master_key="hr", request=None)
    known = error.about(table="hr.salaries")
    assert type(known) is errors.AccessDeniedError
    assert str(known) == "not for you (provider aws, master key hr, table hr.salaries)"
    assert str(pickle.loads(pickle.dumps(known))) == str(known)
    assert str(errors.AccessDeniedError("not for you")) == "not for you"
