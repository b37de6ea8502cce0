"""The form of a chapter that teaches first: each rule takes a notebook and lists its problems."""

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


def problem(expected: str, got: object, remedy: str) -> str:
    return f"expected {expected}; got {got}; {remedy}"


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
        return [problem("a picture after the opening words", "no code cell", "draw one")]
    before = notebook.cells[: notebook.cells.index(shown[0])]
    text = "\n".join(x.source for x in before if x.cell_type == "markdown")
    words = len(re.sub(r"^# .*$", "", text, flags=re.MULTILINE).split())
    found = []
    if not 0 < words <= OPENING_WORDS:
        wanted = f"1 to {OPENING_WORDS} words before the picture"
        found.append(problem(wanted, words, "tell one situation there, and the rest below"))
    if not has_figure(shown[0]):
        wanted, remedy = "a picture from the first code cell", "move imports below the picture"
        found.append(problem(wanted, first_line(shown[0]), remedy))
    if "hide-input" not in tags(shown[0]):
        wanted = "the code of the first picture folded"
        found.append(problem(wanted, first_line(shown[0]), "tag the cell hide-input"))
    return found


def small_cells(notebook) -> list[str]:
    """What a reader sees unfolded is short; what is folded may be longer."""
    found, unfolded = [], []
    for cell in code(notebook):
        lines, folded = len(cell.source.split("\n")), tags(cell) & FOLDED
        unfolded += [] if folded else [lines]
        if lines > (most := MOST_FOLDED if folded else MOST_LINES):
            wanted = f"at most {most} lines in a cell {'that is folded' if folded else 'in view'}"
            found.append(problem(wanted, f"{lines} lines: {first_line(cell)}", "split the cell"))
    if (middle := median(unfolded or [0])) > MEDIAN_LINES:
        wanted = f"at most {MEDIAN_LINES} lines in the median cell"
        found.append(problem(wanted, f"{middle:g} lines", "split the longer cells"))
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
            wanted, remedy = "a code cell tagged hide-output", "put the answering cell right below"
            found.append(problem(f"{wanted} after: {asked}", described(run), remedy))
        elif answer is None or answer.cell_type != "markdown" or "<details>" not in answer.source:
            wanted, remedy = "the answer in <details>", "put it below the cell that runs"
            found.append(problem(f"{wanted} after the cell of: {asked}", described(answer), remedy))
    return found


def described(cell) -> str:
    return f"a {cell.cell_type} cell tagged {sorted(tags(cell))}" if cell else "no cell"


def verdicts(notebook) -> list[str]:
    """A cell that only asserts is folded: a reader who understands skips it."""
    return [
        problem("a cell that asserts folded", first_line(cell), "tag the cell hide-cell")
        for cell in code(notebook)
        if re.search(r"^ *assert\b", cell.source, re.MULTILINE)
        and not has_figure(cell)
        and not tags(cell) & FOLDED
    ]


def size(notebook, words: tuple[int, int] = WORDS) -> list[str]:
    """As many words and cells as an hour holds."""
    counts = (
        ("words", len(prose(notebook).split()), *words),
        ("code cells", len(code(notebook)), *CELLS),
    )
    return [
        problem(
            f"{least} to {most} {what}",
            f"{count} {what}",
            "show more" if count < least else "cut what repeats",
        )
        for what, count, least, most in counts
        if not least <= count <= most
    ]


def sections(notebook, headings: tuple[str, ...] = HEADINGS) -> list[str]:
    """The end is the same everywhere; what comes before is not."""
    text = prose(notebook)
    return [
        problem(f"a section '## {heading}'", "none", "every chapter ends with it: add it")
        for heading in headings
        if not re.search(rf"^## .*{heading}", text, re.MULTILINE | re.IGNORECASE)
    ]


def no_document_numbers(notebook) -> list[str]:
    """A reader has not seen the documents that the course began with."""
    texts = [cell.source for cell in notebook.cells]
    remedy = "say what is wrong here, and whose claim it is in chapters/claims.md"
    return [
        problem("no number of a source document", f"'{found[0]}' in: {x[:60]}", remedy)
        for x in texts
        for found in NUMBERED.finditer(x)
    ]


def whole_formulas(notebook) -> list[str]:
    """Markdown makes a list of a line that begins with "+ ", in the midst of a formula, too."""
    texts = [SET_APART.sub("", x.source) for x in notebook.cells if x.cell_type == "markdown"]
    wanted = "no line of a formula that begins like a list"
    return [
        problem(wanted, f"'{found[1].strip()}' inside {formula!r}", "join the lines")
        for text in texts
        for paragraph in text.split("\n\n")
        for formula in INLINE.findall(paragraph)
        if (found := MARKER.search(formula))
    ]


def explained_terms(notebook) -> list[str]:
    """A term of the glossary is linked, or explained in emphasis, where it is first used."""
    known = glossary.terms()
    return [
        problem(
            f"'{term}' linked, or explained in bold, where it is first used",
            "the bare words",
            f"write [{term}](glossary.md#term-{glossary.slug(term)})",
        )
        for term in glossary.unexplained(prose(notebook), known)
    ]


RULES = (
    opening, small_cells, predictions, verdicts, size, sections, no_document_numbers,
    whole_formulas, explained_terms,
)  # fmt: skip
