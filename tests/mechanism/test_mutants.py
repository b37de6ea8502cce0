"""Every wrong version of our own code is killed: by a contract, by a claim, or by a crash."""

import pytest
import torch
from support.contracts import CONTRACTS
from support.package import MODULES, build
from support.registered import CLAIMS, MUTANTS, VARIANTS

# Half of the wrong versions fall to claims that take a millisecond, most others to the loops.
LOOPS = "equals its loops"
DEAR = {
    "scores x 300",
    "gradients equal those of its loops",
    "normalize_is_the_same_traced_batched_and_compiled",
    "decoding_in_any_chunks_is_the_full_pass",
    "latents_decoded_in_any_chunks_are_the_full_pass",
    "many_tiles_equal_torch",
    "a_mask_over_many_tiles_equals_torch",
    "no_tensor_grows_with_queries_times_keys",
}


def killers(package, last_first: bool = False):
    """All claims, and all contracts on all variants, as calls: first what is cheap and kills much."""
    cheap = {title for title in CONTRACTS if title not in DEAR} - {LOOPS}
    yield from claims({claim.__name__ for claim in CLAIMS} - DEAR, package)
    yield from contracts({LOOPS}, package, last_first)
    yield from claims(DEAR, package)
    yield from contracts(cheap, package, last_first)
    yield from contracts(DEAR, package, last_first)


def claims(names, package):
    for claim in CLAIMS:
        if claim.__name__ in names:
            yield claim.__name__, lambda claim=claim: claim(package)


def contracts(titles, package, last_first: bool):
    """The layers are the last variants."""
    variants = list(VARIANTS.items())
    for title, contract in CONTRACTS.items():
        if title not in titles:
            continue
        for name, make in reversed(variants) if last_first else variants:
            call = lambda c=contract, m=make: c(lambda **sizes: m(package, **sizes))  # noqa: E731
            yield f"{name}: {title}", call


def killed_by(package, last_first: bool = False) -> str:
    """The first property that fails, or ''."""
    for title, call in killers(package, last_first):
        torch.manual_seed(0)
        try:
            call()
        except (Exception, pytest.fail.Exception):  # a crash is a kill as well
            return title
    return ""


def test_the_code_itself_survives():
    """All of it is looked at: each contract on each variant, and each claim."""
    assert len(dict(killers(build()))) == len(CONTRACTS) * len(VARIANTS) + len(CLAIMS)
    assert killed_by(build()) == ""


@pytest.mark.parametrize(("module", "old", "new"), MUTANTS)
def test_mutant_is_killed(module, old, new):
    last_first = module not in ("steps", "masks", "scores")
    assert killed_by(build(module, old, new), last_first), f"survived: {new!r} in place of {old!r}"


def test_mutants_differ_and_touch_every_module():
    assert len(set(MUTANTS)) == len(MUTANTS) >= 20
    assert {module for module, _, _ in MUTANTS} == set(MODULES)


def test_stale_mutant_is_noticed():
    with pytest.raises(AssertionError, match="holds 0 times"):
        build("steps", "text that is not there", "")
