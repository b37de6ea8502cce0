"""Every edge of every function and layer; the table of both is written for the book, with the reasons."""

import pytest
import torch
from support.edges import EDGES, UNCHECKED, UNDEFINED, WHY, known_as, subjects

found: dict[tuple[str, str], bool | None] = {}
SUBJECTS = subjects()

pytestmark = pytest.mark.tables


@pytest.fixture(autouse=True)
def _unchecked():
    with known_as(UNCHECKED):
        yield


@pytest.mark.parametrize("title", EDGES)
@pytest.mark.parametrize("name", SUBJECTS)
def test_edge(name, title):
    found[name, title] = False
    torch.manual_seed(0)
    if (name, title) in WHY:
        with pytest.raises(Exception):  # noqa: B017
            EDGES[title](SUBJECTS[name])
        return
    found[name, title] = None if EDGES[title](SUBJECTS[name]) is UNDEFINED else True


def test_table_of_the_book(book_table):
    if len(found) < len(SUBJECTS) * len(EDGES):
        pytest.skip("written by a complete run of this file only")
    reasons = "".join(f" {name}, {title}: {why}." for (name, title), why in WHY.items())
    book_table(
        "edges",
        caption="What holds at the edges of every function and layer",
        note="Layers are named as in get_attention, and are causal if they can be." + reasons,
        columns=["Function or layer", *EDGES],
        rows=[[name, *[found[name, title] for title in EDGES]] for name in SUBJECTS],
    )
