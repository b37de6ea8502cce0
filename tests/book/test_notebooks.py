"""The form of every notebook: what a reader of the site, of Lab and of Colab relies on."""

import re

import nbformat
import pytest
from pybtex.database import parse_file
from support.book import form, glossary
from support.book.form import tags
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
)

pytestmark = pytest.mark.quick

GPU = {"gpu", "skip-execution", "nbval-skip"}
FOLDS = {"hide-input", "hide-output", "hide-cell"}
TAGS = GPU | FOLDS | {"bootstrap", "remove-cell", "nbval-ignore-output", "hints"}
NOT_PLAIN = (":::", "{cite", "```{", "{doc}", "{ref}", "{eq}", "{term}", "{numref}", "{math}")


def texts(output) -> str:
    """What an output shows as text, pictures left out."""
    shown = [str(x) for key, x in output.get("data", {}).items() if key.startswith("text/")]
    return "\n".join([output.get("text", ""), *shown])


@each(ALL)
def test_notebook_is_valid_and_tidy(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    ids = [cell.id for cell in notebook.cells]
    assert len(ids) == len(set(ids)), "an id is given once"
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", x) for x in ids)
    assert path.read_text(encoding="utf-8").endswith("\n")


@each(ALL)
def test_tags_are_known(path):
    for cell in read(path).cells:
        assert tags(cell) <= TAGS
        assert not tags(cell) & GPU or tags(cell) >= GPU, "a GPU cell carries all of its tags"


@each(EXECUTED)
def test_what_the_site_folds_is_folded_in_lab(path):
    for cell in cells(path, "code"):
        folded = {"hide-input", "hide-cell"} & tags(cell), {"hide-output", "hide-cell"} & tags(cell)
        parts = ("source_hidden", "outputs_hidden")
        expected = {part: True for part, by in zip(parts, folded, strict=True) if by}
        assert cell.metadata.get("jupyter", {}) == expected, "run it anew: make run"


@each(ALL)
def test_first_code_cell_installs_the_course(path):
    first = cells(path, "code")[0]
    assert tags(first) == {"bootstrap", "remove-cell"}
    assert sum("bootstrap" in tags(cell) for cell in read(path).cells) == 1


@each(ALL)
def test_cells_are_small_and_end_without_semicolon(path):
    for cell in cells(path, "code"):
        assert not cell.source.rstrip().endswith(";"), "nbval shows what a semicolon hides"
        assert len(cell.source.split("\n")) <= 40


@each(ALL)
def test_markdown_is_plain(path):
    for cell in cells(path, "markdown"):
        for syntax in NOT_PLAIN:
            assert syntax not in cell.source, "the site would show it, Lab and Colab would not"


@each(ALL)
def test_title_stands_first_and_only_once(path):
    notebook = read(path)
    assert notebook.cells[0].source.startswith("# ")
    lines = [x for cell in cells(path, "markdown") for x in cell.source.split("\n")]
    assert sum(line.startswith("# ") for line in lines) == 1


@each(EXECUTED)
def test_executed_without_errors(path):
    counts = [cell.execution_count for cell in cells(path, "code") if not tags(cell) & GPU]
    assert counts == list(range(1, len(counts) + 1)), "run it anew, from top to bottom"
    for cell in cells(path, "code"):
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr", texts(output)
            assert not re.search(r"\b0x[0-9a-f]{6,}", texts(output)), "an address is never the same"
            assert "/tmp/" not in texts(output)


@each(STUDENTS)
def test_students_get_no_outputs(path):
    for cell in cells(path, "code"):
        assert not cell.outputs
        assert cell.execution_count is None
        assert "SOLUTION" not in cell.source


@each(EXECUTED)
def test_figures_speak(path):
    for cell in cells(path, "code"):
        pictures = [x for x in cell.outputs if "image/png" in x.get("data", {})]
        assert len(pictures) <= 1, "one figure a cell: the alternative text belongs to the cell"
        if pictures:
            alt = cell.metadata["mystnb"]["image"]["alt"]
            assert alt == pictures[0]["data"]["text/plain"]
            assert len(alt) > 30
            assert not re.search(r"\.(png|svg)\b|<.*at 0x|Figure\(", alt)
            width = int(cell.metadata["mystnb"]["image"]["width"].removesuffix("px"))
            assert width <= 700
    links = [x for cell in cells(path, "markdown") for x in re.findall(r"!\[(.*?)\]", cell.source)]
    assert all(links), "every picture has a text"


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
            assert compared, "nothing after it is compared"
            assert "assert" in compared[0].source or "check(" in compared[0].source, cell.source


def test_who_joins_a_process_group_leaves_it():
    """One that ends in it is now and then aborted after its work: gloo's threads outlive Python."""
    code = [cell.source for path in ALL for cell in cells(path, "code")]
    joining = [x for x in code if "dist.init_process_group(" in x]
    assert joining
    assert [x for x in joining if "\ndist.destroy_process_group()\n" not in x] == []


@each(OLD)
def test_older_chapter_has_the_promised_size(path):
    words = sum(len(cell.source.split()) for cell in cells(path, "markdown"))
    assert 1_200 <= words <= 2_500, f"{words} words"
    shown = [c for c in cells(path, "code") if "remove-cell" not in c.metadata.get("tags", [])]
    assert 20 <= len(shown) <= 35


@each(OLD)
def test_older_chapter_has_the_sections_that_it_needs(path):
    source = "\n".join(cell.source for cell in cells(path, "markdown"))
    assert "five_steps(" in "\n".join(cell.source for cell in cells(path, "code"))
    for heading in ("cost", "breaks", "In the wild", "Exercises", "Summary", "Sources"):
        assert re.search(rf"^## .*{heading}", source, re.M | re.I), f"no section '{heading}'"


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
    assert glossary.unknown_links(source, glossary.terms()) == []


def test_the_bibliography_can_be_read():
    """A merge that joins two entries makes one of both: a brace is missing, and the site is not built."""
    written = re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text("utf-8"), re.M)
    assert list(parse_file(ROOT / "references.bib").entries) == written


@each(ALL)
def test_papers_are_in_the_bibliography(path):
    known = set(re.findall(r"url\s*=\s*\{(.*?)\}", (ROOT / "references.bib").read_text("utf-8")))
    source = "\n".join(cell.source for cell in cells(path, "markdown"))
    linked = set(re.findall(r"https://(?:arxiv|[\w.]*transformer-circuits)\.[^\s)>\"]+", source))
    assert linked <= known, linked - known
    assert linked or path not in CHAPTERS


@each(ALL)
def test_links_to_files_lead_somewhere(path):
    folder = ROOT / "exercises" if path in MASTERS else path.parent  # a master is read by nobody
    for cell in cells(path, "markdown"):
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", cell.source):
            file = (folder / target).resolve()
            assert file.exists() or file.parent.name in ("chapters", "exercises"), target
            if file.suffix == ".ipynb" and len(CHAPTERS) >= 3:
                assert file.exists(), target
