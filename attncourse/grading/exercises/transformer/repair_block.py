"""Exercise repair_block: a decoder layer whose norms stand on the wrong lines."""

from functools import partial
from itertools import compress, product

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case


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


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, b, n, m, width in (
        ("2 samples, 3 words written, 5 read, width 6", 2, 3, 5, 6),
        ("as many words written as read", 3, 4, 4, 5),
        ("one word written", 1, 1, 3, 4),
    ):
        x, memory = (2 * torch.randn(b, k, width, generator=g) + 1 for k in (n, m))
        shifts = torch.randn(3, generator=g).tolist()
        norms = tuple(normed(s, 1.0 + 0.5 * k) for k, s in enumerate(shifts))
        found.append(Case(what, (x, memory, read_back, attend, think, norms)))
    return found


def layer(
    x,
    memory,
    self_attend,
    cross_attend,
    feed_forward,
    norms,
    own=None,
    cross=None,
    ff=None,
    finish=None,
):
    """The repaired layer; a mistake replaces one of its three lines, or its end."""
    first, second, third = norms
    own = own or (lambda x: x + self_attend(first(x)))
    cross = cross or (lambda x: x + cross_attend(second(x), memory))
    ff = ff or (lambda x: x + feed_forward(third(x)))
    x = ff(cross(own(x)))
    return finish(x) if finish else x


def wrong(own=None, cross=None, ff=None, finish=None):
    """A layer some lines of which are others: each is called with x, memory, the parts and the norms."""

    def answer(x, memory, *rest):
        *parts, norms = rest
        steps = {"own": own, "cross": cross, "ff": ff, "finish": finish}
        bound = {k: partial(f, m=memory, p=parts, n=norms, x0=x) for k, f in steps.items() if f}
        return layer(x, memory, *parts, norms, **bound)

    return answer


ACCEPTED = Accepted(
    three_lines=layer, other_names=wrong(ff=lambda x, m, p, n, x0: p[2](n[2](x)) + x)
)


@ACCEPTED.add
def in_double(x, memory, self_attend, cross_attend, feed_forward, norms):
    return layer(x.double(), memory.double(), self_attend, cross_attend, feed_forward, norms)


@ACCEPTED.add
def loop_over_parts(x, memory, self_attend, cross_attend, feed_forward, norms):
    parts = (self_attend, lambda y: cross_attend(y, memory), feed_forward)
    for norm, part in zip(norms, parts, strict=True):
        x = x.add(part(norm(x)))
    return x


@ACCEPTED.add
def sum_at_the_end(x, memory, self_attend, cross_attend, feed_forward, norms):
    added = [self_attend(norms[0](x))]
    added.append(cross_attend(norms[1](x + added[0]), memory))
    added.append(feed_forward(norms[2](x + added[0] + added[1])))
    return x + torch.stack(added).sum(0)


def as_found(x, memory, self_attend, cross_attend, feed_forward, norms):
    """As in the notebook of the exercise."""
    x = norms[0](x)
    x = x + self_attend(x)
    y = norms[1](x)
    x = y + cross_attend(y, norms[1](memory))
    norms[2](x)
    return x + feed_forward(x)


def still_as_found():
    """The mistakes of the code as found that are left together, and not listed one by one."""
    says = (
        "the first line carries the normed x on",
        "the second line carries the normed x on",
        "the memory is normed",
        "the feed-forward network reads x without its norm",
    )
    listed = ((1, 1, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1))
    for left in product((0, 1), repeat=4):
        if sum(left) > 1 and left not in listed:
            own, carried, memory, third = left
            steps = (OWN if own else {}) | (THIRD if third else {})
            if carried or memory:
                steps |= {"cross": partial(second_line, carried=carried, memory=memory)}
            yield "Still as found: " + "; ".join(compress(says, left)) + ".", steps


def second_line(x, m, p, n, x0, carried, memory):
    return (n[1](x) if carried else x) + p[1](n[1](x), n[1](m) if memory else m)


def ff_beside(x, m, p, n):
    x = x + p[0](n[0](x))
    return x + p[1](n[1](x), m) + p[2](n[2](x))


def twice(x, m, p, n):
    x = layer(x, m, *p, n)
    return x + p[2](n[2](x))


OWN = {"own": lambda x, m, p, n, x0: n[0](x) + p[0](n[0](x))}
CROSS = {"cross": lambda x, m, p, n, x0: n[1](x) + p[1](n[1](x), m)}
MEMORY = {"cross": lambda x, m, p, n, x0: x + p[1](n[1](x), n[1](m))}
THIRD = {"ff": lambda x, m, p, n, x0: x + p[2](x)}
MISTAKES = Mistakes(
    [
        Mistake(
            "This is the code as found: the normed x is carried on, and norms[2] does nothing.",
            as_found,
        )
    ]
)
MISTAKES += [Mistake(says, wrong(**steps)) for says, steps in (
    ("The first line still carries the normed x on; add to x itself.", OWN),
    ("The second line still carries the normed x on; add to x itself.", CROSS),
    ("The first two lines still carry the normed x on; add to x itself.", OWN | CROSS),
    ("The feed-forward network still reads x without its norm: norms[2] returns a new tensor.", THIRD),
    ("The memory is normed by norms[1]; it comes from the encoder as it should be, and only the query is normed.", MEMORY),
    ("The memory is still normed, and the feed-forward network still reads x without its norm.", MEMORY | THIRD),
    *still_as_found(),
    ("The normed x is carried on into the sum of the feed-forward network; add to x itself.",
     {"ff": lambda x, m, p, n, x0: n[2](x) + p[2](n[2](x))}),
    ("The self-attention reads x without its norm.", {"own": lambda x, m, p, n, x0: x + p[0](x)}),
    ("The query of the cross-attention is not normed.", {"cross": lambda x, m, p, n, x0: x + p[1](x, m)}),
    ("The residual around the self-attention is missing.", {"own": lambda x, m, p, n, x0: p[0](n[0](x))}),
    ("The residual around the cross-attention is missing.", {"cross": lambda x, m, p, n, x0: p[1](n[1](x), m)}),
    ("The residual around the feed-forward network is missing.", {"ff": lambda x, m, p, n, x0: p[2](n[2](x))}),
    ("Every part is added to the first x, so what the parts before added is lost.",
     {"cross": lambda x, m, p, n, x0: x0 + p[1](n[1](x), m), "ff": lambda x, m, p, n, x0: x0 + p[2](n[2](x))}),
    ("The norms stand after the sums; that is post-norm, and this layer is pre-norm.",
     {"own": lambda x, m, p, n, x0: n[0](x + p[0](x)), "cross": lambda x, m, p, n, x0: n[1](x + p[1](x, m)),
      "ff": lambda x, m, p, n, x0: n[2](x + p[2](x))}),
    ("The feed-forward network comes before the cross-attention; it is the last of the three.",
     {"cross": lambda x, m, p, n, x0: x + p[2](n[2](x)), "ff": lambda x, m, p, n, x0: x + p[1](n[1](x), m)}),
    ("The cross-attention comes before the self-attention; it is the second of the three.",
     {"own": lambda x, m, p, n, x0: x + p[1](n[1](x), m), "cross": lambda x, m, p, n, x0: x + p[0](n[0](x))}),
    ("All three parts read the first x; each reads what the parts before have added.",
     {"finish": lambda x, m, p, n, x0: x0 + p[0](n[0](x0)) + p[1](n[1](x0), m) + p[2](n[2](x0))}),
    ("The query of the cross-attention is made of the first x; it reads what the self-attention has added.",
     {"cross": lambda x, m, p, n, x0: x + p[1](n[1](x0), m)}),
    ("The feed-forward network does not read what the cross-attention has added.",
     {"finish": lambda x, m, p, n, x0: ff_beside(x0, m, p, n)}),
    ("What the parts return is normed instead of what they read.",
     {"own": lambda x, m, p, n, x0: x + n[0](p[0](x)), "cross": lambda x, m, p, n, x0: x + n[1](p[1](x, m)),
      "ff": lambda x, m, p, n, x0: x + n[2](p[2](x))}),
    ("What the parts return is subtracted; it is added.",
     {"own": lambda x, m, p, n, x0: x - p[0](n[0](x)), "cross": lambda x, m, p, n, x0: x - p[1](n[1](x), m),
      "ff": lambda x, m, p, n, x0: x - p[2](n[2](x))}),
    ("The norms stand in reverse order: the first belongs to the self-attention, the last to the feed-forward network.",
     {"own": lambda x, m, p, n, x0: x + p[0](n[2](x)), "ff": lambda x, m, p, n, x0: x + p[2](n[0](x))}),
    ("The memory is normed by norms[0]; it comes from the encoder as it should be.",
     {"cross": lambda x, m, p, n, x0: x + p[1](n[1](x), n[0](m))}),
    ("The feed-forward network is applied twice.", {"finish": lambda x, m, p, n, x0: twice(x0, m, p, n)}),
    ("x itself is returned: nothing is added to it.", {"finish": lambda x, m, p, n, x0: x0 + 0}),
    ("norms are not used: each part has its own norm, with numbers that it has learned.",
     {"finish": lambda x, m, p, n, x0: layer(x0, m, *p, [normed(0.0, 1.0)] * 3)}),
    ("The result is normed once more at the end; that is left to the stack.", {"finish": lambda x, m, p, n, x0: n[2](x)}),
    ("All three lines use norms[0]; each part has its own norm.",
     {"cross": lambda x, m, p, n, x0: x + p[1](n[0](x), m), "ff": lambda x, m, p, n, x0: x + p[2](n[0](x))}),
    ("Two norms are exchanged: norms[1] belongs to the cross-attention, norms[2] to the feed-forward network.",
     {"cross": lambda x, m, p, n, x0: x + p[1](n[2](x), m), "ff": lambda x, m, p, n, x0: x + p[2](n[1](x))}),
    ("The cross-attention reads x instead of the memory.", {"cross": lambda x, m, p, n, x0: x + p[1](n[1](x), n[1](x))}),
    ("The cross-attention is left out.", {"cross": lambda x, m, p, n, x0: x}),
    ("The self-attention is left out.", {"own": lambda x, m, p, n, x0: x}),
    ("The feed-forward network is left out.", {"ff": lambda x, m, p, n, x0: x}),
    ("No gradient flows back to the memory: it is detached.",
     {"cross": lambda x, m, p, n, x0: x + p[1](n[1](x), m.detach())}),
    ("No gradient flows back: the result is detached or made inside no_grad.",
     {"finish": lambda x, m, p, n, x0: x.detach()}),
    ("x is changed in place; return a new tensor.", {"finish": lambda x, m, p, n, x0: x0.copy_(x.detach())}),
)]  # fmt: skip

EXERCISE = Exercise(
    name="repair_block",
    answer="repaired_layer",
    judge=Calls(layer, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
