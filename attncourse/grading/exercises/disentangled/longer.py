"""Exercise longer: a model that copies what stood three places back, and still does when sequences grow."""

from dataclasses import dataclass

import torch
from torch import nn

from attncourse.grading.compare import Raised
from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.exercises.disentangled._copiers import (
    SPAN,
    VOCAB,
    WAVES,
    Convolution,
    Copier,
    Rows,
    bias_at,
    by_bias,
    by_hill,
    by_rows,
    by_table,
    by_waves,
    distance,
    hot,
    rows_of,
)
from attncourse.grading.exercises.disentangled._lengths import BACK, LENGTH, NAMES, facts


@dataclass(frozen=True)
class Lengths(Facts):
    """`Facts` that knows what it means when a model is right at one length and wrong at another."""

    def notice(self, expected, seen, seed: int) -> str:
        if seen.get(NAMES[-1]) is False:
            return "forward changes the tokens of its caller in place; work on a copy."
        if str(seen.get(NAMES[-2])).startswith("with the same"):
            return "The same tokens get another answer when they are asked again: dropout that eval() does not switch off, or noise in forward."
        if seen.get(NAMES[6]) == "no":
            return MIXED
        short, *longer = (seen.get(name) for name in NAMES[3:6])
        wrong = next((x for x in longer if x not in (True, None)), None)
        if short is True and wrong is not None:
            if alike := [x for x in longer if "like the one" in str(x)]:
                return ALIKE.format(str(alike[0]).partition(":")[0].capitalize())
            return (
                STUCK
                if isinstance(wrong, Raised) or "shape" in wrong
                else THIN
                if "more often" in wrong
                else OLD
            )
        for words, says in LOOKS.items():
            if words in str(short):
                return says.format(str(short).partition(":")[0].capitalize())
        return ""


class Forward(nn.Module):
    """Any function of the tokens and of one parameter."""

    def __init__(self, function, numbers):
        super().__init__()
        self.function, self.numbers = function, nn.Parameter(numbers.clone())

    def forward(self, tokens):
        return self.function(tokens, self.numbers)


EYE, AT_3 = 9 * torch.eye(VOCAB), bias_at(BACK)
ACCEPTED = Accepted(
    a_number_for_each_distance=Copier(by_bias, AT_3),
    a_table_that_the_query_consults=Copier(by_table, AT_3.expand(VOCAB, -1)),
    sines_turned_by_learned_angles=Copier(by_waves, WAVES),
    a_hill_around_a_learned_distance=Copier(by_hill, torch.tensor([3.0, 4.0])),
    a_convolution=Convolution(),
    double_precision=Copier(by_bias, AT_3).double(),
    causal=Copier(
        lambda t, x: by_bias(t, x).masked_fill(distance(t.size(1)) < 0, -torch.inf), AT_3
    ),
    log_probabilities=Copier(by_bias, AT_3, after=lambda y, t: y.log_softmax(-1)),
)


def shift(tokens, by=BACK):
    return tokens.roll(by, 1)


def attends(**changed):
    return Copier(**{"scores": by_bias, "numbers": AT_3} | changed)


GUESSES = torch.rand(VOCAB, VOCAB, generator=torch.Generator().manual_seed(3))
OLD = ("Sequences that are longer than those of training go wrong: absolute places (the row of a table, a sine), or places modulo a length, mean something "
       "else there, or nothing. Let scores depend on i - j.")  # fmt: skip
NONE = "It does not know the places: attention without them sees no order. Let scores depend on i - j, with a learned number or vector for each distance."
SIDES = "It knows how far a token is, and not on which side: a bias of |i - j| is the same before and after. Let scores depend on i - j with its sign."
CLIPPED = ("A token nine places back is the same to it as the one three places back: the table ends too early, and distance 3 shares its row with all that "
           "are further. Make the span longer than the distance.")  # fmt: skip
ENOUGH = "It learned, but not enough: train longer, or with another learning rate; and see that a query can tell distance 3 from 2 and 4."
ALIKE = ("{}. Two distances share a row of the table, or their scores are nearly the same: give each distance from -8 to 8 a row of its own, clip those "
         "beyond, and train until distance 3 stands out.")  # fmt: skip
OTHER = "{}; the target is the token three places back: tokens[:, :-3] belongs to logits[:, 3:]."
GUESS = "It is untrained, or it has learned next to nothing. Guessing has a loss of log(16) = 2.77."
HIDDEN = "The token three places back changes nothing: a mask or a window hides it, or batch and sequence are exchanged (batch_first=True)."
LOOKS = {"it says what": OTHER, "token itself": OTHER, "not know the places": NONE, "on which side": SIDES, "not read": HIDDEN, "nine places back": CLIPPED,
         "like the one": ALIKE,
         "more often": ENOUGH, "mostly wrong": ENOUGH, "guess": GUESS}  # fmt: skip
STUCK = ("At length 16 it runs, and at another length it raises an error or leaves places out: something in it has a length of its own, such as a table "
         "of positions, a mask, a view or a slice. Read the length from tokens.size(1), and let scores depend on i - j, clipped.")  # fmt: skip
THIN = ("It gets worse the more keys there are: the weight of the right one is not far enough above that of all others together. Train longer, or let the "
        "query consult the table (query times a vector for each distance), which grows a larger gap.")  # fmt: skip
MIXED = "A sequence gets another answer in a batch than alone: samples are mixed."
BY_HAND = "forward knows the order, by a shift, an index, or a mask that leaves one key; which distance counts should be learned."
MISTAKES = Mistakes(Mistake(says, model) for says, model in (
    ("This is the class; check an instance.", Copier),
    ("This is a function; wrap it in a torch.nn.Module with parameters.", hot),
    (STUCK, Rows()),
    (OLD, Copier(by_rows, rows_of(64, 16))),
    (OLD, Copier(lambda t, x: by_rows(t, x, lambda i: i.clamp(max=15)), rows_of(16))),
    (OLD, Copier(lambda t, x: by_rows(t, x, lambda i: i % 16), rows_of(16))),
    (STUCK, Rows(32)),
    (THIN, attends(numbers=bias_at(BACK, 1.5))),
    (THIN, attends(numbers=bias_at(BACK, 1.8))),
    (HIDDEN, attends(scores=lambda t, x: by_bias(t, x).masked_fill((distance(t.size(1)) - 1).abs() > 1, -torch.inf))),
    (CLIPPED,
     Copier(lambda t, x: by_bias(t, x, 3), bias_at(3, 20.0, 3))),
    *((OTHER.format(f"It says {where}"), attends(numbers=bias_at(back)))
      for where, back in (("the token itself", 0), ("what stands 2 places back", 2), ("what stands 4 places back", 4), ("what stands 1 place back", 1))),
    ("It reads three places ahead: tokens[:, :-3] belongs to logits[:, 3:], and not the other way round.", attends(numbers=bias_at(-3))),
    (NONE, attends(numbers=torch.zeros(17))),
    (SIDES, attends(scores=lambda t, x: x[distance(t.size(1)).abs().clamp(max=SPAN) + SPAN])),
    (NONE, Forward(lambda t, x: x[t], GUESSES)),
    (GUESS, attends(after=lambda y, t: y @ GUESSES.to(y))),
    (ENOUGH, attends(numbers=bias_at(BACK, 0.8))),
    ("The model has more than 10,000 parameters; one layer 32 wide has half of that.",
     Copier(lambda t, x: by_bias(t, x[0]), AT_3.expand(700, -1))),
    ("The batch of the training is built in; read it from tokens.", attends(before=lambda t: t.view(64, LENGTH))),
    (STUCK, attends(scores=lambda t, x: by_bias(t, x).view(LENGTH, LENGTH))),
    ("forward changes the tokens of its caller in place.", attends(before=lambda t: t.clamp_(max=VOCAB - 2))),
    *((says, attends(after=lambda y, t, change=change: change(y))) for says, change in (
        ("It says one token everywhere. Is the loss NaN, or do the logits ignore the input?", torch.zeros_like),
        ("The logits are (batch, vocabulary, place), as for cross_entropy; return (batch, n, 16).", lambda y: y.transpose(1, 2)),
        ("The first three places are left out; return logits at all places, those need not be right.", lambda y: y[:, 3:]),
        ("One place is answered for each sequence, or tokens are returned; return logits of shape (batch, n, 16).", lambda y: y[:, -1]),
        ("Logits and weights come out together; return the logits alone.", lambda y: (y, None)),
        ("Some logits are not finite; the training has diverged, or a row has no key.", lambda y: y.masked_fill(y < 1, -torch.inf)),
        (MIXED, lambda y: y + 9 * y[:1] * (len(y) > 9)),
    )),
    ("The answer is written into forward, or it sits where model.parameters() does not see it.", attends(learned=False)),
    ("The answer is written into forward; a parameter only scales it.", Forward(lambda t, x: x * hot(shift(t)), torch.ones(()))),
    (BY_HAND, Forward(lambda t, x: x[shift(t)], EYE)),
    (BY_HAND, Forward(lambda t, x: x[shift(t)] + 0.1 * x[t], EYE)),
    (BY_HAND, Copier(lambda t, x: x[0].expand(t.size(1), t.size(1)).masked_fill(distance(t.size(1)).clamp(max=3) < 3, -1e9)
                     .masked_fill(distance(t.size(1)) > 3, -1e9), AT_3)),
))  # fmt: skip

EXERCISE = Exercise(
    name="longer", answer="model", judge=Lengths(facts, NAMES), accepted=ACCEPTED, mistakes=MISTAKES
)
