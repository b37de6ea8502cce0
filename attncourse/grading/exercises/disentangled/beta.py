"""Exercise beta: what does a constant in the scores change, and what do other additions?"""

import numpy as np
import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.disentangled._additions import (
    NAMES,
    RIGHT,
    VALUES,
    WEIGHTS,
    WHY,
    Predictions,
    facts,
)

LETTERS = "abcdefghi"
CHANGES, SLOPES = RIGHT
OUTPUT = sum(w * v for w, v in zip(WEIGHTS, VALUES, strict=True))


def words(**others: str) -> list[str]:
    """The right words, but for these."""
    return [others.get(letter, word) for letter, word in zip(LETTERS, CHANGES, strict=True)]


def slopes(of, beta=None) -> list[float]:
    """A number for each score, and their sum or another for beta."""
    found = [of(w, v) for w, v in zip(WEIGHTS, VALUES, strict=True)]
    return [*found, sum(found) if beta is None else beta]


ACCEPTED = Accepted(
    a_pair_of_lists=(CHANGES, SLOPES),
    all_in_a_row=[*CHANGES, -0.36, -0.24, 0.6, 0],
    a_tensor_of_numbers=(
        ["nothing", "nothing", "nothing", "both", "both", "nothing", "both", "output", "both"],
        torch.tensor(SLOPES),
    ),
    numpy_and_capitals=[tuple(word.capitalize() for word in CHANGES), np.array(SLOPES)],
    dictionaries=(
        dict(zip(LETTERS, CHANGES, strict=True)),
        {"scores": -0.36, "1": -0.24, "2": 0.6, "beta": 0.0},
    ),
    fractions_rounded=(CHANGES, [torch.tensor(-0.36), -0.24, 0.6001, -1e-17]),
)

ALL = "All of this is said to change something. Where an addition is the same for all keys of a query, the softmax divides it out."
MISTAKES = Mistakes([
    *(Mistake(f"{why}", (words(**{letter: word}), SLOPES)) for letter, whys in WHY.items() for word, why in whys.items()),
    *(Mistake(says, (changes, SLOPES)) for says, changes in (
        (ALL, words(**dict.fromkeys("abcf", "both"))),
        (ALL, words(**dict.fromkeys("abcf", "both"), h="both")),
        ("All of this is said to change nothing; what differs from key to key moves weight.", ["nothing"] * 9),
        ("Rows and columns are exchanged: a softmax runs over the keys of one query, so what belongs to a query is divided out, and what belongs "
         "to a key is not.", words(c="both", d="nothing", f="both", g="nothing")),
        ("Rows and columns are exchanged: a softmax runs over the keys of one query, so what belongs to a query is divided out, and what belongs "
         "to a key is not.", words(c="both", d="nothing")),
        ("f and g are exchanged: a vector on all keys adds q . c, one number for each query; a vector on all queries adds c . k, one for each key.",
         words(f="both", g="nothing")),
        ("Only one number for all is said to do nothing; a number for each head or each query does nothing, too, and so does a vector on the keys: "
         "within a row all of them are constant.", words(b="both", c="both", f="both")),
        ("Within a row a number for each query is constant, and so is q . c, which a vector on all keys adds.", words(c="both", f="both")),
        ("What is one for all is said to do nothing; but a vector c on the queries adds c . k, which differs from key to key, and the values are mixed.",
         words(g="nothing", h="nothing")),
        ("What is one for all is said to do nothing; but c . k differs from key to key, values are mixed, and the 1 of the off-by-one softmax stays.",
         words(g="nothing", h="nothing", i="nothing")),
    )),
    *(Mistake(says, (CHANGES, numbers)) for says, numbers in (
        ("More of a key's score also takes weight from the others: the gradient is w (v - output), not w v.", slopes(lambda w, v: w * v)),
        ("The gradient is not v - output alone; it is that times the weight.", slopes(lambda w, v: v - OUTPUT)),
        ("The gradient is not v - output alone; it is that times the weight. And that of beta is the sum over the three scores.",
         slopes(lambda w, v: v - OUTPUT, 0)),
        ("w (1 - w) v leaves out that the weights of the other keys shrink.", slopes(lambda w, v: w * (1 - w) * v)),
        ("w (1 - w) v leaves out that the weights of the other keys shrink. Their gradients would not sum to 0.",
         slopes(lambda w, v: w * (1 - w) * v, 0)),
        ("The signs are turned: the last key has the largest value, so more of its score raises the output.", slopes(lambda w, v: w * (OUTPUT - v))),
        ("These are the weights, by which the output moves when a value moves; asked is what a score does.", slopes(lambda w, v: w)),
        ("These are the values; asked is how the output moves when a score moves.", slopes(lambda w, v: v)),
        ("The gradients of the scores are right. That of beta is their sum, which is not the output.",
         [*SLOPES[:3], OUTPUT]),
        ("The gradient of beta is the sum of the three with their signs, not of their sizes.", [*SLOPES[:3], 1.2]),
        ("The gradient of beta is the sum of the three, not that of the last.", [*SLOPES[:3], 0.6]),
        ("The gradient of beta is not 1: what beta adds to the scores does not arrive in the output.", [*SLOPES[:3], 1.0]),
        ("A score does move the output; only a number that is added to all of them does not.", [0.0, 0.0, 0.0, 0.0]),
        ("The order is beta last: score 0, score 1, score 2, beta.", [0.0, *SLOPES[:3]]),
        ("The scores are in the opposite order: key 0 has the weight 0.2.", [*SLOPES[2::-1], 0.0]),
        ("More of a key's score also takes weight from the others: the gradient is w (v - output), not w v.", slopes(lambda w, v: w * v, 0)),
    )),
    Mistake("Only the words are given; the four gradients are asked, too.", CHANGES),
    Mistake("Only the numbers are given; the nine words are asked, too.", SLOPES),
    Mistake("Three gradients are given; that of beta is asked, too.", (CHANGES, SLOPES[:3])),
    Mistake('The words are "nothing", "output" and "both".', (words(d="weights", g="weights"), SLOPES)),
    Mistake('The words are "nothing", "output" and "both", not True, False or None.', ([word != "nothing" for word in CHANGES], SLOPES)),
    Mistake("A single word is given; nine words and four numbers are asked: ([...], [...]).", "nothing"),
])  # fmt: skip

EXERCISE = Exercise(
    name="beta",
    answer="predicted",
    judge=Predictions(facts, NAMES),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
