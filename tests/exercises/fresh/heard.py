"""What a student reads of a wrong answer: does one of the sentences lead to the mistake?

A comparison of numbers does not ("12 of 12 numbers differ", "7 is not right", "expected 3, got 4"). A sentence about
shapes, types or an error does, and so does whatever an explainer says, unless it is heard by everybody: by more than a
quarter of the mutants of an exercise, and by more than three.
"""

import re
from collections import Counter
from collections.abc import Sequence

NUMBER = r"[-+]?(?:inf|nan|\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)"
PLAIN = re.compile(
    rf"numbers differ; at \[|(is|are) not right($|: number)|expected {NUMBER}, got {NUMBER}$"
    rf"|expected (True|False), got (True|False)$|: nothing was found$|^\.\.\. and \d+ more$"
)
SHAPE = re.compile(
    r"expected shape|expected a tensor of shape|expected \d+ results|expected one number|expected numbers of shape"
)
ERROR = re.compile(r"(^|: )(raised |expected a \w+(Error|Exception), got )")
OFTEN, FEW = 0.25, 3


def sentences(shown: Sequence[str]) -> list[str]:
    """The lines that say more than which numbers differ."""
    return [x for x in shown if not PLAIN.search(x)]


def kind(line: str) -> str:
    """``"shape"``, ``"error"`` or ``"said"``."""
    return "shape" if SHAPE.search(line) else "error" if ERROR.search(line) else "said"


def normal(line: str) -> str:
    """The sentence without its numbers; of a shape or an error without the call in which it was found."""
    what = kind(line)
    found = {"shape": SHAPE, "error": ERROR}.get(what)
    if found:
        line = line[found.search(line).start() :]
    return re.sub(rf"{NUMBER}", "#", line)


def names_a_line(line: str, code: str) -> bool:
    """Does it quote a line of the answer?"""
    return any(len(x.strip()) > 7 and x.strip() in line for x in code.splitlines())


def leading(rows: Sequence[dict]) -> list[list[str]]:
    """Of each mutant (``shown`` and ``code``) the sentences that lead to its mistake."""
    said = [sentences(row["shown"]) for row in rows]
    count = Counter(text for lines in said for text in {normal(line) for line in lines})
    most = max(FEW, OFTEN * len(rows))

    def leads(line: str, code: str) -> bool:
        exempt = kind(line) != "said" and names_a_line(line, code)
        return exempt or count[normal(line)] <= most

    both = zip(said, rows, strict=True)
    return [[line for line in lines if leads(line, row["code"])] for lines, row in both]
