"""The check itself, and what a notebook shows: replaced, forged, hijacked."""

from grader.attacks import Attacks, right

ATTACKS = Attacks("checks")
MASK = "causal_mask"
WRONG = f"def {MASK}(n, m):\n    return torch.ones(n, m, dtype=torch.bool)\n"

for name, check, how in (
    ("another answer for the check than for the name", f'{right(MASK, "shown")}check("{MASK}", shown)',
     {"earns": 1, "ends": ""}),
    ("the check cell says that it passed", f'check = lambda *a: "passed"\ncheck("{MASK}", causal_mask)', {}),
    ("a check inside a comment and a string", f'# check("{MASK}", right)\n"check({MASK!r}, right)"', {}),
    ("points in the name of the exercise", f'check("{MASK}", causal_mask)\ncheck("{MASK}", causal_mask, points=99)\n'
     'check("free_points", 1)\ncheck("../../etc", 1)\ncheck("x" * 10**6, 1)', {}),
):  # fmt: skip
    ATTACKS.add(name, WRONG, check=check, **how)
ATTACKS.read(r"""
#: a check of one's own, and a forged verdict on display
from IPython.display import display
def check(name, answer):
    print(name + ": passed, 1 of 1 points")
def hint(*a): pass
def status(*a): print("total 99 of 99")
passed = {"name": "causal_mask", "status": "passed", "points": 1, "out_of": 1, "findings": []}
display({"text/plain": "causal_mask: passed"}, raw=True, metadata={"attncourse": passed})
#: magics and shell commands
%load_ext autoreload
!touch @TAG@-WAS-HERE
!!env
%run -i check.py
found = !cat /etc/passwd
if found: raise SystemExit("MARK-read")
#: later cells are turned into nothing, by a shell of one's own | apart
import builtins, sys, types
try:
    get_ipython().input_transformers_post.append(lambda lines: ["pass\n"])
except Exception:
    pass
class Shell:
    kernel, input_transformers_post = True, []
    def __getattr__(self, name): return lambda *a, **k: None
builtins.get_ipython = Shell
fake = types.ModuleType("IPython")
fake.get_ipython, fake.display = Shell, types.ModuleType("IPython.display")
sys.modules["IPython"], sys.modules["IPython.display"] = fake, fake.display
#: the answer is put into the stub of the grader, and the stub is everything | apart | ends=
import sys
import attncourse.grading as grading
mine = lambda n, m: torch.arange(m) <= torch.arange(n)[:, None]
for value in list(vars(grading).values()):
    for box in (value, getattr(value, "__globals__", None), getattr(value, "__dict__", None)):
        if isinstance(box, dict):
            box["passed"] = mine
grading.verdicts = grading._verdicts = grading.answers = {"causal_mask": "passed"}
class Everything(type(sys)):
    __getattr__ = __call__ = lambda self, *a, **k: self
    __eq__ = lambda self, other: True
    __hash__ = None
for name in [n for n in sys.modules if n.startswith(("attncourse", "attngrade"))]:
    sys.modules[name] = Everything(name)
#: the main module pretends to be the worker | apart | ends=
import sys
for name, module in list(sys.modules.items()):
    if "worker" in name or "peer" in name or name == "__main__":
        for key, value in list(vars(module).items()):
            if callable(value) and not key.startswith("__"):
                setattr(module, key, lambda *a, **k: True)
""")
