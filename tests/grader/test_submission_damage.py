"""Notebooks damaged at random: reading them never fails, and no answer that is there is lost."""

import ast
import json
import random
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
from support.corruptions import DAMAGES, HEALED
from support.notebooks import MASTERS, ROOT, STUDENTS, chapter, each
from support.notebooks_fixture import SOLVED, sources

from attncourse.grading import load, names
from attngrade.submissions import read


@cache
def statements(source: str) -> frozenset[str]:
    """The top-level statements of a cell, without their places; none where it is no Python."""
    try:
        return frozenset(ast.dump(x) for x in ast.parse(source).body)
    except SyntaxError:
        return frozenset()


def without_outputs(path: Path) -> str:
    """The text of a notebook; its figures would only make the tests slow."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for one in notebook["cells"]:
        one.pop("outputs", None)
    return json.dumps(notebook)


def is_code(one) -> bool:
    """Whether it is a code cell, not the one that installs the course."""
    return one["cell_type"] == "code" and "bootstrap" not in one["metadata"].get("tags", [])


def answers_of(submission, path: Path) -> dict[str, list[str]]:
    """What binds each answer of the chapter, in order."""
    wanted = {load(name).answer for name in names(chapter(path))}
    found: dict[str, list[str]] = {}
    for source in sources(submission):
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue
        for x in tree.body:
            bound = {getattr(x, "name", "")} | {
                getattr(t, "id", "") for t in getattr(x, "targets", ())
            }
            for name in bound & wanted:
                found.setdefault(name, []).append(ast.dump(x))
    return found


@each([*MASTERS, *STUDENTS])
def test_a_whole_notebook_is_read_as_it_is(path):
    submission = read("anna", path, ROOT)
    assert submission.problems == ()
    assert submission.chapters == (chapter(path),)
    original = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = {k: "".join(c["source"]) for k, c in enumerate(original, 1) if is_code(c)}
    assert {c.number: c.source for c in submission.cells} == code


@each([*MASTERS, *STUDENTS])
def test_one_repairable_damage_loses_no_answer(path, tmp_path):
    text = without_outputs(path)
    whole = answers_of(read("anna", path, ROOT), path)
    rng = random.Random(path.as_posix()[-40:])
    damaged = tmp_path / path.name
    for damage in HEALED:
        for _ in range(5):
            notebook = json.loads(text)
            damage(notebook, rng)
            damaged.write_text(json.dumps(notebook), encoding="utf-8")
            submission = read("anna", damaged, tmp_path)
            found = answers_of(submission, path)
            assert {k: v[-1] for k, v in found.items()} == {k: v[-1] for k, v in whole.items()}, (
                damage.__name__,
                submission.problems,
            )
            assert submission.chapters == (chapter(path),), damage.__name__


@each([*MASTERS, *STUDENTS])
def test_cells_that_were_not_hit_survive_any_damage(path, tmp_path):
    text = without_outputs(path)
    code = {k: "".join(c["source"]) for k, c in enumerate(json.loads(text)["cells"]) if is_code(c)}
    rng = random.Random(path.as_posix()[-40:])
    damaged = tmp_path / path.name
    for _ in range(200):
        notebook = json.loads(text)
        for number, one in enumerate(notebook["cells"]):
            one["number"] = number
        done, hit = [], set()
        for damage in rng.choices(DAMAGES, k=rng.randint(1, 4)):
            before = [c.get("number") if isinstance(c, dict) else None for c in notebook["cells"]]
            attempt = deepcopy(notebook)
            try:
                touched = {before[k] for k in damage(attempt, rng)}
            except (KeyError, IndexError, TypeError, ValueError, AttributeError):
                continue  # too damaged already for this damage
            notebook, hit, done = attempt, hit | touched, [*done, damage.__name__]
            if "cells" not in notebook:
                break
        damaged.write_text(json.dumps(notebook), encoding="utf-8")
        submission = read("anna", damaged, tmp_path)
        assert not any("unexpectedly" in problem for problem in submission.problems)
        kept = frozenset().union(*map(statements, sources(submission)))
        for number, source in code.items():
            lost = statements(source) - kept
            assert number in hit or not lost, (done, number + 1, source, submission.problems)


@pytest.mark.parametrize("path", [SOLVED])
def test_no_broken_file_is_too_much(path, tmp_path):
    data = path.read_bytes()
    rng = random.Random(0)
    damaged = tmp_path / "anna.ipynb"
    for _ in range(200):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 30)):
            at = rng.randrange(len(broken))
            broken[at : at + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
        if rng.random() < 0.3:
            del broken[rng.randrange(len(broken)) :]
        damaged.write_bytes(broken)
        submission = read("anna", damaged, tmp_path)
        assert submission.cells or submission.problems
        assert not any("unexpectedly" in problem for problem in submission.problems)
        json.dumps([cell.source for cell in submission.cells]).encode()
