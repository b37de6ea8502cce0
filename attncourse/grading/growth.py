"""How the memory of an answer grows with the text, for `attncourse.grading.memory_judge`."""

from collections.abc import Callable

from attncourse.grading.answer import as_answer
from attncourse.grading.compare import Described


def grows_linearly(call: Callable[[int], tuple], n: int, answer: Callable) -> bool | str:
    """True where twice as many tokens take about twice as many numbers, all operations together.

    Args:
        call: ``call(n)``: the arguments for n tokens.
        n: all pairs of twice as many would be four times as many.
        answer: measured.
    """
    made, twice = (as_answer(answer).allocations(*call(tokens)) for tokens in (n, 2 * n))
    if twice.total <= 3 * made.total:
        return True
    if twice.new >= (2 * n) ** 2:
        return Described(f"all pairs at once: {twice.how}")
    return Described(
        f"all pairs, part by part: {made.total:,} numbers for {n} tokens, "
        f"{twice.total:,} for {2 * n}"
    )
