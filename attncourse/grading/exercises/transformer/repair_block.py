"""Exercise repair_block: a decoder layer whose norms stand on the wrong lines."""

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, Mistake, seeded


def attend(query, source):
    """A part that reads: each query position takes what fits of the source."""
    weights = torch.softmax(query @ source.mT, dim=-1)
    return weights @ torch.sin(source) - 0.3 * query


def read_back(y):
    """Causal self-attention in miniature."""
    return torch.tanh(y).cumsum(1) - 0.5 * y.roll(1, 2)


def think(y):
    return torch.relu(y - 0.2) * y.flip(2)


def normed(shift, scale):
    """A norm with a shift and a scale of its own, so that no two are alike."""

    def norm(y):
        centred = y - y.mean(-1, keepdim=True)
        return scale * centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + 1e-5) + shift

    return norm


CALLS = (  # what is special, b n m, the width
    ("2 samples, 3 words written, 5 read, width 6", 2, 3, 5, 6),
    ("as many words written as read", 3, 4, 4, 5),
    ("one word written", 1, 1, 3, 4),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, b, n, m, width in CALLS:
        x, memory = (2 * torch.randn(b, k, width, generator=g) + 1 for k in (n, m))
        shifts = torch.randn(3, generator=g).tolist()
        norms = tuple(normed(s, 1.0 + 0.5 * k) for k, s in enumerate(shifts))
        found.append(Case(what, (x, memory, read_back, attend, think, norms)))
    return found


NORMED, READ = "the words normed by norms[{}]", "the results of the {}"
SELF, CROSS, THINK = "self-attention", "cross-attention", "feed-forward network"
SUMS = "the sums behind the {}"


@Dataflow
def right(x, memory, self_attend, cross_attend, feed_forward, norms):
    parts = self_attend, lambda y: cross_attend(y, memory), feed_forward
    for k, (part, called) in enumerate(zip(parts, (SELF, CROSS, THINK), strict=True)):
        y = yield f"{NORMED.format(k)}", norms[k](x)
        y = yield f"{READ.format(called)}", part(y)
        x = yield f"{SUMS.format(called)}", x + y
    return x


def as_found(x, memory, self_attend, cross_attend, feed_forward, norms):
    """As in the notebook of the exercise."""
    x = norms[0](x)
    x = x + self_attend(x)
    y = norms[1](x)
    x = y + cross_attend(y, norms[1](memory))
    return x + feed_forward(x)


def with_norms(change):
    """The layer with other norms."""
    return lambda *given: right(*given[:5], change(given[5]))


EXERCISE = Exercise(
    name="repair_block",
    answer="repaired_layer",
    judge=Calls(right, cases),
    right=right,
    axes=("b n d",),
    measures=("gradients",),
    ideas=[
        Mistake("This is the code as found: the normed x is carried on, and norms[2] does nothing.",
                as_found),
        Mistake("norms are not used: each part has its own norm, with numbers that it has learned.",
                with_norms(lambda norms: [normed(0.0, 1.0)] * 3)),
        Mistake("The norms stand in reverse order; the first belongs to the self-attention.",
                with_norms(lambda norms: norms[::-1])),
        Mistake("The self-attention reads x without its norm.",
                with_norms(lambda norms: (lambda y: y, *norms[1:]))),
        Mistake("The norms stand behind the sums; that is post-norm, and this layer is pre-norm.",
                lambda x, m, p, q, r, n: n[2]((y := n[1]((x := n[0](x + p(x))) + q(x, m))) + r(y))),
        Mistake("What the parts return is normed instead of what they read.",
                lambda x, m, p, q, r, n: right(
                    x, m, lambda y: n[0](p(y)), lambda y, m: n[1](q(y, m)), lambda y: n[2](r(y)),
                    [lambda y: y] * 3)),
        Mistake("The cross-attention comes before the self-attention; it is the second part.",
                lambda x, m, p, q, r, n: right(
                    x + q(n[1](x), m), m, p, lambda y, m: 0 * y, r, n)),
    ],
)  # fmt: skip
