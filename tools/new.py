"""Stubs for a new mechanism along the whole way, from the equation to the exercises.

    python tools/new.py mask strided --exercises 3        or: make new KIND=mask NAME=strided EXERCISES=3

A mask says who reads whom, a score how a score moves, a variant is everything else.
"""

import argparse
import keyword
import re
import subprocess
import sys
from pathlib import Path

from stub_files import KINDS, Mechanism, rendered, texts
from stub_pages import pages

MOST = 12  # exercises; a chapter has 5 to 9


def problem(name: str, root: Path) -> str:
    """Why this name cannot be used, or ''."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        return f"{name!r} cannot name a mechanism; use small letters, digits and _, such as strided_window"
    patterns = (
        f"attncourse/**/{name}.py",
        f"**/[0-9][0-9]_{name}.ipynb",
        f"tests/support/cases/{name}.py",
    )
    taken = [path for pattern in patterns for path in root.glob(pattern)]
    if taken:
        return f"{name} exists already: {taken[0].relative_to(root)}; choose another name"
    for path in sorted([*root.glob("attncourse/*.py"), *root.glob("attncourse/spec/*.py")]):
        if re.search(rf"^(def|class) {name}\b", path.read_text(encoding="utf-8"), re.MULTILINE):
            return f"{name} is defined already, in {path.relative_to(root)}; choose another name"
    return ""


def number(root: Path) -> int:
    """The number of a chapter behind the last one."""
    return 1 + max(int(path.name[:2]) for path in root.glob("chapters/[0-9][0-9]_*.ipynb"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("name")
    parser.add_argument("--exercises", type=int, choices=range(1, MOST + 1), default=1)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    return parser.parse_args()


def main(options: argparse.Namespace) -> int:
    root = options.root
    wrong = problem(options.name, root)
    if wrong:
        print(f"{wrong}.", file=sys.stderr)
        return 1
    made = Mechanism(options.kind, options.name, number(root), options.exercises)
    try:
        written = texts(made, root) | pages(made, root)  # all, before the first is written
    except ValueError as error:
        print(f"{error}.", file=sys.stderr)
        return 1
    for path, text in written.items():
        verb = "changed" if path.exists() else "written"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(root).as_posix()}: {verb}")
    # Where a line breaks, and where an import stands, depends on the name.
    code = [path for path in written if path.suffix == ".py"]
    for command in (["check", "--select=I", "--fix"], ["format"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "--quiet", *code], check=True)
    print(rendered("next.txt", made.words))
    return 0


if __name__ == "__main__":
    sys.exit(main(arguments()))
