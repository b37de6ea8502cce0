"""What all jobs have in common: a list of entries, and for each of them results or the reason why there are none."""

from gpu import card
from gpu.apart import in_short


def each(entries: list, goal, measure):
    """Yield what ``measure(entry)`` yields for each entry; what it raises is a result as well.

    Args:
        goal: the key of the last result of an entry; see `report.Report`.
    """
    for entry in entries:
        try:
            yield from measure(entry)
        except Exception as problem:
            yield failed(goal(entry)), in_short(problem)
        card.settle()  # raises if the device is spoiled, which ends this process


def failed(key: tuple) -> tuple:
    """The key under which it stands why there is no result under ``key``."""
    table, row, column = key
    return "failed", (table, row), column
