"""Windows with global tokens: wide windows, layers left out, low draws, pairs counted twice."""

import math

import torch

from unseen import right, wrong


def mask(
    window=lambda i, j, left, right: (i - left <= j) & (j <= i + right),
    real=lambda lengths: lengths,
    marks=lambda is_global: is_global,
    finish=lambda mask: mask,
):
    """The four rules, of which one may be another."""

    def answer(is_global, lengths, left, right, causal):
        n, marked = is_global.size(1), marks(is_global)
        i, j, length = torch.arange(n)[:, None], torch.arange(n), real(lengths)[:, None, None, None]
        seen = window(i, j, left, right) | marked[:, None, :, None] | marked[:, None, None]
        seen = seen & (i < length) & (j < length)
        return finish(seen & (j <= i) if causal else seen)

    return answer


right("global_rule", mask())
right("global_rule", mask(marks=lambda g: g.clone()))
for most in (2, 4):
    wrong("global_rule", "near keys before the query are not read", mask(
        lambda i, j, left, right, most=most: (i - min(left, most) <= j) & (j <= i + right)))  # fmt: skip
    wrong("global_rule", "near keys behind the query are not read", mask(
        lambda i, j, left, right, most=most: (i - left <= j) & (j <= i + min(right, most + 3))))  # fmt: skip
wrong(
    "global_rule",
    "padding reads (in the call '1 sample, only padding'",
    mask(real=lambda x: x.clamp(min=1)),
)
wrong("global_rule", "padding reads", mask(finish=lambda m: m | torch.eye(m.size(-1)).bool()))
wrong("global_rule", "a query does not read its own key", mask(real=lambda x: x.min().expand_as(x)))
wrong("global_rule", "True and False are exchanged", mask(finish=torch.logical_not))
wrong("global_rule", "type is torch.float32", mask(finish=torch.Tensor.float))
wrong("global_rule", "axes of size 1", mask(finish=lambda m: m.squeeze(0)))
wrong("global_rule", "global tokens are one token too late", mask(marks=lambda g: g.roll(1, 1)))


@wrong("global_rule", "lengths", "changed in place")
def lengths_clamped_in_place(is_global, lengths, left, right, causal):
    found = mask()(is_global, lengths, left, right, causal)
    lengths.clamp_(min=1)
    return found


def layers(keep=True, order=lambda masks: masks, start=1, read=lambda mask: mask, stop=False):
    """Sets of positions, layer by layer."""

    def answer(masks):
        known = torch.eye(masks.size(1)).bool()
        found = known.long() - 1
        for k, one in enumerate(order(masks), start):
            heard = read(one).float() @ known.float() > 0
            heard = heard | known if keep else heard
            if stop and torch.equal(heard, known):
                break
            found[heard & (found < 0)], known = k, heard
        return found

    return answer


right("layers_needed", layers())
wrong("layers_needed", "the first layer reads nothing, then 1 reads 0", layers(stop=True))
for most in (4, 10, 32):
    wrong("layers_needed", "-1 that does hear", layers(order=lambda masks, k=most: masks[:k]), never="no news")  # fmt: skip
wrong("layers_needed", "0 reads 1. So row 0 is (0, 1, -1)", layers(read=torch.tril))


@wrong("layers_needed", "in the only layer 0 reads itself. So row 0 is 0; the answer gives 1")
def the_last_time(masks):
    known = torch.eye(masks.size(1))
    found = known.long() - 1
    for k, one in enumerate(masks.float(), 1):
        found[one @ known > 0], known = k, ((one @ known + known) > 0).float()
    return found


def plan(fill=-math.inf, count=lambda r: r, near=1):
    """What is read anyway is left out of the draw."""

    def answer(draws, num_random):
        at = torch.arange(draws.size(1))
        end = at % max(len(at) - 1, 1) == 0
        fixed = ((at[:, None] - at).abs() <= near) | end | end[:, None]
        best = draws.masked_fill(fixed, fill).topk(min(count(num_random), len(at))).indices
        return fixed.repeat(len(draws), 1, 1).scatter(-1, best, True)

    return answer


right("repair_plan", plan())
for fill in (-30.0, -1e4, -1e7):
    wrong("repair_plan", "more than some draws", plan(fill))
wrong("repair_plan", "fewer blocks than num_random", plan(count=lambda r: min(r, 3)))
wrong("repair_plan", "more blocks than it should", plan(count=lambda r: max(r, 1)))
wrong("repair_plan", "more blocks than it should", plan(near=2))


def pairs(n, left, right, k):
    return n * n - (n - k) ** 2 + sum(max(n - k - abs(x), 0) for x in range(-left, right + 1))


right("pairs_read", pairs)
wrong("pairs_read", "less the right number is - 1", lambda *sizes: pairs(*sizes) - 1)
wrong("pairs_read", "2 times", lambda *sizes: 2 * pairs(*sizes))
wrong("pairs_read", "the text 24", lambda *sizes: str(pairs(*sizes)))
wrong("pairs_read", "are near, too, but one pair", lambda n, left, right, k: n * n - (n - k) ** 2 + pairs(n, left, right, 0) - pairs(k, left, right, 0))  # fmt: skip
