"""Exercise toeplitz_test: a test that tells a table of relative biases from an absolute one."""

import numpy as np
import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.disentangled._biases import cases
from attncourse.grading.exercises.disentangled._heads import Heads
from attncourse.grading.exercises.disentangled._told import (
    Told,
    agreeing,
    apart,
    definition,
    deviation,
    in_place,
    near,
    neighbours,
    of_first_row,
    sized,
    square,
    tables,
    visible,
    within,
)
from attncourse.grading.slips import alone

RIGHT = Told()
ACCEPTED = Accepted(diagonal_after_diagonal=RIGHT, tuple_of_bools=Told(answer=tuple))


@ACCEPTED.add
def neighbours_with_a_small_tolerance(bias):
    """Not 1e-4: forty steps may add up."""
    return near(bias[:, 1:, 1:], bias[:, :-1, :-1], 1.2e-5).flatten(1).all(1)


@ACCEPTED.add
def made_again_of_the_first_row_and_column(bias):
    n, m = bias.shape[1:]
    numbers = torch.cat([bias[:, 1:, 0].flip(1), bias[:, 0]], dim=1)
    again = numbers[:, n - 1 + torch.arange(m) - torch.arange(n)[:, None]]
    return ((again == bias) | ((again - bias).abs() < 1e-4)).all(-1).all(-1)


@ACCEPTED.add
def loops_of_numpy(bias):
    _, n, m = bias.shape
    tables = np.nan_to_num(bias.numpy(), neginf=-1e9)
    return np.array([all(np.ptp(t.diagonal(d)) < 5e-4 for d in range(-n + 1, m)) for t in tables])


@ACCEPTED.add
def largest_and_smallest_by_scatter(bias):
    h, n, m = bias.shape
    index = (torch.arange(m) - torch.arange(n)[:, None] + n - 1).flatten().expand(h, -1)
    ends = [
        torch.zeros(h, n + m - 1).scatter_reduce(1, index, bias.flatten(1), how, include_self=False)
        for how in ("amin", "amax")
    ]
    return [
        torch.equal(a, b) or (b - a).nan_to_num(0, posinf=9).max().item() < 1e-4
        for a, b in zip(*ends, strict=True)
    ]


@ACCEPTED.add
def deviations_of_whole_diagonals(bias):
    finite = torch.where(bias.isinf(), -1e6, bias.double())
    n, m = bias.shape[1:]
    spread = [finite.diagonal(k, 1, 2).std(-1, correction=0) for k in range(1 - n, m)]
    return torch.stack(spread).amax(0) < 1e-4


@ACCEPTED.add
def distances_in_a_dictionary(bias):
    """Ones and zeros, entry by entry."""
    found = []
    for table in bias:
        first = {}
        found.append(int(all(
            (x == (y := first.setdefault(i - j, x))) or abs(x - y) < 5e-5
            for i, row in enumerate(table.tolist()) for j, x in enumerate(row)
        )))  # fmt: skip
    return torch.tensor(found)


@ACCEPTED.add
def not_a_number_is_no_difference(bias):
    def told(table):
        diagonals = [table.diagonal(k) for k in range(1 - table.size(0), table.size(1))]
        return not any(((x - x[0]).abs() > 3e-4).any() for x in diagonals)

    return tuple(map(told, bias))


NAN = ("Tables with masks are called absolute, and some are relative. Is a difference of two minus infinities compared? It is NaN; that two hidden entries "
       "agree is what == or isclose say.")  # fmt: skip
LONG = ("Each number is compared with its neighbour on the diagonal alone; a drift that is slower than the tolerance goes unseen. "
        "Compare with the first, or the largest with the smallest.")  # fmt: skip
SMALL = ("The tolerance is too small: numbers that differ by rounding, by less than 1e-5, agree. == has no tolerance, and that of allclose "
         "is next to nothing near 0; say rtol=0, atol=1e-4. round() tears apart what lies on two sides of a half.")  # fmt: skip
GROWS = "A real difference goes unseen among large numbers: the tolerance grows with them (rtol), or they are rounded. Say rtol=0, atol=1e-4."
LARGE = "The tolerance is too large: from 1e-3 on a difference is real. A variance below 1e-4 allows differences of 1e-2."
WHICH = "Only {}; a table is relative if every diagonal is constant."
MISTAKES = Mistakes([
    *(RIGHT.but(WHICH.format(what), offsets=offsets) for what, offsets in (
        ("the main diagonal is looked at", lambda n, m: [0]),
        ("n diagonals are looked at, for k from 0 to n - 1; there are those below, and up to m - 1 above", lambda n, m: range(n)),
        ("the main diagonal and those above are looked at, where j >= i", lambda n, m: range(m)),
        ("the main diagonal and those below are looked at, where j <= i", lambda n, m: range(1 - n, 1)),
        ("some of the diagonals above are looked at; k goes up to m - 1, and tables may have more keys than queries", lambda n, m: range(1 - n, min(n, m))),
        ("some of the diagonals below are looked at; k begins at 1 - n, and tables may have more queries than keys", lambda n, m: range(1 - min(n, m), m)),
        ("some of the diagonals are looked at; k goes from 1 - n to m - 1, and tables may have more keys or more queries",
         lambda n, m: range(1 - min(n, m), min(n, m))),
        ("the diagonals next to the main one are looked at", lambda n, m: range(max(1 - n, -1), min(m, 2))),
        ("the diagonals beside the main one are looked at, and not itself", lambda n, m: [d for d in range(1 - n, m) if d]),
    )),
    *(RIGHT.but(says, constant=constant) for says, constant in (
        *((LONG, neighbours(tol)) for tol in (1e-4, 5e-4, 1e-3)),
        (NAN, lambda x: ((x - x[:, :1]).abs() < 1e-4).all(1)),
        ("Everything is called absolute. Is a NaN compared? The standard deviation of a single number is one (unless correction=0), and the corners of "
         "each table are diagonals of one number.", lambda x: deviation(x) < 1e-4),
        *((SMALL, within(tol)) for tol in (0, 1e-7, 1e-6)),
        (SMALL, lambda x: torch.isclose(x, x[:, :1]).all(1)),
        (f"{NAN} {LONG}", lambda x: ((x[:, 1:] - x[:, :-1]).abs() < 1e-4).all(1)),
        (LARGE, lambda x: apart(x).var(1, correction=0) < 1e-4),
        (f"{NAN} {LARGE}", lambda x: x.var(1, correction=0) < 1e-4),
        *((GROWS, lambda x, r=rtol: torch.isclose(x, x[:, :1], rtol=r, atol=1e-5).all(1)) for rtol in (1e-4, 1e-3, 1e-2)),
        ("Each number is compared with the second next on its diagonal; it agrees with the next one, too.",
         lambda x: near(x[:, 2:], x[:, :-2], 1.2e-5).all(1)),
        *((LARGE, within(tol)) for tol in (2e-3, 1e-2, 0.1, 1.0)),
        ("The numbers of a diagonal are compared without abs(): what is smaller than the first goes unseen.", lambda x: (apart(x) < 1e-4).all(1)),
        ("The numbers of a diagonal are compared without abs(): what is larger than the first goes unseen.", lambda x: (apart(x) > -1e-4).all(1)),
        ("Only the ends of a diagonal are compared (a sum of its steps does the same); a number between them can be another.", lambda x: near(x[:, 0], x[:, -1])),
        ("Only the first two numbers of a diagonal are compared; all of them must agree.", lambda x: near(x[:, :2], x[:, :1]).all(1)),
        ("What a mask hides does not count here, as where hidden entries are left out or NaN is no difference; a mask that hides some of a diagonal makes the table "
         "absolute.", visible),
    )),
    RIGHT.but(WHICH.format("the square part of the table is looked at"), table=square),
    RIGHT.but("The last row is never looked at.", table=lambda b: b[:, : max(1, b.size(1) - 1)]),
    RIGHT.but("The last column is never looked at.", table=lambda b: b[..., : max(1, b.size(2) - 1)]),
    RIGHT.but("The first row or column is never looked at.", table=lambda b: b[:, min(1, b.size(1) - 1) :, min(1, b.size(2) - 1) :]),
    RIGHT.but("Each row is compared after something of its own was taken off it, as by a softmax or a mean; compare the biases as they are.", table=lambda b: b.softmax(-1)),
    RIGHT.but("Entries are compared along i + j, from the upper right to the lower left; i - j is constant along the other diagonals.",
              table=lambda b: b.flip(2)),
    RIGHT.but("Minus infinity becomes 0, and a number near 0 is not hidden.", table=lambda b: b.nan_to_num(neginf=0.0)),
    RIGHT.but("The right verdicts, but hidden entries are filled in the caller's table; work on a copy.", table=in_place),
    RIGHT.but("Every head is called relative. It needs a False as soon as one diagonal is not constant: all(), not any(), and no later diagonal may "
              "overwrite it.", every=lambda found: found.any(0)),
    *(RIGHT.but(says, answer=answer) for says, answer in (
        ("True and False are exchanged: True is for a relative table.", lambda x: [not y for y in x]),
        ("One verdict for all heads is returned; each head has a table of its own.", all),
        ("All heads of a table get the same verdict; each has its own.", lambda x: [all(x)] * len(x)),
        ("All heads of a table get the same verdict; each has its own.", lambda x: [x[0]] * len(x)),
        ("One verdict is returned, on the first head or on all, in place of one for each head.", lambda x: x[:1]),
        ("The numbers of the relative heads are returned; return True or False for each head.", lambda x: [k for k, y in enumerate(x) if y]),
        ("Words are returned; return True or False for each head.", lambda x: ["relative" if y else "absolute" for y in x]),
        ("The relative heads are counted; return True or False for each head.", sum),
        ("Nothing is returned; is `return` missing?", lambda x: None),
    )),
    tables("It calls relative what has constant columns: a function of j alone.", lambda b: near(b, b[:, :1])),
    tables("It calls relative what has constant rows: a function of i alone.", lambda b: near(b, b[..., :1])),
    tables("It calls relative only what is constant all over.", lambda b: near(b, b[:, :1, :1])),
    tables("That asks whether the square part of the table is symmetric; a function of i - j need not be.",
           lambda b: near(square(b), square(b).mT)),
    tables("The table is rolled against itself, so its last row and column are compared with the first ones.",
           lambda b: near(b, b.roll((1, 1), (1, 2)))),
    tables("That asks for a function of |i - j|; one of i - j may be another before a word than after it.", lambda b: near(b, sized(b))),
    tables("Each row is compared with the first one, shifted, and what lies below the main diagonal with [0, 0]; the first column begins those diagonals.",
           lambda b: near(b, of_first_row(b))),
    Mistake("A table that is not square is called absolute, and a square one where it is not symmetric; neither has to do with i - j.",
            lambda b: (near(b, b.mT) if b.size(1) == b.size(2) else torch.zeros(b.shape, dtype=torch.bool)).flatten(1).all(1)),
    Mistake("It is enough here that one pair of neighbours agrees; all must.", agreeing(lambda found: found.any(1))),
    Mistake("Each comparison overwrites the verdict, so the last one decides.", agreeing(lambda found: found.all(1), slice(-1, None))),
    Mistake("Each table of truth values is returned as a whole; say one for each head, whether all of it agrees.",
            lambda bias: near(bias[:, 1:, 1:], bias[:, :-1, :-1])),
    Mistake("There is an axis too many, as keepdim=True leaves it; return a list or a tensor of shape (heads,).",
            lambda bias: near(bias[:, 1:, 1:], bias[:, :-1, :-1]).flatten(1).all(1, keepdim=True)),
    Mistake("Numbers are returned; return True or False for each head.",
            lambda bias: (bias[:, 1:, 1:] - bias[:, :-1, :-1]).abs().flatten(1).sum(1)),
])  # fmt: skip
MISTAKES += alone([
    *(RIGHT.but("Minus infinity becomes a number such as -100 or -1e4, and then equals it; they are not equal.",
                table=lambda b, x=x: b.masked_fill(b == -torch.inf, x)) for x in (-1.0, -10.0, -100.0, -1e3, -1e4)),
    RIGHT.but("The signs of the numbers are lost; x and -x are not equal.", table=torch.abs),
    RIGHT.but("The exponentials of the biases are compared, which are next to 0 far below zero; compare the biases.", table=torch.exp),
])  # fmt: skip

EXERCISE = Exercise(
    name="toeplitz_test",
    answer="is_relative",
    judge=Heads(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
