"""Exercise kernel_by_hand: four kernels that know what to look for, without any training."""

import math
import re
from functools import cache
from itertools import product

import torch
import torch.nn.functional as F

from attncourse.grading.compare import difference
from attncourse.grading.exercise import Case, Described, Exercise, Facts, Raised, plain, run
from attncourse.grading.observe import calls_of

LETTERS, LENGTH, MATCH = "cdAB", 6, 20.0  # of all texts; the score of a letter that is asked for
HEADS = (  # what each looks for; which letter of a text that is, and what may stand there
    ("the B of 'AB'", "(?<=A)B", "B"),
    ("the A of 'AB'", "A(?=B)", "A"),
    ("what stands between A and B in 'A?B'", "(?<=A).(?=B)", "cd"),
    ("the B without an A right before it", "(?<!A)B", "B"),
)
SIZES = {f"c_q = {q} and c_k = {k}": (q, k) for q, k in ((2, 3), (3, 5), (6, 11), (4, 3))}
FACTS = tuple(f"{x}, head {k} reads {says}" for x in SIZES for k, (says, *_) in enumerate(HEADS))


def facts(answer, seed: int):
    """Does every head read the key that it should, with kernels of every size?"""
    left = iter(FACTS)
    for call in calls_of(answer, [Case(*x) for x in SIZES.items()], False):
        found = run(lambda call=call: as_kernels(call.result().output, *call.case.args))
        wrong = isinstance(found, Raised | str)
        yield from ((next(left), found if wrong else reads(found[k], k)) for k in range(4))


def as_kernels(found, c_q: int, c_k: int):
    """The answer as one tensor, or what is wrong with it."""
    if isinstance(found, list | tuple) and all(map(plain, found)):
        found = torch.stack(list(found))
    found = torch.from_numpy(found) if type(found).__name__ == "ndarray" else found
    right = torch.zeros(len(HEADS), c_q, c_k)
    if not plain(found) or found.dtype == torch.bool or found.shape != right.shape:
        return difference(right, found)
    if odd := (~found.isfinite()).flatten(1).any(1).nonzero().flatten().tolist():
        return f"numbers of head {odd[0]} are not finite, and 0 times infinity is NaN"
    return found.double()


@cache
def texts(head: int):
    """All texts in which one key fits, each as the numbers of its letters, and these keys."""
    (_, fits, letters), found = HEADS[head], {}
    for text in product(LETTERS, repeat=LENGTH):
        keys = [x.start() for x in re.finditer(fits, "".join(text))]
        if len(keys) == 1 and text[keys[0]] in letters:
            found[text] = keys[0]
    return torch.tensor([[LETTERS.index(x) for x in text] for text in found]), [*found.values()]


def reads(kernel, head: int) -> bool | Described:
    """True where the right key alone has more than a tenth of the largest weight, in all texts."""
    (c_q, c_k), (letters, keys) = kernel.shape, texts(head)
    asked = torch.tensor([*(k % 2 for k in range(c_q - 2)), 2, 3])  # A and B at last
    scores = MATCH * (asked[:, None] == letters[:, None]).double()
    line = F.conv2d(scores[:, None], kernel[None, None], padding=(0, c_k // 2))[:, 0, 0]
    large = line >= line.amax(-1, keepdim=True) - math.log(10)
    wrong = (large != F.one_hot(torch.tensor(keys), LENGTH)).any(-1).nonzero().flatten().tolist()
    if not wrong:
        return True
    text = "".join(LETTERS[x] for x in letters[wrong[0]])
    also = large[wrong[0]].nonzero().flatten().tolist()
    found = ", ".join(f"{k} with score {line[wrong[0], k]:.3g}" for k in also)
    should = f"in '{text}' only key {keys[wrong[0]]} should have more than a tenth of the largest"
    told = f"weight; those that have it: {found}; the kernel asks for {said(kernel)}"
    return Described(f"{should} {told}")


def said(kernel) -> str:
    """What the numbers of a kernel that matter ask for."""
    (c_q, c_k), parts = kernel.shape, []
    for a, b in (kernel.abs() > 0.01 * kernel.abs().max()).nonzero().tolist():
        letter, apart = "another letter" if a < c_q - 2 else "AB"[a - c_q], b - c_k // 2
        where = f"{abs(apart)} {'before' if apart < 0 else 'behind'} it" if apart else "at the key"
        parts.append(f"{letter} {where} ({kernel[a, b]:+.3g})")
    return ", ".join(parts[:4]) + f" and {len(parts) - 4} more" * (len(parts) > 4) or "nothing"


def right(c_q, c_k):
    kernels, c = torch.zeros(4, c_q, c_k), c_k // 2
    for head, of_a, of_b in ((0, -1, 0), (1, 0, 1), (2, -1, 1), (3, -1, 0)):
        kernels[head, -2, c + of_a] = -1.0 if head == 3 else 1.0
        kernels[head, -1, c + of_b] = 1.0
    return kernels


EXERCISE = Exercise(
    name="kernel_by_hand", answer="four_kernels", judge=Facts(facts, FACTS), right=right
)
