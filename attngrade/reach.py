"""Where a dotted name leads on the real modules, and which places an answer may go to.

Only what stands here is ever imported, whatever a submission names.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module
from inspect import isclass, ismodule


def _words(text: str) -> set[str]:
    return set(text.split())


# Modules that notebooks use, followed attribute by attribute. A dot at the end: all below it, too.
MODULES = _words(
    "__future__ abc bisect cmath collections collections.abc contextlib copy dataclasses datetime "
    "decimal enum fractions functools gc heapq inspect itertools json logging math numbers operator os "
    "platform pprint random re statistics sys textwrap time timeit tracemalloc types typing warnings "
    "numpy numpy.fft numpy.lib numpy.lib.stride_tricks numpy.linalg numpy.ma numpy.random "
    "numpy.testing numpy.typing "
    "torch torch.accelerator torch.amp torch.autograd. torch.backends. torch.cpu torch.cuda. "
    "torch.distributions. torch.fft torch.func torch.functional torch.jit torch.linalg torch.masked "
    "torch.mps torch.nested torch.nn. torch.optim. torch.profiler torch.random torch.return_types "
    "torch.sparse torch.special torch.testing torch.types torch.utils torch.utils.data torch.utils.flop_counter "
    "torch.version torch.xpu torch.__config__"
)
# Of these, no more than this.
ONLY = {
    "gc": {"collect"},
    "inspect": {"getsource", "signature"},
    "numpy.testing": _words(
        "assert_allclose assert_almost_equal assert_array_almost_equal assert_array_equal "
        "assert_array_less assert_equal"
    ),
    "os": {"cpu_count", "environ"},
    "sys": _words("float_info getsizeof maxsize platform stdout version version_info"),
    "torch.jit": _words("export ignore script trace unused"),
    "torch.utils.flop_counter": {"FlopCounterMode"},
    "types": {"SimpleNamespace"},
}
# These find, load or make code by text.
NEVER = {
    "functools.singledispatch": "it looks things up by their names in text",
    "numpy.load": "it reads code from a file",
    "operator.attrgetter": "write the attribute out, as in x.name",
    "operator.methodcaller": "write the call out, as in x.name()",
    "timeit.Timer": "time a lambda: timeit.timeit(lambda: f(x), number=10)",
    "timeit.repeat": "time a lambda: timeit.repeat(lambda: f(x), number=10)",
    "timeit.timeit": "time a lambda: timeit.timeit(lambda: f(x), number=10)",
    "torch.CompilationUnit": "it makes code from text",
    "torch.get_device_module": "name the module itself, as in torch.cuda",
    "torch.import_ir_module": "it reads code from a file",
    "torch.load": "it reads code from a file; keep the model in the notebook",
    "torch.parse_ir": "it makes code from text",
    "typing.ForwardRef": "it makes code from text",
    "typing.get_type_hints": "it makes code from text",
}
# Libraries that need not be here to be allowed: their names are only looked at.
FOREIGN = _words(
    "IPython altair attncourse attngrade beartype einops ipywidgets jaxtyping matplotlib pandas plotly pytest "
    "rich scipy seaborn sklearn tabulate torchinfo torchvision tqdm typing_extensions"
)
BUILTINS = {
    **dict.fromkeys(("eval", "exec", "compile"), "write the code itself, not its text"),
    **dict.fromkeys(("getattr", "vars"), "write the attribute out, as in x.name"),
    **dict.fromkeys(("setattr", "delattr"), "write the assignment out, as in x.name = 1"),
    **dict.fromkeys(("globals", "locals"), "use the variable by its name"),
    "__import__": "write an import statement",
    "open": "an answer needs no files",
    "breakpoint": "an answer needs no debugger",
}
DUNDERS = {
    f"__{name}__"
    for name in _words(
        "add annotations bool call class config contains doc enter eq exit file float format "
        "ge getitem gt hash index init int iter le len lt main matmul module mul name ne neg new next or "
        "post_init pow qualname radd repr rmul setattr setitem str sub truediv version"
    )
}
# Frames and code; files; and what is a module wherever it turns up.
ATTRIBUTES = _words(
    "ag_code ag_frame cr_code cr_frame f_back f_builtins f_code f_globals f_locals f_trace func_globals "
    "gi_code gi_frame tb_frame tb_next tofile "
    "builtins ctypes gc importlib inspect overrides pickle subprocess sys torch"
)
_WITHOUT = "in this exercise an answer must do without it"


@dataclass(frozen=True)
class Reached:
    """Where a path led.

    Args:
        problem: why it may not go there, to follow "uses"; empty if it may.
        passed: the objects on the way.
        rest: attributes of something that only running the code would show.
        module: it ends at a module.
    """

    problem: str = ""
    passed: tuple = ()
    rest: tuple[str, ...] = ()
    module: bool = False


@dataclass(frozen=True)
class ReadyMade:
    """Objects that an exercise forbids, under all their names."""

    objects: tuple
    names: frozenset[str]

    def among(self, passed: tuple) -> bool:
        """Whether one of these objects is forbidden, or a class made from one that is."""
        classes = tuple(x for x in self.objects if isclass(x))
        return any(
            any(x is y for y in self.objects) or (isclass(x) and issubclass(x, classes))
            for x in passed
        )


_LAYERS = (
    "torch.nn.MultiheadAttention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.Transformer",
    "torch.nn.TransformerEncoder",
    "torch.nn.TransformerEncoderLayer",
    "torch.nn.TransformerDecoder",
    "torch.nn.TransformerDecoderLayer",
)
# What else would be the answer where a name is forbidden.
WITH = {
    "torch.nn.MultiheadAttention": _LAYERS,
    "torch.nn.functional.multi_head_attention_forward": _LAYERS,
    "torch.nn.functional.scaled_dot_product_attention": _LAYERS,
}


@lru_cache
def ready_made(names: tuple[str, ...]) -> ReadyMade:
    """What ``Exercise.forbids`` stands for, aliases and relatives included."""
    paths = {path for name in names for path in (name, *WITH[name])}
    return ReadyMade(
        tuple(follow(path).passed[-1] for path in sorted(paths)),
        frozenset(path.rpartition(".")[2] for path in paths),
    )


def spelled(name: str, own: bool) -> str:
    """Why an attribute of something unknown may not be used, judged by its name; often ''.

    Args:
        name: the attribute; ``*_proj`` where only a part of it is known.
        own: it is an attribute of ``self``, which may be called as one likes.
    """
    begin, _, end = name.partition("*")
    if "*" in name and (fits(name, ATTRIBUTES) or {begin, end[-2:]} <= {"", "_", "__"}):
        return f"uses getattr; {BUILTINS['getattr']}"
    if name.startswith("__") and name.endswith("__"):
        allowed = name in DUNDERS or (own and name == "__dict__")
        return "" if allowed else f"uses {name}; {_WITHOUT}"
    return f"uses .{name}; {_WITHOUT}" if name in ATTRIBUTES and not own else ""


def fits(name: str, names: Iterable[str]) -> bool:
    """Whether it is among these, or may be where only a part of it is known."""
    return name in names or ("*" in name and any(fnmatchcase(x, name) for x in names))


@lru_cache(maxsize=20_000)
def follow(path: str) -> Reached:
    """Walk along ``torch.nn.Linear``, looking only; see `Reached`."""
    top, *names = path.split(".")
    if top in FOREIGN:
        hidden = next((n for n in names if n.startswith("_") and n not in DUNDERS), None)
        return Reached(f"{path}; {_WITHOUT}" if hidden else "", (), tuple(names))
    if len(names) > 12:
        return Reached(f"a path of {len(names) + 1} names; {_WITHOUT}")
    if top not in MODULES and f"{top}." not in MODULES:
        return Reached(f"{top}; {_WITHOUT}")
    here, passed = import_module(top), []
    for place, name in enumerate(names):
        module, so_far = ismodule(here), f"{top}.{'.'.join(names[: place + 1])}"
        if not module and not isclass(here):
            return Reached("", tuple(passed), tuple(names[place:]))
        if name.startswith("_") and name not in DUNDERS:
            return Reached(f"{so_far}; {_WITHOUT}", tuple(passed))
        if module and name not in ONLY.get(here.__name__, {name}):
            return Reached(f"{so_far}; {_WITHOUT}", tuple(passed))
        there = _step(here, name)
        if there is None:
            return Reached("", tuple(passed), tuple(names[place:]))
        if module and (why := NEVER.get(f"{here.__name__}.{name}") or _never(there)):
            return Reached(f"{so_far}; {why}", tuple(passed))
        if ismodule(there) and not _may_be_entered(there.__name__):
            return Reached(f"{so_far}; {_WITHOUT}", tuple(passed))
        here = there
        passed.append(here)
    return Reached("", tuple(passed), (), ismodule(here))


@lru_cache
def public(module: str) -> frozenset[str]:
    """What ``from module import *`` binds; nothing where that is not known."""
    reached = follow(module)
    if not reached.module:
        return frozenset()
    found = vars((import_module(module), *reached.passed)[-1])
    return frozenset(found.get("__all__", [name for name in found if not name.startswith("_")]))


def _step(here, name: str):
    """The attribute; a module is never asked, for it might import or compute something."""
    if not ismodule(here):
        return getattr(here, name, None)
    if name not in vars(here) and f"{here.__name__}.{name}" in MODULES:
        return import_module(f"{here.__name__}.{name}")
    return vars(here).get(name)


def _may_be_entered(module: str) -> bool:
    parents = [f"{module[:k]}." for k, letter in enumerate(f"{module}.") if letter == "."]
    hidden = "._" in module.replace(".__config__", "") or "flex_attention" in module
    return (module in MODULES or any(p in MODULES for p in parents)) and not hidden


@lru_cache
def _denied() -> dict[int, str]:
    found = {}
    for path, why in NEVER.items():
        module, _, name = path.rpartition(".")
        found[id(vars(import_module(module)).get(name))] = why
    return found


def _never(thing) -> str | None:
    return _denied().get(id(thing)) if thing is not None else None
