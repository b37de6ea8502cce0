"""What the exercises on windows share: who is near whom, the mistakes in it, and a limit that no table of all pairs keeps."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product

import torch

from attncourse.grading.answer import as_answer
from attncourse.grading.compare import Described
from attncourse.grading.mistake import Mistake
from attncourse.grading.mistakes import Found
from attncourse.grading.recipe import Recipe


def near(i, j, w):
    """|i - j| <= w / 2."""
    return (i - j).abs() <= w // 2


def table(n, rule, *sizes):
    """A rule for all pairs, (n, n)."""
    at = torch.arange(n)
    return rule(at[:, None], at, *sizes)


def between(left, right):
    """Keys from i - left(w) to i + right(w)."""
    return lambda i, j, w: (i - j <= left(w)) & (j - i <= right(w))


def half(w):
    """w / 2, rounded down."""
    return w // 2


def up(w):
    """w / 2, rounded up."""
    return -(-w // 2)


def none(w):
    """No key on this side."""
    return 0


def as_found(i, j, w):
    """-w // 2 is (-w) // 2."""
    return (i - j <= up(w)) & (j - i <= half(w))


NEAR = (  # what is read instead of the keys with |i - j| <= w / 2
    ("An odd window reaches one key too far to the left: -w // 2 is (-w) // 2, and // rounds down, away from 0.", as_found),
    ("An odd window reaches one key too far to the right; w // 2 keys on each side are at most w / 2 away.",
     between(half, up)),
    ("Half of an odd window is rounded up on both sides; a key that is (w + 1) / 2 away is too far.", between(up, up)),
    ("The window reaches w keys to each side; it is w / 2.", lambda i, j, w: (i - j).abs() <= w),
    ("The window reaches nearly w keys to each side; it is w / 2.", lambda i, j, w: (i - j).abs() < w),
    ("An even window loses its outermost key on both sides; |i - j| = w / 2 is still inside.",
     lambda i, j, w: 2 * (i - j).abs() < w),
    ("The outermost key on each side is missing: |i - j| = w // 2 is still inside.", lambda i, j, w: (i - j).abs() < w // 2),
    ("The window reaches one key too far on each side; w // 2 on each side is right.",
     lambda i, j, w: (i - j).abs() <= w // 2 + 1),
    ("An even window has exactly w keys here, one less on the right; |i - j| <= w / 2 lets w + 1 in.",
     between(half, lambda w: (w - 1) // 2)),
    ("An even window has exactly w keys here, one less on the left; |i - j| <= w / 2 lets w + 1 in.",
     between(lambda w: (w - 1) // 2, half)),
    ("Later keys are hidden, as in a causal layer; this window reaches to both sides.", between(half, none)),
    ("Later keys are hidden, and the window reaches back for w keys; it has w / 2 on both sides.",
     between(lambda w: w - 1, none)),
    ("Later keys are hidden, and the window reaches back for w keys; it has w / 2 on both sides.", between(lambda w: w, none)),
    ("Earlier keys are hidden; this window reaches to both sides.", between(none, half)),
    ("A query does not read itself; |i - i| = 0 is inside.", lambda i, j, w: near(i, j, w) & (i != j)),
    ("The sequence is cut into blocks here, and a query reads its own block; a window moves along with its query.",
     lambda i, j, w: i // w == j // w),
    ("The window is not used: a query reads all keys.", lambda i, j, w: i + j >= 0),
)  # fmt: skip


REACHES = (  # how far a window may reach to one side
    ("w // 2", half), ("w // 2 - 1", lambda w: w // 2 - 1), ("w // 2 + 1", lambda w: w // 2 + 1),
    ("w / 2, rounded up", up), ("(w - 1) // 2", lambda w: (w - 1) // 2), ("w - 1", lambda w: w - 1), ("w", lambda w: w),
    ("no", none), ("all", lambda w: 10**6), ("w / 2 as round rounds it", lambda w: round(w / 2)), ("1 and more", lambda w: max(1, w // 2)),
)  # fmt: skip


def seen(rule: Callable) -> tuple[bool, ...]:
    """Who reads whom, in windows of 1 to 5, 8 and 13: enough to tell two rules apart."""
    return tuple(x for w in (1, 2, 3, 4, 5, 8, 13) for x in table(11, rule, w).flatten().tolist())


def windows(right: Recipe) -> Found:
    """Other windows, where the step ``given`` of an answer takes the rule as ``rule``."""
    for k, (says, rule) in enumerate(NEAR):
        yield f"window {k}", says, {"given": partial(right.given, rule=rule)}


def reaches(right: Recipe) -> Found:
    """Every other pair of reaches, each window once."""
    known = {seen(rule) for _, rule in (("", near), *NEAR)}
    for (a, left), (b, to_the_right) in product(REACHES, repeat=2):
        rule = between(left, to_the_right)
        if seen(rule) not in known:
            known.add(seen(rule))
            says = f"The window reaches {a} keys to the left and {b} to the right; it is w // 2 on both sides."
            yield f"{a}, {b}", says, {"given": partial(right.given, rule=rule)}


def alone(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """The same, not to be looked for two at once: that would be thousands of pairs."""
    return [Mistake(x.says, x.answer) for x in mistakes]


def grows_linearly(call, n: int, answer) -> bool | str:
    """True when twice as many tokens take about twice as many numbers, all operations together; else what seems to be made.

    Args:
        call: ``call(n)``: the arguments for n tokens.
        n: all pairs of twice as many would be four times as many.
    """
    made, twice = (as_answer(answer).allocations(*call(tokens)) for tokens in (n, 2 * n))
    if twice.total <= 3 * made.total:
        return True
    if twice.new >= (2 * n) ** 2:
        return Described(f"all pairs at once: {twice.how}")
    return Described(
        f"all pairs, part by part: {made.total:,} numbers for {n} tokens, {twice.total:,} for {2 * n}"
    )
