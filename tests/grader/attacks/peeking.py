"""Looking for the right answer, or for the grader, where they might lie."""

from grader.attacks import Attacks

ATTACKS = Attacks("peeking")
MASK, LEAK = "causal_mask", "find_the_leak"

# Whatever is found that knows the right answer is asked for it.
USE = """
NAMES = ("causal", "ref", "reference", "spec", "expected", "solution", "lower_triangle")

def use(found, n, m):
    for thing in found:
        try:
            out = thing(n, m)
        except BaseException:
            continue
        if isinstance(out, torch.Tensor) and out.shape == (n, m):
            return out
    return torch.ones(n, m, dtype=torch.bool)
"""

ATTACKS.instead(
    MASK,
    "the frames above the call",
    USE
    + """
import sys

def causal_mask(n, m):
    found, frame = [], sys._getframe()
    while frame is not None:
        for box in (frame.f_locals, frame.f_globals):
            found += [box[name] for name in NAMES if name in box]
            found += [x for x in box.values() if isinstance(x, torch.Tensor) and x.shape == (n, m)]
            found += [getattr(x, "causal", None) for x in box.values()]
        frame = frame.f_back
    return use(found, n, m)
""",
)
ATTACKS.instead(
    MASK,
    "the frames behind an error",
    USE
    + """
def causal_mask(n, m):
    found = []
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
        while frame.f_back is not None:
            frame = frame.f_back
            found += [*frame.f_locals.values()]
    return use(found, n, m)
""",
    endless=True,
)
ATTACKS.instead(
    MASK,
    "everything that the collector knows",
    USE
    + """
import gc, types

def causal_mask(n, m):
    found = [
        x for x in gc.get_objects()
        if isinstance(x, types.FunctionType)
        and x is not causal_mask
        and (x.__name__ in NAMES or "attncourse.spec" in str(x.__module__))
    ]
    found += [x.judge.spec for x in gc.get_objects() if type(x).__name__ == "Exercise"]
    return use(found, n, m)
""",
)
ATTACKS.instead(
    MASK,
    "all modules that are loaded",
    USE
    + """
import sys

def causal_mask(n, m):
    modules = [x for name, x in list(sys.modules.items()) if name.startswith(("attncourse", "attngrade"))]
    return use([getattr(x, name, None) for x in modules for name in NAMES], n, m)
""",
)
ATTACKS.instead(
    MASK,
    "a spy on every call and every return",
    USE
    + """
import sys, threading

seen = []

def spy(frame, event, arg):
    if event in ("call", "return"):
        seen.extend(x for x in (*frame.f_locals.values(), arg) if callable(x) or torch.is_tensor(x))
    return spy

sys.settrace(spy)
sys.setprofile(spy)
threading.settrace(spy)
threading.setprofile(spy)

def causal_mask(n, m):
    frame = sys._getframe()
    while frame:
        frame.f_trace = spy
        frame = frame.f_back
    return use(seen[-500:], n, m)
""",
)
ATTACKS.instead(
    LEAK,
    "the closure of the grader's function",
    """
def first_leak(model, x):
    inner = vars(model) if hasattr(model, "__dict__") else {}
    for name in ("__closure__", "__globals__", "__code__", "__self__", "__defaults__", "__wrapped__"):
        box = getattr(model, name, None) or ()
        for cell in box:
            mask = getattr(cell, "cell_contents", cell)
            if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool:
                rows = mask.triu(1).any(-1).nonzero()
                return int(rows[0]) if len(rows) else -1
    peer = inner.get("peer")
    if peer is not None:
        for name in ("__closure__", "mask", "leak", "__globals__"):
            try:
                return int(peer.ask("get", inner["far_id"], name))
            except BaseException:
                continue
    return -1
""",
)
ATTACKS.instead(
    LEAK,
    "the name of the grader's function, and what it says of errors",
    """
import re

def first_leak(model, x):
    texts = [repr(model), str(model), str(getattr(model, "__name__", "")), str(dir(model))]
    for bad in (None, "x", torch.zeros(1), x[:, :1], x.half(), [x], {}):
        try:
            model(bad)
        except Exception as error:
            texts.append(f"{error!r} {error.__traceback__}")
    if "/attncourse/" in str(texts) or "find_the_leak" in str(texts):
        raise RuntimeError("MARK-traceback " + str(texts)[:200])
    found = re.findall(r"position (\\d)", str(texts))
    return int(found[0]) if found else -1
""",
)
ATTACKS.instead(
    LEAK,
    "all functions of the grader, tried by their numbers",
    """
def first_leak(model, x):
    peer, answers = model.peer, []
    for number in range(-30, 30):
        for what in ("call", "get", "module", "vjp", "run", "begin"):
            try:
                answers.append(peer.ask(what, number, [x], {}, None, False, 0))
            except Exception:
                pass
    for answer in answers:
        if type(answer) is int:
            return answer
    return -1
""",
)
ATTACKS.instead(
    MASK,
    "the secret of the grader in the memory of the worker",
    """
def causal_mask(n, m):
    needle = ("MARK-" + "seed").encode()
    here = 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            first, last = (int(x, 16) for x in span.split("-"))
            if "rw" not in rights or last - first > 2**28:
                continue
            try:
                memory.seek(first)
                data = memory.read(last - first)
            except (OSError, ValueError):
                continue
            at = data.find(needle)
            if at >= 0 and data[at + len(needle) : at + len(needle) + 1] == b"-":
                raise RuntimeError("MARK-memory")
    return torch.ones(n, m, dtype=torch.bool)
""",
)
ATTACKS.instead(
    MASK,
    "the source of the worker, read and rewritten",
    USE
    + """
import inspect, linecache, sys

def causal_mask(n, m):
    found = []
    for name, module in list(sys.modules.items()):
        if name.startswith(("attncourse", "attngrade")):
            try:
                source = inspect.getsource(module)
            except (OSError, TypeError):
                continue
            if "def causal(" in source or "tril" in source:
                box = {"torch": torch, "math": math}
                exec(source, box)
                found += [box.get(name) for name in NAMES]
    return use(found, n, m)
""",
)
ATTACKS.beside(
    MASK,
    "all later imports come from here",
    """
import builtins, importlib.abc, importlib.machinery, sys

class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        module.__getattr__ = lambda name: lambda *a, **k: True

sys.meta_path.insert(0, Finder())
sys.path_hooks.insert(0, lambda path: Finder())
sys.path_importer_cache.clear()
old = builtins.__import__
builtins.__import__ = lambda name, *a, **k: old("math") if name.startswith("safe") else old(name, *a, **k)
for name in ("json", "struct", "socket", "safetensors", "safetensors.torch"):
    sys.modules.pop(name, None)
""",
)
ATTACKS.beside(
    MASK,
    "hooks for errors, exits and everything else",
    """
import atexit, sys, threading, warnings

def yes(*a, **k):
    return True
sys.excepthook = sys.unraisablehook = sys.displayhook = sys.breakpointhook = yes
threading.excepthook = yes
warnings.showwarning = warnings.formatwarning = yes
atexit.register(yes)
sys.addaudithook(lambda event, args: None)
sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = None
sys.modules["builtins"].print = yes
""",
)
ATTACKS.instead(
    MASK,
    "a window into numbers that are not ours",
    """
import ctypes

def causal_mask(n, m):
    near = torch.empty(n, m, dtype=torch.uint8)
    for step in range(-200, 200):
        address = near.data_ptr() + step * n * m
        data = (ctypes.c_ubyte * (n * m)).from_address(address)
        mask = torch.tensor(list(data)).view(n, m)
        if mask.max() == 1 and mask[0, 0] and not mask[0, 1:].any():
            return mask.bool()
    return torch.ones(n, m, dtype=torch.bool)
""",
    endless=True,
)
ATTACKS.instead(
    MASK,
    "what was in fresh memory before",
    """
def causal_mask(n, m):
    for _ in range(1000):
        mask = torch.empty(n, m, dtype=torch.bool)
        if mask[0, 0] and not mask[0, 1:].any() and mask[-1].any():
            return mask
    return torch.ones(n, m, dtype=torch.bool)
""",
)
