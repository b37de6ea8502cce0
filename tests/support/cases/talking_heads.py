"""Heads that tell each other their scores and weights, among the variants."""

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import draw, module, qkv, variant, weighing
from support.cases.layers import attending, sequences
from support.mutants import MUTANTS

SMALL = {"n": 5, "m": 5, "d": 4, "e": 3}


def talking_heads(p, s, limit, visible=None, added=(), **options):
    """A variant of `talking_heads_attention`; ``added`` may hold a float mask."""
    attend = module(p, "talking_heads").talking_heads_attention
    q, k, v = qkv(s)

    def stored(q, k, v, before, after, attn_mask=None, **more):
        return attend(q, k, v, before, after, attn_mask=attn_mask, **options | more)

    def by_loops(q, k, v, before, after, added=None):
        given = {"mix": before, "mix_after": after, "visible": visible, "added": added}
        return spec.multi_token_attention(q, k, v, **given)

    # A mask among the inputs is of one size.
    half = lambda *inputs: stored(*inputs, dropout_p=0.5)  # noqa: E731
    masks = {"masked": None, "dropped": None} if added else {"dropped": half}
    return weighing(
        (q, k, v, *draw((s.h, s.h), (s.h, s.h)), *added), stored, spec=by_loops, any_sum=True,
        limit=lambda: limit(attend, q, k, v), is_causal=options.get("is_causal", False), **masks,
    )  # fmt: skip


@variant("talking_heads_attention", h=4, g=2, **SMALL | {"m": 7})
def heads_that_talk(p, s):
    def nobody_talks(attend, q, k, v):
        eye = torch.eye(s.h, dtype=torch.float64)
        full = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return attend(q, k, v, eye, eye)[0], full

    return talking_heads(p, s, nobody_talks, torch.ones(s.n, s.m, dtype=torch.bool))


@variant("talking_heads_attention, causal and float mask", **SMALL)
def heads_that_talk_masked(p, s):
    added = draw((s.n, s.n))[0]

    def permuted(attend, q, k, v):
        """Each head hands its scores to the next one, which hands the weights back."""
        there = torch.eye(s.h, dtype=torch.float64).roll(1, 0)
        options = {"attn_mask": added, "is_causal": True, "scale": 0.3}
        float_mask = added.masked_fill(~spec.causal(s.n, s.n), -torch.inf)
        by_torch = F.scaled_dot_product_attention(q, k, v, float_mask, scale=0.3)
        return attend(q, k, v, there, there.mT, **options)[0], by_torch

    return talking_heads(p, s, permuted, added=(added,), is_causal=True)


@variant("TalkingHeadsAttention", h=4, g=2, n=5, m=5, d=4)
def talking_layer(p, s):
    (x,) = sequences(s)
    make = module(p, "talking_heads").TalkingHeadsAttention
    layer = make(s.h * s.d, s.h, num_kv_heads=s.g, dropout=0.5).double().eval()
    start = layer.before.detach().clone(), layer.after.detach().clone()
    with torch.no_grad():
        layer.before += draw((s.h, s.h))[0]
        layer.after -= draw((s.h, s.h))[0]

    def by_loops(q, k, v):
        parts = {"mix": layer.before, "mix_after": layer.after}
        everything = torch.ones(s.n, s.n, dtype=torch.bool)
        return spec.multi_token_attention(q, k, v, **parts, visible=everything)

    def as_at_the_start(layer, x):
        with torch.no_grad():
            layer.before.copy_(start[0]), layer.after.copy_(start[1])
        general = p.layers.SelfAttention(s.h * s.d, s.h, num_kv_heads=s.g).double()
        general.load_state_dict(layer.state_dict(), strict=False)
        return layer(x, is_causal=True), general(x, is_causal=True)

    def dropped(x):
        return layer.train()(x, need_weights=True)

    return attending(layer, x, as_at_the_start, by_loops, any_sum=True, dropped=dropped)


MUTANTS += [
    ("talking_heads", "q, k, v, self.before, self.after", "q, k, v, self.after, self.before"),
    ("talking_heads", '{"attn_mask": attn_mask, "is_causal"', '{"attn_mask": None, "is_causal"'),
    ("talking_heads", '"is_causal": is_causal, "offset"', '"is_causal": False, "offset"'),
    ("talking_heads", '"offset": offset}', '"offset": 0}'),
    ("talking_heads", "*inputs, dropout_p=self.dropout_p, ", "*inputs, "),
    ("talking_heads", "F.dropout(weights, dropout_p) if", "F.dropout(weights) * 0.5 if"),
    ("talking_heads", "query.device, offset)", "query.device)"),
    ("talking_heads", "    check_sequences(query, key, value, shared_heads=True)\n", ""),
    ("talking_heads", "decodes(TalkingHeadsAttention)(decode_by_attend)", ""),
    ("talking_heads", "self.after = nn.Parameter(torch.eye(num_heads))", "self.after = nn.Parameter(torch.ones(num_heads, num_heads))"),
    ("talking_heads", '"hg,bgnm->bhnm"', '"gh,bgnm->bhnm"'),
    ("talking_heads", "scale), h), before)", "scale), h), after)"),
    ("talking_heads", "key, scale), h), before)", "key), h), before)"),
    ("talking_heads", "mix_heads(normalize(mask(scores, attn_mask)), after)", "normalize(mask(scores, attn_mask))"),
    ("talking_heads", "mix_heads(normalize(mask(scores, attn_mask)), after)", "normalize(mix_heads(mask(scores, attn_mask), after))"),
    ("talking_heads", "    if is_causal:\n", "    if is_causal and attn_mask is None:\n"),
]  # fmt: skip
