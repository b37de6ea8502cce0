"""The code cells of a notebook as data: what each statement binds, reads and calls by name.

Nothing is run. A cell is parsed once, however many exercises look at it.
"""

import ast
import symtable
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Chain:
    """``torch.nn.Linear`` in the source: the name ``torch``, then attributes.

    Args:
        root: the first name; empty where the chain starts at a call or an index.
        attributes: what follows it.
        writes: assigned to or deleted.
        inert: the right side of ``F = torch.nn.functional``, or what ``help(torch.nn)`` shows.
    """

    root: str
    attributes: tuple[str, ...] = ()
    writes: bool = False
    inert: bool = False

    @property
    def path(self) -> str:
        return ".".join((self.root, *self.attributes))


@dataclass(frozen=True)
class Statement:
    """A statement at the top level of a cell, with all that is inside it.

    Args:
        binds: names of the notebook that it gives a value.
        reads: names of the notebook that it looks up, now or when its functions are called.
        changes: names whose value it may change in place, as ``table["a"] = ...`` does.
        imports: (name, path, kind). The kind is ``import``, ``from``, or ``package`` for what
            ``import torch.nn`` binds beside; the name is ``*`` for all, and empty for none.
        renames: (name, path): ``F = torch.nn.functional``.
        chains: every name and attribute in it.
        patterns: attributes that a ``match`` reads by keyword.
        defines: names of the functions and classes in it, methods too.
    """

    binds: frozenset[str]
    reads: frozenset[str]
    changes: frozenset[str]
    imports: tuple[tuple[str, str, str], ...]
    renames: tuple[tuple[str, str], ...]
    chains: tuple[Chain, ...]
    patterns: tuple[str, ...]
    defines: frozenset[str]


_NOTHING = frozenset()
UNREADABLE = Statement(_NOTHING, _NOTHING, _NOTHING, (), (), (), (), _NOTHING)


@lru_cache(maxsize=256)
def statements(source: str) -> tuple[Statement, ...]:
    """The statements of a cell; none where it is no Python, for then it cannot run either.

    A cell that nests too deeply to be read is `UNREADABLE`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\\d" in a string is the student's own affair
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, MemoryError):
            return ()
        except RecursionError:  # a shallower stack might still run it
            return (UNREADABLE,)
        # The lines as the parser counts them: a form feed or U+2028 ends none.
        lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        names = lru_cache(maxsize=None)(lambda first, end: _names("\n".join(lines[first:end])))
        return tuple(_statement(node, names) for node in tree.body)


def part_of(notebook: list[tuple[int, Statement]], answer: str) -> set[int]:
    """The indices of the statements that an answer is made of.

    These are all that bind its name, all that bind a name which those read, and so on. Other
    exercises of the notebook, and comparisons below an answer, are not among them.
    """
    binders = defaultdict(set)
    modules = {name for _, s in notebook for name, *_ in s.imports}
    for index, (_, statement) in enumerate(notebook):
        for name in statement.binds | (statement.changes - modules):
            binders[name].add(index)
    found, names, todo = set(), {answer}, [answer]
    while todo:
        new = binders[todo.pop()] - found
        found |= new
        read = {name for index in new for name in notebook[index][1].reads} - names
        names |= read
        todo += read
    return found


def _statement(node: ast.stmt, names) -> Statement:
    nodes = list(ast.walk(node))
    # Statements that share a line share its names.
    first = min([node.lineno, *(x.lineno for x in getattr(node, "decorator_list", ()))]) - 1
    binds, reads = names(first, node.end_lineno)
    if not binds and not reads:
        binds = reads = frozenset(x.id for x in nodes if isinstance(x, ast.Name))
    renames = list(_renames(nodes))
    return Statement(
        binds,
        reads,
        frozenset(_changes(nodes)) & reads,
        tuple(_imports(nodes)),
        tuple((name, _chain(value).path) for name, value in renames),
        tuple(_chains(nodes, {id(value) for _, value in renames} | set(_shown(nodes)))),
        tuple(a for x in nodes if isinstance(x, ast.MatchClass) for a in x.kwd_attrs),
        frozenset(x.name for x in nodes if isinstance(x, _DEFINITIONS)),
    )


def _names(source: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names of the notebook that code binds and reads, by the compiler's own rules.

    None where the compiler refuses: the lines begin within a string, or nest too deeply.
    """
    binds, reads = set(), set()
    try:
        todo = [symtable.symtable(source, "cell", "exec")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset(), frozenset()
    while todo:
        table = todo.pop()
        outermost = table.get_type() == "module"
        for symbol in table.get_symbols():
            if outermost or symbol.is_global():
                if symbol.is_referenced():
                    reads.add(symbol.get_name())
                if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                    binds.add(symbol.get_name())
        todo += table.get_children()
    return frozenset(binds), frozenset(reads)


def _chain(x: ast.expr, **kind) -> Chain:
    attributes = []
    while isinstance(x, ast.Attribute):
        attributes.append(x.attr)
        x = x.value
    return Chain(x.id if isinstance(x, ast.Name) else "", tuple(reversed(attributes)), **kind)


def _chains(nodes: list[ast.AST], inert: set[int]) -> Iterator[Chain]:
    """The longest chains; the walk meets an attribute before what it is an attribute of."""
    inside, texts = set(), _looped(nodes)
    for x in nodes:
        asked = _attributes_asked_for(x, texts) if isinstance(x, ast.Call) else ()
        harmless = asked or (isinstance(x, ast.Call) and _is_harmless(x))
        if harmless:
            yield from (Chain("", (name,)) for name in asked)
            x = x.func
        elif not isinstance(x, ast.Attribute | ast.Name) or id(x) in inside:
            continue
        writes = not isinstance(x.ctx, ast.Load)
        if not harmless and (isinstance(x, ast.Attribute) or not writes):
            yield _chain(x, writes=writes, inert=id(x) in inert)
        inside.add(id(x))
        while isinstance(x, ast.Attribute):
            x = x.value
            inside.add(id(x))


def _is_harmless(call: ast.Call) -> bool:
    """``setattr(self, name, x)`` and ``timeit.timeit(lambda: f(x), number=10)`` are daily bread."""
    first = call.args[0] if call.args else None
    if isinstance(call.func, ast.Name) and call.func.id == "setattr":
        return isinstance(first, ast.Name) and first.id == "self"
    times = isinstance(call.func, ast.Attribute) and call.func.attr in ("timeit", "repeat")
    named = {keyword.arg for keyword in call.keywords} <= {"number", "repeat"}
    return times and isinstance(first, ast.Lambda) and len(call.args) == 1 and named


def _attributes_asked_for(call: ast.Call, texts: dict[str, tuple]) -> tuple[str, ...]:
    """The attributes that ``getattr(layer, f"{name}_proj")`` can get, a star for what is open.

    None where that cannot be seen: the name is neither written there nor in the loop around it.
    """
    if getattr(call.func, "id", "") != "getattr" or len(call.args) < 2:
        return ()
    name = call.args[1]
    if isinstance(name, ast.JoinedStr):
        parts = (x.value if isinstance(x, ast.Constant) else "*" for x in name.values)
        return ("".join(parts),)
    values = texts.get(name.id, ()) if isinstance(name, ast.Name) else (_text(name),)
    return values if all(isinstance(value, str) for value in values) else ()


def _looped(nodes: list[ast.AST]) -> dict[str, tuple]:
    """What names stand for that only loops over written lists bind, as in ``for name in ("q", "k")``."""
    stored = defaultdict(list)
    for x in nodes:
        if isinstance(x, ast.arg) or (isinstance(x, ast.Name) and not isinstance(x.ctx, ast.Load)):
            stored[getattr(x, "id", getattr(x, "arg", ""))].append(id(x))
    lists = {id(x.target): x.iter for x in nodes if isinstance(x, ast.For | ast.comprehension)}
    found = {}
    for name, places in stored.items():
        iters = [lists.get(place) for place in places]
        if all(isinstance(x, ast.Tuple | ast.List) for x in iters):
            found[name] = tuple({_text(text) for x in iters for text in x.elts})
    return found


def _text(x: ast.expr) -> str | None:
    return x.value if isinstance(x, ast.Constant) and isinstance(x.value, str) else None


def _shown(nodes: list[ast.AST]) -> Iterator[int]:
    for x in nodes:
        if isinstance(x, ast.Call) and getattr(x.func, "id", "") in ("dir", "help", "print"):
            yield from map(id, x.args)


def _renames(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    for x in nodes:
        targets = x.targets if isinstance(x, ast.Assign) else ()
        for target in targets:
            pairs = [(target, x.value)]
            if isinstance(target, ast.Tuple) and isinstance(x.value, ast.Tuple):
                pairs = zip(target.elts, x.value.elts, strict=False)
            for name, value in pairs:
                # "self" names no module: its attributes may be called anything
                if isinstance(name, ast.Name) and name.id != "self" and _chain(value).root:
                    yield name.id, value


def _imports(nodes: list[ast.AST]) -> Iterator[tuple[str, str, str]]:
    for x in nodes:
        if isinstance(x, ast.Import):
            for alias in x.names:
                whole = alias.asname or "." not in alias.name
                yield (alias.asname or alias.name) if whole else "", alias.name, "import"
                if not whole:  # binds the package, whatever part of it is named
                    package = alias.name.split(".")[0]
                    yield package, package, "package"
        elif isinstance(x, ast.ImportFrom):
            module = "." * x.level + (x.module or "")
            for alias in x.names:
                yield alias.asname or alias.name, f"{module}.{alias.name}", "from"


def _changes(nodes: list[ast.AST]) -> Iterator[str]:
    """The first names of what is written into, and of methods that are called for their effect."""
    for x in nodes:
        if isinstance(x, ast.Expr) and isinstance(x.value, ast.Call):
            x = x.value.func
        elif not isinstance(x, ast.Attribute | ast.Subscript) or isinstance(x.ctx, ast.Load):
            continue
        while isinstance(x, ast.Attribute | ast.Subscript | ast.Call):
            x = x.func if isinstance(x, ast.Call) else x.value
            if isinstance(x, ast.Name):
                yield x.id
