"""Every property on every variant; the table of both is written for the book."""

import inspect

import pytest
from support import (
    cases_flash,  # noqa: F401  (registers FlashAttention)
    cases_layers,  # noqa: F401  (registers the layers)
    cases_shared,  # noqa: F401  (registers layers that share key heads)
)
from support.cases import VARIANTS
from support.contracts import CONTRACTS, UNDEFINED

import attncourse
from attncourse import layers

found: dict[tuple[str, str], bool | None] = {}


pytestmark = [pytest.mark.quick, pytest.mark.tables]


@pytest.mark.parametrize("title", CONTRACTS)
@pytest.mark.parametrize("name", VARIANTS)
def test_contract(name, title):
    found[name, title] = False
    defined = CONTRACTS[title](lambda **sizes: VARIANTS[name](attncourse, **sizes))
    found[name, title] = None if defined is UNDEFINED else True


def test_every_public_function_and_layer_is_a_variant():
    names = {
        name
        for name, x in vars(layers).items()
        if inspect.isclass(x) and x.__module__ == layers.__name__
    }
    tested = {name.split(",")[0] for name in VARIANTS}
    assert (
        names
        | {
            "attention",
            "scaled_dot_product_attention",
            "flash_attention",
            "cached_attention",
            "LatentAttention",
        }
        == tested
    )


def test_table_of_the_book(book_table):
    if len(found) < len(VARIANTS) * len(CONTRACTS):
        pytest.skip("written by a complete run of this file only")
    for title in CONTRACTS:
        assert any(found[name, title] for name in VARIANTS), f"no variant has: {title}"
    book_table(
        "contracts",
        caption="Which property was tested on which variant",
        note="Every property is one function in tests/support/contracts.py, every variant one entry of "
        "the files tests/support/cases*.py.",
        columns=["Variant", *CONTRACTS],
        rows=[[name, *[found[name, title] for title in CONTRACTS]] for name in VARIANTS],
    )
