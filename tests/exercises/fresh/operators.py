"""One-step changes of a syntax tree, each a slip of a person. A new operator is a function with a line for its slip."""

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations

Nodes = Iterator[ast.AST]


@dataclass(frozen=True)
class Operator:
    """A kind of slip.

    Args:
        name: in reports.
        slip: what the person did.
        changes: (node, parameters of the function around it) -> what may stand in its place.
    """

    name: str
    slip: str
    changes: Callable[[ast.AST, list[str]], Nodes]


OPERATORS: list[Operator] = []
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
              ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Mod: ast.FloorDiv}  # fmt: skip
BOUNDARY = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq}
TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
DROPPED = {
    "softmax", "log_softmax", "normalize", "sigmoid", "relu", "elu", "masked_fill", "tril", "triu", "where",
    "transpose", "swapaxes", "permute", "movedim", "mT", "T", "flip", "roll", "sort", "repeat_interleave",
    "exp", "log", "sqrt", "rsqrt", "square", "abs", "reciprocal", "clamp", "clamp_min", "clip", "nan_to_num",
    "sum", "mean", "amax", "cumsum", "cumprod", "flatten", "unsqueeze", "squeeze", "detach", "item", "contiguous",
}  # fmt: skip
MODULES = {"torch", "F", "math", "np", "nn", "nn.functional"}


def operator(name: str, slip: str) -> Callable:
    """Add an operator to the table."""

    def register(changes):
        OPERATORS.append(Operator(name, slip, changes))
        return changes

    return register


def _with(node: ast.AST, **fields) -> ast.AST:
    new = deepcopy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


@operator("arithmetic", "adds instead of subtracting, multiplies instead of dividing")
def _arithmetic(node, names) -> Nodes:
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield _with(node, op=ARITHMETIC[type(node.op)]())


@operator("whole division", "takes / for //, or // for /")
def _division(node, names) -> Nodes:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv):
        yield _with(node, op=ast.FloorDiv() if isinstance(node.op, ast.Div) else ast.Div())


@operator("power", "forgets the root, or takes the inverse of it")
def _power(node, names) -> Nodes:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        yield deepcopy(node.left)
        yield _with(node, right=ast.UnaryOp(ast.USub(), deepcopy(node.right)))


@operator("boundary", "takes < for <=, so that the boundary itself is lost or won")
def _boundary(node, names) -> Nodes:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in BOUNDARY:
        yield _with(node, ops=[BOUNDARY[type(node.ops[0])](), *node.ops[1:]])


@operator("direction", "compares the wrong way round")
def _direction(node, names) -> Nodes:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in TURNED:
        yield _with(node, ops=[TURNED[type(node.ops[0])](), *node.ops[1:]])


@operator("off by one", "counts one too many or one too few")
def _constant(node, names) -> Nodes:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        for by in (1, -1):
            yield ast.Constant(node.value + by)


@operator("step left out", "forgets a softmax, a transpose, an exponential, a mask ...")
def _dropped(node, names) -> Nodes:
    if isinstance(node, ast.Attribute) and node.attr in ("mT", "T"):
        yield deepcopy(node.value)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    if node.func.attr.removesuffix("_") not in DROPPED:
        return
    base = node.func.value
    if ast.unparse(base) not in MODULES:
        yield deepcopy(base)
    elif node.args:
        yield deepcopy(node.args[0])


@operator("operands exchanged", "multiplies, subtracts or divides the wrong way round")
def _exchanged(node, names) -> Nodes:
    order = ast.MatMult, ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow
    if isinstance(node, ast.BinOp) and isinstance(node.op, order):
        yield _with(node, left=deepcopy(node.right), right=deepcopy(node.left))


@operator("operand left out", "forgets one side of a sum or a product")
def _one_side(node, names) -> Nodes:
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Pow):
        yield deepcopy(node.left)
        yield deepcopy(node.right)
    if isinstance(node, ast.BoolOp):
        yield from map(deepcopy, node.values)


@operator("other axis", "sums, normalizes or joins along another axis")
def _dim(node, names) -> Nodes:
    if not isinstance(node, ast.Call):
        return
    for k, keyword in enumerate(node.keywords):
        value = _integer(keyword.value)
        if keyword.arg in ("dim", "axis") and value is not None:
            for other in {-1: (-2, 0), -2: (-1, -3), 0: (1, -1)}.get(value, (value - 1, value + 1)):
                new = deepcopy(node)
                new.keywords[k].value = ast.Constant(other)
                yield new


@operator("order of axes", "exchanges two axes of permute, transpose, view or an einsum")
def _axes(node, names) -> Nodes:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and "->" in node.value:
        for k, part in enumerate(parts := node.value.replace("->", ",").split(",")):
            for one in _neighbours(part.split() if " " in part.strip() else list(part)):
                told = [*parts[:k], (" " if " " in part.strip() else "").join(one), *parts[k + 1 :]]
                yield ast.Constant(",".join(told[:-1]) + "->" + told[-1])
    methods = "permute", "transpose", "view", "reshape", "movedim", "unflatten", "expand"
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in methods:
        for args in _neighbours(node.args):
            yield _with(node, args=args)


@operator("keyword left out", "forgets keepdim=True, dim=-1, diagonal=1 ...")
def _keyword(node, names) -> Nodes:
    if isinstance(node, ast.Call):
        for k in range(len(node.keywords)):
            new = deepcopy(node)
            del new.keywords[k]
            yield new


@operator("other argument", "uses the key for the value, n for m")
def _argument(node, names) -> Nodes:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        yield from (ast.Name(other, ast.Load()) for other in names if other != node.id)


@operator("slice", "cuts one place too early or too late")
def _slice(node, names) -> Nodes:
    if not isinstance(node, ast.Slice) or not (node.lower or node.upper):
        return
    for which in "lower", "upper":
        if (bound := getattr(node, which)) is not None:
            value = _integer(bound)
            for by in (1, -1):
                sign = ast.Add() if by > 0 else ast.Sub()
                new = ast.BinOp(deepcopy(bound), sign, ast.Constant(1))
                yield _with(node, **{which: new if value is None else ast.Constant(value + by)})


@operator("range", "starts or ends a loop one place too early or too late")
def _range(node, names) -> Nodes:
    if not isinstance(node, ast.Call) or node.keywords:
        return
    if getattr(node.func, "attr", getattr(node.func, "id", "")) not in ("range", "arange"):
        return
    one = ast.Constant(1)
    start, end, *step = node.args if len(node.args) > 1 else (ast.Constant(0), *node.args)
    later = [ast.BinOp(deepcopy(x), ast.Add(), one) for x in (start, end)]
    earlier = ast.BinOp(deepcopy(end), ast.Sub(), one)
    for args in (later, (later[0], end), (start, later[1]), (start, earlier)):
        yield _with(node, args=[deepcopy(x) for x in (*args, *step)])


@operator("negation", "forgets `not`, `~` or a minus")
def _negation(node, names) -> Nodes:
    if isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield deepcopy(node.operand)
    if isinstance(node, ast.If | ast.IfExp):
        yield _with(node, test=ast.UnaryOp(ast.Not(), deepcopy(node.test)))


@operator("true and false", "takes True for False")
def _boolean(node, names) -> Nodes:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)


@operator("branches exchanged", "takes the two values of where for each other")
def _where(node, names) -> Nodes:
    called = getattr(node, "func", None)
    if getattr(called, "attr", getattr(called, "id", "")) == "where" and len(node.args) == 3:
        yield _with(node, args=[deepcopy(node.args[k]) for k in (0, 2, 1)])


@operator("line left out", "forgets a line that changes what is there already")
def _line(node, names) -> Nodes:
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    changed = isinstance(node, ast.Assign) and (
        not isinstance(node.targets[0], ast.Name | ast.Tuple) or _reads_itself(node)
    )
    if called or changed or isinstance(node, ast.AugAssign | ast.If):
        yield ast.Pass()


def _reads_itself(node: ast.Assign) -> bool:
    """An assignment that makes something new of what it assigns to, such as x = x / 2."""
    both = node.targets[0], node.value
    stored, read = ({x.id for x in ast.walk(y) if isinstance(x, ast.Name)} for y in both)
    return stored <= read


def _integer(node: ast.AST) -> int | None:
    """The value of an integer that is written out."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return value if type(value) is int else None


def _neighbours(items: list) -> Iterator[list]:
    """The list with two of its items exchanged."""
    for a, b in combinations(range(len(items)), 2):
        new = [deepcopy(x) for x in items]
        new[a], new[b] = new[b], new[a]
        if ast.dump(_as_tuple(new)) != ast.dump(_as_tuple(items)):
            yield new


def _as_tuple(items: list) -> ast.Tuple:
    return ast.Tuple([x if isinstance(x, ast.AST) else ast.Constant(x) for x in items], ast.Load())
