"""Exercise decoder_mask: causal and padding at once, one mask for a batch."""

import torch

from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def spec(lengths, n):
    """visible(b, 0, i, j) = j <= i and j < lengths(b)."""
    table = [
        [[[j <= i and j < length for j in range(n)] for i in range(n)]]
        for length in lengths.tolist()
    ]
    return torch.tensor(table)


def cases(seed: int) -> list[Case]:
    """Full and empty samples, as many samples as positions, a batch without a full sample."""
    g = torch.Generator().manual_seed(seed)
    drawn = torch.randint(1, 7, (5,), generator=g)
    return [
        Case("lengths 7, 3, 0 in 7 positions", (torch.tensor([7, 3, 0]), 7), gradients=False),
        Case("no sample fills the 11 positions", (torch.tensor([4, 9]), 11), gradients=False),
        Case("4 samples, 4 positions", (torch.tensor([2, 4, 1, 3]), 4), gradients=False),
        Case("1 sample", (torch.tensor([2]), 3), gradients=False),
        Case("lengths 40, 3 in 70 positions", (torch.tensor([40, 3]), 70), gradients=False),
        Case(f"lengths {drawn.tolist()} in 7 positions", (drawn, 7), gradients=False),
    ]


ACCEPTED = Accepted()


@ACCEPTED.add
def two_comparisons(lengths, n):
    j = torch.arange(n)
    return (j <= j[:, None]) & (j < lengths[:, None, None, None])


@ACCEPTED.add
def triangle_and_padding(lengths, n):
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    real = torch.arange(n)[None, :] < lengths[:, None]
    return causal[None, None] & real[:, None, None, :]


@ACCEPTED.add
def loop_over_samples(lengths, n):
    mask = torch.ones(len(lengths), 1, n, n).tril()
    for sample, length in zip(mask, lengths.tolist(), strict=True):
        sample[..., length:] = 0
    return mask == 1


@ACCEPTED.add
def last_visible_key(lengths, n):
    """The last key that query i may read is the smaller of i and length - 1."""
    last = torch.minimum(torch.arange(n), lengths[:, None] - 1)
    return (torch.arange(n) <= last[..., None]).unsqueeze(1)


@ACCEPTED.add
def hidden_first(lengths, n):
    future = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
    pad = torch.arange(n).expand(len(lengths), n) >= lengths.view(-1, 1)
    return torch.logical_or(future, pad.view(-1, 1, 1, n)).logical_not()


MISTAKES = Mistakes()


def rule(lengths, n, visible):
    """The table of a rule visible(i, j, length), (b, 1, n, n)."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return torch.broadcast_to(
        visible(i, j, lengths[:, None, None, None]), (len(lengths), 1, n, n)
    ).clone()


@MISTAKES.add("Padding is not hidden: only the causal rule is applied.")
def only_causal(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j <= i) & (length >= 0))


@MISTAKES.add("The future is not hidden: only the padding rule is applied.")
def only_padding(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j < length) & (i >= 0))


@MISTAKES.add("A pair is visible when either rule allows it; both must (and, not or).")
def either(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j <= i) | (j < length))


@MISTAKES.add(
    "One padding key too many is visible: a key is real when j < length, not j <= length."
)
def one_padding_key(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j <= i) & (j <= length))


@MISTAKES.add("The last real key of each sample is hidden: a key is real when j < length.")
def one_real_key_missing(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j <= i) & (j < length - 1))


@MISTAKES.add(
    "The rows of padding queries are empty: the padding rule looks at the queries, but only keys are "
    "to be hidden."
)
def queries_hidden(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j <= i) & (i < length))


@MISTAKES.add("True marks the hidden pairs here; it must mark the pairs that may attend.")
def true_hides(lengths, n):
    return ~spec(lengths, n)


@MISTAKES.add("The causal part marks the future as visible; invert it before you combine the two.")
def causal_part_inverted(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j > i) & (j < length))


@MISTAKES.add("The padding part marks padding as visible; invert it before you combine the two.")
def padding_part_inverted(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j <= i) & (j >= length))


@MISTAKES.add("The causal part is transposed: each query reads itself and the future.")
def causal_transposed(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j >= i) & (j < length))


@MISTAKES.add("A query cannot read itself: j <= i, not j < i.")
def strict(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j < i) & (j < length))


@MISTAKES.add("Each query reads one position too far ahead: j <= i, not j <= i + 1.")
def one_too_far(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j <= i + 1) & (j < length))


@MISTAKES.add("The padding is hidden on the left; here it stands on the right.")
def left_padding(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j <= i) & (j >= n - length))


@MISTAKES.add("Every sample gets the length of the longest one.")
def longest(lengths, n):
    return rule(lengths, n, lambda i, j, length: (j <= i) & (j < length.max()) & (length >= 0))


@MISTAKES.add("The shape is (b, n, n); without the axis for heads it is read as one mask per head.")
def no_head_axis(lengths, n):
    return spec(lengths, n)[:, 0]


@MISTAKES.add("The samples stand on the axis of the heads; the shape is (b, 1, n, n).")
def samples_as_heads(lengths, n):
    return spec(lengths, n).transpose(0, 1)


@MISTAKES.add("The mask is as long as the longest sample; it must have n queries and n keys.")
def cut_to_longest(lengths, n):
    return spec(lengths, int(lengths.max()))


@MISTAKES.add("The mask holds ones and zeros; its dtype must be torch.bool.")
def numbers(lengths, n):
    return spec(lengths, n).long()


@MISTAKES.add("Zeros and minus infinities are a mask to be added; return booleans.")
def additive(lengths, n):
    visible = spec(lengths, n)
    return torch.zeros(visible.shape).masked_fill(~visible, float("-inf"))


EXERCISE = Exercise(
    name="decoder_mask",
    answer="decoder_mask",
    title="The mask of a decoder",
    kind="Implement",
    points=2,
    difficulty=2,
    minutes=10,
    needs="section 'Two rules at once' of chapter 2",
    judge=Calls(spec, cases, gradients=False),
    hints=(
        "Write the two rules alone first. Which axes of (b, 1, n, n) does each of them need?",
        "The causal rule is (n, n). The padding rule compares positions (n,) with lengths[:, None, "
        "None, None].",
        "j = torch.arange(n); (j <= j[:, None]) & (j < lengths[:, None, None, None]).",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
