"""Exercise kernel_by_hand: four kernels that know what to look for, without any training."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy
import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.multi_token._reads import Reads
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Recipe

SIZES = ((2, 3), (3, 5), (6, 11), (4, 3))


def cases(seed: int) -> list[Case]:
    return [Case(f"c_q = {c_q} and c_k = {c_k}", (c_q, c_k), gradients=False) for c_q, c_k in SIZES]


FOUR = (  # of each head: queries back, keys behind the key that is read, how much
    ((1, -1, 1.0), (0, 0, 1.0)),
    ((1, 0, 1.0), (0, 1, 1.0)),
    ((1, -1, 1.0), (0, 1, 1.0)),
    ((1, -1, -1.0), (0, 0, 1.0)),
)


@dataclass(frozen=True)
class Kernels:
    """A right answer in steps; `but` replaces some of them.

    Args:
        heads: what each head asks, as in `FOUR`.
        row: (queries back, c_q) -> row of the kernel.
        column: (keys behind, c_k) -> column of the kernel.
        finish: kernels -> what is returned.
    """

    heads: tuple = FOUR
    row: Callable = lambda back, c_q: c_q - 1 - back
    column: Callable = lambda behind, c_k: c_k // 2 + behind
    finish: Callable = lambda kernels: kernels
    but = Recipe.but

    def __call__(self, c_q, c_k):
        kernels = torch.zeros(len(self.heads), c_q, c_k)
        for head, asks in enumerate(self.heads):
            for back, behind, much in asks:
                row, column = self.row(back, c_q), self.column(behind, c_k)
                if 0 <= row < c_q and 0 <= column < c_k:
                    kernels[head, row, column] += much
        return self.finish(kernels)


RIGHT = Kernels()
ACCEPTED = Accepted(list_of_questions=RIGHT)


@ACCEPTED.add
def from_the_end_and_from_the_middle(c_q, c_k):
    kernels, c = torch.zeros(4, c_q, c_k), c_k // 2
    kernels[[0, 2, 3], -2, c - 1] = torch.tensor([1.0, 1.0, -3.0])
    kernels[[0, 3], -1, c] = 1.0
    kernels[1, -2, c] = kernels[1, -1, c + 1] = kernels[2, -1, c + 1] = 1.0
    return kernels


@ACCEPTED.add
def eyes_and_padding(c_q, c_k):
    """A small table of 2 by 3 for each head, with zeros around it; whole numbers."""
    small = torch.tensor([
        [[1, 0, 0], [0, 1, 0]],
        [[0, 1, 0], [0, 0, 1]],
        [[1, 0, 0], [0, 0, 1]],
        [[-1, 0, 0], [0, 1, 0]],
    ])  # fmt: skip
    side = (c_k - 3) // 2
    return torch.nn.functional.pad(small, (side, side, c_q - 2, 0))


@ACCEPTED.add
def numpy_with_other_numbers(c_q, c_k):
    k = numpy.zeros((4, c_q, c_k))
    a, b, m = c_q - 2, c_q - 1, (c_k - 1) // 2
    k[0, a, m - 1], k[0, b, m] = 0.5, 2
    k[1, a, m], k[1, b, m + 1] = 1, 0.7
    k[2, a, m - 1], k[2, b, m + 1] = 5, 5
    k[3, a, m - 1], k[3, b, m] = -0.6, 0.8
    return k


@ACCEPTED.add
def four_tables_that_look_away_elsewhere(c_q, c_k):
    """Other places hold small numbers; for what is asked they do not matter."""
    right = RIGHT(c_q, c_k)
    return [0.4 * kernel + 0.001 for kernel in right]


def heads(**changed):
    """Other questions of some heads: head_0, head_1 and so on."""
    return {"heads": tuple(changed.get(f"head_{k}", asks) for k, asks in enumerate(FOUR))}


def swapped(one, other):
    order = list(FOUR)
    order[one], order[other] = order[other], order[one]
    return {"heads": tuple(order)}


def every(change):
    return {"heads": tuple(tuple(change(*ask) for ask in asks) for asks in FOUR)}


def both(one, other=None):
    return heads(head_0=one, head_1=other or one)


MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    ("The rows stand the wrong way round: the last row belongs to the last query, which asks for B, and the row above to the one before it.",
     {"row": lambda back, c_q: back}),
    ("Rows are counted from the top; with more than two rows these belong to earlier queries. The last row is the query itself.",
     {"row": lambda back, c_q: 1 - back}),
    ("Each row is one too high: the last row belongs to the last query.", {"row": lambda back, c_q: c_q - 2 - back}),
    ("A and B stand in exchanged rows: the last query asks for B, the one before it for A.", {"row": lambda back, c_q: c_q - 2 + back}),
    ("All numbers stand in the last row, so that only B is asked for.", {"row": lambda back, c_q: c_q - 1}),
    ("All numbers stand in the row of the query before, so that only A is asked for.", {"row": lambda back, c_q: c_q - 2}),
    ("The columns stand the wrong way round: to the right of the middle stand the keys behind.", {"column": lambda behind, c_k: c_k // 2 - behind}),
    ("The middle is taken one column too far to the left; it is c_k // 2.", {"column": lambda behind, c_k: c_k // 2 - 1 + behind}),
    ("The middle is taken one column too far to the right; it is c_k // 2.", {"column": lambda behind, c_k: c_k // 2 + 1 + behind}),
    ("The last column is taken for the key itself; that is the middle one.", {"column": lambda behind, c_k: c_k - 1 + behind}),
    ("The middle is taken to be column 1, which it is only if c_k is 3; it is c_k // 2.", {"column": lambda behind, c_k: 1 + behind}),
    ("Every number stands in the middle column, so that A and B would have to be at the same key.", {"column": lambda behind, c_k: c_k // 2}),
    ("Rows and columns are both the wrong way round.", {"row": lambda back, c_q: back, "column": lambda behind, c_k: c_k // 2 - behind}),
    ("All numbers have the wrong sign: the key that is asked for gets the smallest score.", {"finish": torch.neg}),
    ("Head 3 reads the B of 'AB', as head 0 does; an A right before the key must lower its score: a number below 0.", {"finish": torch.abs}),
    ("The numbers are so small that the softmax hardly notices; a score of 20 times 0.05 is 1.", {"finish": lambda kernels: kernels / 20}),
    ("The kernels are full of ones, so that every neighbour counts.", {"finish": torch.ones_like}),
    ("There are 1 and 0 where there is something, and the rest is -1: what other queries ask for gets in.",
     {"finish": lambda kernels: torch.where(kernels == 0, -1.0, kernels)}),
    ("Each kernel went through a softmax, which makes small positive numbers of all; write the numbers as they are.",
     {"finish": lambda kernels: kernels.flatten(1).softmax(-1).view_as(kernels)}),
    ("Heads 0 and 1 are exchanged: head 0 reads the B, head 1 the A.", swapped(0, 1)),
    ("Heads 0 and 2 are exchanged.", swapped(0, 2)),
    ("Heads 1 and 2 are exchanged.", swapped(1, 2)),
    ("Heads 2 and 3 are exchanged.", swapped(2, 3)),
    ("Head 1 reads the B as head 0 does; it should read the A: the key itself is the A, and B stands behind it.", heads(head_1=FOUR[0])),
    ("Head 0 reads the A as head 1 does; it should read the B: the key itself is the B, and A stands before it.", heads(head_0=FOUR[1])),
    ("Heads 0 and 1 look for 'BA'; A comes first, and B right behind it.", both(((1, 1, 1.0), (0, 0, 1.0)), ((1, 0, 1.0), (0, -1, 1.0)))),
    ("Head 0 looks for 'BA'; A comes first, and B right behind it.", heads(head_0=((1, 1, 1.0), (0, 0, 1.0)))),
    ("Head 1 looks for 'BA'; A comes first, and B right behind it.", heads(head_1=((1, 0, 1.0), (0, -1, 1.0)))),
    ("Heads 0 and 1 look for B alone; A in the place before must count, too.", heads(head_0=((0, 0, 1.0),), head_1=((0, 1, 1.0),))),
    ("Head 0 looks for B alone; A in the place before must count, too.", heads(head_0=((0, 0, 1.0),))),
    ("Head 1 looks for A alone; B in the place behind must count, too.", heads(head_1=((1, 0, 1.0),))),
    ("Head 2 reads the B of 'A?B'; it should read what stands between: A is one key before it, B one key behind.",
     heads(head_2=((1, -2, 1.0), (0, 0, 1.0)))),
    ("Head 2 reads the A of 'A?B'; it should read what stands between: A is one key before it, B one key behind.",
     heads(head_2=((1, 0, 1.0), (0, 2, 1.0)))),
    ("Head 2 looks for 'AB' and reads the B; between A and B stands one more letter, and that is to be read.", heads(head_2=FOUR[0])),
    ("Head 2 looks for 'AB' and reads the A; between A and B stands one more letter, and that is to be read.", heads(head_2=FOUR[1])),
    ("Head 2 looks for 'B?A'; A comes first.", heads(head_2=((1, 1, 1.0), (0, -1, 1.0)))),
    ("Head 3 looks for B, whatever stands before it; an A right before the key must lower its score.", heads(head_3=((0, 0, 1.0),))),
    ("Head 3 asks for A and against B; it is the other way round.", heads(head_3=((1, -1, 1.0), (0, 0, -1.0)))),
    ("Head 3 asks for A and against a B before it; B is to be read, and A must not stand before it.", heads(head_3=((1, 0, 1.0), (0, -1, -1.0)))),
    ("Head 3 forbids an A behind the B; it must not stand before it.", heads(head_3=((1, 1, -1.0), (0, 0, 1.0)))),
    ("Head 3 forbids a B before the B; an A must not stand there, and A is what the query before asks for.",
     heads(head_3=((0, -1, -1.0), (0, 0, 1.0)))),
    ("Head 3 only forbids, and asks for nothing; the B at the key itself must raise its score.", heads(head_3=((1, -1, -1.0),))),
    ("There is an axis for channels; return (4, c_q, c_k).", {"finish": lambda kernels: kernels[:, None]}),
    ("The heads stand last; return (4, c_q, c_k).", {"finish": lambda kernels: kernels.movedim(0, -1)}),
    ("Rows and columns of the kernels are exchanged; return (4, c_q, c_k).", {"finish": lambda kernels: kernels.mT}),
    ("These are the numbers of one kernel; return all four, (4, c_q, c_k).", {"finish": lambda kernels: kernels[0]}),
    ("Booleans say where there is a number; return the numbers.", {"finish": torch.Tensor.bool}),
))  # fmt: skip

EXERCISE = Exercise(
    name="kernel_by_hand",
    answer="four_kernels",
    judge=Reads(RIGHT, cases, gradients=False),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
