"""Every wrong version of our own code is killed: by a contract, by a claim, or by a crash."""

import pytest
import torch
from support.contracts import CONTRACTS
from support.package import MODULES, build
from support.registered import CLAIMS, MUTANTS, VARIANTS


def killers(package, last_first: bool):
    """All claims, and all contracts on all variants, as calls; the layers are the last variants."""
    for claim in CLAIMS:
        yield claim.__name__, lambda claim=claim: claim(package)
    variants = list(VARIANTS.items())
    for name, make in reversed(variants) if last_first else variants:
        for title, contract in CONTRACTS.items():
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
    assert killed_by(build()) == ""


@pytest.mark.parametrize(("module", "old", "new"), MUTANTS)
def test_mutant_is_killed(module, old, new):
    mutant = build(module, old, new)
    assert killed_by(mutant, last_first=module not in ("steps", "masks", "scores")), (
        f"survived: {new!r} in place of {old!r}"
    )


def test_mutants_differ_and_touch_every_module():
    assert len(set(MUTANTS)) == len(MUTANTS) >= 20
    assert {module for module, _, _ in MUTANTS} == set(MODULES)


def test_stale_mutant_is_noticed():
    with pytest.raises(AssertionError, match="holds 0 times"):
        build("steps", "text that is not there", "")
