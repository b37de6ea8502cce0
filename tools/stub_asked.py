"""Can it be made? What `make new` is asked for, held against what is there already."""

import argparse
import json
import keyword
import re
from pathlib import Path

from renumber import ENTRY
from stub_words import New


def problem(name: str, root: Path, kind: str = "variant") -> str:
    """Why this name cannot be used, or ''."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        return f"{name!r} cannot name a mechanism or an exercise; use small letters, digits and _, such as strided_window"
    patterns = ("attncourse/grading/exercises/*/{}.py",)
    if kind != "exercise":  # many are called like the function that they ask for
        patterns = (
            "attncourse/**/{}.py",
            "chapters/[0-9][0-9]_{}.ipynb",
            "tests/support/cases/{}.py",
        )
    taken = [path for pattern in patterns for path in root.glob(pattern.format(name))]
    if taken:
        return f"{name} exists already: {taken[0].relative_to(root)}; choose another name"
    for path in sorted([*root.glob("attncourse/*.py"), *root.glob("attncourse/spec/*.py")]):
        defined = re.search(rf"^(def|class) {name}\b", path.read_text("utf-8"), re.MULTILINE)
        if defined and kind != "exercise":
            return f"{name} is defined already, in {path.relative_to(root)}; choose another name"
    return ""


def unfit(options: argparse.Namespace) -> str:
    """Why these arguments do not go together, or ''."""
    alone = options.kind == "exercise"
    if alone and not (options.chapter and options.exercises):
        return "an exercise alone goes into a chapter that is there; name it: CHAPTER=masks, and EXERCISES=1 or more"
    if options.after and (options.chapter or not options.exercises):
        return "AFTER places a new chapter, and here is none; leave AFTER out, or CHAPTER, and ask for EXERCISES"
    return ""


def chapters(root: Path) -> list[str]:
    """The names of the chapters with a number, in their order."""
    return [name for *_, name in ENTRY.findall((root / "_toc.yml").read_text(encoding="utf-8"))]


def before_capstone(root: Path) -> str:
    """The chapter before that of the capstone."""
    toc = (root / "_toc.yml").read_text(encoding="utf-8")
    return ENTRY.findall(toc.partition("- file: exercises/capstone")[0])[-2][-1]


def new(options: argparse.Namespace) -> New:
    """What the options ask for.

    Raises:
        ValueError: a name cannot be used, or a chapter is not there.
    """
    root, family = options.root, options.family
    wrong = unfit(options) or problem(options.name, root, options.kind)
    if wrong:
        raise ValueError(wrong)
    there = {path.stem.lstrip("0123456789_"): path for path in root.glob("exercises/*.ipynb")}
    for chapter, known in ((options.chapter, there), (options.after, chapters(root))):
        if chapter and chapter not in known:
            raise ValueError(f"no chapter is called {chapter!r}; name one of {', '.join(known)}")
    asked = (options.kind, options.name, options.exercises)
    if options.chapter:
        cards = (root / "attncourse" / "grading" / "cards.json").read_text(encoding="utf-8")
        before = len(json.loads(cards)[options.chapter])
        stem = there[options.chapter].stem
        made = New(*asked, options.chapter, stem, "", before, family)
    elif options.exercises:  # its number is the next one until it has its place
        stem = f"{len(chapters(root)) + 1:02}_{options.name}"
        made = New(*asked, options.name, stem, options.after or before_capstone(root), 0, family)
    else:
        made = New(*asked, "", "", "", 0, family)
    for task in made.tasks:
        if wrong := problem(task["exercise"], root, "exercise"):
            raise ValueError(wrong)
    return made
