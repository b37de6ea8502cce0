"""The table of claims in a real browser: it can be narrowed down, and a link unfolds the cell that it leads to."""

from pathlib import Path

import pytest
from support.book.site import HTML, built

pytestmark = pytest.mark.browser

CLAIMS, ROWS = HTML / "chapters/claims.html", ".claims tbody tr"
SHOWN = "rows => rows.filter(row => row.checkVisibility()).map(row => row.id)"


def depends(item) -> list[Path]:
    return [CLAIMS, HTML / "chapters/13_sliding_window.html", HTML / "_static"]


@pytest.fixture(params=[True, False], ids=["with scripts", "without"])
def page(request, browser):
    built("chapters/claims.html")
    context = browser.new_context(java_script_enabled=request.param)
    yield context.new_page(), request.param
    context.close()


@pytest.fixture
def narrowed(browser):
    """The page of claims, and what is left of it for a document, a verdict and words."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(CLAIMS.resolve().as_uri())

    def narrow(document="", verdict="", words=""):
        page.get_by_label("Document").select_option(document)
        page.get_by_label("Verdict").select_option(verdict)
        page.get_by_label("Words").fill(words)
        return [int(name.removeprefix("claim-")) for name in page.locator(ROWS).evaluate_all(SHOWN)]

    yield page, narrow
    context.close()


def test_table_is_narrowed_down_from_the_keyboard(page):
    page, scripted = page
    page.goto(CLAIMS.resolve().as_uri())
    rows = page.locator(ROWS)
    assert rows.count() == 82
    assert all(row.is_visible() for row in (rows.first, rows.last))
    assert page.locator(".claims-filter").count() == scripted
    if not scripted:
        return
    page.get_by_label("Document").focus()
    page.keyboard.type("004")
    assert set(rows.evaluate_all(SHOWN)) < {f"claim-{k}" for k in range(1, 83)}
    page.keyboard.press("Tab")
    page.keyboard.type("false")
    page.keyboard.press("Tab")
    page.keyboard.type("width 512")
    assert rows.evaluate_all(SHOWN) == ["claim-47"]
    found = page.get_by_role("status")
    assert found.inner_text() == "1 of 82 claims"
    page.keyboard.type(" and no such words")
    assert "Nothing found" in found.inner_text()
    assert not page.locator(".claims").is_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    rows.last.wait_for(state="visible")
    assert found.inner_text() == "82 of 82 claims"


def test_verdict_of_a_document_without_code_is_about_its_sentence(narrowed):
    _, narrow = narrowed
    of_the_code = narrow(document="000", verdict="code")
    assert {26, 29, 52} < set(of_the_code)
    assert narrow(document="003", verdict="code") == []
    assert {26, 29, 52} < set(narrow(document="003", verdict="true"))
    assert not set(of_the_code) & set(narrow(verdict="true"))


def test_words_are_looked_for_one_by_one(narrowed):
    _, narrow = narrowed
    assert narrow(words="GQA") == narrow(words="grouped query") == narrow(words="Grouped-query")
    assert {52, 53} <= set(narrow(words="window memory")) < set(narrow(words="window"))
    assert 14 in narrow(words="sqrt d_k")
    assert set(narrow(words="true")) < set(narrow()), "the verdict has a field of its own"
    assert narrow(words="rope") == [], "no claim is about rotary positions, and property is no rope"


def test_who_comes_back_finds_what_the_fields_say(narrowed):
    page, narrow = narrowed
    left = narrow(verdict="code", words="window")
    page.locator(ROWS).get_by_role("link").locator("visible=true").first.click()
    page.wait_for_url("**/*#cell-*")
    page.go_back()
    page.wait_for_url("**/claims.html")
    assert page.get_by_label("Words").input_value() == "window"
    shown = page.locator(ROWS).evaluate_all(SHOWN)
    assert shown == [f"claim-{number}" for number in left]
    assert page.get_by_role("status").inner_text() == f"{len(left)} of 82 claims"


def test_cell_that_a_link_leads_to_is_unfolded(page):
    page, scripted = page
    folded = (HTML / "chapters/13_sliding_window.html").resolve().as_uri() + "#cell-13-023"
    page.goto(folded)
    cell = page.locator("#cell-13-023 > details")
    assert (cell.get_attribute("open") is not None) == scripted
