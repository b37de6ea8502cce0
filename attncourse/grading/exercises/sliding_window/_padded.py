"""Attention in a window, without the padding, in steps, and what people get wrong about the padding."""

from functools import partial

import torch

from attncourse.grading.exercises.sliding_window._window import near, table
from attncourse.grading.recipe import Given, Recipe, hide


def given(query, key, value, window_size, present, rule=near, there=lambda x: x[:, None, None, :]):
    """What is near and no padding is visible."""
    close = table(query.size(2), rule, window_size)
    return Given(query, key, value, close & there(present))


def empty(x):
    """Where nothing is visible, (batch, 1, n, 1)."""
    return ~x.visible.any(-1, keepdim=True)


def mask(scores, x):
    """Where nothing is left to read, the scores become 0 before the softmax, and `finish` takes the weights away."""
    return hide(scores, x).masked_fill(empty(x), 0.0)


RIGHT = Recipe(
    given, mask=mask, finish=lambda w, x: w.masked_fill(empty(x), 0.0), answer=lambda o, *_: o
)


def reads(**changed):
    """The step ``given`` with other keyword arguments."""
    return {"given": partial(given, **changed)}


def filled(fill):
    """What an empty row hides with: all its keys get the same weight."""
    return {"mask": lambda s, x: hide(s, x, fill), "finish": lambda w, x: w}


def itself(scores, x):
    """A query that nothing hides from itself."""
    return hide(
        scores, x._replace(visible=x.visible | torch.eye(scores.size(-1), dtype=torch.bool))
    )


def late(weights, x):
    """Hidden only after the softmax, and divided anew."""
    weights = weights * x.visible
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)


def later(weights, x):
    """The same, with a small number added to the sum."""
    weights = weights * x.visible
    return weights / (weights.sum(-1, keepdim=True) + 1e-9)


def either(query, key, value, window_size, present):
    """Near, or no padding."""
    x = given(query, key, value, window_size, present)
    return x._replace(visible=table(query.size(2), near, window_size) | present[:, None, None, :])


def inverted(*arguments):
    """What is hidden is read."""
    x = given(*arguments)
    return x._replace(visible=~x.visible)


def zeroed(query, key, value, window_size, present, keys=False):
    """Padding of zeros, which is read."""
    real = present[:, None, :, None]
    key = key * real if keys else key
    return given(query, key, value * real, window_size, torch.ones_like(present))


def upside_down(query, key, value, window_size, present):
    """`present` is inverted where it stands."""
    return given(query, key, value, window_size, ~present.logical_not_())


PADDING = (
    ("The padding is read: present is not used.", reads(there=lambda x: torch.ones_like(x)[:, None, None, :])),
    ("present lacks axes for heads and queries, and is laid over queries and keys, or over heads and keys, where it fits: "
     "present[:, None, None, :].", reads(there=lambda x: x)),
    ("present lacks an axis, and is laid over heads and keys: present[:, None, None, :].", reads(there=lambda x: x[:, None])),
    ("A query always reads itself here, also where it is padding; present decides.", {"mask": lambda s, x: itself(s, x),
     "finish": lambda w, x: w}),
    ("The scores are multiplied by the mask: hidden ones become 0, and keep some weight.",
     {"mask": lambda s, x: s * x.visible, "finish": lambda w, x: w}),
    ("What is near or no padding is read; it has to be both.", {"given": either}),
    ("The weights are divided by their sum after the softmax has run over hidden keys, too: where these are large, nothing is left "
     "of the others.", {"mask": lambda s, x: s, "finish": late}),
    *(("The exponentials overflow on large scores; subtract the largest score of the row first, as torch.softmax does.",
       {"mask": lambda s, x: s, "normalize": torch.exp, "finish": finish}) for finish in (late, later)),
    ("The booleans are added to the scores: True adds 1, False adds 0, nothing is hidden.",
     {"mask": lambda s, x: s + x.visible, "finish": lambda w, x: w}),
    ("What may be read is hidden, and the rest is read: masked_fill fills where its mask is True.", {"given": inverted}),
    ("The softmax runs over the queries; each query shares out its weight among the keys (dim=-1).",
     {"mask": hide, "normalize": lambda s: s.softmax(-2).nan_to_num(0.0), "finish": lambda w, x: w}),
    ("The values of the padding are set to 0, but its keys keep their weight; hide them.", {"given": zeroed}),
    ("Keys and values of the padding are set to 0, but a score of 0 has a weight; hide them.", {"given": partial(zeroed, keys=True)}),
    ("A query with nothing to read returns its own value; it gives 0.",
     {"answer": lambda o, w, s, x: torch.where(empty(x), x.value, o)}),
    ("NaN is replaced only in samples of padding alone; in others, too, there are queries with nothing to read.",
     {"mask": hide, "finish": lambda w, x: w.masked_fill(~x.visible.flatten(1).any(1)[:, None, None, None], 0.0)}),
    ("Padding of one sample is hidden in all of them; each has its own.", reads(there=lambda x: x.all(0, keepdim=True)[:, None, None])),
    *(("Hidden scores become a number such as -1e4, which is more than some scores: the weight goes to hidden keys, and is lost.",
       {"mask": lambda s, x, fill=fill: hide(s, x, fill), "finish": lambda w, x: w * x.visible}) for fill in (-1e2, -1e3, -1e4, -1e5, -1e6)),
    ("What triu and tril are given is exchanged: triu keeps what lies right of a diagonal, and needs the negative number.",
     reads(rule=lambda i, j, w: (j - i >= w // 2) & (i - j >= w // 2))),
    ("The outputs of the heads are added up; return one for each head.", {"answer": lambda o, *_: o.sum(1)}),
    ("Two results are returned; return the output alone.", {"answer": lambda o, w, s, x: (o, w)}),
    ("The weights are returned; return the output.", {"answer": lambda o, w, s, x: w}),
    ("An input is changed in place: present.", {"given": upside_down}),
    ("present is read the other way round; True is a real token.", reads(there=lambda x: ~x[:, None, None, :])),
    ("All samples get the padding of the first one; each has its own.", reads(there=lambda x: x[:1, None, None, :])),
    ("present hides queries here; it tells which keys are real.", reads(there=lambda x: x[:, None, :, None])),
    ("present hides keys and queries; a query that is padding still reads the real tokens near it.",
     reads(there=lambda x: x[:, None, None, :] & x[:, None, :, None])),
)  # fmt: skip
