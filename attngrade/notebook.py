"""Notebooks from the bytes of files: read and repaired, not run."""

import hashlib
import json
from ast import get_source_segment
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import nbformat
from nbformat.v4.convert import upgrade_cell

from attncourse.grading.exercises import CHAPTERS, chapter_of
from attngrade import Cell, File, Notebook
from attngrade.notes import library_attention
from attngrade.piece import Piece, chapters_of_answers
from attngrade.repair import grade_ids, repair

MOST_CELLS = 2000
LARGEST_CELL = 50_000  # characters
MOST_CODE = 300_000
MOST_PROBLEMS = 20
BY_CHANCE = 200  # answers of at most so many characters may be equal by chance


class Unreadable(Exception):
    """The file cannot be graded at all; the message says why, in a whole sentence."""


def read(file: File) -> Notebook:
    """The notebook in a file. This function never raises: failures stand in ``problems``."""
    if file.data is None:
        return Notebook(problems=(file.problem,))
    problems: list[str] = []
    try:
        pieces = list(_pieces(_cells(file.data), problems))
        code = repair(pieces, problems)
        chapters = _chapters(code, pieces)
        notes, likeness = library_attention(code), _likeness(code)
    except Exception as error:  # one strange file must not stop the class
        why = f"Reading it failed unexpectedly, with {type(error).__name__}."
        why = str(error) if isinstance(error, Unreadable) else why
        return Notebook(problems=(why,), likeness=file.digest if file.data.strip() else "")
    if not chapters:
        problems.append("It has no check(...) cell and no answer of this course.")
    if more := problems[MOST_PROBLEMS:]:
        problems[MOST_PROBLEMS:] = [f"There are {len(more)} more problems of this kind."]
    cells = tuple(Cell(piece.number, piece.source) for piece in code)
    return Notebook(cells, chapters, tuple(problems), notes, likeness)


def _cells(data: bytes) -> list[Any]:
    """The unchecked list of cells, in the form of nbformat 4 as far as possible."""
    if not data.strip():
        raise Unreadable("The file is empty; expected a notebook.")
    try:
        notebook = json.loads(data.decode(json.detect_encoding(data), "replace"))
    except RecursionError:
        raise Unreadable("The file nests lists in lists too deeply; expected a notebook.") from None
    except ValueError as error:
        why = f"it cannot be read as JSON ({str(error)[:100]})"
        raise Unreadable(f"The file is no notebook: {why}. Expected an .ipynb file.") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if cells is None and isinstance(notebook, dict):  # nbformat 3
        with suppress(KeyError, TypeError):
            cells = [_upgraded(x) for sheet in notebook["worksheets"] for x in sheet["cells"]]
    if not isinstance(cells, list):
        raise Unreadable("The file is JSON, but no notebook: expected an object with cells.")
    if len(cells) > MOST_CELLS:
        count = f"{len(cells):,} cells; at most {MOST_CELLS:,}"
        raise Unreadable(f"The notebook has {count} were expected.")
    return cells


def _upgraded(cell: Any) -> Any:
    with suppress(AttributeError, TypeError):
        return upgrade_cell(nbformat.from_dict({**cell, "outputs": []}))
    return cell


def _pieces(cells: list[Any], problems: list[str]) -> Iterator[Piece]:
    """The cells that are code, or once were; ``problems`` gets a sentence for each that is left out."""
    room = MOST_CODE
    for number, cell in enumerate(cells, start=1):
        grade_id = ""
        with suppress(KeyError, TypeError):
            grade_id = str(cell["metadata"]["nbgrader"]["grade_id"])
        try:
            kind, source = str(cell.get("cell_type")), _text(cell.get("source", ""))
        except (AttributeError, TypeError):
            problems.append(f"Cell {number} is no cell, or its source is no text; left out.")
            continue
        if kind != "code" and grade_id not in grade_ids():
            continue
        if len(source) > min(LARGEST_CELL, room):
            problems.append(f"Cell {number} is too much ({len(source):,} characters); left out.")
            continue
        room -= len(source)
        yield Piece(number, kind, source, grade_id)


def _text(source: str | list[str]) -> str:
    if isinstance(source, list):
        ended = any(line.endswith("\n") for line in source[:-1])
        source = ("" if ended else "\n").join(source)
    source = (
        source.replace("\0", "").replace("\ufeff", "").replace("\r\n", "\n").replace("\r", "\n")
    )
    return source.encode("utf-8", "replace").decode()  # replaces lone surrogates


def _chapters(code: list[Piece], pieces: list[Piece]) -> tuple[str, ...]:
    """The chapters of the checks and of nbgrader's ids; without both, those of answers that only one chapter has."""
    ids = grade_ids()
    asked = {name for piece in code for name in piece.checks}
    asked |= {ids[piece.grade_id] for piece in pieces if piece.grade_id in ids}
    found = set(map(chapter_of, asked))
    if not found:
        of_answer = chapters_of_answers()
        given = [of_answer[x] for x in {x for p in code for x in p.bound} if x in of_answer]
        votes = Counter(chapter for only in given if len(only) == 1 for chapter in only)
        found = {chapter for chapter, n in votes.items() if n == max(votes.values())}
    return tuple(chapter for chapter in CHAPTERS if chapter in found)


def _likeness(code: list[Piece]) -> str:
    """A digest of the code without white space; empty where the answers are short enough to be equal by chance."""
    given = [(p.source, x) for p in code for x in p.answers.values()]
    typed = sum(len("".join(get_source_segment(source, x).split())) for source, x in given)
    whole = "\n".join("".join(piece.source.split()) for piece in code)
    return hashlib.sha256(whole.encode()).hexdigest() if typed > BY_CHANCE else ""
