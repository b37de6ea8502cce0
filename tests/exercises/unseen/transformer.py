"""The transformer: answers that its exercises do not list."""

import torch
import torch.nn.functional as F
from torch import nn

from unseen import right, wrong


def block(norm=lambda y, w, b: F.layer_norm(y, y.shape[-1:], w, b), first=lambda x, part, n: x + part(n(x)),
          last=lambda x, part, n: n(x + part(x))):  # fmt: skip
    """The exercise residual_block with another norm, or another sum in one of its branches."""

    def answer(x, part, weight, bias, norm_first):
        return (first if norm_first else last)(x, part, lambda y: norm(y, weight, bias))

    return answer


def centred(y):
    return y - y.mean(-1, keepdim=True)


right("residual_block", block())
right(
    "residual_block", block(first=lambda x, part, n: x + torch.cat([part(n(y[None])) for y in x]))
)
for words, changed in (
    ("look at the 1e-5", {"norm": lambda y, w, b: F.layer_norm(y, y.shape[-1:], w, b, 1e-6)}),
    ("all that is wrong stands at features", {"norm": lambda y, w, b: F.layer_norm(y, y.shape[-1:], w, b, 1e-3)}),
    ("look at the 1e-5", {"norm": lambda y, w, b: F.layer_norm(y, y.shape[-1:], w, b, 2e-5)}),
    ("look at the 1e-5", {"norm": lambda y, w, b: F.layer_norm(y, y.shape[-1:], w, b, 1e-12)}),
    ("becomes bias by the norm", {"norm": lambda y, w, b: (y - y.mean((0, 1))) / (y.var((0, 1), correction=0) + 1e-5).sqrt() * w + b}),
    ("exchanged", {"norm": lambda y, w, b: F.layer_norm(y, y.shape[-1:], b, w)}),
    ("becomes bias by the norm; here it does not", {"norm": lambda y, w, b: F.normalize(y, dim=-1) * w + b}),
    ("The vectors less their means are among the numbers", {"norm": lambda y, w, b: centred(y) * w + b}),
    ("numbers are all the same becomes bias", {"norm": lambda y, w, b: y / y.abs().amax(-1, keepdim=True)}),
    ("numbers are all the same becomes bias", {"norm": lambda y, w, b: y.softmax(-1) * w + b}),
    ("The vectors less their means are among the numbers", {"norm": lambda y, w, b: centred(y) / (centred(y).abs().mean(-1, keepdim=True) + 1e-5) * w + b}),
    ("no gradient flows back to weight and bias", {"norm": lambda y, w, b: F.layer_norm(y, y.shape[-1:], w.detach(), b.detach())}),
    ("0.5 times what they should be", {"first": lambda x, part, n: (x + part(n(x))) / 2}),
    ("norm_first=True the block must return x", {"first": lambda x, part, n: x * part(n(x))}),
    ("Only with norm_first=True are results wrong", {"first": lambda x, part, n: x + F.dropout(part(n(x)), 0.5)}),
    ("Only with norm_first=False are results wrong", {"last": lambda x, part, n: n(n(x + part(x)))}),
    ("Only with norm_first=False are results wrong", {"last": lambda x, part, n: n(x) + n(part(x))}),
    ("this is 2 results", {"first": lambda x, part, n: (x + part(n(x)), x), "last": lambda x, part, n: (n(x + part(x)), x)}),
):  # fmt: skip
    wrong("residual_block", words, block(**changed))


def mask(real, shape=lambda real, n: real[:, None, None].expand(-1, 1, n, -1)):
    """The exercise cross_attention_mask: which tokens are words, and in which shape."""
    return lambda source, n, pad: shape(real(source, pad), n)


def words_of(source, pad):
    return source != pad


right("cross_attention_mask", mask(words_of))
for words, answer in (
    ("because it is a word", mask(lambda s, pad: s < pad)),
    ("token 1 must be hidden, because it is padding", mask(lambda s, pad: s >= pad)),
    ("token 5 must be shown, because it is a word", mask(lambda s, pad: s.abs() != abs(pad))),
    ("token 1 must be shown, because it is a word", mask(lambda s, pad: (s != pad) & (s < 100))),
    ("must be hidden, because it is padding", mask(lambda s, pad: s > 0)),
    ("must be shown, because it is a word", mask(lambda s, pad: (s != pad) & (s != 0))),
    ("because it is padding", mask(lambda s, pad: (s != pad).flip(1).cumsum(1).flip(1) > 0)),
    ("because it is padding", mask(lambda s, pad: (s != pad).cumsum(1) > 0)),
    ("because it is padding", mask(lambda s, pad: (s != pad).any(0).expand(s.shape))),
    ("sample 0 is [0, 0, 0, 0, 1]", mask(lambda s, pad: (s != pad) | (torch.arange(s.size(1)) == 0))),
    ("got (3, 8, 4, 7)", mask(words_of, lambda real, n: real[:, None, None].expand(-1, 8, n, -1))),
    ("got (3, 1, 5, 7)", mask(words_of, lambda real, n: real[:, None, None].expand(-1, 1, n + 1, -1))),
    ("token 1 must be hidden", mask(words_of, lambda real, n: real.repeat(n, 1).view(len(real), 1, n, -1))),
):  # fmt: skip
    wrong("cross_attention_mask", words, answer, never=("1 times",))


def ahead(
    change=lambda x, said, j: torch.randn_like(x),
    moved=lambda d: d.abs().amax((0, 2)),
    tol=1e-8,
    words=range,
):
    """The exercise causal_decoder: each word is changed in turn."""

    def answer(decoder, said, memory):
        before, far = decoder(said, memory), 0
        for j in words(said.size(1)):
            other = said.clone()
            other[:, j] = change(other[:, j], said, j)
            reads = moved(decoder(other, memory) - before)[:j] > tol
            far = max(far, *(j - i for i in range(j) if reads[i]), 0)
        return far

    return answer


@right("causal_decoder")
def fewer_words(decoder, said, memory):
    whole, found = decoder(said, memory), 0
    for i in range(said.size(1)):
        for k in range(i + 1, said.size(1)):
            if (decoder(said[:, :k], memory)[:, i] - whole[:, i]).abs().max() > 1e-8:
                found = max(found, k - i)
    return found


def sample_after_sample(decoder, said, memory):
    return max(ahead()(decoder, said[b : b + 1], memory[b : b + 1]) for b in range(len(said)))


for answer in (ahead(), ahead(tol=2e-9), ahead(tol=1e-6), ahead(lambda x, said, j: 1e3 * torch.randn_like(x)),
               ahead(lambda x, said, j: x + torch.randn_like(x[0])), sample_after_sample):  # fmt: skip
    right("causal_decoder", answer)


def only(k, x):
    return x.index_fill(1, torch.tensor(k % 6), 0.7)


for words, answer in (
    ("rounding counts as a leak", ahead(tol=1e-10)),
    ("rounding counts as a leak", ahead(tol=0.0)),
    ("No leak is found in: a faint leak", ahead(tol=1e-4)),
    ("No leak is found in: a faint leak", ahead(lambda x, said, j: x + 1e-6 * torch.randn_like(x))),
    ("a leak of the square of a feature", ahead(lambda x, said, j: only(3, x))),
    ("a leak of the sum over a word", ahead(moved=lambda d: d[..., 0].abs().amax(0))),
    (
        "in: a leak that adds to one feature what it takes from another",
        ahead(moved=lambda d: d.mean((0, 2)).abs()),
    ),
    ("No leak is found in: 1 sample", ahead(lambda x, said, j: x.roll(1, 0))),
    ("in: a leak of the sum over a word", ahead(lambda x, said, j: x.roll(1, -1))),
    ("in: a leak of the square", ahead(lambda x, said, j: -x)),
    (
        "in: a leak in the last sample only",
        ahead(lambda x, said, j: torch.cat([torch.randn_like(x[:1]), x[1:]])),
    ),
    ("No leak is found in: more words", ahead(words=lambda n: range(min(n, 9)))),
    ("and 14 more", lambda decoder, said, memory: 0),
    ("It is n - 1 for every decoder", lambda decoder, said, memory: said.size(1) - 1),
    ("a norm takes both out", ahead(lambda x, said, j: x + torch.randn(len(x), 1))),
):
    wrong("causal_decoder", words, answer)


def layer(
    own=lambda x, s, n: x + s(n(x)),
    cross=lambda x, m, c, n: x + c(n[1](x), m),
    ff=lambda x, f, n: x + f(n(x)),
):
    """The exercise repair_block with other lines."""
    return lambda x, memory, s, c, f, n: ff(cross(own(x, s, n[0]), memory, c, n), f, n[2])


right("repair_block", layer())
OWN, THIRD = {"own": lambda x, s, n: n(x) + s(n(x))}, {"ff": lambda x, f, n: x + f(x)}
MEMORY = {"cross": lambda x, m, c, n: x + c(n[1](x), n[1](m))}
BOTH = {"cross": lambda x, m, c, n: n[1](x) + c(n[1](x), n[1](m))}
for words, answer in (
    ("the sums behind the self-attention, the next step, are not", layer(**OWN, **MEMORY)),
    ("the sums behind the self-attention, the next step, are not", layer(**OWN, **THIRD)),
    ("the results of the cross-attention, the next step, are not", layer(**BOTH, **THIRD)),
    ("the words normed by norms[1], the next step, are not", lambda x, m, s, c, f, n: x + s(n[0](x)) + c(n[1](x), m) + f(n[2](x))),
    ("The cross-attention comes before the self-attention",
     lambda x, m, s, c, f, n: layer()(x + c(n[1](x), m), m, s, lambda q, m: torch.zeros_like(q), f, n)),
    ("What the parts return is normed", layer(lambda x, s, n: x + n(s(x)), lambda x, m, c, n: x + n[1](c(x, m)), lambda x, f, n: x + n(f(x)))),
    ("", lambda x, m, s, c, f, n: x.clone()),
    ("the results of the cross-attention, the next step, are not", layer(cross=lambda x, m, c, n: x + c(n[1](x), n[0](m)))),
    ("an input is changed in place: x", lambda x, m, s, c, f, n: x.add_(layer()(x, m, s, c, f, n) - x)),
    ("No gradient flows through the numbers of the memory", layer(cross=lambda x, m, c, n: x + c(n[1](x), m.detach()))),
):  # fmt: skip
    wrong("repair_block", words, answer)


class Linear(nn.Linear):
    """For train_forecaster: one matrix, and what is done to its forecasts."""

    def __init__(self, change=lambda y, x: y):
        super().__init__(24, 8)
        self.change = change
        nn.init.constant_(self.weight, 0.0)

    def forward(self, x):
        return self.change(super().forward(x), x)


for words, model in (
    ("It learned nothing", Linear(lambda y, x: y + 2 * x[:, :8])),
    ("It says about 0", Linear()),
    ("a Tensor of shape (8, 600)", Linear(lambda y, x: y.T)),
    ("a Tensor of shape (600, 7)", Linear(lambda y, x: y[:, :7])),
    ("some are not finite", Linear(lambda y, x: y * torch.nan)),
    ("asked twice, it says something else", Linear(lambda y, x: y + torch.randn_like(y))),
    ("signals left unchanged: no", Linear(lambda y, x: (y, x.zero_())[0])),
    (
        "too many: it learns 96,005",
        nn.Sequential(nn.Linear(24, 2909), nn.ReLU(), nn.Linear(2909, 8)),
    ),
):
    wrong("train_forecaster", words, model, never="train longer")
