"""Exercise count_multi_token: what a kernel and a mix of heads add to a layer."""

import math

import numpy as np
import torch
from torch import nn

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes, Number

HEADS, HEAD_DIM, TOKENS, C_Q, C_K = 12, 64, 1000, 6, 11
WIDTH, UNDER, PAIRS = HEADS * HEAD_DIM, C_Q * C_K, TOKENS * TOKENS


def counts() -> tuple[int, int, int, int]:
    """Parameters that are new; FLOPs of the products, the convolution and the mix, one row of a table at a time."""
    kernels = nn.Conv2d(HEADS, HEADS, (C_Q, C_K), groups=HEADS, bias=False, device="meta")
    mix = nn.Linear(HEADS, HEADS, bias=False, device="meta")
    products = convolution = mixed = 0
    for _ in range(HEADS):
        for _ in range(TOKENS):
            products += TOKENS * (2 * HEAD_DIM)
            convolution += TOKENS * (2 * kernels.weight[0].numel())
            mixed += TOKENS * (2 * HEADS)
    return kernels.weight.numel() + mix.weight.numel(), products, convolution, mixed


RIGHT = counts()
ACCEPTED = Accepted(
    a_tuple_of_whole_numbers=(936, 1_536_000_000, 1_584_000_000, 288_000_000),
    a_list_of_floats=[936.0, 1.536e9, 1.584e9, 2.88e8],
    a_tensor=torch.tensor([936, 1_536_000_000, 1_584_000_000, 288_000_000]),
    numpy=np.array([12 * 66 + 12**2, 2 * 768 * 1e6, 2 * 12 * 66 * 1e6, 2 * 12**2 * 1e6]),
    by_the_formula=(12 * (66 + 12), *(2 * 12 * 1000**2 * each for each in (64, 66, 12))),
)  # fmt: skip

TWO = "a multiplication and the addition that follows are two FLOPs, and pairs that are hidden are computed as well"
SLIPS = (  # what is said of wrong values, for each of the four numbers
    ("new parameters", (
        ("Every head has a kernel of its own; one is counted for all.", UNDER + HEADS**2),
        ("The matrix that mixes the heads is forgotten.", HEADS * UNDER),
        ("The kernels are forgotten; one a head is new, too.", HEADS**2),
        ("One kernel, and no mix: every head has a kernel, and a matrix mixes the heads.", UNDER),
        ("The mix is counted as one number a head; every head takes something of every head.", HEADS * UNDER + HEADS),
        ("The mix is counted as one number; it is a matrix with a row and a column for every head.", HEADS * UNDER + 1),
        ("The kernels join every head with every head, as a convolution without groups does; each head has one of its own.",
         HEADS**2 * UNDER + HEADS**2),
        ("The kernels join every head with every head, as a convolution without groups does; the mix is forgotten.",
         HEADS**2 * UNDER),
        ("A kernel for every feature of a head is counted; it slides over scores, which have no features.",
         WIDTH * UNDER + HEADS**2),
        ("A kernel is counted as 6 + 11 numbers; it is a table of 6 by 11.", HEADS * (C_Q + C_K) + HEADS**2),
        ("A kernel is counted as 6 by 6; it is 6 queries high and 11 keys wide.", HEADS * C_Q**2 + HEADS**2),
        ("A kernel is counted as 11 by 11; it is 6 queries high and 11 keys wide.", HEADS * C_K**2 + HEADS**2),
        ("A bias for every head is counted; there are none.", HEADS * UNDER + HEADS**2 + HEADS),
        ("Biases are counted; there are none.", HEADS * (UNDER + 1) + HEADS**2 + HEADS),
        ("Kernels behind the softmax are counted as well; this layer has none.", 2 * HEADS * UNDER + HEADS**2),
        ("Everything is counted behind the softmax as well; this layer has kernel and mix before it only.",
         2 * (HEADS * UNDER + HEADS**2)),
        ("The matrix that mixes heads is counted as wide as the layer; it has a row and a column for every head.",
         HEADS * UNDER + WIDTH**2),
        ("All parameters of the layer are counted; only those that are new are asked for.",
         4 * WIDTH**2 + HEADS * UNDER + HEADS**2),
        ("All parameters of the layer are counted, and the mix is forgotten; only those that are new are asked for.",
         4 * WIDTH**2 + HEADS * UNDER),
        ("The kernels grow with the text here; they do not.", HEADS * UNDER * TOKENS + HEADS**2),
    )),
    ("products of queries and keys", (
        (f"This is half of it: {TWO}.", PAIRS * WIDTH),
        ("One head is counted; there are 12.", 2 * PAIRS * HEAD_DIM),
        ("One head is counted, and half of its FLOPs.", PAIRS * HEAD_DIM),
        ("Each head is taken to be as wide as the layer; it has 64 of the 768 features.", 2 * PAIRS * WIDTH * HEADS),
        ("The mix of the values is counted as well; only the products of queries and keys are asked for.", 4 * PAIRS * WIDTH),
        ("The features are forgotten: a score is a sum of 64 products.", 2 * PAIRS * HEADS),
        ("The scores are counted, not their FLOPs.", PAIRS * HEADS),
        ("One query is counted; there are 1,000.", 2 * TOKENS * WIDTH),
        ("The projections to queries and keys are counted; only the products of the two are asked for.", 4 * TOKENS * WIDTH**2),
        ("A quarter of it: all 1,000 by 1,000 pairs are computed, and a multiplication with its addition is two FLOPs.",
         PAIRS * WIDTH // 2),
    )),
    ("convolution", (
        (f"This is half of it: {TWO}.", PAIRS * HEADS * UNDER),
        ("One head is counted; there are 12 tables.", 2 * PAIRS * UNDER),
        ("One head is counted, and half of its FLOPs.", PAIRS * UNDER),
        ("The heads are joined, as a convolution without groups does; each head sees its own table only.",
         2 * PAIRS * HEADS**2 * UNDER),
        ("The 64 features are counted once more; the kernel slides over scores, in which they are summed up already.",
         2 * PAIRS * WIDTH * UNDER),
        ("The kernel is counted as 6 + 11 numbers; it is a table of 6 by 11.", 2 * PAIRS * HEADS * (C_Q + C_K)),
        ("The kernel is counted as 6 by 6; it is 6 queries high and 11 keys wide.", 2 * PAIRS * HEADS * C_Q**2),
        ("The kernel is counted as 11 by 11; it is 6 queries high and 11 keys wide.", 2 * PAIRS * HEADS * C_K**2),
        ("One number of the kernel is counted for each pair; all 66 meet it.", 2 * PAIRS * HEADS),
        ("A kernel is applied once for each token; it is applied once for each pair.", 2 * TOKENS * HEADS * UNDER),
        ("The kernel is applied once; it is applied at each of the 1,000 by 1,000 places.", 2 * HEADS * UNDER),
        ("A second convolution is counted behind the softmax; this layer has none.", 4 * PAIRS * HEADS * UNDER),
        ("The places at which the kernel lies wholly in the table are counted; it is applied at all, and what lies outside counts as 0.",
         2 * (TOKENS - C_Q + 1) * (TOKENS - C_K + 1) * HEADS * UNDER),
        ("The products of queries and keys are counted as well; only the convolution is asked for.",
         2 * PAIRS * HEADS * (UNDER + HEAD_DIM)),
        ("A quarter of it: all 1,000 by 1,000 places are computed, and a multiplication with its addition is two FLOPs.",
         PAIRS * HEADS * UNDER // 2),
        ("66 additions would need 65; here each of the 66 products counts with an addition.",
         PAIRS * HEADS * (2 * UNDER - 1)),
    )),
    ("mix of the heads", (
        (f"This is half of it: {TWO}.", PAIRS * HEADS**2),
        ("Each head is counted with one other; each takes something of all 12.", 2 * PAIRS * HEADS),
        ("Each head is counted with one other, and half of the FLOPs.", PAIRS * HEADS),
        ("The 64 features are counted once more; scores are mixed, in which they are summed up already.",
         2 * PAIRS * HEADS**2 * HEAD_DIM),
        ("Outputs are mixed here, 64 features for each token; the scores are mixed, one for each pair.",
         2 * TOKENS * HEADS**2 * HEAD_DIM),
        ("The matrix is applied once for each token; it is applied once for each pair.", 2 * TOKENS * HEADS**2),
        ("The matrix is applied once; it is applied at each of the 1,000 by 1,000 places.", 2 * HEADS**2),
        ("A second mix is counted behind the softmax; this layer has none.", 4 * PAIRS * HEADS**2),
        ("The kernel is counted once more; here one number of each head is taken.", 2 * PAIRS * HEADS**2 * UNDER),
        ("This is the output projection; the mix of the scores is asked for.", 2 * TOKENS * WIDTH**2),
        ("A head is not mixed with itself here; it is one of the 12.", 2 * PAIRS * HEADS * (HEADS - 1)),
        ("A quarter of it: all 1,000 by 1,000 places are computed, and a multiplication with its addition is two FLOPs.",
         PAIRS * HEADS**2 // 2),
    )),
)  # fmt: skip


class Each(Number):
    """`Number` for several, which knows the slips of each, however many are made at once."""

    def notice(self, expected, seen, seed: int) -> str:
        found = seen["the number"]
        if not isinstance(found, Close) or found.value.shape != (len(SLIPS),):
            return ""
        says = {}
        for k, number in enumerate(found.value.tolist()):
            if not abs(number - RIGHT[k]) <= 1e-9 * RIGHT[k]:
                says.setdefault(slip(k, number), []).append(f"{k + 1} ({SLIPS[k][0]})")
        return " ".join(f"Number {', '.join(numbers)}: {what}" for what, numbers in says.items())


def slip(k: int, number: float) -> str:
    """What is known of a wrong number, or how far it is off."""
    if known := [says for says, wrong in SLIPS[k][1] if abs(number - wrong) < 1e-6 * wrong]:
        return known[0]
    if abs(number / RIGHT[k] - 1) < 0.02:
        return "this is close, but all digits count."
    if math.isnan(number):
        return "this is NaN."
    far = "" if 0.2 < number / RIGHT[k] < 5 else "far "
    return f"{far}too {'small' if number < RIGHT[k] else 'large'}."


def instead(k: int, wrong: float) -> list[float]:
    return [*RIGHT[:k], wrong, *RIGHT[k + 1 :]]


MISTAKES = Mistakes(
    Mistake(says, instead(k, wrong)) for k, (_, slips) in enumerate(SLIPS) for says, wrong in slips
)
MISTAKES += [Mistake(says, numbers) for says, numbers in (
    (f"All FLOPs are half of what they should be: {TWO}.", [RIGHT[0], *(x // 2 for x in RIGHT[1:])]),
    ("All FLOPs are a quarter of what they should be: all pairs are computed, and a multiplication with its addition is two FLOPs.",
     [RIGHT[0], *(x // 4 for x in RIGHT[1:])]),
    ("All FLOPs are those of one head; there are 12.", [RIGHT[0], *(x // HEADS for x in RIGHT[1:])]),
    ("All FLOPs are those of one query; there are 1,000.", [RIGHT[0], *(x // TOKENS for x in RIGHT[1:])]),
    ("Only visible pairs are counted; those that are hidden are computed as well.",
     [RIGHT[0], *(x * (TOKENS + 1) // (2 * TOKENS) for x in RIGHT[1:])]),
    ("The text is taken to be 1,024 tokens long; it has 1,000.", [RIGHT[0], *(x * 1024**2 // PAIRS for x in RIGHT[1:])]),
    ("The FLOPs are given in billions; give them with all their digits.", [RIGHT[0], *(x / 1e9 for x in RIGHT[1:])]),
    ("The FLOPs are those of one pair, or given in millions; there are 1,000 by 1,000 pairs.", [RIGHT[0], *(x / 1e6 for x in RIGHT[1:])]),
    ("The order is turned around; the parameters come first.", RIGHT[::-1]),
    ("Convolution and mix are exchanged.", [*RIGHT[:2], RIGHT[3], RIGHT[2]]),
    ("Products and convolution are exchanged.", [RIGHT[0], RIGHT[2], RIGHT[1], RIGHT[3]]),
    ("The parameters come first, then the FLOPs.", [*RIGHT[1:], RIGHT[0]]),
    ("The number of parameters is missing; give four numbers.", RIGHT[1:]),
    ("The FLOPs of the products are missing; give four numbers.", [RIGHT[0], *RIGHT[2:]]),
    ("The FLOPs of the mix are missing; give four numbers.", RIGHT[:3]),
    ("Only the number of parameters is given; give four numbers.", RIGHT[0]),
    ("All FLOPs are added up; give them one by one.", [RIGHT[0], sum(RIGHT[1:])]),
    ("The FLOPs are given as parts of the products; give them as numbers.", [RIGHT[0], 1, 66 / 64, 12 / 64]),
)]  # fmt: skip

EXERCISE = Exercise(
    name="count_multi_token",
    answer="counts",
    judge=Each(counts, rtol=1e-9),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
