"""Cards and hints as the master notebooks have them: read here, and nowhere else."""

import re

from attncourse.grading.card import Card

KINDS = ("Implement", "Repair", "Predict", "Measure", "Train")
LINE = (
    rf"\*(?P<kind>{'|'.join(KINDS)}) · (?P<points>[1-9]\d*) points? · "
    r"difficulty (?P<difficulty>[1-5]) of 5 · about (?P<minutes>[1-9]\d*) minutes · "
    r"needs (?P<needs>.+)\*"
)
HINT = r"<details><summary>Hint {}</summary>\n\n((?:(?!</?details>).)+)\n\n</details>"
HINTS = re.compile(r"\n\n".join(HINT.format(k) for k in (1, 2, 3)), re.DOTALL)

FORM_OF_CARD = """\
## {number}. Title

*Implement · 2 points · difficulty 1 of 5 · about 9 minutes · needs section 'Title' of chapter 1*"""
FORM_OF_HINTS = "\n\n".join(
    f"<details><summary>Hint {k}</summary>\n\nText\n\n</details>" for k in (1, 2, 3)
)


def card_at(cells: list, place: int, name: str, number: int) -> Card:
    """The card of the exercise that is checked in the cell at this place.

    Args:
        cells: of a master; the nearest heading above holds the card, and the next cell the hints.
        place: of the check cell in `cells`.
        name: of the exercise.
        number: of the exercise in its chapter.

    Raises:
        ValueError: the card or the hints have another form; the message names the cell.
    """
    checked = cells[place]
    heading = next((x for x in reversed(cells[:place]) if x.source.startswith("## ")), checked)
    card = re.match(rf"## {number}\. (?P<title>.+)\n\n{LINE}(?:\n|$)", heading.source)
    if not card:
        form = FORM_OF_CARD.format(number=number)
        what = f"the card of {name}, number {number} of its chapter"
        raise ValueError(_unlike(form, heading, what))
    below = cells[place + 1] if place + 1 < len(cells) else checked
    hints = HINTS.fullmatch(below.source)
    if not hints:
        raise ValueError(_unlike(FORM_OF_HINTS, below, f"the hints of {name}, below its check"))
    words = card.groupdict()
    counts = {key: int(words[key]) for key in ("points", "difficulty", "minutes")}
    return Card(**words | counts, hints=hints.groups())


def _unlike(form: str, cell, what: str) -> str:
    """What is said of a cell that has another form."""
    return (
        f"cell {cell.id}: expected {what}, in this form:\n\n{form}\n\n"
        f"got:\n\n{cell.source[:300]}\n\n"
        "Write the cell so, then run: make exercises"
    )
