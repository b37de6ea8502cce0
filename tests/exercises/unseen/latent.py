"""Answers to the exercises on latent attention that these do not list."""

import math

import torch
import torch.nn.functional as F

from unseen import right, wrong

KEPT = "this leaves {} numbers for one token in one layer".format
for words, value in (
    (KEPT("585.6"), 61 * 10_000 * 576 * 2), (KEPT("576.058"), 60 * 10_001 * 576 * 2), (KEPT("2,048"), 2_457_600_000),
    (KEPT("-576"), -691_200_000), ("10^3 bytes", 691_200.0), ("10,240 tokens", 60 * 10_240 * 576 * 2), ("all bytes", "691200000"),
):  # fmt: skip
    wrong("cache_bytes", "close" if "058" in words else words, value)
for words, value in (
    ("For n = 84 the absorbed form takes more", 84), ("and so it does for n = 61", 60), ("at most the 2,000 tokens", 10**9),
    ("a whole number", 81.92), ("a whole number", 81.00001), ("One whole number", "81"), ("takes more", 1999),
):  # fmt: skip
    wrong("crossover", words, value)


def absorbed(query, w_k):
    return query @ w_k.unflatten(0, (query.size(1), -1))


right("absorb_query", absorbed)
for words, change in (
    ("by rows 8, 9, 10, 11 of w_k; its rows are 0, 1, 2, 3", lambda q, w: q @ w.unflatten(0, (q.size(1), -1)).roll(1, 0)),
    ("by rows 3, 2, 1, 0 of w_k", lambda q, w: absorbed(q.flip(-1), w)),
    ("0.25 times its block", lambda q, w: absorbed(q, w) / q.size(-1)),
    ("-1 times its block", lambda q, w: -absorbed(q, w)),
    ("rows are not rows of w_k", lambda q, w: q @ w.unflatten(0, (q.size(1), -1)).mean(0)),
    ("are no products", lambda q, w: absorbed(q, w).relu()),
    ("an input is changed in place: query", lambda q, w: absorbed(q.mul_(2) / 2, w)),
):  # fmt: skip
    wrong("absorb_query", words, change)


def step(query, q_rotary, latent, k_rotary, w_k, w_v, /, scale=None, add=None, keys=None, values=None, normalize=None,
         turned=None, asked=None):  # fmt: skip
    h, d, r = query.size(1), query.size(-1), q_rotary.size(-1)
    key_blocks, value_blocks = (w.unflatten(0, (h, -1)) for w in (w_k, w_v))
    key_blocks, value_blocks = (
        keys(key_blocks) if keys else key_blocks,
        values(value_blocks) if values else value_blocks,
    )
    query, q_rotary = asked(query) if asked else query, turned(q_rotary) if turned else q_rotary
    content, rotary = (
        torch.einsum("bhd,hdc->bhc", query, key_blocks) @ latent.mT,
        q_rotary @ k_rotary.mT,
    )
    scores = (add(content, rotary) if add else content + rotary) * (
        scale(d, r, latent.size(-1)) if scale else (d + r) ** -0.5
    )
    weights = normalize(scores) if normalize else scores.softmax(-1)
    return torch.einsum("bhc,hec->bhe", weights @ latent, value_blocks), weights


right("absorbed_attention", lambda *given: step(*given))
FACTOR = "times what they should: look at the scale"
for words, change in (
    ("head_dim only", {"scale": lambda d, r, c: d**-0.5}),
    ("width of the latents", {"scale": lambda d, r, c: c**-0.5}),
    (f"count 0.767 {FACTOR}", {"scale": lambda d, r, c: (d + r + c) ** -0.5}),
    (f"count 0.395 {FACTOR}", {"scale": lambda d, r, c: 1 / 8}),
    ("products of the rotary parts are twice too large", {"add": lambda a, b: a + 2 * b}),
    ("of queries and latents count 1.58 times and the products of the rotary parts count 1.29", {"add": lambda a, b: a * 10**0.5 / 2 + b * (10 / 6) ** 0.5
                                                       if a.size(-1) == 5 else a + b}),
    ("the absorbed queries are not", {"keys": lambda w: w.flip(0)}),
    ("weights are right, so the fault lies behind them", {"values": lambda w: w.roll(1, 0)}),
    ("the absorbed queries are not", {"asked": lambda q: q.flip(1)}),
    ("the scores, the next step, are not", {"turned": lambda q: q.flip(1)}),
    ("the weights, the next step, are not", {"normalize": lambda s: s.tanh().softmax(-1)}),
    ("they should sum to 1", {"normalize": torch.relu}),
    ("large ones do not", {"normalize": lambda s: s.clamp(-50, 50).softmax(-1)}),
    ("the absorbed queries are not", {"keys": lambda w: w.flip(0),
                                                                           "scale": lambda d, r, c: 1.0}),
):  # fmt: skip
    wrong("absorbed_attention", words, lambda *given, change=change: step(*given, **change))


def plain(query, q_rotary, latent, k_rotary, w_k, w_v, size=200):
    """Keys and values are made, so many tokens at a time."""
    h, scores, mixed = query.size(1), [], 0
    for c, turned in zip(latent.split(size, 1), k_rotary.split(size, 1), strict=True):
        keys = (c @ w_k.T).unflatten(-1, (h, -1))
        scores.append(torch.einsum("bhd,bmhd->bhm", query, keys) + q_rotary @ turned.mT)
    weights = (torch.cat(scores, -1) / (query.size(-1) + q_rotary.size(-1)) ** 0.5).softmax(-1)
    for c, w in zip(latent.split(size, 1), weights.split(size, -1), strict=True):
        mixed = mixed + torch.einsum("bhm,bmhe->bhe", w, (c @ w_v.T).unflatten(-1, (h, -1)))
    return mixed, weights


for tokens in (200, 10, 1):
    wrong(
        "absorbed_attention",
        "Move w_k to the query, which is one token instead of m",
        lambda *given, n=tokens: plain(*given, size=n),
        never="broadcast",
    )


@wrong("absorbed_attention", "Move w_k to the query, which is one token", never="broadcast")
def sample_after_sample(*given):
    samples = [plain(*(x[k : k + 1] for x in given[:4]), *given[4:]) for k in range(len(given[0]))]
    return tuple(torch.cat(x) for x in zip(*samples, strict=True))


def turn(x, positions, base=10_000.0):
    (a, b), d = x.chunk(2, -1), x.size(-1)
    angles = positions[:, None] * base ** (-torch.arange(0, d, 2) / d)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


def scores(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads, /, scale=None, add=None, at=None, base=10_000.0, latent=None,
           asked=None, final=None):  # fmt: skip
    where = at(positions) if at else positions
    c, r = x @ w_c.T, turn(x @ w_kr.T, where, base)
    c = latent(c) if latent else c
    q, qr, k = (
        (y @ w.T).unflatten(-1, (num_heads, -1)).transpose(1, 2)
        for y, w in ((x, w_q), (x, w_qr), (c, w_k))
    )
    q, qr = asked(q, positions) if asked else q, turn(qr, where, base)
    content, rotary, sizes = q @ k.mT, qr @ r[:, None].mT, (q.size(-1), qr.size(-1), c.size(-1))
    total = (add(content, rotary, *sizes) if add else content + rotary) * (
        scale(*sizes) if scale else (sizes[0] + sizes[1]) ** -0.5
    )
    return final(total, c, r) if final else (total, c, r)


right("repair_rotary", lambda *given: scores(*given))
for words, change in (
    ("the scores are 0.333 times the products of queries and keys", {"scale": lambda d, r, c: c**-0.5}),
    ("the scores are 0.225 times", {"scale": lambda d, r, c: 1 / (d**0.5 + r**0.5)}),
    ("0.5 times the products of queries and keys plus 0.408 times the products of the rotary parts", {
        "scale": lambda d, r, c: 1.0, "add": lambda a, b, d, r, c: a / d**0.5 + b / r**0.5}),
    ("The sign of", {"add": lambda a, b, d, r, c: a - b}),
    ("counted from 0; behind a cache", {"at": lambda p: p - p[0]}),
    ("Not right: the cached rotary keys", {"at": lambda p: p + 1}),
    ("but the cached rotary keys are not: look at how they are made", {"base": 500_000.0}),
    ("the scores in all calls; the cached latents in all calls", {"latent": lambda c: F.layer_norm(c, c.shape[-1:])}),
    ("Not right: the scores in all calls", {"asked": turn}),
    ("the gradient of x is not", {"final": lambda s, c, r: (s, c, r.detach())}),
    ("the gradient of x is not", {"final": lambda s, c, r: (s, c.detach(), r)}),
    ("another order", {"final": lambda s, c, r: (c, r, s)}),
    ("NaN or infinite numbers", {"final": lambda s, c, r: (s + torch.full(s.shape[2:], -math.inf).triu(1), c, r)}),
):  # fmt: skip
    wrong("repair_rotary", words, lambda *given, change=change: scores(*given, **change))
