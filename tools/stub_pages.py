"""What a reader sees of a new mechanism: its chapter, its exercises, and the lines on the pages that list them."""

import re
from pathlib import Path

import bootstrap
import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from run_notebooks import NOTEBOOK_METADATA
from stub_files import Mechanism, behind, rendered

CODE = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ENTRY = r"^ *- file: chapters/\d\d_\w+\n(?: *sections:\n)?(?: *- file: exercises/\w+\n)*"
MAP_ROW = r"^\| \[.*\]\(chapters/\d\d_\w+\.ipynb\).*\n"


def notebook(text: str, root: Path) -> str:
    """The notebook of a Markdown text: a cell for each section and for each block of Python.

    The words behind ```` ```python ```` are the tags of its cell.
    """
    first = new_code_cell(bootstrap.rendered(root), metadata={"tags": ["bootstrap", "remove-cell"]})
    texts, blocks = CODE.split(text)[::3], CODE.findall(text)
    cells = _prose(texts[0])
    cells.insert(1, first)
    for (words, code), after in zip(blocks, texts[1:], strict=True):
        tags = {"tags": words.split()} if words.split() else {}
        cells += [new_code_cell(code.strip(), metadata=tags), *_prose(after)]
    made = new_notebook(cells=cells, metadata=NOTEBOOK_METADATA)
    return nbformat.writes(made) + "\n"


def _prose(text: str) -> list:
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return [new_markdown_cell(x.strip()) for x in sections if x.strip()]


def master(new: Mechanism) -> str:
    """The Markdown text of the exercises with their solutions."""
    parts = ("task_begin.md", "{folder}/task.md", "task_end.md")
    exercises = "".join(rendered(part.format(**x), x) for x in new.tasks for part in parts)
    points = str(sum(int(x["worth"].split()[0]) for x in new.tasks))
    count = {"count": str(new.exercises), "points": points, "exercises": exercises}
    return rendered("master.md", new.words | count)


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


def pages(new: Mechanism, root: Path) -> dict[Path, str]:
    """Every notebook and page to write or to change, with its text."""
    words, toc, index = new.words, root / "_toc.yml", root / "index.md"
    name, glossary = f"{words['stem']}.ipynb", root / "chapters" / "glossary.md"
    entry = rendered("toc_entry.txt", words)
    written = {
        root / "chapters" / name: notebook(rendered("chapter.md", words), root),
        root / "exercises" / "solutions" / name: notebook(master(new), root),
        toc: behind(toc, (ENTRY, entry)),
        index: behind(index, (MAP_ROW, rendered("map_row.md", words))),
        glossary: with_term(glossary, words["lower"]),
    }
    if new.kind == "variant":
        api = root / "chapters" / "api_mechanism.md"
        written[api] = api.read_text(encoding="utf-8") + rendered("api.md", words)
    return written
