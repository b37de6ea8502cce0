"""The KV cache: counts by their size, types that a table forgets, masks, chunks, positions, and a cache's rows."""

import math
import re

import torch

from unseen import right, wrong

for number, says in (
    (128, "too large: all bytes count"), (12, "too large: all bytes count"), (3.5, "too small: 8 query heads read"),
    (6, "too small: 8 query heads read"), (0.25, "less than 1 FLOP for each byte"), (8.05, "nothing is rounded here"),
    (7.9, "nothing is rounded here"), (-8, "both more than 0"), (0, "both more than 0"), (4096, "Neither the length nor head_dim stays"),
    (8192, "Neither the length nor head_dim stays"), (2**28, "no ratio of the two"), (2**25, "no ratio of the two"),
    (16, "twice the number"), (4.0, "half the number"), (64, "for each byte of a single KV head"), ([64, 8], "expected one number"),
):  # fmt: skip
    wrong("intensity", says, number)
right("intensity", torch.tensor([8.0]))

WIDTHS = {torch.float16: 2, torch.bfloat16: 2, torch.float32: 4, torch.float64: 8, torch.int8: 1}
TYPES = "Only some types are wrong"
for says, size in (
    (TYPES, WIDTHS.__getitem__),
    (TYPES, (WIDTHS | {torch.int16: 2, torch.int32: 4, torch.bool: 1}).__getitem__),
    (TYPES, lambda t: WIDTHS.get(t, 4)),
    (TYPES, lambda t: (torch.finfo if t.is_floating_point else torch.iinfo)(t).bits // 8),
    (TYPES, lambda t: t.itemsize // (2 if t.is_complex else 1)),
    (TYPES, lambda t: int(re.findall(r"\d+", str(t))[0]) // 8),
    (TYPES, lambda t: torch.finfo(t).bits // 8 if t.is_floating_point else 1),
    ("Where all sizes are 1, in float32. So it is 8; the answer gives 4", lambda t: 2 if t.is_floating_point else 1),
    ("(head_dim + value_dim) * 8; they should be", lambda t: 8),
    ("itemsize is no function", lambda t: t.itemsize()),
    ("has no attribute 'element_size'", lambda t: t.element_size()),
):  # fmt: skip
    wrong("kv_bytes", says, lambda b, c, g, m, d, e, t, f=size: b * c * g * m * (d + e) * f(t))


def product(dtype, *factors):
    return int(torch.tensor(factors, dtype=dtype).prod(dtype=dtype))


for says, count in (
    ("Only the largest cache is wrong", lambda b, c, g, m, w, t: product(torch.int32, b, c, g, m, w, t)),
    ("Only the largest cache is wrong", lambda b, c, g, m, w, t: product(torch.float32, b, c, g, m, w, t)),
    ("Only the empty cache is wrong", lambda b, c, g, m, w, t: b * c * g * max(m, 1) * w * t),
    ("the answer gives 4", lambda b, c, g, m, w, t: b * c * g * (m + 1) * w * t),
    ("The numbers are batch * layers ** 2 * num_kv_heads", lambda b, c, g, m, w, t: b * c * c * g * m * w * t),
    ("dtype.itemsize * 1 / 2**10; they should be", lambda b, c, g, m, w, t: b * c * g * m * w * t // 1024),
    ("dtype.itemsize * 1 / 10**6; they should be", lambda b, c, g, m, w, t: b * c * g * m * w * t / 1e6),
    ("got the text", lambda b, c, g, m, w, t: str(b * c * g * m * w * t)),
    ("So it is 2; the answer gives 6", lambda b, c, g, m, w, t: 3 * b * c * g * m * w * t),
    ("is `return` missing?", lambda b, c, g, m, w, t: None),
):  # fmt: skip
    wrong("kv_bytes", says, lambda b, c, g, m, d, e, t, f=count: f(b, c, g, m, d + e, t.itemsize))


@right("kv_bytes")
def of_one_tensor(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    each = torch.empty(
        batch, num_kv_heads, length, head_dim + value_dim, dtype=dtype, device="meta"
    )
    return layers * each.nbytes


def tril(n, m, diagonal):
    return torch.ones(n, m, dtype=torch.bool).tril(diagonal)


for says, mask in (
    ("of the last query are used for all queries", lambda n, p: torch.ones(n, n + p).bool()),
    ("a query does not read itself (in the call", lambda n, p: torch.zeros(n, n + p).bool()),
    ("their type is torch.int64; torch.bool is asked", lambda n, p: tril(n, n + p, p).long()),
    ("their type is torch.uint8; torch.bool is asked", lambda n, p: tril(n, n + p, p).byte()),
    ("an array of numpy", lambda n, p: tril(n, n + p, p).numpy()),
    ("a query does not read itself (in the call '1 new queries, 6 cached' at [0, 6]); a query does not read all cached", lambda n, p: tril(n, n + p, p if n > 1 else 0)),
    ("a query does not read itself (in the call '40 new queries, 130 cached'", lambda n, p: tril(n, n + p, min(p, 100)).bool()),
    ("a query reads tokens that come after it (in the call", lambda n, p: tril(n, n + p, p - 1).logical_not() | (torch.arange(n + p) < p)),
    ("reads tokens that come after it", lambda n, p: tril(n, n + p, p).flip(0, 1)),
    ("axes of size 1 are added", lambda n, p: tril(n, n + p, p)[None]),
    ("only number 1 is asked", lambda n, p: (tril(n, n + p, p), p)),
    ("a query does not read itself", lambda n, p: tril(n, n + p, p) & (torch.arange(n + p) % 2 == 0)),
):  # fmt: skip
    wrong("bottom_right_mask", says, mask, never="three digits")
right(
    "bottom_right_mask",
    lambda n, past: torch.tensor([[j <= past + i for j in range(past + n)] for i in range(n)]),
)


def decode(fill=-math.inf, scale=lambda q, m: q.size(-1) ** -0.5, rule=lambda n, m, p: tril(n, m, p), softmax=lambda s: s.softmax(-1),
           join=lambda a, b: torch.cat([a, b], 2), give=lambda o, k, v: (o, k, v), first=lambda *x: x):  # fmt: skip
    """A step of decoding as people write it."""

    def step(query, key, value, past_key, past_value):
        query, key, value, past_key, past_value = first(query, key, value, past_key, past_value)
        keys, values = join(past_key, key), join(past_value, value)
        n, m = query.size(2), keys.size(2)
        scores = query @ keys.mT * scale(query, m)
        weights = softmax(scores.masked_fill(~rule(n, m, m - n), fill))
        return give(weights @ values, keys, values)

    return step


def times_two(x):
    return x.mul_(2)


LESS = "minus infinity is less than any"
NONE = "it should give it none: look at who may read whom"
ATTENDING = (  # wrong wherever keys and values are right
    *((LESS, {"fill": fill}) for fill in (-1e3, -5e3, -1e4, -4e4, -65504.0, -2e6, -1e7, -1e8)),
    ("1.732 times as large", {"scale": lambda q, m: len(q) ** -0.5}),
    ("0.7071 times as large", {"scale": lambda q, m: (2 * q.size(-1)) ** -0.5}),
    ("right to about two digits", {"softmax": lambda s: s.bfloat16().softmax(-1).float()}),
    ("look at the scale", {"scale": lambda q, m: 1 / 8}),
    ("there are NaN or infinite numbers here: large scores", {"softmax": lambda s: (s - s.amax((-2, -1), keepdim=True)).exp().div(
        (s - s.amax((-2, -1), keepdim=True)).exp().sum(-1, keepdim=True))}),
    ("large ones do not", {"softmax": lambda s: s.clamp(-50, 50).where(s > -math.inf, s).softmax(-1)}),
    ("the weights of query 0 sum to 0.5676; they should sum to 1", {"softmax": lambda s: torch.cat([s, 0 * s[..., :1]], -1).nan_to_num(0).where(
        torch.cat([s, 0 * s[..., :1]], -1) > -math.inf, s[..., :1] * 0 - math.inf).softmax(-1)[..., :-1]}),
    ("it should give it some: look at who may read whom", {"rule": lambda n, m, p: torch.arange(m).expand(n, m) < p}),
    (NONE, {"softmax": lambda s: torch.full_like(s, 1 / s.size(-1))}),
    ("The results are right, but stand in another order", {"give": lambda o, k, v: (k, v, o)}),
    ("values are to be returned, the cached and the new ones", {"give": lambda o, k, v: (o, k, k)}),
    ("these are arrays of numpy", {"give": lambda *x: tuple(y.detach().numpy() for y in x)}),
    ("expected 3 results", {"give": lambda o, k, v: {"output": o, "keys": k, "values": v}}),
    ("torch.cat joins along dim", {"join": lambda a, b: torch.cat([a, b], 1)}),
    ("Query 0 reads key 0; it should read keys 0 to", {"scale": lambda q, m: 1.0, "rule": lambda n, m, p: tril(n, m, 0)}),
)  # fmt: skip
TURNED = ("the weights of query 0", "torch.cat joins")  # other cases are hit
SAID = {
    LESS: "large ones do not",
    NONE: "The weights are averaged over the keys",
}  # where steps are named
for says, steps in ATTENDING:
    if not says.startswith("torch.cat"):
        wrong("chunked_decode", says, decode(**steps))
for says, steps in (
    ("no gradient flows back to value", {"first": lambda q, k, v, pk, pv: (q, k, v.detach(), pk, pv)}),
    ("are to be returned, the cached and the new ones; there are", {"join": lambda a, b: torch.cat([a[:, :, b.size(2) :], b], 2)}),
    ("number 0 is wrong; cached ones come back as they came in", {"first": lambda q, k, v, pk, pv: (q, k, v, times_two(pk), pv)}),
    ("number 0 is wrong; cached ones come back as they came in", {"first": lambda q, k, v, pk, pv: (q, k, v, *(x[:1].expand_as(x) for x in (pk, pv)))}),
):  # fmt: skip
    wrong("chunked_decode", says, decode(**steps))
for steps in (
    {"softmax": lambda s: (s - s.logsumexp(-1, keepdim=True)).exp()},
    {"fill": -1e9},
    {"fill": -1e30},
):
    right("chunked_decode", decode(**steps))


def rotary(x, positions, base=10_000.0):
    a, b = x.chunk(2, dim=-1)
    angles = positions[:, None] * base ** (-torch.arange(0, x.size(-1), 2) / x.size(-1))
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


def turning(query=torch.add, key=torch.add, past=None, turn=rotary, **steps):
    """A step that turns new token i behind p cached ones by ``query(i, p)`` and ``key(i, p)``."""

    def first(q, k, v, pk, pv):
        i, p = torch.arange(q.size(2)), pk.size(2)
        return (
            turn(q, query(i, p)),
            turn(k, key(i, p)),
            v,
            pk if past is None else rotary(pk, past(torch.arange(p))),
            pv,
        )

    return decode(**{"first": first} | steps)


for says, positions in (
    ("query 0 is turned by position 6; its own is 5", {"query": lambda i, p: i + p + 1}),
    ("query 1 is turned by position 5; its own is 6", {"query": lambda i, p: 0 * i + p}),
    ("query 0 is turned by position -5", {"query": lambda i, p: -i - p}),
    ("new key 0 is turned by position 4; its own is 5", {"key": lambda i, p: i + p - 1}),
    ("new key 0 is turned by position 10", {"query": lambda i, p: 2 * (i + p), "key": lambda i, p: 2 * (i + p)}),
    ("5 of them cached, number 1, 2, 3", {"query": lambda i, p: i, "key": lambda i, p: i, "past": lambda j: -j}),
    ("5 of them cached, number 0, 1, 2, 3, 4 are wrong", {"past": lambda j: 0 * j + 4}),
    ("new key 2 is turned by position 8", {"query": lambda i, p: i.cumsum(0) + p, "key": lambda i, p: i.cumsum(0) + p}),
    ("new key 0 is turned by position 14; its own is 30", {"query": lambda i, p: (i + p) % 16, "key": lambda i, p: (i + p) % 16}),
    ("in the call '2 new tokens behind 3' query 0 gives key 4 some weight", {"rule": lambda n, m, p: tril(n, m, p if n != 2 else m)}),
    ("large ones do not", {"softmax": lambda s: s.clamp(min=-1e4).where(s > -math.inf, s).softmax(-1)}),
    ("not turned by any whole position", {"turn": lambda x, at: rotary(x, at, 1000.0)}),
    ("Query 0 reads keys 0 to 4; it should read keys 0 to 5", {"rule": lambda n, m, p: tril(n, m, n)}),
    *((SAID.get(says, says), steps) for says, steps in ATTENDING if not says.startswith(TURNED)),
):  # fmt: skip
    wrong("rotate_cached_keys", says, turning(**positions))
right("rotate_cached_keys", turning(fill=-1e30))
