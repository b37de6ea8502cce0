"""Repair of notebooks that were damaged on their way: cells retyped, split, copied.

No repair can cost points: each is reported, and a cell that parses is left as it is.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from textwrap import dedent

from attncourse.grading.exercises import names
from attngrade.magics import as_python
from attngrade.piece import Piece, is_stub

MOST_PARTS = 8  # of a split cell


@cache
def grade_ids() -> dict[str, str]:
    """The exercise of each of nbgrader's cell ids."""
    return {f"{name}{ending}": name for name in names() for ending in ("", "_answer")}


def repair(pieces: list[Piece], notes: list[str]) -> list[Piece]:
    """The repaired code cells as Python; ``notes`` gets a sentence for each repair."""
    code = [_even(p) for p in _retyped(pieces, notes) if p.source.strip()]
    return _without_spare_stubs([*as_python(_joined(code, notes))], notes)


def _retyped(pieces: list[Piece], notes: list[str]) -> Iterator[Piece]:
    """The code cells, and text cells that define or check something under an id that no code cell has."""
    missing = grade_ids().keys() - {p.grade_id for p in pieces if p.kind == "code"}
    for piece in pieces:
        if piece.kind == "code":
            yield piece
        elif piece.grade_id in missing and (piece.bound or piece.checks):
            kind = {"markdown": "Markdown", "raw": "raw text"}.get(piece.kind, "no code cell")
            notes.append(f"Cell {piece.number} had become {kind}; it was read as code.")
            yield replace(piece, kind="code")


def _even(piece: Piece) -> Piece:
    """The cell dedented, if that reveals an answer or a check; other indented cells are tails of split ones."""
    even = piece if piece.tree else replace(piece, source=dedent(piece.source))
    return even if even.answers or even.checks else piece


def _joined(pieces: list[Piece], notes: list[str]) -> Iterator[Piece]:
    """Split cells joined: a cell that does not parse is appended to the one before if the two together parse."""
    index = 0
    while index < len(pieces):
        first, last, tails = pieces[index], index, []
        for tail in pieces[index + 1 : index + MOST_PARTS]:
            if tail.tree:
                break
            tails.append(tail.source)
            if first.tree and len(tails) > 1 and replace(tail, source="\n".join(tails)).tree:
                break  # The tails parse on their own: they are another cell, so do not join.
            whole = replace(first, source="\n".join([first.source, *tails]))
            if whole.tree:
                first, last, tails = whole, last + len(tails), []
        if last > index:
            *but_one, final = [str(p.number) for p in pieces[index : last + 1]]
            parts = f"Cells {', '.join(but_one)} and {final}"
            notes.append(f"{parts} are one cell that had been split; they were joined.")
        yield first
        index = last + 1


def _without_spare_stubs(pieces: list[Piece], notes: list[str]) -> list[Piece]:
    """The cells without stubs whose copies have answers; other copies of a cell all count, in order."""
    spare = set()
    for grade_id in grade_ids().keys() & {p.grade_id for p in pieces}:
        copies = [p for p in pieces if p.grade_id == grade_id]
        real = [p for p in copies if not p.bound or not all(map(is_stub, p.bound.values()))]
        if real:
            spare |= {p.number for p in copies if p not in real}
        if any(a.source.split() != b.source.split() for a, b in pairwise(real)):
            *but_one, final = [str(p.number) for p in real]
            notes.append(
                f"Cells {', '.join(but_one)} and {final} are copies of one cell and differ; "
                "where they define the same, the last one counts."
            )
    return [p for p in pieces if p.number not in spare]
