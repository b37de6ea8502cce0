"""On the chapter of the dot product: answers that its exercises do not list."""

import math

import torch
from torch.nn.functional import normalize, one_hot
from torch.nn.functional import scaled_dot_product_attention as fused

from unseen import right, wrong

KERNEL, ATTENTION, JACOBIAN = (
    "kernel_regression",
    "scaled_dot_product_attention",
    "softmax_jacobian",
)


def squares(query, keys):
    return (query[:, None] - keys).square().sum(-1)


def kernel(d, h):
    return torch.exp(-d / (2 * h * h))


def share(e, more=0.0):
    return e / (e.sum(1, keepdim=True) + more)


def nearest(d, h, least):
    """The nearest alone, where the sum of the weights is not above a number."""
    e = kernel(d.double(), h)
    total = e.sum(1, keepdim=True)
    return torch.where(
        total <= least, one_hot(d.argmin(1), d.size(1)), e / total.clamp(min=1e-300)
    ).float()


VANISHED = "all weights round to 0, and the answer with them"
for says, weights in (
    *((VANISHED, lambda d, h, e=e: share(kernel(d, h), e)) for e in (2e-8, 1e-20, 1e-38)),
    (VANISHED, lambda d, h: share(kernel(d.double(), h), 1e-300).float()),
    ("0 / 0 is NaN", lambda d, h: share(kernel(d.double(), h)).float()),
    *(
        ("only how they compare counts", lambda d, h, t=t: nearest(d, h, t))
        for t in (0.0, 1e-8, 1e-300)
    ),
    (
        "0 / 0 is NaN",
        lambda d, h: share((d.min() / (2 * h * h) - d / (2 * h * h)).exp()),
    ),
    (
        "limited by a number such as 50",
        lambda d, h: torch.softmax((-d / (2 * h * h)).clamp(min=-80), 1),
    ),
    (
        "all keys count the same",
        lambda d, h: torch.softmax((-d / (2 * h * h)).clamp(min=-2e6), 1),
    ),
    (
        "the gradient of query has NaN",
        lambda d, h: torch.softmax(-(d**0.5).pow(2) / (2 * h * h), 1),
    ),
    (
        "The exponents are half as large as they should be",
        lambda d, h: torch.softmax(-d / (2 * h) ** 2, 1),
    ),
    ("1.429 times as large as they should be", lambda d, h: torch.softmax(-d / (2 * h**3), 1)),
    ("the exponents, the next step, are not", lambda d, h: torch.softmax(-d / (2 * 0.7**2), 1)),
    ("the exponents, the next step, are not", lambda d, h: share(1 / (1 + d / h**2))),
    ("The weights are made along the queries", lambda d, h: torch.softmax(-d / (2 * h * h), 0)),
    ("they should sum to 1", lambda d, h: kernel(d, h) / d.size(1)),
    ("Query 0 reads key 6", lambda d, h: one_hot(d.argmin(1), d.size(1)) + 0.0 * d),
    ("as after a softmax over them", lambda d, h: torch.softmax(-d / (2 * h) ** 2, 0)),
    ("gives key 1 no weight", lambda d, h: torch.softmax(-d / (2 * h * h), 1).round(decimals=2)),
):
    wrong(KERNEL, says, lambda q, k, v, h, f=weights: f(squares(q, k), h) @ v)
wrong(
    KERNEL,
    "no gradient flows back to query and keys and values",
    lambda q, k, v, h: (torch.softmax(-squares(q, k) / (2 * h * h), 1) @ v).detach(),
)
wrong(
    KERNEL,
    "an input is changed in place: keys",
    lambda q, k, v, h: torch.softmax(-squares(q / h, k.div_(h)) / 2, 1) @ v,
)
right(
    KERNEL,
    lambda q, k, v, h: (
        torch.distributions.Categorical(logits=-squares(q, k) / (2 * h * h)).probs @ v
    ),
)
wrong(KERNEL, "expected a function, got Tensor; pass the function itself", torch.ones(5, 2))


LOUD = "Ordinary scores give the right result, large ones do not"


def attention(scale=lambda q, k, v: q.size(-1) ** -0.5, weights=lambda s: s.softmax(-1), answer=lambda o, p: (o, p),
              score=lambda q, k: q @ k.mT, mix=torch.matmul):  # fmt: skip
    def f(query, key, value):
        p = weights(score(query, key) * scale(query, key, value))
        return answer(mix(p, value), p)

    return f


def shifted(s, by):
    return (s - by).exp() / (s - by).exp().sum(-1, keepdim=True)


for says, steps in (
    ("The scale uses the number of heads", {"scale": lambda q, k, v: q.size(1) ** -0.5}),
    ("2.345 times as large", {"scale": lambda q, k, v: len(k) ** -0.5}),
    ("head_dim instead of its square root", {"scale": lambda q, k, v: 1 / k.size(3)}),
    ("The scale uses the width of the values", {"scale": lambda q, k, v: v.size(-1) ** -0.5}),
    ("0.4146 times as large", {"scale": lambda q, k, v: 0.125}),
    ("tears its rows apart", {"score": lambda q, k: q @ k.reshape(*k.shape[:2], k.size(3), -1)}),
    ("Two tensors meet whose axes differ in size", {"score": lambda q, k: q @ k.transpose(1, 2)}),
    ("dot products", {"score": lambda q, k: normalize(q, dim=-1) @ normalize(k, dim=-1).mT}),
    ("those of other scores", {"score": lambda q, k: -torch.cdist(q, k)}),
    ("overflows on large scores", {"weights": lambda s: shifted(s, 0)}),
    (
        LOUD,
        {"weights": lambda s: shifted(s, s.mean(-1, keepdim=True))},
    ),
    ("those far below it vanish", {"weights": lambda s: shifted(s, s.amax())}),
    (LOUD, {"weights": lambda s: shifted(s, s.amax(-1, keepdim=True).relu())}),
    (
        "they should sum to 1",
        {"weights": lambda s: s.flatten().softmax(0).view_as(s)},
    ),
    ("argmax, not softmax", {"weights": lambda s: one_hot(s.argmax(-1), s.size(-1)).float()}),
    (
        "All visible keys get the same weight",
        {"weights": lambda s: torch.full_like(s, 1 / s.size(-1))},
    ),
    (LOUD, {"weights": lambda s: s.clamp(-50, 50).softmax(-1)}),
    ("The weights are transposed", {"mix": lambda p, v: p.mT @ v}),
    ("The weights are right, so the fault lies behind them", {"mix": lambda p, v: p @ v.flip(-2)}),
    ("a part of its way back is cut", {"mix": lambda p, v: p.detach() @ v}),
    ("The returned weights are detached", {"answer": lambda o, p: (o, p.detach())}),
    ("No gradient flows back", {"answer": lambda o, p: (o.detach(), p.detach())}),
    ("axes of size 1 are", {"answer": lambda o, p: (o, p.squeeze())}),
    ("arrays of numpy", {"answer": lambda o, p: (o.detach().numpy(), p.detach().numpy())}),
    ("as after a softmax over them", {"scale": lambda *_: 1.0, "weights": lambda s: s.softmax(-2)}),
    (
        "The shape of the output is wrong",
        {"scale": lambda q, k, v: 1 / q.size(-1), "answer": lambda o, p: (p, o)},
    ),
):
    wrong(ATTENTION, says, attention(**steps))
wrong(
    ATTENTION,
    "changed in place: key",
    lambda q, k, v: attention(lambda *_: 1.0)(q, k.div_(q.size(-1) ** 0.5), v),
)
wrong(ATTENTION, "expected a function, got tuple", (torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2)))
wrong(ATTENTION, "is `return` missing?", lambda q, k, v: None)
right(ATTENTION, attention(score=lambda q, k: (q[..., None, :] * k[:, :, None]).sum(-1)))
right(ATTENTION, attention(weights=lambda s: shifted(s, s.amax(-1, keepdim=True))))
right(
    ATTENTION,
    lambda q, k, v: (  # no style: on values of another length than the keys torch may crash
        fused(q, k, v),
        fused(q, k, torch.eye(k.size(-2)).expand(*k.shape[:2], -1, -1)),
    ),
)


def outer(p):
    return p[:, :, None] * p[:, None]


def jacobian(p):
    return torch.diag_embed(p) - outer(p)


for says, weights, mix in (
    ("Beside the diagonal this is p_i (1 - p_j)", None, lambda p: p[:, :, None] * (1 - p[:, None])),
    (
        "Beside the diagonal this is p_i (1 - p_i)",
        None,
        lambda p: (p * (1 - p))[:, :, None].expand_as(outer(p)),
    ),
    (
        "Beside the diagonal this is p_i p_j",
        None,
        lambda p: torch.diag_embed(p - 2 * p * p) + outer(p),
    ),
    ("on it stands p - 2 p^2", None, lambda p: torch.diag_embed(p - p * p) - outer(p)),
    (
        "The diagonal matrices of p are squared",
        None,
        lambda p: (torch.eye(p.size(1)) - 1) * outer(p),
    ),
    ("Only one half is filled", None, lambda p: (torch.diag_embed(p) - outer(p)).tril()),
    ("axes of size 1 are missing", None, lambda p: (torch.diag_embed(p) - outer(p)).squeeze()),
    ("The scores are limited", lambda s: s.clamp(max=50).softmax(-1), None),
    (LOUD, lambda s: s.clamp(-2e6, 2e6).softmax(-1), None),
    (LOUD, lambda s: shifted(s, s.amax(-1, keepdim=True).relu()), None),
    ("The sign of the scores is turned", lambda s: (-s).softmax(-1), None),
):
    wrong(
        JACOBIAN, says, lambda s, w=weights or (lambda s: s.softmax(-1)), m=mix or jacobian: m(w(s))
    )
right(
    JACOBIAN,
    lambda s: torch.autograd.functional.jacobian(lambda x: x.softmax(-1).sum(0), s).permute(
        1, 0, 2
    ),
)
right(JACOBIAN, lambda s: jacobian((s - s.logsumexp(-1, keepdim=True)).exp()))

for number in (12, 16, 700):
    wrong(
        "sharpness",
        f"At a scale of {number} the right key has a weight of",
        "a smaller whole scale is, too",
        number,
    )
wrong("sharpness", "At a scale of 6.55", "a whole number is asked", 6.55)
wrong("sharpness", "a larger scale is needed", 2.84)
for number in (2.83, 6, 128):
    wrong("score_std", f"A standard deviation of {number} is a variance of {number**2:g}", number)
for number in (math.nan, math.inf):
    wrong("score_std", "no number to compare", number)
for number in (4, [4], (4.0,), torch.tensor([4])):
    right("score_std", number)
right("sharpness", (torch.arange(9) == 7).nonzero()[0])
