"""Multi-head attention: answers that its exercises do not list."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from unseen import right, wrong

for words, number in (
    ("less than one matrix", 65_664),
    ("4 matrices of 512 x 512 hold, and 2,064 more", 1_050_640),
    ("3 matrices of 512 x 512 hold, and 512 more", 786_944),
    ("64 matrices of 512 x 512 hold, and 0 more", 16_777_216),
    ("less than one matrix of 512 x 512", 65_536),
    ("a whole number of numbers", -1_050_624),
    ("a whole number of numbers", 1.05),
):
    wrong("count_parameters", words, number)
wrong("count_parameters", "write it without quotes", made=True)(lambda: "1050624")
right("count_parameters", [1_050_624])


def heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


SIZES = "take them from the shape of the tensor"
for words, answer in (
    (SIZES, lambda x, h: x.reshape(len(x), x.size(1), -1, 7).transpose(1, 2)),
    ("[0, 0, 0, 1] holds x[0, 0, 5]; it should hold x[0, 0, 1]",
     lambda x, h: x.reshape(len(x), h, x.size(2) // h, x.size(1)).transpose(2, 3)),
    ("[0, 0, 0, 0] holds x[0, 0, 14]", lambda x, h: heads(x, h).roll(1, 1)),
    ("numbers in the result that x does not hold", lambda x, h: heads(x, h) / (x.size(2) // h) ** 0.5),
    ("an array of numpy", lambda x, h: heads(x, h).detach().numpy()),
    ("is `return` missing?", lambda x, h: None),
    ("no gradient flows back to x", lambda x, h: torch.no_grad()(heads)(x, h)),
    ("got (2, 15, 7)", lambda x, h: torch.cat(x.chunk(h, -1), 1)),
):  # fmt: skip
    wrong("split_heads", words, answer)
wrong("split_heads", "pass the function itself", made=True)(lambda: torch.zeros(1, 2, 3, 4))
right("split_heads", lambda x, h: x.view(len(x), x.size(1), h, x.size(2) // h).transpose(1, 2))

for words, answer in (
    (SIZES, lambda x: x.transpose(1, 2).reshape(2, -1, x.size(1) * x.size(3))),
    ("view cannot read across a transpose", lambda x: x.contiguous().transpose(1, 2).view(len(x), x.size(2), -1)),
    ("[0, 0, 1] holds heads[0, 1, 0, 0]; it should hold heads[0, 0, 0, 1]",
     lambda x: x.transpose(1, 3).reshape(len(x), x.size(2), -1)),
    ("an input is changed in place: heads", lambda x: x.transpose_(1, 2).flatten(2)),
    ("axes of size 1 are missing", lambda x: x.transpose(1, 2).flatten(2).squeeze(0)),
    ("numbers in the result that heads does not hold", lambda x: x.transpose(1, 2).flatten(2).bfloat16().float()),
    ("got (2, 5, 7)", lambda x: x.amax(1)),
):  # fmt: skip
    wrong("merge_heads", words, answer)


def shares(scale=lambda x: 1.0, normalize=lambda s: s.softmax(-1), project=F.linear, split=heads, last=lambda s, w: (s, w),
           mix=torch.matmul, put=lambda o, w: o @ w.T.unflatten(0, (o.size(1), -1))):  # fmt: skip
    """The exercise multi_head_attention with one step changed; ``scale`` is a factor on the right one."""

    def answer(query, key, value, w_q, w_k, w_v, w_o, num_heads):
        q, k, v = (
            split(project(x, w), num_heads) for x, w in ((query, w_q), (key, w_k), (value, w_v))
        )
        factor = (num_heads / len(w_q)) ** 0.5 * scale((query, key, value))
        weights = normalize(q @ k.mT * factor)
        return last(put(mix(weights, v), w_o), weights)

    return answer


right("multi_head_attention", shares())
BEHIND, OTHER = "The weights are right, so the fault lies behind them", "those of other scores"
BETWEEN = "The scores, divided by sqrt(head_dim) are among the numbers"
for words, changed in (
    ("scores 0.25 times as large", {"scale": lambda x: 1 / 4}),  # the 8 of head_dim 64
    ("look at the scale", {"scale": lambda x: 2 * x[1].size(-1) ** -0.5}),  # sqrt(kdim)
    ("look at the scale", {"scale": lambda x: math.log(2.0)}),
    ("large ones do not", {"normalize": lambda s: s.clamp(-50, 50).softmax(-1)}),
    ("large ones do not", {"normalize": lambda s: s.clamp(-500, 500).softmax(-1)}),
    (BETWEEN, {"normalize": lambda s: s.abs().softmax(-1)}),
    (BETWEEN, {"normalize": lambda s: s.tanh().softmax(-1)}),
    (OTHER, {"project": lambda x, w: (x @ w.T).relu()}),
    ("they should sum to 1", {"normalize": lambda s: F.dropout(s.softmax(-1), 0.1)}),
    ("they should sum to 1", {"normalize": lambda s: F.normalize(s, dim=-1)}),
    ("argmax, not softmax", {"normalize": lambda s: F.one_hot(s.argmax(-1), s.size(-1)).float()}),
    ("The softmax runs over queries and keys", {"normalize": lambda s: s.flatten(2).softmax(-1).view_as(s)}),
    ("each head gets pieces of several positions", {"split": lambda x, h: x.reshape(len(x), h, x.size(1), -1)}),
    (BEHIND, {"put": lambda o, w: 2 * (o @ w.T.unflatten(0, (o.size(1), -1)))}),
    (BEHIND, {"put": lambda o, w: o @ w.T.unflatten(0, (o.size(1), -1)).roll(1, 0)}),
    (BEHIND, {"put": lambda o, w: torch.stack([F.pad(x, (h * x.size(-1), (o.size(1) - 1 - h) * x.size(-1)))
                                              for h, x in enumerate(o.unbind(1))], 1)}),
    ("no gradient flows back to w_q and w_k and w_v", {"project": lambda x, w: x @ w.detach().T}),
    ("right to about two digits", {"mix": lambda w, v: (w.bfloat16() @ v.bfloat16()).float()}),
    ("got 3 results", {"last": lambda s, w: (s, w, s.sum(1))}),
    ("axes of size 1 are missing", {"last": lambda s, w: (s.squeeze(), w.squeeze())}),
    ("got (2, 5, 6)", {"last": lambda s, w: (s, w.sum(1))}),
):  # fmt: skip
    wrong("multi_head_attention", words, shares(**changed))


@wrong("multi_head_attention", "as after a softmax over them")
def unscaled_over_queries(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    back = (len(w_q) / num_heads) ** 0.5
    answer = shares(scale=lambda x: back, normalize=lambda s: s.softmax(-2))
    return answer(query, key, value, w_q, w_k, w_v, w_o, num_heads)


@wrong("multi_head_attention", "an input is changed in place: query")
def halves_the_query(query, *others):
    query /= 2
    return shares(scale=lambda x: 2.0)(query, *others)


class Found(nn.Module):
    """The layer of head_dim as it stands in the notebook; what others build is changed."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(embed_dim, embed_dim))

    def forward(self, x):
        shape = len(x), -1, self.num_heads, self.head_dim
        q, k, v = (
            p(x).view(shape).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return self.out_proj(out.reshape(len(x), -1, self.embed_dim))


def refusing(error=lambda e, h: h < 1 or e % h, kind=ValueError, change=lambda layer: None):
    """`Found`, with a constructor that raises where ``error(embed_dim, num_heads)`` holds."""

    class Layer(Found):
        def __init__(self, embed_dim, num_heads):
            if error(embed_dim, num_heads):
                raise kind("no")
            super().__init__(embed_dim, num_heads)
            change(self)

    return Layer


right("head_dim", refusing())
BUILT = "embed_dim=10, num_heads=3 is refused with a ValueError: it is built"
for words, layer in (
    ("the test is the wrong way round", refusing(lambda e, h: h < 1 or e % h == 0)),
    ("frozen: q_proj.bias", refusing(change=lambda x: [p.requires_grad_(False) for p in x.parameters() if p.dim() == 1])),
    ("frozen: q_proj.bias", refusing(change=lambda x: x.q_proj.bias.requires_grad_(False))),
    ("frozen: out_proj.weight", refusing(change=lambda x: x.out_proj.requires_grad_(False))),
    ("one number everywhere: q_proj", refusing(change=lambda x: [nn.init.ones_(p) for p in x.parameters()])),
    ("one number everywhere: out_proj", refusing(change=lambda x: nn.init.constant_(x.out_proj.weight, 0.1))),
    ("parameters: expected 168, got 174", refusing(change=lambda x: setattr(x, "more", nn.Linear(2, 2)))),
    ("TypeError in the constructor", refusing(kind=TypeError)),
    ("KeyError in the constructor", refusing(kind=KeyError)),
    ("Refused, and should be built", refusing(lambda e, h: h < 1 or (e // h) % 2)),
    (BUILT, refusing(lambda e, h: h < 1 or math.gcd(e, h) == 1 and h > 9)),
    ("embed_dim=512, num_heads=7 is refused with a ValueError: it is built", refusing(lambda e, h: h < 1 or e < 99 and e % h)),
    ("embed_dim 32, num_heads 16", refusing(lambda e, h: h < 1 or e % h or h > 12)),
    ("those of other scores", refusing(change=lambda x: (setattr(x, "num_heads", 1), setattr(x, "head_dim", x.embed_dim)))),
):  # fmt: skip
    wrong("head_dim", words, layer)


def part(layer, name, x):
    return heads(layer.get_submodule(f"{name}_proj")(x), layer.num_heads)


class Honest(nn.Module):
    """The right answer to honest_plot, of which others change a step."""

    def __init__(self, embed_dim, num_heads, dropout):
        super().__init__()
        self.num_heads, self.dropout = num_heads, nn.Dropout(dropout)
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(embed_dim, embed_dim))

    scale = staticmethod(lambda q: q.size(-1) ** -0.5)
    hide = staticmethod(lambda scores, mask: scores.masked_fill(~mask, -torch.inf))
    normalize = staticmethod(lambda scores: scores.softmax(-1))
    drop = staticmethod(lambda layer, weights: layer.dropout(weights))
    put = staticmethod(lambda x: x.transpose(1, 2).flatten(2))
    last = staticmethod(lambda output, used, weights: (output, used))

    def forward(self, x, mask=None):
        q, k, v = (part(self, name, x) for name in "qkv")
        scores = q @ k.mT * self.scale(q)
        weights = self.normalize(scores if mask is None else self.hide(scores, mask))
        used = self.drop(self, weights)
        return self.last(self.out_proj(self.put(used @ v)), used, weights)


right("honest_plot", Honest)
for words, step, changed in (
    ("look at the scale", "scale", lambda q: 0.5),
    ("The scores are not divided", "scale", lambda q: 1.0),
    ("times as large as they should be: look at the scale", "scale", lambda q: 0.5**0.5),
    ("The scale uses the width of all heads", "scale", lambda q: (q.size(1) * q.size(-1)) ** -0.5),
    ("Hidden scores become a number", "hide", lambda s, m: s.masked_fill(~m, -1e5)),
    ("Hidden scores are set to 0", "hide", lambda s, m: s.masked_fill(~m, 0.0)),
    ("look at who may read whom", "hide", lambda s, m: s.masked_fill(torch.ones_like(m).triu(1), -torch.inf)),
    ("large ones do not", "normalize", lambda s: s.clamp(-1e4, 1e4).softmax(-1)),
    ("right to about two digits", "normalize", lambda s: s.bfloat16().softmax(-1).float()),
    ("with the p of self.dropout", "drop", lambda layer, w: F.dropout(w, 0.1, layer.training)),
    ("such as those of dropout", "drop", lambda layer, w: F.dropout(w, layer.dropout.p)),
    ("with the p of self.dropout", "drop", lambda layer, w: F.dropout(w, 0.5, layer.training)),
    ("A hidden key has a weight", "drop", lambda layer, w: F.alpha_dropout(w, layer.dropout.p, layer.training)),
    ("so positions mix", "put", lambda x: x.reshape(len(x), x.size(2), -1)),
    ("before dropout", "last", lambda o, used, w: (o, w)),
    ("got 3 results", "last", lambda o, used, w: (o, used, w)),
    ("only the returned weights are not", "last", lambda o, used, w: (o, 0.9 * used)),
):  # fmt: skip
    wrong("honest_plot", words, type("Layer", (Honest,), {step: staticmethod(changed)}))


class Model(nn.Module):
    """For train_reversal: tables that name each token, and a matrix over positions; ``say`` is the forward."""

    def __init__(self, say, places=None):
        super().__init__()
        self.say = say
        self.places = nn.Parameter(9.0 * torch.eye(12).flip(0) if places is None else places)
        self.table, self.linear = nn.Embedding(20, 20), nn.Linear(20, 20)
        self.table.weight.data, self.linear.weight.data = torch.eye(20), 9.0 * torch.eye(20)
        self.linear.bias.data.zero_()

    def forward(self, tokens):
        return self.say(self, tokens)


BACK = torch.arange(11, -1, -1)
FIXED = torch.softmax(50 * torch.eye(12).flip(0) @ torch.eye(12).T, -1)
for say in (  # the order is written into forward
    lambda m, t: m.linear(m.table(t.flip(1))),
    lambda m, t: m.linear(m.table(t[:, BACK])),
    lambda m, t: m.linear(m.table(t)).flip(1),
    lambda m, t: m.linear(m.table(t).flip(1)),
    lambda m, t: m.linear(torch.eye(12).flip(0) @ m.table(t)),
    lambda m, t: torch.stack([m.linear(m.table(x)) for x in reversed(t.unbind(1))], 1),
    lambda m, t: m.linear(FIXED @ m.table(t)),
    lambda m, t: m.linear(m.table(t.gather(1, BACK.expand(len(t), -1)))),
    lambda m, t: (m.linear(m.table(t.flip(1))) + 1).log(),  # NaN for random parameters
    lambda m, t: m.linear(m.table(t.flip(1))).sqrt(),
):
    wrong("train_reversal", "nothing but its own place in the answer", Model(say))


def said(m, t):
    return m.places @ F.one_hot(t, 20).float()


right("train_reversal", Model(lambda m, t: said(m, t).softmax(-1)))
GUESS, LESS = "little more than guess", "train longer"
for words, never, say, *places in (
    ("some positions are never right", LESS, lambda m, t: torch.cat([said(m, t)[:, :3], said(m, t)[:, 3:4].roll(1, -1), said(m, t)[:, 4:]], 1)),
    ("it sorts the tokens", GUESS, lambda m, t: said(m, t.sort(1, descending=True).values)),
    ("in another order", GUESS, said, 9.0 * torch.eye(12).roll(6, 0)),
    ("in another order", GUESS, said, 9.0 * torch.eye(12).flip(0).roll(2, 0)),
    ("in another order", GUESS, said, 9.0 * torch.block_diag(*[torch.eye(6).flip(0)] * 2)),
    ("some tokens are never right", LESS, lambda m, t: said(m, t).masked_fill(torch.arange(20) == 19, -99.0)),
    ("differs from one call to the next", LESS, lambda m, t: F.dropout(said(m, t), 0.5)),
    ("tokens left unchanged: no", "parameters", lambda m, t: (said(m, t), t.zero_())[0]),
    ("a Tensor of shape (12, 83, 20)", GUESS, lambda m, t: said(m, t).transpose(0, 1)),
    ("a Tensor of shape (83, 12, 21)", GUESS, lambda m, t: F.pad(said(m, t), (0, 1))),
    ("some are not finite", "diverged;", lambda m, t: said(m, t) * torch.nan),
    ("alone and in a batch: no", "asked twice", lambda m, t: said(m, t) - said(m, t).mean(0)),
):  # fmt: skip
    wrong("train_reversal", words, Model(say, *places), never=never)
