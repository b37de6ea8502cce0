"""Answers that were written by no one: right ones with one slip. What does the student read of them, and is it true?

At least `PER_EXERCISE` of the mutants of an exercise, and `OVERALL` of all, must hear a sentence that leads to the
mistake (`fresh.heard` says what counts). Nothing that is said may be false of a mutant (`fresh.truth`).

``cd tests/exercises; python -m fresh NAME --silent`` shows who hears nothing: teach an explainer.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from fresh.apart import Lost, apart
from fresh.heard import leading
from fresh.judged import judged, slip
from fresh.sources import right_answers, sources_of

from attncourse.grading import load, names

PER_EXERCISE, OVERALL = 0.75, 0.90
MUTANTS, OF_THE_TABLE = 12, 40
STALE = 0.35  # between twelve mutants and the forty of the table
SECONDS = 300  # for the mutants of one exercise, on a busy machine
ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
TABLE = ROOT / "chapters" / "_data" / "fresh_mutants.json"
JUDGED = [name for name in names() if not load(name).left_out()]


def depends(item: pytest.Item) -> list[Path]:
    """All that decides what a mutant hears."""
    return [HERE / "fresh", HERE / "styles", ROOT / "attncourse", TABLE]


def found(name: str, count: int):
    """The mutants of an exercise, judged in a process of their own."""
    ((_, result),) = apart(partial(judged, count=count), [name], SECONDS)
    assert not isinstance(result, Lost), result
    return result


def in_table() -> dict[str, list]:
    """The rows of the book's table by the names of the exercises."""
    return {row[0]: row for row in json.loads(TABLE.read_text(encoding="utf-8"))["rows"]}


def share(text: str) -> float:
    """``"30 of 40"`` as a number."""
    told, of = map(int, text.split(" of "))
    return told / of


@pytest.mark.parametrize("name", JUDGED)
def test_mutants_hear_what_leads_to_the_mistake(name):
    exercise = load(name)
    if not sources_of(exercise):
        values = [x for x in right_answers(exercise).values() if not hasattr(x, "__code__")]
        assert len(values) == len(right_answers(exercise)), "a function has a source"
        return
    result = found(name, MUTANTS)
    assert not result.false, "\n".join(result.false)
    assert result.rows, "no mutant is wrong"
    rows = zip(result.rows, leading(result.rows), strict=True)
    silent = ["\n    ".join([slip(row), *row["shown"]]) for row, leads in rows if not leads]
    told = f"{result.told} of {len(result.rows)} are told\n"
    assert result.share >= PER_EXERCISE, told + "\n".join(silent)
    assert name in in_table(), "run: make tables"
    assert abs(share(in_table()[name][1]) - result.share) <= STALE, "out of date; run: make tables"


def test_all_together():
    """The table, which holds more mutants than each run of the tests looks at."""
    rows = in_table()
    wanted = {name for name in JUDGED if sources_of(load(name))}
    assert wanted <= rows.keys() <= set(names()), "run: make tables"
    told, of = (sum(int(row[1].split(" of ")[k]) for row in rows.values()) for k in (0, 1))
    assert told / of >= OVERALL


@pytest.mark.tables
@pytest.mark.timeout(3600)
def test_table_of_the_book(book_table, request):
    if not request.config.getoption("--write-tables"):
        return  # the other tests hold it, with fewer mutants
    wanted = [name for name in JUDGED if sources_of(load(name))]
    results = dict(apart(partial(judged, count=OF_THE_TABLE), wanted, 4 * SECONDS, at_once=2))
    lost = [str(result) for result in results.values() if isinstance(result, Lost)]
    assert not lost, "\n".join(lost)
    write(book_table, {name: (results[name].told, len(results[name].rows)) for name in wanted})


def write(book_table: Callable, counts: dict[str, tuple[int, int]]) -> None:
    """The table, of how many mutants of each exercise are told, and how many there are."""
    told, of = map(sum, zip(*counts.values(), strict=True))
    book_table(
        "fresh_mutants",
        caption=f"Of {of:,} wrong answers that no list holds, {told:,} are told what leads to the mistake",
        note="Each is a right answer with one step of its source changed, drawn by tests/exercises/test_fresh_mutants.py. "
        "All of them fail. That numbers differ does not count as told, nor does what more than a quarter of the wrong "
        "answers to an exercise hear. Exercises that ask for numbers or trained models have no source to change.",
        columns=["Exercise", "Told what leads to the mistake"],
        rows=[[name, f"{told} of {of}"] for name, (told, of) in counts.items()],
    )
