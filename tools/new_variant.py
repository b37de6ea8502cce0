"""Stubs for a new variant along the whole way, from the equation to the exercise.

python tools/new_variant.py dilated        or: make new NAME=dilated
"""

import argparse
import keyword
import re
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

SPEC = '''

def {name}(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Output (b, h, n, e) and weights (b, h, n, m): TODO the sum, as literal loops."""
    raise NotImplementedError
'''
VARIANT = '''"""TODO: the mechanism in one line."""

from jaxtyping import Float
from torch import Tensor


def {name}(
    query: Float[Tensor, "b h n d"], key: Float[Tensor, "b h m d"], value: Float[Tensor, "b h m e"]
) -> tuple[Float[Tensor, "b h n e"], Float[Tensor, "b h n m"]]:
    """TODO: the claim in one sentence.

        output(i) = TODO

    Cost: TODO FLOPs and numbers of memory.
    Reduces to: `attncourse.steps.attention` when TODO.
    Source: vaswani2017, TODO section.
    Chapter: {stem}.
    """
    raise NotImplementedError
'''
TASK = '''"""Exercise {name}: TODO."""

import torch

from attncourse import spec
from attncourse.grading.observe import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def cases(seed: int) -> list[Case]:
    """Every axis its own size. TODO: large scores, a single key, an empty row."""
    g = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(s, generator=g) for s in ((2, 3, 5, 11), (2, 3, 7, 11), (2, 3, 7, 13)))
    return [Case("2 samples, 3 heads, 5 queries, 7 keys, head_dim 11, values 13 wide", (q, k, v))]


ACCEPTED = Accepted()  # TODO: at least 4 right solutions, joined by @ACCEPTED.add
MISTAKES = Mistakes()  # TODO: at least 12 wrong ones, joined by @MISTAKES.add("The sentence.")

EXERCISE = Exercise(
    name="{name}",
    answer="{name}",
    title="{title}",
    kind="Implement",
    points=3,
    difficulty=3,
    minutes=20,
    needs="section 'The function' of chapter {chapter}",
    judge=Calls(spec.{name}, cases),
    hints=("TODO: where to look", "TODO: the shapes", "TODO: the line"),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
'''
ORDER = '''"""The exercises on {title}."""

# In the order of the notebook.
ORDER = ("{name}",)
'''
CASE = """@variant("{name}")
def {name}(p, s):
    q, k, v = qkv(s)
    return Variant(
        inputs=(q, k, v),
        run=lambda q, k, v: p.{name}.{name}(q, k, v)[0],
        stored=p.{name}.{name},
        spec=spec.{name},
        remake=mix,
        limit=lambda: (p.{name}.{name}(q, k, v)[0], p.steps.attention(q, k, v)[0]),
    )"""
SECTIONS = """What changes|By hand|The sum|The function|Does it agree?|What it costs|What it looks like
Where it breaks|In the wild|What the source documents say""".replace("\n", "|").split("|")
MASTER_CELL = '''def {name}(query, key, value):
    """Return (output, weights)."""
    ### BEGIN SOLUTION
    raise NotImplementedError
    ### END SOLUTION'''


def problem(name: str, root: Path) -> str:
    """Why this name cannot be used, or ''."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        return f"{name!r} cannot name a variant; use small letters, digits and _, such as dilated_window"
    taken = [*root.glob(f"attncourse/**/{name}.py"), *root.glob(f"**/[0-9][0-9]_{name}.ipynb")]
    if taken:
        return f"{name} exists already: {taken[0].relative_to(root)}"
    for path in sorted(root.glob("attncourse/*.py")):
        if re.search(rf"^(def|class) {name}\b", path.read_text(encoding="utf-8"), re.MULTILINE):
            return f"{name} is defined already, in {path.relative_to(root)}"
    return ""


def notebook(root: Path, title: str, *texts: str, code: tuple[str, ...] = ()):
    """A title, the bootstrap cell of the first chapter, then sections and cells."""
    bootstrap = nbformat.read(min(root.glob("chapters/*.ipynb")), as_version=4).cells[1]
    cells = [new_markdown_cell(f"# {title}"), bootstrap]
    cells += [new_markdown_cell(text) for text in texts] + [new_code_cell(x) for x in code]
    return new_notebook(cells=cells)


def stubs(name: str, root: Path) -> dict[Path, str]:
    """Every file to write, with its text."""
    number = f"{max(int(p.name[:2]) for p in root.glob('chapters/*.ipynb')) + 1:02}"
    stem, title = f"{number}_{name}", name.replace("_", " ").capitalize()
    words = {"name": name, "stem": stem, "number": number, "title": title, "chapter": int(number)}
    links = f"## Exercises\n\n[Exercises {int(number)}](../exercises/{stem}.ipynb)"
    sections = [f"## {section}\n\nTODO" for section in SECTIONS] + [links]
    sections += [f"## {section}\n\nTODO" for section in ("Summary", "Sources")]
    chapter = notebook(root, title, "TODO: the question, in one sentence.", *sections)
    code = (MASTER_CELL.format(**words), f'check("{name}", {name})', f'status("{name}")')
    imports = "import torch\n\nfrom attncourse.grading import check, hint, status"
    heading = f"## 1. {title}\n\nTODO: the statement, with shapes."
    master = notebook(
        root, f"Exercises {int(number)}: {title.lower()}", heading, code=(imports, *code)
    )
    toc = (root / "_toc.yml").read_text(encoding="utf-8")
    for folder in ("chapters", "exercises"):
        last = re.findall(rf"^ *- file: {folder}/\d\d_\w+\n", toc, re.MULTILINE)[-1]
        toc = toc.replace(last, last + re.sub(r"\d\d_\w+", stem, last))
    package, spec = root / "attncourse", root / "attncourse" / "spec.py"
    exercises = package / "grading" / "exercises"
    listed = (exercises / "__init__.py").read_text(encoding="utf-8")
    return {
        package / "variants" / f"{name}.py": VARIANT.format(**words),
        spec: spec.read_text(encoding="utf-8") + SPEC.format(**words),
        exercises / "__init__.py": listed.replace("\n)", f'\n    "{name}",\n)', 1),
        exercises / name / "__init__.py": ORDER.format(**words),
        exercises / name / f"{name}.py": TASK.format(**words),
        root / "chapters" / f"{stem}.ipynb": nbformat.writes(chapter) + "\n",
        root / "exercises" / "solutions" / f"{stem}.ipynb": nbformat.writes(master) + "\n",
        root / "_toc.yml": toc,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    options = parser.parse_args()
    wrong = problem(options.name, options.root)
    if wrong:
        print(wrong, file=sys.stderr)
        return 1
    for path, text in stubs(options.name, options.root).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(options.root))
    case = CASE.format(name=options.name)
    print(
        f"\nFollow this order; fill in every TODO, and add to tests/support/cases.py:\n\n{case}\n"
    )
    print("Then: make run, make exercises, make test.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
