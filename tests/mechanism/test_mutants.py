"""Every wrong version of our own code is killed: by a contract, by a claim, or by a crash."""

from functools import partial

import pytest
import torch
from support.contracts import CONTRACTS
from support.mutants.package import MODULES, build
from support.registered import CLAIMS, MUTANTS, VARIANTS

# Most wrong versions fall to the cases and claims that were written for their module, so those are tried first: the
# files of these names, of the module's own where none is listed.
HOMES = {
    "steps": "attention",
    "scores": "positions attention",
    "cost": "attention cache",
    "masks": "attention window global_local",
    "layers": "layers attention shared cache",
    "positions": "positions cache",
    "rope_scaling": "positions",
    **dict.fromkeys(("cache", "latent", "shared_heads", "decoding"), "shared cache decoding"),
    "interface": "decoding layers attention cache",
    **dict.fromkeys(("online", "tiled"), "flash"),
    "rolling": "rolling window",
    "dilated": "window layers",
    "bigbird": "global_local layers",
    **dict.fromkeys(("longformer", "reach"), "global_local"),
    "delta": "gated",
    "streaming": "sinks",
    "document_bias": "disentangled",
    "talking_heads": "talking_heads multi_token layers",
}
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


def killers(package, module: str = "steps"):
    """All claims, and all contracts on all variants, as pairs of a title and a call: at home first, dear last."""
    names = HOMES.get(module, module).split()
    home = {f"support.{folder}.{name}" for folder in ("cases", "claims") for name in names}
    found = [(x, x.__name__, x.__name__, partial(x, package)) for x in CLAIMS]
    for title, contract in CONTRACTS.items():
        for name, make in VARIANTS.items():
            call = partial(contract, partial(make, package))
            found.append((make, title, f"{name}: {title}", call))
    found.sort(key=lambda x: (x[0].__module__ not in home, x[1] in DEAR))
    return [(title, call) for *_, title, call in found]


def killed_by(package, module: str = "steps") -> str:
    """The first property that fails, or ''."""
    for title, call in killers(package, module):
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
    assert killed_by(build(module, old, new), module), f"survived: {new!r} in place of {old!r}"


def test_mutants_differ_and_touch_every_module():
    assert len(set(MUTANTS)) == len(MUTANTS) >= 20
    assert {module for module, _, _ in MUTANTS} == set(MODULES) >= set(HOMES)


def test_stale_mutant_is_noticed():
    with pytest.raises(AssertionError, match="holds 0 times"):
        build("steps", "text that is not there", "")
