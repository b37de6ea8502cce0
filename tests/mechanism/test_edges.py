"""Every edge of every function and layer; the table of both is written for the book, with the reasons."""

import pytest
import torch
from support.contracts import UNDEFINED
from support.edges import EDGES, WHY
from support.subjects import UNCHECKED, known_as, subjects

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
    cannot = {}
    for (name, title), why in WHY.items():
        cannot.setdefault((title, why), []).append(name)
    reasons = "".join(f" Not {x}: {', '.join(y)}, because {why}." for (x, why), y in cannot.items())
    book_table(
        "edges",
        caption="What holds at the edges of every function and layer",
        note="Layers are named as in get_attention, and are causal if they can be." + reasons,
        columns=["Function or layer", *EDGES],
        rows=[[name, *[found[name, title] for title in EDGES]] for name in SUBJECTS],
    )
