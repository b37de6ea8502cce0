"""The factors of a chunk of a fading state, among the variants."""

import torch

from support.cases import Variant, module, variant
from support.cases.gated import STATE, by_tokens, sequence
from support.mutants import MUTANTS


@variant("decays, of one chunk", n=7, m=7, d=4)
def one_chunk(p, s):
    decays = module(p, "decays")
    q, k, v, g = sequence(s)
    g[:, :, 3:4] = -torch.inf

    def stored(q, k, v, g):
        (weights,) = decays.decayed_products(k, decays.decays(g[..., None]).between, q / s.d**0.5)
        return weights @ v, weights

    def all_forgotten():
        own = (q * k).sum(-1, keepdim=True) / s.d**0.5 * v
        return stored(q, k, v, torch.full_like(g, -torch.inf))[0], own

    run = lambda *inputs: stored(*inputs)[0]  # noqa: E731
    return Variant(
        (q, k, v, g), run, by_tokens, all_forgotten, stored=stored, **STATE | {"fused": False}
    )


MUTANTS += [
    ("decays", "total.masked_fill(count > 0, -math.inf)", "total + 0.0"),
    ("decays", "masked_fill(count < count[:, :, -1:], -math.inf)", "masked_fill(count > count[:, :, -1:], -math.inf)"),
    ("decays", "decay_between(total) * same", "decay_between(total)"),
    ("decays", "log_decay.masked_fill(reset, 0.0).cumsum(dim=2), reset.cumsum(dim=2)", "log_decay.cumsum(dim=2), reset.cumsum(dim=2)"),
    ("decays", "total = log_decay.cumsum(dim=2)\n", "total = log_decay\n"),
    ("decays", "(total[:, :, -1:] - total).exp())", "(total[:, :, :1] - total).exp())"),
    ("decays", "total.new_ones(n, n).tril()", "total.new_ones(n, n).tril(1)"),
    ("decays", "total.new_ones(n, n).tril()", "total.new_ones(n, n).tril(-1)"),
    ("decays", "* past).exp() * past", ").exp() * past"),
    ("decays", "keys.mT * decay[..., 0]", "keys.mT"),
    ("decays", "torch.stack(rows, dim=-1)", "torch.stack(rows[::-1], dim=-1)"),
    ("decays", "decay.since[:, :, -1:].mT * state", "state"),
    ("decays", "(k * decay.until).mT", "k.mT"),
    ("decays", "(-5.0 - torch", "(-4.0 - torch"),
    ("decays", "return ~key_mask[..., None]", "return key_mask[..., None]"),
    ("decays", "if given.dtype != torch.bool or not fits", "if not fits"),
    ("decays", " or key_mask.size(2) != n:", ":"),
    ("decays", "key.masked_fill(hidden, 0.0), log", "key, log"),
    ("decays", "log_decay.masked_fill(fades, 0.0)", "log_decay"),
    ("decays", "    if chunk < 1:\n", "    if chunk < 0:\n"),
    ("decays", "    if n != key.size(2):\n", "    if False:\n"),
    ("decays", "    if state.shape != wanted:\n", "    if False:\n"),
    ("decays", "not in ((b, h, n), (b, h, n, d))", "not in ((b, h, n), (b, h, n, d), (h, n))"),
    ("decays", "bool((log_decay == -math.inf).any())", "bool((log_decay == -math.inf).all())"),
    ("decays", "64 if log_decay.size(-1) == 1 else 16", "64"),
]  # fmt: skip
