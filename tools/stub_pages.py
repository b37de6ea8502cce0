"""What a reader sees of what is new: the chapter, its exercises, and the lines on the pages that list them."""

import re
from pathlib import Path

import bootstrap
import cell_ids
import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from run_notebooks import NOTEBOOK_METADATA
from stub_words import New, behind, longer, rendered

CODE = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MAP_ROW = r"^\| \[.*\]\(chapters/{}\.ipynb\).*\n"
COUNTS = re.compile(r"\b([A-Z][a-z]+) exercises?, (\d+) points?\b")
WORDS = [
    "No",
    "One",
    "Two",
    "Three",
    "Four",
    "Five",
    "Six",
    "Seven",
    "Eight",
    "Nine",
    "Ten",
    "Eleven",
    "Twelve",
]


def cells(text: str) -> list:
    """The cells of a Markdown text: one for each section and for each block of Python.

    The words behind ```` ```python ```` are the tags of its cell.
    """
    texts, blocks = CODE.split(text)[::3], CODE.findall(text)
    made = _prose(texts[0])
    for (words, code), after in zip(blocks, texts[1:], strict=True):
        tags = {"tags": words.split()} if words.split() else {}
        made += [new_code_cell(code.strip(), metadata=tags), *_prose(after)]
    return made


def _prose(text: str) -> list:
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return [new_markdown_cell(x.strip()) for x in sections if x.strip()]


def notebook(text: str, root: Path) -> str:
    """A new notebook of a Markdown text."""
    first = new_code_cell(bootstrap.rendered(root), metadata={"tags": ["bootstrap", "remove-cell"]})
    title, *rest = cells(text)
    made = new_notebook(cells=[title, first, *rest], metadata=NOTEBOOK_METADATA)
    return nbformat.writes(made) + "\n"


def statements(new: New) -> str:
    """The Markdown text of the new exercises: cards, statements, solutions, checks and hints."""
    parts = ("task_begin.md", "{folder}/task.md", "task_end.md")
    return "".join(rendered(part.format(**x), x) for x in new.tasks for part in parts)


def counted(exercises: int, points: int) -> str:
    """How a notebook begins: "Five exercises, 13 points"."""
    one, few = "s" * (exercises != 1), "s" * (points != 1)
    count = WORDS[exercises] if exercises < len(WORDS) else str(exercises)
    return f"{count} exercise{one}, {points} point{few}"


def points(new: New) -> int:
    """The points of the new exercises."""
    return sum(int(x["worth"].split()[0]) for x in new.tasks)


def master(new: New, root: Path) -> str:
    """The notebook of the exercises with their solutions: a new one, or that of the chapter with more in it.

    Raises:
        ValueError: the notebook does not begin with its counts, or has no exercise.
    """
    path = root / "exercises" / "solutions" / f"{new.stem}.ipynb"
    if not path.exists():
        words = {"count": counted(new.exercises, points(new)), "exercises": statements(new)}
        return notebook(rendered("master.md", new.words | words), root)
    made = cell_ids.read(path)
    first, found = made.cells[0], COUNTS.search(made.cells[0].source)
    hints = [k for k, x in enumerate(made.cells) if "hints" in x.metadata.get("tags", ())]
    if not found or found[1] not in WORDS or not hints:
        raise ValueError(
            f"{path} needs its counts in the first cell, such as {counted(5, 13)!r}, and hints below an exercise"
        )
    now = counted(WORDS.index(found[1]) + new.exercises, int(found[2]) + points(new))
    first.source = COUNTS.sub(now, first.source, count=1)
    made.cells[hints[-1] + 1 : hints[-1] + 1] = cells(statements(new))
    return nbformat.writes(made) + "\n"


def letters(term: str) -> str:
    """What decides where a term stands in the alphabet."""
    return re.sub(r"\W", "", term.lower())


def with_term(path: Path, term: str) -> str:
    """The glossary with a stub for a term, in its place of the alphabet."""
    text = path.read_text(encoding="utf-8")
    head, mark, rest = text.partition("```{glossary}\n")
    terms, end, tail = rest.partition("\n```")
    entries = terms.split("\n\n")
    if not mark or not end:
        raise ValueError(f"{path} needs a ```{{glossary}} block, to add a term to; it has none")
    if any(entry.lower().startswith(f"{term}\n") for entry in entries):
        return text  # explained already
    place = sum(letters(entry.split("\n")[0]) < letters(term) for entry in entries)
    entries.insert(place, f"{term}\n  TODO: one or two sentences.")
    return head + mark + "\n\n".join(entries) + end + tail


def chapter(new: New, root: Path) -> dict[Path, str]:
    """A new chapter, and the lines on the pages that list chapters."""
    words, toc, index = new.words, root / "_toc.yml", root / "index.md"
    glossary, row = root / "chapters" / "glossary.md", MAP_ROW.format(rf"\d\d_{new.after}")
    if not re.search(row, index.read_text(encoding="utf-8"), re.MULTILINE):
        row = MAP_ROW.format(r"\d\d_\w+")  # a chapter may be in no row
    entry = (
        rf"^ *- file: chapters/\d\d_{new.after}\n(?: *sections:\n)?(?: *- file: exercises/\w+\n)*"
    )
    return {
        root / "chapters" / f"{new.stem}.ipynb": notebook(rendered("chapter.md", words), root),
        toc: behind(toc, (entry, rendered("toc_entry.txt", words))),
        index: behind(index, (row, rendered("map_row.md", words))),
        glossary: with_term(glossary, words["lower"]),
    }


def pages(new: New, root: Path) -> dict[Path, str]:
    """Every notebook and page to write or to change, with its text."""
    written = {}
    if new.exercises:
        written[root / "exercises" / "solutions" / f"{new.stem}.ipynb"] = master(new, root)
    if new.after:
        written |= chapter(new, root)
    if new.kind == "variant":
        api = root / "chapters" / "api_mechanism.md"
        written[api] = longer(api, "api.md", new.words)
    return written
