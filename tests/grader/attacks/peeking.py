"""Looking for the right answer, the judge, the secret or the course's own code, where they might lie."""

from grader.attacks import Attacks

# Whatever is found that knows the right answer is asked for it.
ATTACKS = Attacks("peeking", """
import gc, inspect, sys, types
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
def of_course():
    return [x for name, x in list(sys.modules.items()) if name.startswith(("attncourse", "attngrade"))]
""")  # fmt: skip
ATTACKS.read(r"""
#: the frames above the call | called
found, frame = [], sys._getframe().f_back
while frame is not None:
    for box in (frame.f_locals, frame.f_globals):
        found += [box[name] for name in NAMES if name in box]
        found += [lambda n, m, x=x: x for x in list(box.values()) if isinstance(x, torch.Tensor)]
        found += [getattr(x, "causal", None) for x in list(box.values())]
    frame = frame.f_back
return use(found, n, m)
#: all modules that are loaded, their sources, and all that the collector knows | called
found = [getattr(x, name, None) for x in of_course() for name in NAMES]
found += [x for x in gc.get_objects() if isinstance(x, types.FunctionType) and (x.__name__ in NAMES or "spec" in str(x.__module__))]
for module in of_course():
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):
        continue
    if "def causal(" in source or "tril" in source:
        box = {"torch": torch, "math": math}
        exec(source, box)
        found += [box.get(name) for name in NAMES]
return use(found, n, m)
#: the secret of the grader in the memory of the worker | called
needle = ("MARK-" + "seed").encode()
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps if n == 5 else ():
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
            raise RuntimeError("MARK" + "-memory")
#: the name of the grader's function, what it closes over, and what it says of errors | exercise=find_the_leak
import re
def first_leak(model, x):
    for name in ("__closure__", "__globals__", "__self__", "__defaults__", "__wrapped__"):
        for cell in getattr(model, name, None) or ():
            mask = getattr(cell, "cell_contents", cell)
            if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool:
                rows = mask.triu(1).any(-1).nonzero()
                return int(rows[0]) if len(rows) else -1
    texts = [repr(model), str(model), str(getattr(model, "__name__", "")), str(dir(model))]
    for bad in (None, "x", torch.zeros(1), x[:, :1], x.half(), [x], {}):
        try:
            model(bad)
        except Exception as error:
            texts.append(f"{error!r} {error.__traceback__}")
    if "/attncourse/" in str(texts) or "find_the_leak" in str(texts):
        raise RuntimeError("MARK" + "-traceback " + str(texts)[:200])
    found = re.findall(r"position (\d)", str(texts))
    return int(found[0]) if found else -1
#: all that the grader serves, tried by numbers | exercise=find_the_leak | ends=
def first_leak(model, x):
    peer = next(x for x in gc.get_objects() if type(x).__name__ == "Peer")
    for number in range(-5, 9):
        for what in ("call", "get", "module", "vjp", "run", "begin", "fresh"):
            try:
                answer = peer.ask(what, number, [x], {}, None, False, 0)
            except Exception:
                continue
            if type(answer) is int:
                return answer
    return -1
#: the seed is searched for in the first input, as if it were short | exercise=find_the_leak
def first_leak(model, x):
    for seed in (*range(999), *(0x5EED_0000 + k for k in range(999))):
        torch.manual_seed(seed)
        if any(torch.equal(like.to(x.dtype), x) for like in (torch.randn(x.shape, dtype=x.dtype), torch.randn(x.shape))):
            raise RuntimeError("MARK" + "-seed")
    return -1
""")
for name, source in {
    "by its name": "from attncourse.masks import causal as found",
    "from the definition": "from attncourse.spec import causal as found",
    "from the judge": "from attncourse.grading import load\nfound = load('causal_mask').judge.spec",
    "from its path": "sys.path[:0] = ['@COURSE@', '..']\nsys.modules.pop('attncourse')\nfrom attncourse.masks import causal as found",
    "from a file": "import runpy\nfound = runpy.run_path('@COURSE@/attncourse/masks.py')['causal']",
    "from the solutions": "import json\ncells = json.load(open('@COURSE@/exercises/solutions/02_masks.ipynb'))['cells']\n"
    "exec(''.join(cells[4]['source']))\nfound = causal_mask",
}.items():  # fmt: skip
    lines = "".join(f"    {line}\n" for line in source.splitlines())
    shown = "except Exception:\n    found = lambda n, m: torch.ones(n, m, dtype=torch.bool)\n"
    use = "def causal_mask(n, m):\n    return getattr(getattr(found, 'causal', found), 'causal', found)(n, m)\n"
    ATTACKS.add(f"the course's own code {name}", f"try:\n{lines}{shown}{use}")
ATTACKS.read(r"""
#: a spy on every call, and all later imports come from here | apart | ends=
import importlib.abc, importlib.machinery, threading
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    find_spec = lambda self, name, path=None, target=None: importlib.machinery.ModuleSpec(name, self)
    create_module = lambda self, spec: None
    def exec_module(self, module):
        module.__getattr__ = lambda name: lambda *a, **k: True
seen = []
def spy(frame, event, arg):
    if event in ("call", "return"):
        seen.extend(x for x in (*frame.f_locals.values(), arg) if torch.is_tensor(x))
    return spy
sys.meta_path.insert(0, Finder())
sys.path_hooks.insert(0, lambda path: Finder())
for name in ("json", "struct", "socket", "safetensors", "safetensors.torch"):
    sys.modules.pop(name, None)
sys.settrace(spy)
sys.setprofile(spy)
threading.settrace(spy)
def causal_mask(n, m):
    return next((x for x in seen if x.shape == (n, m)), torch.ones(n, m, dtype=torch.bool))
""")
