"""The notebook in the bytes of a file: read and repaired, not run."""

import hashlib
import json
from collections import Counter
from typing import Any

import nbformat
from nbformat.v4.convert import upgrade_cell

from attncourse.grading.exercises import CHAPTERS, chapter_of
from attngrade import Cell, File, Notebook
from attngrade.notes import library_attention
from attngrade.piece import Piece, answers, with_python
from attngrade.repair import grade_ids, repair

MOST_CELLS = 2000
LARGEST_CELL = 50_000  # characters
MOST_CODE = 300_000
MOST_PROBLEMS = 20
BY_CHANCE = 200  # an answer of so few characters may be the same by chance


class Unreadable(Exception):
    """Nothing of this file can be graded; the message says why, in a whole sentence."""


def read(file: File) -> Notebook:
    """The notebook in a file. It never fails: whatever is wrong stands in its ``problems``."""
    if file.data is None:
        return Notebook(problems=(file.problem,))
    problems: list[str] = []
    try:
        pieces = with_python(_pieces(file.data, problems))
        code = repair(pieces, problems)
        chapters = _chapters(code, pieces)
        if not chapters:
            problems.append("It has no check(...) cell and no answer of this course.")
    except Exception as error:  # one strange file must not stop a class
        known = str(error) if isinstance(error, Unreadable) else ""
        problems.append(known or f"Reading it failed unexpectedly, with {type(error).__name__}.")
        same = file.digest if file.data.strip() else ""
        return Notebook(problems=tuple(problems), likeness=same)
    if len(problems) > MOST_PROBLEMS:
        more = len(problems) - MOST_PROBLEMS
        problems[MOST_PROBLEMS:] = [f"There are {more} more problems of this kind."]
    cells = tuple(Cell(piece.number, piece.python) for piece in code)
    return Notebook(cells, chapters, tuple(problems), library_attention(code), _likeness(code))


def _pieces(data: bytes, problems: list[str]) -> list[Piece]:
    """The cells that are code or were; ``problems`` gets a sentence for each that is left out."""
    pieces, room = [], MOST_CODE
    notebook = _notebook(data, problems)
    for number, cell in enumerate(_cells(notebook), start=1):
        try:
            piece = _piece(number, cell if "cells" in notebook else _upgraded(cell), problems)
        except (AttributeError, TypeError, ValueError) as error:
            problems.append(f"Cell {number} is no cell: {error}; left out.")
            continue
        if piece.kind != "code" and piece.grade_id not in grade_ids():
            continue
        if len(piece.source) > min(LARGEST_CELL, room):
            why = "holds more text than anyone types" if room > LARGEST_CELL else "is too much"
            problems.append(f"Cell {number} {why} ({len(piece.source):,} characters); left out.")
            continue
        room -= len(piece.source)
        pieces.append(piece)
    return pieces


def _notebook(data: bytes, problems: list[str]) -> dict:
    if not data.strip():
        raise Unreadable("The file is empty; expected a notebook.")
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        problems.append("The file holds bytes that are no text; they were replaced.")
    try:
        notebook = json.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise Unreadable("The file nests lists in lists too deeply; expected a notebook.") from None
    except ValueError as error:
        why = f"it cannot be read as JSON ({str(error)[:100]})"
        raise Unreadable(f"The file is no notebook: {why}. Expected an .ipynb file.") from None
    if not isinstance(notebook, dict):
        raise Unreadable("The file is JSON, but no notebook: expected an object with cells.")
    return notebook


def _cells(notebook: dict) -> list:
    """The cells of nbformat 4, or those of the worksheets of nbformat 3."""
    cells = notebook.get("cells")
    if cells is None and isinstance(notebook.get("worksheets"), list):
        sheets = [x.get("cells") for x in notebook["worksheets"] if isinstance(x, dict)]
        cells = [cell for some in sheets if isinstance(some, list) for cell in some]
    if not isinstance(cells, list):
        raise Unreadable("The file is JSON, but no notebook: expected an object with cells.")
    if len(cells) > MOST_CELLS:
        count = f"{len(cells):,} cells; at most {MOST_CELLS:,}"
        raise Unreadable(f"The notebook has {count} were expected.")
    return cells


def _upgraded(cell: Any) -> dict:
    """A cell of nbformat 3 as one of nbformat 4."""
    return upgrade_cell(nbformat.from_dict({**cell, "outputs": []}))


def _piece(number: int, cell: dict, problems: list[str]) -> Piece:
    source = cell.get("source", "")
    if isinstance(source, list):
        ended = any(line.endswith("\n") for line in source[:-1])
        source = ("" if ended else "\n").join(source)
    if "\0" in source:
        problems.append(f"Cell {number} held null bytes, which were left out.")
    source = source.replace("\0", "").replace("\ufeff", "")
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    source = source.encode("utf-8", "replace").decode()  # half a character, which no text may hold
    return Piece(number, str(cell.get("cell_type", ""))[:20], source, _grade_id(cell))


def _grade_id(cell: dict) -> str:
    metadata = cell.get("metadata")
    mark = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = mark.get("grade_id") if isinstance(mark, dict) else None
    return grade_id if isinstance(grade_id, str) else ""


def _chapters(code: list[Piece], pieces: list[Piece]) -> tuple[str, ...]:
    """By the checks and nbgrader's ids; where both are gone, by answers of one chapter alone."""
    asked = {name for piece in code for name in piece.checks}
    asked |= {grade_ids()[p.grade_id] for p in pieces if p.grade_id in grade_ids()}
    found = set(map(chapter_of, asked))
    if not found:
        bound = {name for piece in code for name in piece.bound.keys() & answers().keys()}
        votes = Counter(next(iter(answers()[x])) for x in bound if len(answers()[x]) == 1)
        found = {chapter for chapter, n in votes.items() if n == max(votes.values())}
    return tuple(chapter for chapter in CHAPTERS if chapter in found)


def _likeness(code: list[Piece]) -> str:
    """The same for the same code, white space apart; empty where there is hardly an answer in it."""
    typed = 0
    for piece in code:
        lines = piece.python.split("\n")
        for given in (piece.bound[name] for name in piece.answers()):
            if hasattr(given, "body"):
                typed += len("".join("".join(lines[given.lineno - 1 : given.end_lineno]).split()))
    whole = "\n".join("".join(piece.python.split()) for piece in code)
    return hashlib.sha256(whole.encode()).hexdigest() if typed > BY_CHANCE else ""
