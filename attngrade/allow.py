"""What an exercise forbids, found in the source of a submission before anything runs.

The first fence; the second is `attncourse.grading.blocked`. Where an exercise forbids something,
this is a list of what is allowed, for lists of what is not have gaps: every dotted name is followed
on the real modules, and none may lead to what is forbidden or to a tool that finds things by text.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain as joined

from attncourse.grading.exercise import Exercise
from attngrade import Cell
from attngrade.reach import (
    BUILTINS,
    DUNDERS,
    FOREIGN,
    Reached,
    fits,
    follow,
    public,
    ready_made,
    spelled,
)
from attngrade.source import UNREADABLE, Chain, Statement, part_of, statements

PACKAGES = ("attncourse", "attngrade")
GRADING = {f"attncourse.grading{end}" for end in ("", ".check", ".hint", ".status", ".CheckFailed")}
Numbered = list[tuple[int, Statement]]


def violations(cells: tuple[Cell, ...], exercise: Exercise) -> list[str]:
    """What a submission uses and this exercise does not allow, a sentence each.

    The course's own code counts where the answer needs it. So do the functions and classes in
    ``exercise.forbids``: another exercise of the notebook may use them, and so may a comparison
    below the answer. The tools that would get round this count wherever they stand.

    Args:
        cells: plain Python; one that cannot be parsed cannot run, and is skipped.
        exercise: the exercise.

    Cost: 1 ms for a notebook of 40 cells that was looked at before, 10 ms for a new one.
    """
    if not exercise.forbids and not any(_may_name_us(cell.source) for cell in cells):
        return []
    if not exercise.forbids and not any(
        _of_the_course(s) for c in cells if _may_name_us(c.source) for s in statements(c.source)
    ):
        return []
    notebook = [(cell.number, s) for cell in cells for s in statements(cell.source)]
    part = part_of(notebook, exercise.answer)
    found = _course(notebook, part)
    if exercise.forbids:
        found = joined(found, _Fence(notebook, part, exercise).found())
    return list(dict.fromkeys(found))


def _may_name_us(source: str) -> bool:
    return any(package in source for package in PACKAGES)


def _of_the_course(statement: Statement) -> list[str]:
    """Paths of the course's own code that a statement imports."""
    paths = {path for _, path, kind in statement.imports if kind != "package"}
    return sorted(x for x in paths - GRADING if x.split(".")[0] in PACKAGES)


def _course(notebook: Numbered, part: set[int]) -> Iterator[str]:
    # In the cell of an answer the import would fail, and the answer with it.
    cells = {notebook[index][0] for index in part}
    for number, statement in notebook:
        every = any(name == "*" for name, *_ in statement.imports)
        for path in _of_the_course(statement) if number in cells or every else ():
            yield (
                f"cell {number} imports {path.removesuffix('.*')}; "
                "write the answer yourself, with torch alone"
            )


class _Fence:
    """One notebook under the rules of one exercise that forbids something."""

    def __init__(self, notebook: Numbered, part: set[int], exercise: Exercise):
        self.notebook, self.part, self.exercise = notebook, part, exercise
        self.forbidden = ready_made(exercise.forbids)
        self.paths = defaultdict(set)  # what a name may stand for
        self.own = {name for _, statement in notebook for name in statement.defines}
        read = {name for _, statement in notebook for name in statement.reads}
        imported, plain = set(), set()
        for _, statement in notebook:
            for name, path, _ in statement.imports:
                for one in public(path[:-2]) & read if name == "*" else {name} - {""}:
                    self.paths[one].add(f"{path[:-1]}{one}" if name == "*" else path)
            own = {name for name, *_ in statement.imports} | {name for name, _ in statement.renames}
            imported |= own
            plain |= statement.binds - own
        self.rebound = imported & plain
        self.tangled = self._rename([x for _, statement in notebook for x in statement.renames])

    def _rename(self, renames: list[tuple[str, str]]) -> set[str]:
        """Follow ``F = nn.functional`` below ``nn = torch.nn``; what came to mean too much."""
        tangled = set()
        for _ in range(4):
            for name, path in renames:
                root, _, rest = path.partition(".")
                if len(self.paths[name]) > 20:
                    tangled.add(name)
                elif root in self.paths:
                    self.paths[name] |= {f"{x}.{rest}".rstrip(".") for x in self.paths[root]}
        return tangled

    def found(self) -> Iterator[str]:
        for index, (number, statement) in enumerate(self.notebook):
            if statement is UNREADABLE:
                yield f"cell {number} nests too deeply to be read; write it in several lines"
            for name in sorted({name for name, _ in statement.renames} & self.tangled):
                yield f"cell {number} gives {name} too many meanings; use several names"
            here = {name for name, *_ in statement.imports} | {x for x, _ in statement.renames}
            known = (statement.reads | here) & self.paths.keys()
            problems = joined(
                self._imports(statement, index in self.part),
                *(self._chain(c, known, index in self.part) for c in statement.chains),
                (
                    f"matches the attribute {x} by name; write the name out, as in x.{x}"
                    for x in statement.patterns
                ),
                self._builtins(statement),
            )
            yield from (f"cell {number} {problem}" for problem in problems)

    def _imports(self, statement: Statement, inside: bool) -> Iterator[str]:
        for name, path, _ in statement.imports:
            if path.startswith(PACKAGES):
                continue  # told for every exercise
            if name == "self":
                yield f"calls {path} self; import it under its own name"
            reached = follow(path.removesuffix(".*"))
            # What else it imports may be for another exercise; uses of it are found as such.
            yield from self._told(reached, path, inside and name == self.exercise.answer, "imports")
            if name == "*" and not public(path[:-2]):
                yield f"imports all of {path[:-2]}; import what you need by its name"
            if reached.rest and path.split(".")[0] not in FOREIGN:
                # Python would look for a module of that name.
                yield f"imports {path}, which is not known here; torch and math are enough"

    def _chain(self, chain: Chain, known: frozenset, inside: bool) -> Iterator[str]:
        paths = self.paths[chain.root] if chain.root in known else ()
        ends = [".".join((path, *chain.attributes)) for path in paths]
        for path in ends:
            if path.startswith(PACKAGES):
                continue
            reached = follow(path)
            yield from self._told(reached, path, inside)
            yield from self._spelled(reached.rest, "", inside)
            if reached.problem:
                continue
            if chain.writes and not path.startswith("torch.backends."):
                yield f"changes {path}; leave what belongs to a library as it is"
            elif reached.module and not chain.inert and chain.root not in self.rebound:
                yield f"hands the module {path} around; call its functions by their names"
        if not paths:
            yield from self._spelled(chain.attributes, chain.root, inside)

    def _told(self, reached: Reached, path: str, inside: bool, verb: str = "uses") -> Iterator[str]:
        if reached.problem:
            yield f"{verb} {reached.problem}"
        elif inside and self.forbidden.among(reached.passed):
            yield f"{verb} {path}, which this exercise does not allow; write its steps yourself"

    def _spelled(self, attributes: tuple[str, ...], root: str, inside: bool) -> Iterator[str]:
        """Attributes of something unknown, which can only be judged by their names."""
        for place, name in enumerate(attributes):
            own = root in ("self", "cls") and place == 0
            if problem := spelled(name, own):
                yield problem
            named = fits(name, self.forbidden.names) and name not in self.own
            if inside and not own and named:
                yield f"uses {name}, which this exercise does not allow; write its steps yourself"

    def _builtins(self, statement: Statement) -> Iterator[str]:
        used = {c.root for c in statement.chains} & statement.reads
        for name in sorted(used & BUILTINS.keys()):
            yield f"uses {name}; {BUILTINS[name]}"
        strange = {x for x in used if x.startswith("__") and x.endswith("__")} - DUNDERS
        yield from (f"uses {x}; an answer does not need it" for x in sorted(strange))
