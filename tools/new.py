"""Stubs for a new mechanism along the whole way, from the equation to the exercises, or for exercises alone.

    python tools/new.py mask strided --exercises 3 --after sinks      a mechanism, and a chapter behind that on sinks
    python tools/new.py mask strided --exercises 0                    a mechanism alone
    python tools/new.py exercise my_exercise --chapter masks          an exercise of a chapter that is there
    or: make new KIND=mask NAME=strided EXERCISES=3 AFTER=sinks

A mask says who reads whom, a score how a score moves, a variant is everything else.
"""

import argparse
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from renumber import renumber
from stub_asked import chapters, new
from stub_files import texts
from stub_pages import pages
from stub_words import KINDS, New, rendered

MOST = 12  # exercises; a chapter has 5 to 9
MOST_LINES, ROOM = 300, 15  # of a file, and for what is filled in


def too_long(written: dict[Path, str]) -> str:
    """Which file has no room for what is to be filled in, or ''."""
    for path, text in written.items():
        lines = len(text.splitlines())
        if path.suffix == ".py" and lines + ROOM > MOST_LINES:
            return (
                f"{path} would have {lines} lines before anything is filled in, and a file has at most "
                f"{MOST_LINES}; split it, or name another FAMILY of definitions"
            )
    return ""


def written(made: New, root: Path) -> dict[Path, str]:
    """Every file with its text, before the first is written.

    Raises:
        ValueError: a list has moved, or a file would be too long.
    """
    found = texts(made, root) | pages(made, root)
    if wrong := too_long(found):
        raise ValueError(wrong)
    return found


def write(files: dict[Path, str], root: Path) -> list[str]:
    """Write the files; what was done with each."""
    done = []
    for path, text in files.items():
        verb = "changed" if path.exists() else "written"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        done.append(f"{path.relative_to(root).as_posix()}: {verb}")
    # Where a line breaks, and where an import stands, depends on the name.
    code = [path for path in files if path.suffix == ".py"]
    for command in (["check", "--select=I", "--fix"], ["format"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "--quiet", *code], check=True)
    return done


def steps(made: New) -> str:
    """What to do next, in its order."""
    parts = {
        "mechanism": made.kind != "exercise",
        "exercises": made.exercises,
        "chapter": made.after,
    }
    words = made.words | {"after": made.after}
    asked_for = [rendered(f"next_{part}.txt", words) for part, asked in parts.items() if asked]
    number = iter(range(1, 10))
    told = re.sub(r"(?m)^- ", lambda _: f"{next(number)}. ", "".join(asked_for))
    return f"\nEach place says TODO. Fill them in this order; the command says whether a step is done.\n\n{told}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    root = Path(__file__).resolve().parents[1]
    families = sorted(path.stem for path in root.glob("attncourse/spec/[!_]*.py"))
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("name")
    parser.add_argument("--exercises", type=int, choices=range(MOST + 1), default=1)
    parser.add_argument("--chapter", default="", help="one that is there, to which it belongs")
    parser.add_argument("--after", default="", help="the chapter before a new one")
    parser.add_argument("--family", choices=families, default="", help="the file of definitions")
    parser.add_argument("--root", type=Path, default=root)
    return parser.parse_args()


def main(options: argparse.Namespace) -> int:
    root = options.root
    try:
        made = new(options)
        files = written(made, root)
    except ValueError as error:
        print(f"{error}.", file=sys.stderr)
        return 1
    done = write(files, root)
    if made.after:
        count = len(renumber(root))
        stem = f"{chapters(root).index(made.chapter) + 1:02}_{made.chapter}"
        done = [line.replace(made.stem, stem) for line in done]
        done += [f"{count} files follow the numbers of the chapters"] * (stem != made.stem)
        made = replace(made, stem=stem)
    print(*done, steps(made), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(arguments()))
