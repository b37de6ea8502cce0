"""Only large scores give wrong results: what depends on their size?"""

from attncourse.grading.explain.asked import Asked

ONLY_LOUD = (
    "All calls with ordinary scores are right; with large ones not. Something depends on size: an "
    "exponential without the largest score of the row subtracted, a clamp, a small number that is "
    "added, a largest score among hidden keys, a number in the place of minus infinity, or a low "
    "precision."
)


def only_loud(asked: Asked) -> str:
    """Calls with ordinary scores are right."""
    return ONLY_LOUD if asked.only_loud and len(asked.wrong) < len(asked.calls) else ""
