"""Damage that notebooks take on their way, undone: cells split, retyped, copied.

Nothing is guessed that could cost points: what is repaired is told, and a whole cell stays as it is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from textwrap import dedent

from attncourse.grading.exercises import names
from attngrade.piece import Piece, is_stub, parse

MOST_PARTS = 8  # of one cell that was split


@cache
def grade_ids() -> dict[str, str]:
    """The exercise that each of nbgrader's cell ids belongs to."""
    return {f"{name}{ending}": name for name in names() for ending in ("", "_answer")}


def repair(pieces: list[Piece], notes: list[str]) -> list[Piece]:
    """The code cells as they were meant, in their order; ``notes`` gets a sentence for each repair."""
    pieces = [_dedented_answer(p) for p in _retyped(pieces, notes)]
    pieces = [_dedented(p) for p in _joined(pieces, notes)]
    return list(_without_spare_stubs(pieces, notes))


def _retyped(pieces: Iterable[Piece], notes: list[str]) -> Iterator[Piece]:
    """The code cells, and a cell of text that has the id of an answer which no code cell has."""
    pieces = list(pieces)
    known = {p.grade_id for p in pieces if p.kind == "code"}
    for piece in pieces:
        if piece.kind != "code" and piece.tree and piece.grade_id in grade_ids().keys() - known:
            kind = {"markdown": "Markdown", "raw": "raw text"}.get(piece.kind, "no code cell")
            notes.append(f"Cell {piece.number} had become {kind}; it was read as code.")
            piece = replace(piece, kind="code")
        if piece.kind == "code" and piece.python.strip():
            yield piece


def _dedented_answer(piece: Piece) -> Piece:
    """A cell that is indented as a whole is no half of another, if there is an answer in it."""
    even = _dedented(piece)
    return even if even.answers() or even.checks else piece


def _dedented(piece: Piece) -> Piece:
    if piece.tree or not piece.python.lstrip("\n").startswith((" ", "\t")):
        return piece
    even = replace(piece, python=dedent(piece.python))
    return even if even.tree else piece


def _joined(pieces: list[Piece], notes: list[str]) -> Iterator[Piece]:
    """A cell that is no Python belongs to the one before it, if the two together are Python."""
    index = 0
    while index < len(pieces):
        first, last, tails = pieces[index], index, []
        for tail in pieces[index + 1 : index + MOST_PARTS]:
            if tail.tree:
                break
            tails.append(tail)
            if first.tree and len(tails) > 1 and _together(tails).tree:
                break  # these are one cell without the first
            whole = _together([first, *tails])
            if whole.tree:
                first, last, tails = whole, last + len(tails), []
        if last > index:
            numbers = [str(p.number) for p in pieces[index : last + 1]]
            together = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
            notes.append(f"Cells {together} are one cell that had been split; they were joined.")
        yield first
        index = last + 1


def _together(parts: list[Piece]) -> Piece:
    """As they stand in the file, if that is Python: half an expression may look like a magic."""
    source = "\n".join(p.source for p in parts)
    python = source if parse(source) else "\n".join(p.python for p in parts)
    return replace(parts[0], source=source, python=python)


def _without_spare_stubs(pieces: list[Piece], notes: list[str]) -> Iterator[Piece]:
    """Of cells with the same id all count, in order; but a stub does not undo an answer."""
    same: dict[str, list[Piece]] = {}
    for piece in pieces:
        if piece.grade_id in grade_ids():
            same.setdefault(piece.grade_id, []).append(piece)
    spare = set()
    for copies in same.values():
        stubs = [p for p in copies if p.bound and all(map(is_stub, p.bound.values()))]
        real = [p for p in copies if p not in stubs]
        if real:
            spare |= {p.number for p in stubs}
        if any(a.python.split() != b.python.split() for a, b in pairwise(real)):
            numbers = ", ".join(str(p.number) for p in real[:-1])
            notes.append(
                f"Cells {numbers} and {real[-1].number} are copies of one cell and differ; "
                "where they define the same, the last one counts."
            )
    return (p for p in pieces if p.number not in spare)
