"""What may import what, read from the source; and the other rules of the house."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import nbformat
import pytest

import attncourse
from attncourse import MultiHeadAttention

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
PACKAGE, GRADER = ROOT / "attncourse", ROOT / "attngrade"
FILES = sorted([*PACKAGE.rglob("*.py"), *GRADER.rglob("*.py")])
TOOLS = [*FILES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "tools").glob("*.py")]
NOTEBOOKS = sorted(ROOT.glob("exercises/**/*.ipynb"))

# A module may import what stands on its right, and nothing else of the package.
# Files of one folder may import each other.
GROUND = ("steps", "masks", "scores", "positions", "rope_scaling")
MAY_IMPORT = {
    **dict.fromkeys(("mods", "interface", "precision", "positions", "rope_scaling", "cost"), ()),
    "spec": ("spec",),
    **dict.fromkeys(("steps", "masks", "scores"), ("mods", "interface")),
    "layers": ("interface", *GROUND),
    "shared_heads": ("interface", "layers"),
    "cache": ("interface", *GROUND),
    "decoding": ("interface", "layers", "cache"),
    "variants": (
        "mods",
        "interface",
        "precision",
        *GROUND,
        "layers",
        "cache",
        "decoding",
        "variants",
    ),
    "factory": ("layers", "shared_heads", "variants"),
    # What is drawn is imported when it is drawn.
    "documents": ("steps", "layers", "shared_heads", "variants", "factory", "show", "documents"),
    "lab": ("interface", *GROUND, "layers", "cache", "decoding", "variants", "factory", "lab"),
    "show": ("show",),
    "grading": ("grading", "spec"),
    "attngrade": ("attngrade", "grading"),  # nothing of the course imports it
}
MOST_LINES = {"exercise": 130, "answers": 350, "other": 300}
BOOTSTRAP = {"importlib", "os", "subprocess", "sys"}


def imports(source: str) -> set[str]:
    """Every imported name, in full: ``from attncourse import spec`` is ``attncourse.spec``."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a name comes from"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def part(path: Path) -> str:
    """``layers`` for attncourse/layers.py, ``grading`` for attncourse/grading/exercises/masks/empty_row.py."""
    return owner(".".join(path.relative_to(ROOT).with_suffix("").parts))


def owner(name: str) -> str:
    """The part of the course that a name belongs to; all of the grader for classes is one part."""
    package, *rest = name.split(".")
    return rest[0] if package == "attncourse" and rest else package


def forbidden(name: str, source: str) -> list[str]:
    ours = [x for x in imports(source) if x.split(".")[0] in ("attncourse", "attngrade")]
    return [x for x in ours if owner(x) not in MAY_IMPORT[name]]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_module_imports_what_it_may(path):
    if path == PACKAGE / "__init__.py":
        assert not any(x.startswith("attngrade") for x in imports(path.read_text("utf-8")))
        return
    assert not forbidden(part(path), path.read_text(encoding="utf-8"))


def test_a_forbidden_import_is_noticed():
    assert forbidden("grading", "from attncourse.steps import attention")
    assert forbidden("grading", "from attncourse import layers")
    assert forbidden("steps", "def f():\n    import attncourse.masks")
    assert forbidden("grading", "from attngrade.sandbox import wire")
    assert forbidden("attngrade", "import attncourse.lab.data")


def circle(sources: dict[str, str]) -> list[str]:
    """Modules that import each other, directly or through others; [] where none do."""
    needs = {}
    for module, source in sources.items():
        names = imports(source)
        needs[module] = ({x if x in sources else x.rpartition(".")[0] for x in names}) & {*sources}
    try:
        list(TopologicalSorter(needs).static_order())
    except CycleError as found:
        return found.args[1]
    return []


def test_no_modules_import_each_other():
    # A package imports its modules for its users, and the judges import each other when they are asked.
    modules = [x for x in FILES if not x.name.startswith("__") and part(x) != "grading"]
    names = {".".join(x.relative_to(ROOT).with_suffix("").parts): x for x in modules}
    assert circle({name: path.read_text("utf-8") for name, path in names.items()}) == []
    assert circle({"a": "def f():\n    import b", "b": "from a import f"}) == ["a", "b", "a"]


def test_a_judge_of_an_exercise_needs_what_torch_needs():
    allowed = set(sys.stdlib_module_names) | {"torch", "numpy", "attncourse"}
    for path in (PACKAGE / "grading").glob("exercises/*/*.py"):
        roots = {name.split(".")[0] for name in imports(path.read_text(encoding="utf-8"))}
        assert roots <= allowed, path.name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_exercises_import_torch_math_and_grading_only(path):
    """And Triton, which looks at the environment when it is imported; the capstone has a text, and times itself."""
    more = {"pydoc_data", "time"} if path.stem == "capstone" else set()
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            bootstrap = BOOTSTRAP if "bootstrap" in cell.metadata.get("tags", []) else set()
            for name in imports(cell.source):
                ours = name.startswith(("attncourse.grading.", "math", "torch"))
                triton = "triton" in cell.source and name.split(".")[0] in ("os", "triton")
                assert ours or triton or name.split(".")[0] in bootstrap | more, name


def test_imports_are_light():
    """No plots, no notebook tools, and the weights of the language model are read when they are asked for."""
    code = "import attncourse.grading, attncourse.lab.models, sys; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    heavy = "matplotlib seaborn pandas IPython nbformat nbclient nbgrader safetensors torch._dynamo"
    assert not {*heavy.split()} & {*loaded}


def is_exercise(path: Path) -> bool:
    return path.parents[1] == PACKAGE / "grading" / "exercises" and path.name[0] != "_"


def public():
    """Every public function and class of the package, methods included, where they are defined."""
    for path in FILES:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if is_exercise(path) or name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name != "triton":
                raise
            continue  # kernels are looked at where Triton is installed, as in CI
        for key, x in vars(module).items():
            here = getattr(x, "__module__", "") == name and not key.startswith("_")
            if here and (inspect.isclass(x) or inspect.isfunction(x)):
                yield f"{name}.{key}", x


PUBLIC = dict(public())


def test_public_names_can_be_imported_from_the_top():
    for name, x in PUBLIC.items():
        if name.startswith("attncourse.layers."):
            assert getattr(attncourse, name.split(".")[-1], None) is x, name
    expected = {"attention", "scaled_dot_product_attention", "MultiHeadAttention"}
    assert set(attncourse.__all__) >= expected
    assert attncourse.__all__ == sorted(attncourse.__all__)
    assert len(attncourse.__all__) <= 25, "a variant is imported from its file"
    assert all(hasattr(attncourse, name) for name in attncourse.__all__)


def test_public_things_have_a_docstring():
    """The claim in one sentence, and not what a dataclass or a NamedTuple writes by itself."""
    bad = []
    for name, x in PUBLIC.items():
        doc = x.__doc__ or ""
        own = not doc.startswith(f"{name.split('.')[-1]}(")
        claim = doc.strip().split("\n")[0].rstrip()
        if not (own and claim.endswith((".", "?", ":"))):
            bad.append(name)
    assert len(PUBLIC) > 500
    assert not bad, f"no docstring whose first line is one sentence: {bad}"


def test_sources_of_docstrings_are_in_the_bibliography():
    keys = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text("utf-8"), re.M))
    cited = set()
    for path in FILES:
        lines = re.findall(r"^\s*Source: (.*)$", path.read_text(encoding="utf-8"), re.M)
        cited |= {key for line in lines for key in re.findall(r"\b[a-z]+\d{4}[a-z]?\b", line)}
    assert "vaswani2017" in cited
    assert cited <= keys, f"not in references.bib: {cited - keys}"


def test_constructors_stay_small():
    assert len(inspect.signature(MultiHeadAttention).parameters) <= 8


@pytest.mark.parametrize("path", TOOLS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_files_and_functions_stay_small(path):
    source = path.read_text(encoding="utf-8")
    answers = path.parent.name == "styles"  # lists, of a whole chapter
    most = MOST_LINES["answers" if answers else "exercise" if is_exercise(path) else "other"]
    assert len(source.splitlines()) <= most, "lines of the file"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 60, f"lines of {node.name}"
