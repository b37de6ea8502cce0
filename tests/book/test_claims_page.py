"""The claims of the documents: each row has a verdict and a cell that shows it, in the notebook and on the site."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from support.book.notebooks import ROOT, read
from support.book.site import HTML, Page, built, extension

CLAIMS = extension("claims")
FILE = ROOT / "chapters/_data/claims.yml"
DATA = CLAIMS.read(FILE)
ROWS = DATA["claims"]


def depends(item) -> list[Path]:
    """The data, the extension and the notebooks; what was built, for the tests that look at it."""
    parts = [FILE, ROOT / "chapters/_ext/claims.py", *ROOT.glob("chapters/*.ipynb")]
    return [*parts, HTML / "chapters"] if "site" in item.name else parts


def test_there_are_82_claims_with_every_verdict():
    assert [claim["id"] for claim in ROWS] == list(range(1, 83))
    assert Counter(claim["verdict"] for claim in ROWS).keys() == CLAIMS.VERDICTS.keys()
    assert {by for claim in ROWS for by in claim["by"]} == set(DATA["documents"])


@pytest.mark.parametrize("claim", ROWS, ids=lambda claim: str(claim["id"]))
def test_a_verdict_has_a_reason_and_a_cell(claim):
    assert claim["verdict"] in CLAIMS.VERDICTS
    assert claim["why"].rstrip().endswith(".")
    assert 5 <= len(claim["why"].split()) <= 60
    for target in claim["cells"]:
        stem, _, cell_id = target.partition("#")
        notebook = read(ROOT / f"chapters/{stem}.ipynb")
        cells = [cell for cell in notebook.cells if cell.id == cell_id]
        assert cells, f"{stem}.ipynb has no cell {cell_id}"
        assert cells[0].cell_type == "code"
        assert cells[0].outputs, f"{target} defines something and shows nothing"


def test_wrong_code_stands_in_the_document_that_is_named():
    """003 has no code, and the package of 004 is not included."""
    named = {claim["code"] for claim in ROWS if claim["verdict"] == "code"}
    assert named == {"000", "002"}
    row = CLAIMS.row(ROWS[25], DATA)
    assert 'data-code="000" data-by="000 001 002 003 004"' in row
    assert "false of the code of 000" in row


def test_a_row_is_found_by_other_names_of_what_it_speaks_of():
    claim = {"claim": "Grouped-query attention divides by the root of $d_k$.", "why": "“$n^2$”"}
    found = CLAIMS.words(claim, DATA["synonyms"])
    assert found.startswith("d_k n^2 ")
    assert {"GQA", "sqrt"} <= set(found.replace(",", "").split())
    said = " ".join(f"{claim['claim']} {claim['why']}" for claim in ROWS).lower()
    assert all(name in said for name in DATA["synonyms"]), "no row says it"


def test_cells_of_a_row_are_apart_without_a_style_sheet():
    shown = CLAIMS.links({"cells": ["03_multi_head#a", "03_multi_head#b"]}, {})
    assert re.sub(r"<[^>]+>", "", shown) == "chapter 3, chapter 3 (2)"


def test_every_row_of_the_site_leads_to_a_code_cell():
    page = built("chapters/claims.html").read_text(encoding="utf-8")
    rows = re.findall(r'<tr id="claim-(\d+)"(.*?)</tr>', page, re.DOTALL)
    assert [int(number) for number, _ in rows] == [claim["id"] for claim in ROWS]
    pages = {}
    for (number, row), claim in zip(rows, ROWS, strict=True):
        assert CLAIMS.judged(claim) in row
        links = re.findall(r'href="(\w+)\.html#([\w-]+)"', row)
        assert len(links) == len(claim["cells"]), number
        for stem, anchor in links:
            text = pages.setdefault(
                stem, built(f"chapters/{stem}.html").read_text(encoding="utf-8")
            )
            found = re.search(rf'<div class="cell[^"]*"[^>]* id="{anchor}">(?:\s*<[^>]*>)*', text)
            assert found, f"claim {number}: {stem}.html has no code cell {anchor}"
            assert "highlight-" in text[found.start() : found.start() + 1500], (number, anchor)


def test_anchors_are_given_once_on_a_page_of_the_site():
    for path in (HTML / "chapters").glob("*.html"):
        ids = re.findall(r' id="(cell-[\w-]+)"', path.read_text(encoding="utf-8"))
        assert len(ids) == len(set(ids)), path.name
        assert not ids or Page(path).ids >= set(ids)


def test_what_is_no_claim_is_refused(tmp_path):
    good = {key: ROWS[0][key] for key in sorted(CLAIMS.KEYS)}

    def read(**change):
        claims = {"documents": DATA["documents"], "claims": [good | change]}
        (tmp_path / "claims.yml").write_text(json.dumps(claims))
        return CLAIMS.read(tmp_path / "claims.yml")["claims"]

    for change, message in (
        ({"verdict": "maybe"}, "its verdict is one of"),
        ({"cells": []}, "there is a cell"),
        ({"by": ["007"]}, "no documents"),
        ({"verdict": "code"}, "a claim has"),
        ({"verdict": "code", "code": "003"}, "does not say it"),
    ):
        with pytest.raises(ValueError, match=message):
            read(**change)
    assert read() == [good]
