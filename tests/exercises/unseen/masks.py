"""On the chapter of the masks: answers that its exercises do not list."""

import math

import torch

from unseen import right, wrong

INF = math.inf


def tril(n, m, diagonal=0):
    return torch.ones(n, m, dtype=torch.bool).tril(diagonal)


for says, mask in (
    ("opposite order of keys", lambda n, m: tril(n, m).flip(1)),
    (
        "query 128 does not read key 0",
        lambda n, m: torch.arange(m).to(torch.int8) <= torch.arange(n).to(torch.int8)[:, None],
    ),
    (
        "query 0 reads key 256, and should not",
        lambda n, m: torch.arange(m).byte() <= torch.arange(n).byte()[:, None],
    ),
    ("query 100 does not read key 0", lambda n, m: tril(n, m) & ~tril(n, m, -100)),
    ("aligned to the last key", lambda n, m: torch.arange(m) <= torch.arange(m - n, m)[:, None]),
    ("the axis of queries is as long as m", lambda n, m: tril(m, n)),
    ("torch.int32; torch.bool is asked", lambda n, m: tril(n, m).int()),
    ("axes of size 1 are added", lambda n, m: tril(n, m)[None]),
    ("is `return` missing?", lambda n, m: None),
):
    wrong("causal_mask", says, mask)
wrong("causal_mask", "expected a function, got Tensor", tril(2, 4))
right("causal_mask", lambda n, m: torch.ones(n, m).cumsum(1) <= torch.ones(n, m).cumsum(0))


def real(lengths, n):
    return (torch.arange(n) < lengths[:, None])[:, None, None]


for says, mask in (
    (
        "The lengths of sample 0 are used for all samples",
        lambda x, n: tril(n, n) & real(x * 0 + x[0], n),
    ),
    (
        "sample 2, which has 0 tokens, query 0 reads key 0, which is padding",
        lambda x, n: tril(n, n) & real(x.clamp(min=1), n),
    ),
    (
        "which has 260 tokens, query 4 does not read key 4",
        lambda x, n: tril(n, n) & (torch.arange(n).byte() < x.byte()[:, None])[:, None, None],
    ),
    (
        "sample 1, which has 3 tokens, query 0 does not read key 0",
        lambda x, n: tril(n, n) & real(x, n).flip(-1) & real(x, n),
    ),
    (
        "an input is changed in place: lengths",
        lambda x, n: tril(n, n) & (torch.arange(n) <= x.sub_(1)[:, None])[:, None, None],
    ),
    ("A whole tensor is asked whether it is true", lambda x, n: tril(n, n) and real(x, n)),
):
    wrong("decoder_mask", says, mask)
right(
    "decoder_mask",
    lambda x, n: (torch.minimum(x[:, None] - 1, torch.arange(n))[:, :, None] >= torch.arange(n))[
        :, None
    ],
)


def row(hide=lambda s, m: s.masked_fill(~m, -INF), late=lambda p, m: p.nan_to_num(), softmax=lambda s: s.softmax(-1),
        answer=lambda o, p: (o, p), scale=lambda q, k: q.size(-1) ** -0.5, mix=torch.matmul):  # fmt: skip
    def f(query, key, value, mask):
        p = late(softmax(hide(query @ key.mT * scale(query, key), mask)), mask)
        return answer(mix(p, value), p)

    return f


def filled(number):
    return lambda s, m: s.masked_fill(~m, number)


def largest_at_least(least):
    def softmax(s):
        e = (s - s.amax(-1, keepdim=True).clamp(min=least)).exp()
        return e / e.sum(-1, keepdim=True).clamp(min=1e-30)

    return softmax


TIMES = torch.mul
LOUD = "a number in the place of minus infinity"
for says, steps in (
    *((LOUD, {"hide": filled(x), "late": TIMES}) for x in (-2e4, -3e5, -1e7, -5e8)),
    (LOUD, {"hide": lambda s, m: s - 1e4 * ~m, "late": TIMES}),
    (LOUD, {"hide": lambda s, m: s - 1e8 * ~m, "late": TIMES}),
    ("it should read nothing", {"hide": filled(1.0)}),
    ("weights that are not 0", {"hide": filled(-1e9)}),
    (LOUD, {"softmax": largest_at_least(0.0)}),
    (LOUD, {"softmax": largest_at_least(-1e6)}),
    (
        "Two tensors meet whose axes differ",
        {"hide": lambda s, m: s.masked_fill(~m.squeeze(), -INF)},
    ),
    ("modified by an inplace operation", {"late": lambda p, m: p.nan_to_num_()}),
    (
        "modified by an inplace operation",
        {"late": lambda p, m: p.masked_fill_(p.isnan(), 0)},
    ),
    ("An empty row has weights that are not 0", {"late": lambda p, m: p.nan_to_num(1.0)}),
    (
        "the weights of query 2 sum to 0; they should sum to 1",
        {"late": lambda p, m: p.nan_to_num() * m.any(-1).all()},
    ),
    ("1.915 times as large", {"scale": lambda q, k: len(q) ** -0.5}),
    ("The weights are right, so the fault lies behind them", {"mix": lambda p, v: p @ v.flip(-2)}),
):
    wrong("empty_row", says, row(**steps))
right("empty_row", row(late=lambda p, m: torch.where(p.isnan(), 0.0, p)))
right("empty_row", row(hide=filled(torch.finfo().min), late=TIMES))
right("empty_row", row(softmax=largest_at_least(-1e30)))


def polarity(unknown=None, **rules):
    known = {"attend": torch.clone, "hidden": torch.logical_not, "zero_hides": torch.Tensor.bool,
             "additive": lambda x: x != -INF} | rules  # fmt: skip

    def f(mask, convention):
        if convention not in known and unknown is None:
            raise ValueError(convention)
        return known.get(convention, unknown)(mask)

    return f


def raising(error):
    def f(mask):
        raise error

    return f


for *says, rules in (
    ("takes 4294967296 as hidden", {"zero_hides": lambda x: x.short() != 0}),
    ("takes 4294967296 as hidden", {"zero_hides": lambda x: x.int() != 0}),
    ("takes 4294967296 as hidden", {"zero_hides": lambda x: x.char() != 0}),
    ('"zero_hides" takes -256 as hidden', {"zero_hides": lambda x: x >= 0}),
    ('"additive" takes -3 as hidden', {"additive": lambda x: x > x.min()}),
    ('"additive" takes -10000 as hidden', {"additive": lambda x: x > 0}),
    (
        '"zero_hides" takes -256 as hidden',
        '"additive" takes -',
        {"zero_hides": lambda x: x >= 0, "additive": lambda x: x >= 0},
    ),
    ('"hidden" returns torch.float32', {"hidden": lambda x: 1 - x.float()}),
    ('"hidden" returns shape', {"hidden": lambda x: ~x.squeeze()}),
    ("expected a ValueError, got TypeError", {"unknown": raising(TypeError("name"))}),
    ("expected a ValueError, got AssertionError", {"unknown": raising(AssertionError("name"))}),
    (
        "No ValueError is raised",
        {"unknown": lambda x: torch.zeros(x.shape).bool()},
    ),
    (
        '"hidden" takes False as hidden',
        "no ValueError is raised",
        {"hidden": torch.clone, "unknown": lambda x: None},
    ),
):
    wrong("mask_polarity", *says, polarity(**rules))
right("mask_polarity", polarity())
right("mask_polarity", polarity(zero_hides=lambda x: x.bfloat16() != 0))


def per_sample(align=lambda m: m[:, None] if m.dim() == 3 else m, hide=-INF, scale=lambda q, k, v: q.size(-1) ** -0.5,
               softmax=lambda s: s.softmax(-1)):  # fmt: skip
    return lambda q, k, v, m: softmax((q @ k.mT * scale(q, k, v)).masked_fill(~align(m), hide)) @ v


ONLY = (
    "right with masks of shape (n, m) and (batch, n, m), but not with those of (batch, heads, n, m)"
)
for says, steps in (
    (ONLY, {"align": lambda m: m[:, None] if m.dim() == 3 else m[:1] if m.dim() == 4 else m}),
    (
        ONLY,
        {
            "align": lambda m: (
                m[:, None] if m.dim() == 3 else m.all(1, keepdim=True) if m.dim() == 4 else m
            )
        },
    ),
    (
        "but not with those of (batch, n, m)",
        {"align": lambda m: m.flip(0)[:, None] if m.dim() == 3 else m},
    ),
    *(("Hidden scores become a number", {"hide": x}) for x in (-2e3, -5e4, -5e7)),
    ("1.155 times as large", {"scale": lambda q, k, v: len(q) ** -0.5}),
    (
        "an input is changed in place: mask",
        {"align": lambda m: m.unsqueeze_(1) if m.dim() == 3 else m},
    ),
    (
        "float16",
        {"softmax": lambda s: s.bfloat16().softmax(-1).float()},
    ),
    ("it should give it none", {"align": lambda m: m, "scale": lambda *_: 1.0}),
):
    wrong("one_mask_per_sample", says, per_sample(**steps))
right(
    "one_mask_per_sample", per_sample(lambda m: m.view(-1, 1, *m.shape[-2:]) if m.dim() < 4 else m)
)
right("one_mask_per_sample", per_sample(hide=-1e9))
