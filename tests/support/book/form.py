"""The form of a chapter that teaches first: each rule takes a notebook and tells what is wrong with it."""

import re
from statistics import median

from support.book import glossary

OPENING_WORDS = 110
MEDIAN_LINES, MOST_LINES, MOST_FOLDED = 7, 20, 40
WORDS = (1_500, 3_200)
CELLS = (20, 35)
HEADINGS = ("In the wild", "Exercises", "Summary", "Sources")
FOLDED = {"hide-input", "hide-cell"}
PREDICTION = "**Before you run it.**"
# Code and displays, in which a dollar or a line's beginning means something else; and what starts a new block.
SET_APART = re.compile(r"^```.*?^```|`[^`\n]*`|\$\$.*?\$\$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!\\)\$[^$]*(?<!\\)\$")
MARKER = re.compile(r"\n *([-+*#] |1[.)] |>)")
# The documents that the course began with have numbers: 000, 001 ... The claims page alone names them.
NUMBERED = re.compile(r"\bdocuments? 0\d\d\b|(?<![\w.,])00\d(?![\w.,]\d|\w)")


def tags(cell) -> set[str]:
    return set(cell.metadata.get("tags", []))


def has_figure(cell) -> bool:
    return any("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def code(notebook) -> list:
    """The code cells that a reader of the site can see or unfold."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [cell for cell in cells if "remove-cell" not in tags(cell)]


def prose(notebook) -> str:
    return "\n\n".join(x.source for x in notebook.cells if x.cell_type == "markdown")


def first_line(cell) -> str:
    return cell.source.strip().split("\n")[0]


def opening(notebook) -> list[str]:
    """First a situation in few words, then a picture whose code is folded; imports come later."""
    shown = code(notebook)
    if not shown:
        return ["there is no picture"]
    before = notebook.cells[: notebook.cells.index(shown[0])]
    text = "\n".join(x.source for x in before if x.cell_type == "markdown")
    words = len(re.sub(r"^# .*$", "", text, flags=re.MULTILINE).split())
    found = []
    if not 0 < words <= OPENING_WORDS:
        found.append(f"{words} words before the picture, at most {OPENING_WORDS}, and some")
    if not has_figure(shown[0]):
        found.append(f"the first code cell makes no picture: {first_line(shown[0])}")
    if "hide-input" not in tags(shown[0]):
        found.append(f"tag the cell of the first picture hide-input: {first_line(shown[0])}")
    return found


def small_cells(notebook) -> list[str]:
    """What a reader sees unfolded is short; what is folded may be longer."""
    lines = {id(cell): len(cell.source.split("\n")) for cell in code(notebook)}
    unfolded = [cell for cell in code(notebook) if not tags(cell) & FOLDED]
    middle = median([lines[id(cell)] for cell in unfolded] or [0])
    found = [
        f"{lines[id(cell)]} lines: {first_line(cell)}"
        for cell in code(notebook)
        if lines[id(cell)] > (MOST_FOLDED if tags(cell) & FOLDED else MOST_LINES)
    ]
    if middle > MEDIAN_LINES:
        found.append(f"the median cell has {middle:g} lines, at most {MEDIAN_LINES}")
    return found


def predictions(notebook) -> list[str]:
    """A question is followed by its cell, whose output is folded, and that by the answer, folded too."""
    found = []
    for k, cell in enumerate(notebook.cells):
        if cell.cell_type != "markdown" or PREDICTION not in cell.source:
            continue
        run, answer = (*notebook.cells[k + 1 : k + 3], None, None)[:2]
        asked = cell.source[cell.source.index(PREDICTION) :].split("\n")[0][:60]
        if run is None or run.cell_type != "code" or "hide-output" not in tags(run):
            found.append(f"no code cell tagged hide-output follows: {asked}")
        elif answer is None or answer.cell_type != "markdown" or "<details>" not in answer.source:
            found.append(f"no answer in <details> follows the cell of: {asked}")
    return found


def verdicts(notebook) -> list[str]:
    """What only asserts is folded: a reader who understands skips it."""
    return [
        f"tag it hide-cell: {first_line(cell)}"
        for cell in code(notebook)
        if re.search(r"^ *assert\b", cell.source, re.MULTILINE)
        and not has_figure(cell)
        and not tags(cell) & FOLDED
    ]


def size(notebook) -> list[str]:
    """As many words and cells as an hour holds."""
    words, cells = len(prose(notebook).split()), len(code(notebook))
    found = []
    if not WORDS[0] <= words <= WORDS[1]:
        found.append(f"{words} words, not {WORDS[0]} to {WORDS[1]}")
    if not CELLS[0] <= cells <= CELLS[1]:
        found.append(f"{cells} code cells, not {CELLS[0]} to {CELLS[1]}")
    return found


def sections(notebook) -> list[str]:
    """The end is the same everywhere; what comes before is not."""
    text = prose(notebook)
    return [
        f"no section '{heading}'"
        for heading in HEADINGS
        if not re.search(rf"^## .*{heading}", text, re.MULTILINE | re.IGNORECASE)
    ]


def no_document_numbers(notebook) -> list[str]:
    """A reader has not seen the documents that the course began with."""
    texts = [cell.source for cell in notebook.cells]
    return [f"'{found[0]}' in: {x[:60]}" for x in texts for found in NUMBERED.finditer(x)]


def whole_formulas(notebook) -> list[str]:
    """Markdown makes a list of a line that begins with "+ ", in the midst of a formula, too."""
    texts = [SET_APART.sub("", x.source) for x in notebook.cells if x.cell_type == "markdown"]
    return [
        f"no line begins with '{found[1].strip()}' inside a formula: {formula!r}"
        for text in texts
        for paragraph in text.split("\n\n")
        for formula in INLINE.findall(paragraph)
        if (found := MARKER.search(formula))
    ]


def explained_terms(notebook) -> list[str]:
    """A term of the glossary is linked, or explained in emphasis, where it is first used."""
    known = glossary.terms()
    return [
        f"link [{term}](glossary.md#term-{glossary.slug(term)}) where it is first used"
        for term in glossary.unexplained(prose(notebook), known)
    ]


RULES = (
    opening,
    small_cells,
    predictions,
    verdicts,
    size,
    sections,
    no_document_numbers,
    whole_formulas,
    explained_terms,
)
