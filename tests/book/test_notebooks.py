"""The form of every notebook: what a reader of the site, of Lab and of Colab relies on."""

import re

import nbformat
import pytest
from pybtex.database import parse_file
from support.book import form, glossary
from support.book.form import first_line, problem, tags
from support.book.notebooks import (
    ALL,
    CHAPTERS,
    EXECUTED,
    MASTERS,
    OLD,
    OLDER,
    ROOT,
    STUDENTS,
    TAUGHT,
    cells,
    chapter,
    each,
    read,
)  # fmt: skip

pytestmark = pytest.mark.quick

GPU = {"gpu", "skip-execution", "nbval-skip"}
FOLDS = {"hide-input", "hide-output", "hide-cell"}
TAGS = GPU | FOLDS | {"bootstrap", "remove-cell", "nbval-ignore-output", "hints"}
NOT_PLAIN = (":::", "{cite", "```{", "{doc}", "{ref}", "{eq}", "{term}", "{numref}", "{math}")
RUN = "run it: make run NB=PATH"


def texts(output) -> str:
    """What an output shows as text, pictures left out."""
    shown = [str(x) for key, x in output.get("data", {}).items() if key.startswith("text/")]
    return "\n".join([output.get("text", ""), *shown])


@each(ALL)
def test_notebook_is_valid_and_tidy(path):
    notebook = read(path)
    nbformat.validate(notebook)
    kept = {"kernelspec", "language_info"}
    assert set(notebook.metadata) == kept, problem(f"metadata {kept}", set(notebook.metadata), RUN)
    ids = [cell.id for cell in notebook.cells]
    twice = {x for x in ids if ids.count(x) > 1}
    assert not twice, problem("an id for each cell", f"{twice} twice", "give the new cell another")
    odd = [x for x in ids if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", x)]
    assert not odd, problem("ids of letters, digits, - and _", odd, "rename them")
    assert path.read_text(encoding="utf-8").endswith("\n"), problem("a last line", "none", RUN)


@each(ALL)
def test_tags_are_known(path):
    for cell in read(path).cells:
        unknown = tags(cell) - TAGS
        assert not unknown, problem(f"tags of {sorted(TAGS)}", unknown, "take one of them")
        of_gpu = tags(cell) & GPU
        remedy = f"tag the cell with all: {first_line(cell)}"
        assert of_gpu in (set(), GPU), problem(f"all tags of a GPU cell, {GPU}", of_gpu, remedy)


@each(EXECUTED)
def test_what_the_site_folds_is_folded_in_lab(path):
    for cell in cells(path, "code"):
        folded = {"hide-input", "hide-cell"} & tags(cell), {"hide-output", "hide-cell"} & tags(cell)
        parts = ("source_hidden", "outputs_hidden")
        expected = {part: True for part, by in zip(parts, folded, strict=True) if by}
        found = cell.metadata.get("jupyter", {})
        assert found == expected, problem(f"{expected} in JupyterLab", found, RUN)


@each(ALL)
def test_cells_are_small_and_end_without_semicolon(path):
    for cell in cells(path, "code"):
        wanted, last = "no semicolon at the end of a cell", cell.source.rstrip().split("\n")[-1]
        assert not last.endswith(";"), problem(wanted, last, "assign the value to _, or delete it")
        lines = len(cell.source.split("\n"))
        assert lines <= 40, problem("at most 40 lines", f"{lines}: {first_line(cell)}", "split it")


@each(ALL)
def test_markdown_is_plain(path):
    for cell in cells(path, "markdown"):
        found = [syntax for syntax in NOT_PLAIN if syntax in cell.source]
        wanted = "Markdown that Lab and Colab show as the site does"
        assert not found, problem(wanted, f"{found} in: {first_line(cell)}", "write plain Markdown")


@each(ALL)
def test_title_stands_first_and_only_once(path):
    notebook = read(path)
    first = first_line(notebook.cells[0])
    assert first.startswith("# "), problem("a title in the first cell", first, "begin it with '# '")
    lines = [x for cell in cells(path, "markdown") for x in cell.source.split("\n")]
    titles = [line for line in lines if line.startswith("# ")]
    assert len(titles) == 1, problem("one title", titles, "begin the other headings with '## '")


@each(EXECUTED)
def test_executed_without_errors(path):
    counts = [cell.execution_count for cell in cells(path, "code") if not tags(cell) & GPU]
    wanted = "code cells run from top to bottom"
    assert counts == list(range(1, len(counts) + 1)), problem(wanted, counts, RUN)
    for cell in cells(path, "code"):
        for output in cell.outputs:
            seen = texts(output) or output.get("evalue", "")
            bad = output.output_type == "error" or output.get("name") == "stderr"
            said = f"{seen} in: {first_line(cell)}"
            assert not bad, problem("no error and no warning", said, "mend the cell")
            moving = re.search(r"\b0x[0-9a-f]{6,}|/tmp/", seen)
            wanted, remedy = "the same output in every run", "do not print addresses and paths"
            assert not moving, problem(wanted, moving[0], remedy)


@each(STUDENTS)
def test_students_get_no_outputs(path):
    for cell in cells(path, "code"):
        bare = not cell.outputs and cell.execution_count is None and "SOLUTION" not in cell.source
        wanted, remedy = "no output and no solution", "edit the master, then run: make exercises"
        assert bare, problem(wanted, first_line(cell), remedy)


@each(EXECUTED)
def test_figures_speak(path):
    for cell in cells(path, "code"):
        pictures = [x for x in cell.outputs if "image/png" in x.get("data", {})]
        wanted, remedy = "one figure a cell, which has one alt text", "split the cell"
        assert len(pictures) <= 1, problem(wanted, f"{len(pictures)}: {first_line(cell)}", remedy)
        if pictures:
            alt, shown = cell.metadata["mystnb"]["image"]["alt"], pictures[0]["data"]["text/plain"]
            assert alt == shown, problem(f"the alt text of the figure, {shown!r}", repr(alt), RUN)
            speaks = len(alt) > 30 and not re.search(r"\.(png|svg)\b|<.*at 0x|Figure\(", alt)
            wanted, remedy = "an alt text in a sentence", "draw with attncourse.show"
            assert speaks, problem(wanted, repr(alt), remedy)
            width = int(cell.metadata["mystnb"]["image"]["width"].removesuffix("px"))
            assert width <= 700, problem("a figure of at most 7 inches", width, "draw it smaller")
    links = [x for cell in cells(path, "markdown") for x in re.findall(r"!\[(.*?)\]", cell.source)]
    wanted, remedy = "an alt text for every picture", "write one between the brackets"
    assert all(links), problem(wanted, links, remedy)


@each(EXECUTED)
def test_what_is_not_compared_is_asserted(path):
    """A training or a timing is not compared by nbval, so the next compared cell states a bound.

    A check raises by itself, and the points follow from the checks.
    """
    code = cells(path, "code")
    for k, cell in enumerate(code):
        judged = re.match(r"(check|status)\(", cell.source)
        if "nbval-ignore-output" in tags(cell) and not judged:
            compared = [c for c in code[k + 1 :] if "nbval-ignore-output" not in tags(c)]
            following = compared[0].source if compared else "nothing"
            bounded = "assert" in following or "check(" in following
            wanted = f"a cell that asserts a bound after: {first_line(cell)}"
            assert bounded, problem(wanted, following, "assert one, and print the verdict")


def test_who_joins_a_process_group_leaves_it():
    """One that ends in it is now and then aborted after its work: gloo's threads outlive Python."""
    code = [cell.source for path in ALL for cell in cells(path, "code")]
    joining = [x for x in code if "dist.init_process_group(" in x]
    assert joining
    assert [x for x in joining if "\ndist.destroy_process_group()\n" not in x] == []


@each(OLD)
def test_older_chapter_has_its_size_and_the_sections_that_it_needs(path):
    notebook = read(path)
    problems = form.size(notebook, words=(1_200, 2_500))
    problems += form.sections(notebook, ("cost", "breaks", *form.HEADINGS))
    assert not problems, "\n".join(problems)
    assert "five_steps(" in "\n".join(cell.source for cell in form.code(notebook))


@pytest.mark.parametrize("rule", form.RULES, ids=lambda rule: rule.__name__)
@each(TAUGHT)
def test_chapter_teaches_first(path, rule):
    problems = rule(read(path))
    assert not problems, "\n".join([rule.__doc__, *problems])


def test_what_is_older_is_there():
    assert set(OLDER) <= {chapter(path) for path in CHAPTERS}


@each(ALL)
def test_links_to_terms_lead_to_the_glossary(path):
    source = "\n".join(cell.source for cell in cells(path, "markdown"))
    unknown = glossary.unknown_links(source, glossary.terms())
    wanted, remedy = "links to terms of chapters/glossary.md", "add the term, or mend the link"
    assert not unknown, problem(wanted, unknown, remedy)


def test_the_bibliography_can_be_read():
    """A merge that joins two entries makes one of both: a brace is missing, and the site is not built."""
    written = re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text("utf-8"), re.M)
    assert list(parse_file(ROOT / "references.bib").entries) == written


@each(ALL)
def test_papers_are_in_the_bibliography(path):
    known = set(re.findall(r"url\s*=\s*\{(.*?)\}", (ROOT / "references.bib").read_text("utf-8")))
    source = "\n".join(cell.source for cell in cells(path, "markdown"))
    linked = set(re.findall(r"https://(?:arxiv|[\w.]*transformer-circuits)\.[^\s)>\"]+", source))
    wanted = "linked papers in references.bib"
    assert linked <= known, problem(wanted, linked - known, "add them there")
    assert linked or path not in CHAPTERS, problem("a paper in every chapter", "none", "cite one")


@each(ALL)
def test_links_to_files_lead_somewhere(path):
    folder = ROOT / "exercises" if path in MASTERS else path.parent  # a master is read by nobody
    for cell in cells(path, "markdown"):
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", cell.source):
            file = (folder / target).resolve()
            there = file.exists() or not file.suffix  # such as f[0](x)
            assert there, problem("a file behind each link", target, "mend the link")
