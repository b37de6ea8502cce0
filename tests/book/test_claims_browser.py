"""The table of claims in a real browser: it can be narrowed down, and a link unfolds the cell that it leads to."""

from pathlib import Path

import pytest
from support.site import HTML

pytestmark = pytest.mark.browser

SHOWN = "rows => rows.filter(row => row.checkVisibility()).map(row => row.id)"


def depends(item) -> list[Path]:
    return [
        HTML / "chapters/claims.html",
        HTML / "chapters/13_sliding_window.html",
        HTML / "_static",
    ]


@pytest.fixture(params=[True, False], ids=["with scripts", "without"])
def page(request, browser):
    if not (HTML / "chapters/claims.html").exists():
        pytest.fail("there is no built site: run `make book` first", pytrace=False)
    context = browser.new_context(java_script_enabled=request.param)
    yield context.new_page(), request.param
    context.close()


def test_table_is_narrowed_down_from_the_keyboard(page):
    page, scripted = page
    page.goto((HTML / "chapters/claims.html").resolve().as_uri())
    rows = page.locator(".claims tbody tr")
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


def test_cell_that_a_link_leads_to_is_unfolded(page):
    page, scripted = page
    folded = (HTML / "chapters/13_sliding_window.html").resolve().as_uri() + "#cell-13-023"
    page.goto(folded)
    cell = page.locator("#cell-13-023 > details")
    assert (cell.get_attribute("open") is not None) == scripted
