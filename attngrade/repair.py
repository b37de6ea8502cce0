"""Damage that notebooks take on their way, undone: cells retyped, split, merged, duplicated.

Nothing is guessed that could cost points: what is healed is told, and a whole cell stays as it is.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice, pairwise
from textwrap import dedent

from attncourse.grading.exercises import chapter_of, load, names
from attngrade.plain import error_line, parse, plain

# Only text with such a line is worth a look by the parser.
_LOOKS_LIKE_CODE = re.compile(r"^(?:def|class|import|from|check\(|@|\w+ *=(?!=))", re.MULTILINE)
_DEFINES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_INSTALLER = {"importlib", "os", "subprocess", "sys"}


@dataclass(frozen=True)
class Piece:
    """A cell while it is healed: its place, what kind it claims to be, its nbgrader id."""

    number: int
    kind: str
    source: str
    grade_id: str = ""

    @property
    def code(self) -> bool:
        return self.kind == "code"

    @cached_property
    def tree(self) -> ast.Module | None:
        """Its syntax tree, or None where it is no Python."""
        return parse(self.source)

    @cached_property
    def bound(self) -> dict[str, ast.stmt]:
        """What it defines at the top level: the last statement that binds each name."""
        found = {}
        for statement in self.tree.body if self.tree else ():
            found |= dict.fromkeys(_bound_by(statement), statement)
        return found

    @cached_property
    def checks(self) -> set[str]:
        """The exercises that it calls `check` on."""
        if "check" not in self.source or not self.tree:
            return set()
        calls = (x for x in ast.walk(self.tree) if isinstance(x, ast.Call) and x.args)
        named = (c.args[0] for c in calls if getattr(c.func, "id", "") == "check")
        return {x.value for x in named if isinstance(x, ast.Constant) and isinstance(x.value, str)}

    def answers(self) -> set[str]:
        """The answers that it gives; an untouched stub is none."""
        return {x for x in self.bound.keys() & answers().keys() if not is_stub(self.bound[x])}


@cache
def answers() -> dict[str, set[str]]:
    """The chapters in which each name is the answer to an exercise."""
    found: dict[str, set[str]] = {}
    for name in names():
        found.setdefault(load(name).answer, set()).add(chapter_of(name))
    return found


@cache
def grade_ids() -> dict[str, str]:
    """The exercise that each of nbgrader's cell ids belongs to."""
    return {f"{name}{ending}": name for name in names() for ending in ("", "_answer")}


def worth_a_look(piece: Piece) -> bool:
    """Whether this is code or may once have been."""
    marked = piece.code or piece.grade_id in grade_ids()
    return marked or bool(_LOOKS_LIKE_CODE.search(piece.source))


def heal(pieces: list[Piece], notes: list[str]) -> list[Piece]:
    """The code cells as they were meant, in their order; ``notes`` gets a sentence for each repair."""
    pieces = [_as_python(p) if p.code else p for p in pieces]
    pieces = [p for p in pieces if p.source.strip()]
    pieces = [_dedented(p) if p.code else p for p in _joined(pieces, notes)]
    pieces = list(_retyped(pieces, notes))
    pieces = list(_cut_out(pieces, notes))
    pieces = list(_without_spare_stubs([p for p in pieces if p.code], notes))
    pieces = map(_without_bootstrap, pieces)
    return [p for p in pieces if not p.tree or p.tree.body]


def is_stub(statement: ast.stmt) -> bool:
    """``name = None``, or a function or class whose every body still ends by raising the stub."""
    if isinstance(statement, ast.ClassDef):
        methods = [x for x in statement.body if isinstance(x, ast.FunctionDef)]
        return bool(methods) and all(map(is_stub, methods))
    if isinstance(statement, ast.FunctionDef):
        last, inside = statement.body[-1], ast.walk(statement)
        raises = (
            isinstance(last, ast.Raise) and getattr(last.exc, "id", "") == "NotImplementedError"
        )
        return raises and not any(isinstance(x, ast.Return | ast.Yield) for x in inside)
    value = getattr(statement, "value", None)
    return isinstance(value, ast.Constant) and value.value in (None, ...)


def _as_python(piece: Piece) -> Piece:
    """As a code cell without magics. A cell that is indented as a whole runs in a notebook too."""
    again = replace(piece, kind="code")
    if not again.tree:
        again = replace(again, source=plain(again.source))
        even = _dedented(again)
        again = even if even.answers() or even.checks else again  # else it may be half a cell
    return again


def _dedented(piece: Piece) -> Piece:
    if piece.tree or not piece.source.lstrip("\n").startswith((" ", "\t")):
        return piece
    even = replace(piece, source=dedent(piece.source))
    return even if even.tree else piece


def _bound_by(statement: ast.stmt) -> list[str]:
    if isinstance(statement, _DEFINES):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(x.asname or x.name).split(".")[0] for x in statement.names]
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    nodes = (x for t in targets if t for x in ast.walk(t) if isinstance(x, ast.Name))
    return [x.id for x in nodes if isinstance(x.ctx, ast.Store)]


def _joined(pieces: list[Piece], notes: list[str]) -> Iterator[Piece]:
    """A cell that is no Python belongs to the one before it, if the two together are Python."""
    index = 0
    while index < len(pieces):
        first, last = pieces[index], index
        tails = []
        for tail in pieces[index + 1 : index + 8]:
            if not (first.code and tail.code) or tail.tree:
                break
            tails.append(tail.source)
            if first.tree and len(tails) > 1 and parse("\n".join(tails)):
                break  # these are one cell without the first
            whole = replace(first, source="\n".join([first.source, *tails]))
            if whole.tree:
                first, last, tails = whole, last + len(tails), []
        if last > index:
            numbers = [str(p.number) for p in pieces[index : last + 1]]
            together = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
            notes.append(f"Cells {together} are one cell that had been split; they were joined.")
        yield first
        index = last + 1


def _retyped(pieces: list[Piece], notes: list[str]) -> Iterator[Piece]:
    """Code that had become text is code again, where the rest of the notebook misses it."""
    again = {p.number: _as_python(p) for p in pieces if not p.code and worth_a_look(p)}
    code = [p for p in pieces if p.code]
    missed: dict[int, Piece] = {}
    for _ in range(3):  # what is missed may miss more
        found = _missed([p for p in again.values() if p.number not in missed], code)
        if not found:
            break
        missed |= {p.number: p for p in found}
        code += found
    for piece in pieces:
        if piece.number in missed:
            kind = {"markdown": "Markdown", "raw": "raw text"}.get(piece.kind, "no code cell")
            notes.append(f"Cell {piece.number} had become {kind}; it was read as code.")
        yield missed.get(piece.number, piece)


def _missed(texts: list[Piece], code: list[Piece]) -> list[Piece]:
    if not texts:
        return []
    missing = _missing(code) if any(p.tree for p in texts) else set()
    checked = {name for p in code for name in p.checks}
    ids = grade_ids().keys() - {p.grade_id for p in code}
    return [p for p in texts if p.grade_id in ids or missing & _gives(p) or p.checks - checked]


def _gives(piece: Piece) -> set[str]:
    return (piece.bound.keys() - answers().keys()) | piece.answers()


def _missing(code: list[Piece]) -> set[str]:
    """What the code cells use and do not define, and the answers that they do not give."""
    nodes = (x for p in code if p.tree for x in ast.walk(p.tree))
    used = {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load)}
    given = {name for p in code for name in _gives(p)}
    return (used | answers().keys()) - given


def _cut_out(pieces: list[Piece], notes: list[str]) -> Iterator[Piece]:
    """An answer merged with the text around it: the lines that are Python, if it is nowhere else."""
    wanted = answers().keys() - {x for p in pieces if p.code for x in p.answers()}
    for piece in pieces:
        if wanted and piece.tree is None and worth_a_look(piece):
            part = _python_within(piece, "|".join(wanted))
            if part:
                notes.append(f"Cell {piece.number} mixes text and code; its code was read.")
                piece = part
        yield piece


def _python_within(piece: Piece, wanted: str) -> Piece | None:
    """The lines from one that defines a wanted answer down to where text begins."""
    begins = rf"^(?:(?:def|class) +(?:{wanted})\b|(?:{wanted}) *=(?!=))"
    for begin in islice(re.finditer(begins, piece.source, re.MULTILINE), 5):
        lines, end = plain(piece.source[begin.start() :]).split("\n"), None
        for _ in range(10):
            part = replace(piece, kind="code", source="\n".join(lines[:end]))
            if part.tree:
                # An indented line behind it is a slip in the middle of the answer, not text.
                inside = end is not None and lines[end].startswith((" ", "\t"))
                return part if part.answers() and not inside else None
            end = error_line(part.source) - 1
            while end and not lines[end - 1].strip():
                end -= 1
    return None


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
        if any(a.source.split() != b.source.split() for a, b in pairwise(real)):
            numbers = ", ".join(str(p.number) for p in real[:-1])
            notes.append(
                f"Cells {numbers} and {real[-1].number} are copies of one cell and differ; "
                "where they define the same, the last one counts."
            )
    return (p for p in pieces if p.number not in spare)


def _without_bootstrap(piece: Piece) -> Piece:
    """The cell without the lines that install the course, which is here already."""
    if "attncourse" not in piece.source or not piece.tree:
        return piece
    lines = piece.source.split("\n")
    texts = {x: "\n".join(lines[x.lineno - 1 : x.end_lineno]) for x in piece.tree.body}
    gone = [x for x, text in texts.items() if _installs(x, text)]
    if not gone:
        return piece
    gone += [x for x in texts if isinstance(x, ast.Import) and _INSTALLER.issuperset(_bound_by(x))]
    for x in gone:
        lines[x.lineno - 1 : x.end_lineno] = [""] * (x.end_lineno - x.lineno + 1)
    return replace(piece, source="\n".join(lines))


def _installs(statement: ast.stmt, text: str) -> bool:
    named = "attncourse" in text and ("find_spec" in text or "pip" in text)
    return named and not isinstance(statement, _DEFINES | ast.Import | ast.ImportFrom)
