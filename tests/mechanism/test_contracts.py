"""Every property on every variant; the table of both is written for the book."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest
from support.contracts import CONTRACTS, UNDEFINED
from support.registered import VARIANTS

import attncourse
from attncourse import cache, decoding, layers, shared_heads, steps, variants

found: dict[tuple[str, str], bool | None] = {}


pytestmark = [pytest.mark.quick, pytest.mark.tables]


@pytest.mark.parametrize("title", CONTRACTS)
@pytest.mark.parametrize("name", VARIANTS)
def test_contract(name, title):
    found[name, title] = False
    defined = CONTRACTS[title](lambda **sizes: VARIANTS[name](attncourse, **sizes))
    found[name, title] = None if defined is UNDEFINED else True


def own(module) -> set[str]:
    """The public functions and classes that are written in this module."""
    return {
        name
        for name, x in vars(module).items()
        if getattr(x, "__module__", "") == module.__name__ and not name.startswith("_")
    }


def test_every_layer_and_every_file_of_variants_is_a_variant():
    tested = {name.split(",")[0] for name in VARIANTS}
    classes = {
        name
        for module in (layers, shared_heads)
        for name in own(module)
        if inspect.isclass(vars(module)[name])
    }
    assert classes | {"attention", "scaled_dot_product_attention", "cached_attention"} <= tested
    known = set().union(*map(own, (steps, layers, shared_heads, cache, decoding)))
    for path in sorted(Path(variants.__file__).parent.glob("[!_]*")):
        here = own(import_module(f"attncourse.variants.{path.stem}"))
        assert here & tested, f"register {path.name} in tests/support/cases/{path.stem}.py"
        known |= here
    assert tested <= known, "a variant is called like what it tests"


def test_table_of_the_book(book_table):
    if len(found) < len(VARIANTS) * len(CONTRACTS):
        pytest.skip("written by a complete run of this file only")
    for title in CONTRACTS:
        assert any(found[name, title] for name in VARIANTS), f"no variant has: {title}"
    book_table(
        "contracts",
        caption="Which property was tested on which variant",
        note="Every property is one function in tests/support/contracts.py, every variant one entry of "
        "the files of tests/support/cases.",
        columns=["Variant", *CONTRACTS],
        rows=[[name, *[found[name, title] for title in CONTRACTS]] for name in VARIANTS],
    )
