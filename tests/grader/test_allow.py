"""The fence around what an exercise forbids: ordinary notebooks pass, every way round is told.

``idioms.txt`` holds what must pass even where functions are forbidden. ``spellings.txt`` holds ways
to a forbidden one; the first line says whether the source gives it away, the run, or both.
"""

import inspect
import sys
import textwrap
import time
import types
from dataclasses import replace

import nbformat
import pytest
import torch
from support.notebooks import MASTERS, ROOT, STUDENTS, chapter

from attncourse.grading import load, names
from attncourse.grading.blocked import blocked
from attncourse.grading.exercises import chapter_of
from attngrade import Cell
from attngrade.allow import violations
from attngrade.source import part_of, statements

SDPA = "torch.nn.functional.scaled_dot_product_attention"
STRICT = replace(load("repair_no_softmax"), answer="answer")
FREE = replace(load("scaled_dot_product_attention"), answer="answer")
GIVEN = "import math\n\nimport torch\n\nfrom attncourse.grading import check, hint, status\n"
IDIOMS, SPELLINGS = (
    (ROOT / "tests" / "support" / file).read_text("utf-8").strip().split("\n---\n")
    for file in ("idioms.txt", "spellings.txt")
)
SPELLINGS = [text.partition("\n")[::2] for text in SPELLINGS]


def cells(*sources):
    return tuple(Cell(k, source) for k, source in enumerate(sources, start=1))


def found(*sources, exercise=STRICT):
    return violations(cells(GIVEN, *sources), exercise)


def notebook(path):
    """The code cells without the one that installs the course, which no submission has any more."""
    return tuple(
        Cell(k, cell.source)
        for k, cell in enumerate(nbformat.read(path, as_version=4).cells, start=1)
        if cell.cell_type == "code" and "bootstrap" not in cell.metadata.get("tags", [])
    )


# ---------------------------------------------------------------- what must pass


def test_there_are_enough_idioms_and_spellings():
    assert len(IDIOMS) >= 60
    assert len(SPELLINGS) >= 50


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda text: text.split("\n")[0][:40])
def test_ordinary_code_passes(idiom):
    imports = "import torch.nn as nn\nimport torch.nn.functional as F"
    compile(idiom, "cell", "exec")
    assert found(imports, idiom) == []


def test_all_idioms_pass_together():
    """With all their names mixed, none of them turns another into a violation."""
    own = "def answer(x):\n    return x"
    mixed = [text for text in IDIOMS if "answer" not in text and "*" not in text]
    assert found("from torch import nn\nimport torch.nn.functional as F", own, *mixed) == []


@pytest.mark.parametrize("path", [*MASTERS, *STUDENTS], ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_our_own_notebooks_pass(path):
    exercises = [load(name) for name in names(chapter(path))]
    for exercise in exercises:
        assert violations(notebook(path), exercise) == []
    if not any(exercise.requires for exercise in exercises):  # a package that is no part of torch
        assert violations(notebook(path), replace(STRICT, answer="check")) == []


@pytest.mark.parametrize("name", [name for name in names() if not load(name).requires])
def test_accepted_answers_pass(name):
    """Each with those functions of its file that it calls, as helpers in cells of their own."""
    exercise = load(name)
    module = sys.modules[f"attncourse.grading.exercises.{chapter_of(name)}.{name}"]
    for style, answer in exercise.accepted.items():
        kind = answer if isinstance(answer, type | types.FunctionType) else type(answer)
        if kind.__module__ != module.__name__ or kind.__name__ == "<lambda>":
            continue  # a number, a class from torch, or one expression of a table
        imports = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\nimport numpy as np"
        sources = [imports, *(source(x) for x in needed(kind, module))]
        assert kind.__name__ in "".join(sources)
        strict = replace(exercise, answer=kind.__name__, forbids=exercise.forbids or STRICT.forbids)
        problems = violations(cells(*sources), strict)
        if not exercise.forbids:
            problems = [p for p in problems if "does not allow" not in p]
        assert problems == [], style


def source(thing) -> str:
    return textwrap.dedent(inspect.getsource(thing))


def needed(thing, module):
    """A function or class, and all of its file that it reads the names of."""
    found, todo = [], [thing]
    while todo:
        found.append(todo.pop())
        read = {name for s in statements(source(found[-1])) for name in s.reads}
        others = [x for name, x in vars(module).items() if name in read]
        own = [x for x in others if getattr(x, "__module__", "") == module.__name__]
        todo += [
            x for x in own if isinstance(x, type | types.FunctionType) and x not in found + todo
        ]
    return found


# ---------------------------------------------------------------- what must not


def run(code):
    space = {"torch": torch, "__name__": "notebook"}
    exec(code, space)
    return space


@pytest.mark.filterwarnings("ignore")  # torch warns of prototypes
@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda s: s[0])
def test_every_spelling_is_caught(spelling):
    says, code = spelling
    by_source = says.startswith(("both", "source"))
    problems = found(code)
    assert bool(problems) == by_source, problems
    assert all(p.startswith("cell 2 ") and len(p) > 30 for p in problems)
    if says.startswith("source"):
        return  # not run: these would leave the fence, or the process, behind
    space = run(code)
    with blocked(STRICT.forbids), pytest.raises(RuntimeError, match="this exercise does not allow"):
        space["answer"](torch.randn(1, 2, 3, 4))


@pytest.mark.filterwarnings("ignore")
def test_each_spelling_is_an_answer_where_nothing_is_forbidden():
    """Else the test above would pass for code that is merely broken."""
    for says, code in SPELLINGS:
        if says.startswith("source"):
            continue
        assert isinstance(run(code)["answer"](torch.randn(1, 2, 3, 4)), torch.Tensor), says


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("match q:\n    case object(shape=s): pass", "matches the attribute shape by name; write"),
        ("import operator\noperator.attrgetter('x')", "uses operator.attrgetter; write the attrib"),
        ("torch.load('x')", "uses torch.load; it reads code from a file; keep the model in the no"),
        ("q.numpy().tofile('x')", "uses .tofile; in this exercise an answer must do without it"),
        ("from os import system", "imports os.system; in this exercise an answer must do without"),
        ("import socket", "imports socket; in this exercise an answer must do without it"),
        ("torch.nn.Linear.forward = print", "changes torch.nn.Linear.forward; leave what belongs"),
        ("F = [torch.nn]", "hands the module torch.nn around; call its functions by their names"),
        ("import torch.nn as self", "calls torch.nn self; import it under its own name"),
        ("from einops import *", "imports all of einops; import what you need by its name"),
        ("from torch.nn import nothing", "imports torch.nn.nothing, which is not known here;"),
        ("g = (x for x in []).gi_frame", "uses .gi_frame; in this exercise an answer must do"),
        ("getattr(q, name)", "uses getattr; write the attribute out, as in x.name"),
        ("getattr(q, '__globals__')", "uses __globals__; in this exercise an answer must do"),
        ("getattr(q, f'{a}s__')", "uses getattr; write the attribute out, as in x.name"),
        ("getattr(q, f'gi_{a}')", "uses getattr; write the attribute out, as in x.name"),
        ("for n in ['T', a]: getattr(q, n)", "uses getattr; write the attribute out, as in x."),
        ("for n in ['T']: n = a; getattr(q, n)", "uses getattr; write the attribute out, as in "),
        ("print(__builtins__)", "uses __builtins__; an answer does not need it"),
        ("q = torch.Tensor" + ".__class__" * 12, "uses a path of 14 names; in this exercise an"),
        ("torch._C", "uses torch._C; in this exercise an answer must do without it"),
        (
            "def f():\n    import torch as t\n    t._C.x",
            "uses torch._C; in this exercise an answer",
        ),
        ("torch.nn.functional.torch.ops.aten", "uses torch.nn.functional.torch.ops; in this exe"),
        ("import scipy._lib.x", "imports scipy._lib.x; in this exercise an answer must do without"),
    ],
)
def test_each_tool_is_told_by_itself(code, says):
    problems = {p.removeprefix("cell 2 ") for p in found(code, "def answer(q): return q")}
    assert {p[: len(says)] for p in problems if p.startswith(("imports", says))} >= {says}
    assert len(problems) <= 2
    assert found(code, "def answer(q): return q", exercise=FREE) == []


def test_a_helper_in_another_cell_belongs_to_the_answer():
    helper = "def fused(q):\n    return torch.nn.functional.scaled_dot_product_attention(q, q, q)"
    answer = "def answer(q):\n    return fused(q)"
    assert found(helper, answer)[0].startswith(f"cell 2 uses {SDPA}, which this exercise does not")
    assert found(helper, "def answer(q):\n    return q") == []


def test_only_the_part_of_an_answer_counts():
    sources = "a = b + 1", "b = 2\nc = 3", "def f(c):\n    return a, c", "f(a)", "for b in c: pass"
    listed = [(k, s) for k, source in enumerate(sources) for s in statements(source)]
    assert sorted({listed[index][0] for index in part_of(listed, "f")}) == [0, 1, 2, 4]
    assert sorted({listed[index][0] for index in part_of(listed, "c")}) == [1]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("from attncourse.steps import attention", "cell 2 imports attncourse.steps.attention;"),
        ("from attncourse import *", "cell 2 imports attncourse;"),
        ("import attncourse", "cell 2 imports attncourse;"),
        ("import attncourse.spec as s", "cell 2 imports attncourse.spec;"),
        ("from attngrade.far import wire", "cell 2 imports attngrade.far.wire;"),
        ("from attncourse.grading import load", "cell 2 imports attncourse.grading.load;"),
        (
            "from attncourse.grading.exercises import load",
            "cell 2 imports attncourse.grading.exercises.load;",
        ),
    ],
)
@pytest.mark.parametrize("exercise", [FREE, STRICT], ids=["free", "strict"])
def test_the_course_does_not_answer_its_own_exercises(code, says, exercise):
    problems = found(f"{code}\ndef answer(q): return q", exercise=exercise)
    assert [p for p in problems if p.startswith(says)] == problems != []
    assert problems[0].endswith("write the answer yourself, with torch alone")
    inside = textwrap.indent(code, "    ")
    if "*" not in code:
        assert found(f"def answer(q):\n{inside}\n    return q", exercise=exercise) == problems


def test_the_course_may_be_looked_at_beside_an_answer():
    assert (
        found("def answer(q): return q", "from attncourse.show import plots", exercise=FREE) == []
    )
    assert found("from attncourse.grading import *\ndef answer(q): return q", exercise=FREE)


def test_cells_that_are_no_python_are_skipped():
    assert found("def answer(q): return q", "def f(:", "é = $", "(" * 500) == []


def test_what_is_hard_to_read_is_no_way_round():
    fused = "torch.nn.functional.scaled_dot_product_attention(q, q, q)"
    for code in (
        f"def answer(q): return {'+'.join(['0'] * 4000)} + {fused}",  # too deep for the parser
        f"x = '\\d'\ndef answer(q): return {fused}",  # warns
        f"x = 1; answer = lambda q: {fused}; y = 2",
        f'x = """\n"""; answer = lambda q: {fused}',
        f"answer = None\nwhile answer is None: answer = lambda q: {fused}",
        f"[answer := (lambda q: {fused}) for _ in [0]]",
        f"class A:\n    global answer\n    def answer(q): return {fused}",
        "from torch.nn.functional import scaled_dot_product_attention as answer",
        "import __main__\n__main__.answer = 1",
        f"import torch.{'nn.' * 30}functional",
        "\n".join(f"torch = torch.a{k}" for k in range(60)),
    ):
        problems = found(code)
        assert problems, code[:80]
        assert all(p.startswith("cell 2 ") for p in problems), problems


def test_absurd_cells_take_no_absurd_time():
    for code in (
        "x = 1;" * 8000,
        "\n".join(f"x = x.a{k}" for k in range(3000)),
        "f(" * 80 + ")" * 80,
        "def f(n):\n" + "    getattr(q, n)\n" * 2500,
    ):
        begin = time.thread_time()
        found(code, "def answer(q): return q")
        assert time.thread_time() - begin < 3


def best_of(times, f):
    spans = []
    for _ in range(times):
        begin = time.perf_counter()
        f()
        spans.append(time.perf_counter() - begin)
    return min(spans)


def test_the_fence_costs_little():
    longest = max(
        (notebook(path) for path in MASTERS), key=lambda cs: sum(len(c.source) for c in cs)
    )
    violations(longest, STRICT)
    assert best_of(5, lambda: violations(longest, STRICT)) < 0.003
