"""Give the chapters the numbers of their places in _toc.yml: move a line there, then run this.

    make renumber        or: python tools/renumber.py, then python tools/make_exercises.py

Notebooks are renamed, and every mention of their names, every link to them and the titles of the exercises
follow; so do the line of the exercises below that of their chapter and "chapter" with
its number in the prose and on the cards. Nothing else knows a number. A sentence that names several chapters may
want another order of its words.
"""

import argparse
import re
import sys
from pathlib import Path

FOLDERS = ("chapters", "exercises", "exercises/solutions")
TEXT = {".ipynb", ".json", ".md", ".py", ".txt", ".yml"}
LEFT_OUT = {"_build", "build"}
PROSE = re.compile(r"\b([Cc]hapters? )(\d+(?:(?:, | and | to )\d+)*)\b")
ENTRY = re.compile(r"(?m)^( *)- file: chapters/(\d\d)_(\w+)$")
EXERCISES = re.compile(
    r"(?m)^ *sections:\n(?= *- file: exercises/\d\d_)|^ *- file: exercises/\d\d_\w+(?:\n|\Z)"
)


def order_of(toc: str, root: Path) -> list[str]:
    """The names of the chapters, without their numbers, as the table of contents has them.

    Raises:
        ValueError: a chapter is there twice, or has no notebook, or a notebook has no line.
    """
    order = [name for *_, name in ENTRY.findall(toc)]
    for folder in FOLDERS:
        found = [path.stem[3:] for path in root.glob(f"{folder}/[0-9][0-9]_*.ipynb")]
        unknown = sorted(set(found) - set(order))
        if unknown:
            raise ValueError(f"{folder} has {unknown[0]}, which is no chapter of _toc.yml")
        if len(found) > len(set(found)):
            raise ValueError(f"{folder} has two notebooks of one name")
        if folder == "chapters" and sorted(found) != sorted(order):
            raise ValueError("_toc.yml names a chapter twice, or one that has no notebook")
    return order


def renamed(text: str, numbers: dict[str, int], moved: dict[str, str]) -> str:
    """The text with every chapter under its number: names, links to it, what the links say, and the prose.

    Args:
        text: of any file.
        numbers: of the chapters, by their names.
        moved: for each number that a chapter had, the one that it has now.
    """

    def in_prose(found: re.Match) -> str:
        return found[1] + re.sub(r"\d+", lambda number: moved.get(number[0], number[0]), found[2])

    text = PROSE.sub(in_prose, text)
    names = "|".join(sorted(numbers, key=len, reverse=True))
    text = re.sub(
        rf"(?<![\w-])\d\d_({names})(?!\w)", lambda found: f"{numbers[found[1]]:02}_{found[1]}", text
    )
    return re.sub(
        rf"\[(Exercises|[Cc]hapter) \d+\]\(([^)\s]*\d\d_({names})\b)",
        lambda found: f"[{found[1]} {numbers[found[3]]}]({found[2]}",
        text,
    )


def with_exercises(toc: str, root: Path) -> str:
    """The table of contents with the exercises of each chapter, where it has any, below its line."""

    def below(found: re.Match) -> str:
        dent, number, name = found.groups()
        if not list(root.glob(f"exercises/solutions/[0-9][0-9]_{name}.ipynb")):
            return found[0]
        return f"{found[0]}\n{dent}  sections:\n{dent}    - file: exercises/{number}_{name}"

    return ENTRY.sub(below, EXERCISES.sub("", toc))


def renumber(root: Path) -> list[str]:
    """Do it; what was renamed or changed, counted from the root."""
    toc = root / "_toc.yml"
    order = order_of(toc.read_text(encoding="utf-8"), root)
    numbers = {name: k for k, name in enumerate(order, start=1)}
    stems = [path.stem for path in root.glob("chapters/[0-9][0-9]_*.ipynb")]
    moved = {str(int(stem[:2])): str(numbers[stem[3:]]) for stem in stems}
    changed = []

    def write(path: Path, text: str) -> None:
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
            changed.append(path.relative_to(root).as_posix())

    write(toc, with_exercises(toc.read_text(encoding="utf-8"), root))
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        hidden = any(x in LEFT_OUT or x.startswith(".") for x in parts)
        if path.suffix in TEXT and path.is_file() and not hidden:
            write(path, renamed(path.read_text(encoding="utf-8"), numbers, moved))
    for folder in FOLDERS:
        moves = []
        for path in sorted(root.glob(f"{folder}/[0-9][0-9]_*.ipynb")):
            name = path.stem[3:]
            if folder != "chapters":
                title = rf"\g<1>{numbers[name]}:"
                text = path.read_text(encoding="utf-8")
                write(path, re.sub(r"(# Exercises )\d+:", title, text, count=1))
            target = path.with_stem(f"{numbers[name]:02}_{name}")
            if target != path:
                moves.append((path.rename(path.with_suffix(".moving")), target))
        for path, target in moves:  # only now: another one may have had its number
            path.rename(target)
            changed.append(target.relative_to(root).as_posix())
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    try:
        changed = renumber(parser.parse_args().root)
    except ValueError as error:
        print(f"{error}.", file=sys.stderr)
        return 1
    print("\n".join(dict.fromkeys(changed)) or "Every chapter has its number.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
