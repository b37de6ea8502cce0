"""`make new`: what cannot be made is told before anything is written."""

import re
from importlib import import_module

import pytest
from support.book.house import copied, refused
from support.book.notebooks import ROOT


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    return copied(tmp_path_factory.mktemp("new"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Dilated", "cannot name a mechanism"),
        ("2d", "cannot name a mechanism"),
        ("../x", "cannot name a mechanism"),
        ("", "cannot name a mechanism"),
        ("class", "cannot name a mechanism"),
        ("causal", "is defined already, in attncourse/masks.py"),
        ("longformer_layer", "is defined already, in attncourse/spec/sparse.py"),
        ("layers", "exists already: attncourse/layers.py"),
        ("dot_product", "exists already: "),
    ],
)
def test_wrong_name_is_told(name, message, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    assert message in import_module("stub_asked").problem(name, ROOT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mask", "--exercises", "13", "--", "x"), "choose from 0, 1, 2"),
        (("mask", "--family", "odd", "--", "x"), "choose from 'dense', 'linear', 'po"),
        (("mask", "--after", "sink", "--", "x"), "no chapter is called 'sink'; name one of dot_"),
        (("exercise", "--", "x"), "goes into a chapter that is there; name it: CHAPTER=masks"),
        (("exercise", "--chapter", "20", "--", "x"), "no chapter is called '20'; name one of"),
        (("exercise", "--chapter", "masks", "--", "empty_row"), "empty_row exists already: "),
        (("mask", "--exercises", "0", "--after", "sinks", "--", "x"), "AFTER places a new chapter"),
        (("mask", "--chapter", "masks", "--after", "sinks", "--", "x"), "AFTER places a new chap"),
    ],
)
def test_what_does_not_go_together_is_told_and_writes_nothing(untouched, arguments, message):
    assert message in refused(untouched, "tools/new.py", *arguments)


def test_a_file_without_room_is_told_before_anything_is_written(untouched, tmp_path):
    house = copied(tmp_path, untouched)
    with (house / "attncourse" / "masks.py").open("a") as masks:
        masks.write("# more\n" * 60)
    said = refused(house, "tools/new.py", "mask", "--exercises", "0", "--", "strided")
    assert re.search(r"masks\.py would have \d+ lines before anything is filled in", said)


def test_a_list_that_has_moved_is_told_before_anything_is_written(untouched, tmp_path):
    house = copied(tmp_path, untouched)
    (house / "index.md").write_text("# No map\n")
    said = refused(house, "tools/new.py", "mask", "--", "strided")
    assert "index.md needs a place for '| [Strided](chapters/" in said
