"""The check itself, and what a notebook shows: replaced, forged, hijacked."""

from grader.attacks import RIGHT, WRONG, Attacks

ATTACKS = Attacks("checks")
MASK = "causal_mask"
PASSED = '{"name": "causal_mask", "status": "passed", "points": 1, "out_of": 1, "findings": []}'

ATTACKS.beside(
    MASK,
    "a check of one's own",
    """
def check(name, answer):
    print(name + ": passed, 1 of 1 points")

def hint(*a): pass
def status(*a): print("total 99 of 99")
""",
)
ATTACKS.beside(
    MASK,
    "a forged verdict on display",
    f"""
try:
    from IPython.display import display
except ImportError:
    display = print
display({{"text/plain": "causal_mask: passed"}}, raw=True, metadata={{"attncourse": {PASSED}}})
""",
)
ATTACKS.beside(
    MASK,
    "the answer is put into the stub of the grader",
    """
import sys, types
import attncourse.grading as grading

right = lambda n, m: torch.arange(m) <= torch.arange(n)[:, None]
for name in list(vars(grading)):
    value = getattr(grading, name)
    for box in (value, getattr(value, "__globals__", None), getattr(value, "__dict__", None)):
        if isinstance(box, dict):
            box["causal_mask"] = right
            box["causal_mask"] = right
        if isinstance(box, list):
            box.append(("causal_mask", right))
grading.check = grading.load = lambda *a, **k: right
grading.causal_mask = right
grading.verdicts = grading._verdicts = grading.answers = {"causal_mask": right}
""",
)
ATTACKS.beside(
    MASK,
    "modules of the grader that are not there",
    """
import sys, types

fake = types.ModuleType("attncourse.grading.exercise")
class Verdict:
    name, status, points, out_of, findings, diagnosis = "causal_mask", "passed", 99, 1, (), ""
class Exercise:
    def __init__(self, *a, **k): pass
    grade = lambda self, *a, **k: Verdict()
fake.Verdict, fake.Exercise = Verdict, Exercise
fake.differences = lambda *a: []
for name in ("exercise", "compare", "exercises", "check", "spec"):
    sys.modules["attncourse.grading." + name] = fake
sys.modules["attncourse.spec"] = fake
""",
)
ATTACKS.beside(
    MASK,
    "the comparison of the course is patched where it stands",
    """
import attncourse.grading.exercise as exercise
import attncourse.grading.compare as compare

compare.difference = exercise.difference = lambda *a: ""
exercise.differences = lambda *a: []
exercise.Exercise.grade = lambda self, *a: exercise.Verdict(self.name, "passed", 9, 9)
""",
)
ATTACKS.beside(
    MASK,
    "later cells are turned into nothing",
    """
get_ipython().input_transformers_post.append(
    lambda lines: ["pass\\n"] if any("check(" in line for line in lines) else lines
)
""",
)
ATTACKS.beside(
    MASK,
    "a shell of one's own",
    """
import sys, types, builtins

class Shell:
    kernel = True
    input_transformers_post = []
    def run_cell(self, *a, **k): return None
    def __getattr__(self, name): return lambda *a, **k: None
shell = Shell()
builtins.get_ipython = lambda: shell
fake = types.ModuleType("IPython")
fake.get_ipython = lambda: shell
fake.display = types.ModuleType("IPython.display")
sys.modules["IPython"], sys.modules["IPython.display"] = fake, fake.display
""",
)
ATTACKS.instead(
    MASK,
    "magics and shell commands",
    """
%load_ext autoreload
%autoreload 2
!touch @TAG@-WAS-HERE
!!env
%env
%run -i check.py
answer = !cat /etc/passwd
%%capture
def causal_mask(n, m):
    return torch.ones(n, m, dtype=torch.bool)
""",
)
ATTACKS.instead(
    MASK,
    "a cell magic in front of the answer",
    """%%python3
import os
os.system("touch @TAG@-WAS-HERE")
"""
    + WRONG[MASK],
)
ATTACKS.instead(MASK, "another answer for the check than for the name", WRONG[MASK],
    check=f'{RIGHT[MASK].strip().replace("causal_mask", "shown")}\ncheck("{MASK}", shown)', earns=1)  # fmt: skip
ATTACKS.instead(MASK, "the check cell says that it passed", WRONG[MASK],
    check=f'''
def check(name, answer, *more):
    return {PASSED}
check("{MASK}", causal_mask)
print("{MASK}: passed, 1 of 1 points")
''')  # fmt: skip
ATTACKS.instead(MASK, "a check inside a comment and a string", WRONG[MASK],
    check=f'# check("{MASK}", lambda n, m: torch.ones(n, m).bool().tril())\n"check({MASK!r}, right)"')  # fmt: skip
ATTACKS.instead(MASK, "points in the name of the exercise", WRONG[MASK],
    check=f'check("{MASK}", causal_mask)\ncheck("{MASK}", causal_mask, points=99)\ncheck("free_points", 1)\ncheck("../../etc", 1)')  # fmt: skip
ATTACKS.beside(
    MASK,
    "the grader's own functions become something else",
    """
import attncourse.grading
import sys

class Everything(type(sys)):
    def __getattr__(self, name):
        return self
    def __call__(self, *a, **k):
        return True
    def __eq__(self, other):
        return True
    __hash__ = None
sys.modules["attncourse"].__class__ = Everything
sys.modules["attncourse.grading"].__class__ = Everything
for name in [n for n in sys.modules if n.startswith(("attncourse", "attngrade"))]:
    sys.modules[name] = Everything(name)
""",
)
ATTACKS.beside(
    MASK,
    "the main module pretends to be the worker",
    """
import sys

for name, module in list(sys.modules.items()):
    if "worker" in name or "peer" in name or "zygote" in name or name == "__main__":
        for key, value in list(vars(module).items()):
            if callable(value) and not key.startswith("__"):
                setattr(module, key, lambda *a, **k: True)
""",
)
ATTACKS.instead(
    MASK,
    "the answer changes its own name",
    """
def causal_mask(n, m):
    return torch.ones(n, m, dtype=torch.bool)

causal_mask.__name__ = causal_mask.__qualname__ = "lower_triangle"
causal_mask.__module__ = "attncourse.grading.exercises.masks.causal_mask"
causal_mask.points = causal_mask.status = "passed"
""",
)
